"""State that an agent keeps outside its home, as its own settings say.

Only places that a layout declares are looked at, only when the home's settings make them active,
and only below the user's home directory. Settings are read from the file; nothing is run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from safekept.core.agents import compose, text_at
from safekept.core.entries import Outcome, Remark
from safekept.core.files.small import read_regular

from ..layout.layout import Layout
from ..layout.rules import External

# Links in a home: which of them lead away from what a backup holds, and what to say then. A link is
# stored as a link and never followed. Where what matters to the agent is behind one that leads out, its
# content is not in the backup, and the backup must not call itself complete.


class Link(NamedTuple):
    """Where a link leads."""

    path: str  # of the link, in the home
    full: str  # of the link, on disk
    target: str  # as it is written

    @property
    def directory(self) -> bool:
        return os.path.isdir(self.full)

    def names(self) -> list[str]:
        """What is in the directory that it leads to."""
        try:
            return sorted(os.listdir(self.full))
        except OSError:
            return []

    def within(self, places: Sequence[str]) -> bool:
        """Whether what it leads to exists, and is at or below one of these (links resolved)."""
        if not os.path.exists(self.full):
            return False
        try:
            real = os.path.realpath(self.full)
        except OSError:
            return False  # swapped while we looked: where it leads is unknown
        return any(real == place or real.startswith(place.rstrip("/") + "/") for place in places)

    def remark(self, layout: Layout) -> Remark:
        """What to say of one that leads away, or nowhere."""
        if not os.path.exists(self.full):
            where, lost = "which is not there", layout.database(self.path)
        else:
            where, lost = "outside this home", layout.essential(self.path, self.directory)
        if not lost:
            ending = ": the link is kept, what it points to is not"
            if not os.path.exists(self.full):
                ending = "; the link itself is kept"
            return Remark(self.path, Outcome.NOTED, f"a link to `{self.target}`, {where}{ending}")
        pattern = "/" + self.path.replace("\\", "\\\\").replace("*", "\\*")
        reason = (
            f"a link to `{self.target}`, {where}: what it points to is not in this backup; "
            f"back up that place too, move it into the home, or leave the link out: `--exclude {pattern}`"
        )
        return Remark(self.path, Outcome.OUTSIDE, reason)


_LARGEST_SETTINGS = 8 << 20


class Place(NamedTuple):
    """One active place outside the home."""

    path: str  # where it is, links resolved
    prefix: str  # what it is called among the entries: `_external/.honcho`


def external_places(
    home: str, layout: Layout, user_home: str, environment: Mapping[str, str], profile: str = ""
) -> tuple[list[Place], list[Remark]]:
    """The active places of a home and its profiles (or of one profile), and what to say about them."""
    places: dict[str, Place] = {}
    remarks: list[Remark] = []
    if not layout.external:
        return [], []
    for root in _roots(home, layout, profile):
        for external in layout.external:
            if external.file and _setting(os.path.join(root, external.file), external) != external.equals:
                continue
            place, remark = _place(external, home, user_home, environment)
            if place is not None and place.prefix not in places:
                places[place.prefix] = place
                if external.note:
                    remarks.append(Remark(place.prefix, Outcome.NOTED, external.note, 0))
            if remark is not None and remark not in remarks:
                remarks.append(remark)
    return list(places.values()), remarks


def _roots(home: str, layout: Layout, profile: str) -> list[str]:
    if profile:
        return [os.path.join(home, layout.profiles, profile)]
    roots = [home]
    if layout.profiles:
        try:
            names = sorted(os.listdir(os.path.join(home, layout.profiles)))
        except OSError:
            names = []
        roots += [os.path.join(home, layout.profiles, name) for name in names]
    return roots


def _setting(path: str, external: External) -> str | None:
    """One dotted setting out of a YAML file; None where there is none or it cannot be understood."""
    try:
        data = read_regular(path, _LARGEST_SETTINGS)
    except OSError:
        return None
    if external.equals.encode() not in data:  # most homes: no parser needed
        return None
    try:
        return text_at(compose(data.decode("utf-8-sig")), external.key)
    except ValueError:
        return None


def _place(
    external: External, home: str, user_home: str, environment: Mapping[str, str]
) -> tuple[Place | None, Remark | None]:
    user_home = os.path.realpath(user_home)
    named = environment.get(external.variable, "").strip() if external.variable else ""
    if named.startswith("~/"):
        named = user_home + named[1:]
    if named:
        named = os.path.join(named, external.variable_suffix).rstrip("/")
    path = os.path.realpath(named or os.path.join(user_home, external.path))
    if not os.path.exists(path) or path == home or path.startswith(home + "/"):
        return None, None
    if not path.startswith(user_home + "/"):
        reason = f"is outside the user's home directory {user_home}, where an import may not write"
        return None, Remark(path, Outcome.EXCLUDED, reason)
    # What is behind a link keeps the name under which the agent looks for it.
    relative = os.path.relpath(path, user_home) if named else external.path
    return Place(path, f"_external/{relative}"), None
