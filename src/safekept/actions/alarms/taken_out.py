"""What safekept itself took out of a home's settings, when it was disconnected: that is no loss.

The journal has how each file was left. Only while a file is still so is a fall of its counts ours; whatever
anybody did to it since is judged as ever.
"""

from __future__ import annotations

import hashlib
import os

from safekept.core.files.durable import NOT_THERE
from safekept.core.files.small import read_regular
from safekept.home.health import Shrinkage, places_of
from safekept.home.layout import Layout

from ..base.context import UserContext
from ..base.operations.care import DisconnectFacts


def taken_out(context: UserContext, home: str, layout: Layout, fall: Shrinkage, since: float) -> bool:
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
