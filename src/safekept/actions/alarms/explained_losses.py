"""Counts of a home that fell for a known reason, and raise no alarm:

* A restore went back to an older state. The journal has what that state counted; whatever is gone beyond
  it is judged as ever. It has no counts of a state that a restore, an import or an undo stored by itself:
  going back to that may bring back the very loss that was mended, so it excuses nothing.
* safekept was disconnected, and took its own out of the settings. The journal has how each file was left;
  only while a file is still so is the fall ours.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence

from safekept.core.files.durable import NOT_THERE
from safekept.core.files.small import read_regular
from safekept.home.health import Shrinkage, places_of
from safekept.home.layout import Layout

from ..base.context import UserContext
from ..base.operations.care import DisconnectFacts
from ..base.operations.homes import RestoreFacts, UndoFacts
from .meant import is_meant


def is_explained(context: UserContext, home: str, layout: Layout, fall: Shrinkage, since: float) -> bool:
    """Whether a count fell for a good reason after it was last counted, at `since`."""
    return (
        is_meant(context, home, fall, since)
        or _taken_out(context, home, layout, fall, since)
        or _gone_back(context, home, layout, fall, since)
    )


def _gone_back(context: UserContext, home: str, layout: Layout, fall: Shrinkage, since: float) -> bool:
    """Whether the last restore of it since then, not undone, brought back no more than is there now."""
    places, undone = places_of(layout, fall), set[str]()
    try:
        for entry in context.journal.backwards(RestoreFacts.verb, UndoFacts.verb):
            if entry.time < since:
                break
            if entry.state not in ("done", "incomplete") or entry.operation in undone:
                continue
            if entry.verb == UndoFacts.verb:
                undone.add(UndoFacts.read(entry).undoes or "")
                continue
            work = RestoreFacts.read(entry)
            counted = (work.counts or {}).get(fall.profile) if work.home == home else None
            count = counted.get(fall.name) if isinstance(counted, Mapping) else None
            if work.home != home or work.home_point or not _covered(places, work.only or ()):
                continue
            if isinstance(count, int) and count <= fall.after:
                return True
            if places or not work.only:
                return False  # what it brought back is what an older one had brought no more
    except OSError:
        pass
    return False


def _covered(places: Sequence[str], only: Sequence[str]) -> bool:
    """Whether all of these came: nothing was named, or each of them lies in what was."""
    return not only or all(
        any(place == one or place.startswith(f"{one.rstrip('/')}/") for one in only) for place in places
    )


def _taken_out(context: UserContext, home: str, layout: Layout, fall: Shrinkage, since: float) -> bool:
    """Whether a count fell because of us alone, after it was last counted."""
    left = _left_since(context, since)
    places = [os.path.join(home, place) for place in places_of(layout, fall)]
    return bool(left and places) and all(place in left and left[place] == _now(place) for place in places)


def _left_since(context: UserContext, since: float) -> dict[str, str]:
    """Each file that a disconnecting changed, with the digest of what it left; empty: it removed the file."""
    found: dict[str, str] = {}
    try:
        for entry in context.journal.backwards(DisconnectFacts.verb):
            if entry.time < since:
                break
            if entry.state == "done":
                for path, digest in (DisconnectFacts.read(entry).left or {}).items():
                    found.setdefault(path, str(digest))
    except OSError:
        return {}
    return found


def _now(path: str) -> str | None:
    """The digest of what is there; empty: nothing is; None: that cannot be known, and is nothing of ours."""
    try:
        return hashlib.sha256(read_regular(path)).hexdigest()
    except NOT_THERE:
        return ""
    except OSError:
        return None
