"""Files that are gone, empty, or full of zero bytes; and directories that cannot be entered.

What an agent would miss counts: persona, memories, secrets, settings, skills. Its history is tidied up by
the agent itself, so there only a fall beyond the ordinary is a loss.
"""

from __future__ import annotations

import os
import stat
from collections import Counter

from safekept.core.files.stable import READ

from ..layout.patterns import Matcher
from ..layout.rules import Count
from ..scan.content import amount
from .loss_rules import Examination, HomeLoss, Shrinkage, of_them, some

#: More paths than this become the directory that they are all in.
_LISTED = 50
#: So many files that are gone are named one by one.
_SINGLY = 12
#: A single file that an agent tidied away is no loss of history.
_TIDIED = 3
#: Read at a time to see whether a file is nothing but zeros.
_BLOCK = 1 << 20


def look_at_files(examination: Examination) -> None:
    since, layout = examination.since, examination.layout
    gone = [path for path in since.gone if path not in examination.reported]
    for count, matcher in layout.counted:
        if count.kind == "files":
            gone = _counted(examination, count, matcher, gone)
    _gone(examination, gone)
    for path in sorted(since.changed):
        worth = layout.worth(path) != "other" or layout.database(path)
        if worth and path not in examination.reported and path not in since.links:
            _emptied(examination, path)


def _counted(examination: Examination, count: Count, matcher: Matcher, gone: list[str]) -> list[str]:
    """Classes counted by files: skills by their `SKILL.md`, sessions by their transcripts."""
    ours = [path for path in gone if matcher.covers(path)]
    if not ours:
        return gone
    every = ours
    recorded = [path for path in _paths(examination) if matcher.covers(path)]
    # What is known by a file of one name in a directory of its own is that directory.
    units = all(isinstance(pattern.parts[-1], str) for pattern in count.patterns)
    if units:
        ours = _not_moved(examination, ours, recorded, matcher)
    profiles = Counter(examination.layout.profile_of(path) for path in ours)
    before = Counter(examination.layout.profile_of(path) for path in recorded)
    for profile, number in sorted(profiles.items()):
        fall = Shrinkage(profile, count.name, before[profile], before[profile] - number)
        if not units and not fall.alarming:
            continue
        lost = [path for path in ours if examination.layout.profile_of(path) == profile]
        places = [os.path.dirname(path) for path in lost] if units else lost
        names = [os.path.basename(place) for place in places]
        where = "" if profile == "default" else f"{profile}: "
        text = f"{where}{of_them(number, before[profile], count.name)}: {some(names)}"
        examination.found(
            HomeLoss("gone", places[0], text, restore_paths=_together(examination, places), losses=(fall,)),
            *lost,
        )
    # What lay beside them went with them, or moved with them.
    spoken_for = {os.path.dirname(path) if units else path for path in every}
    return [path for path in gone if not _within(path, spoken_for)]


def _not_moved(examination: Examination, gone: list[str], recorded: list[str], matcher: Matcher) -> list[str]:
    """Without what is now in another place under the same name, as an update sorts skills again."""
    known, home = set(recorded), examination.recorded.home
    names = {os.path.basename(path) for path in gone}
    tops = {path.split("/", 1)[0] for path in gone}
    elsewhere = set()
    for top in tops:
        for directory, _, files in os.walk(os.path.join(home, top)):
            for name in names.intersection(files):
                path = os.path.relpath(os.path.join(directory, name), home)
                if path not in known and matcher.covers(path):
                    elsewhere.add(os.path.basename(os.path.dirname(path)))
    return [path for path in gone if os.path.basename(os.path.dirname(path)) not in elsewhere]


def _gone(examination: Examination, gone: list[str]) -> None:
    layout = examination.layout
    groups: dict[str, list[str]] = {}
    for path in gone:
        worth = layout.worth(path)
        if layout.machine_bound(path):
            continue  # a state of this machine's processes: it comes and goes
        if (
            layout.quick(path)
            or layout.secret(path)
            or worth in ("identity", "memory", "settings", "secrets")
        ):
            worth = "single"
        groups.setdefault(worth, []).append(path)
    singles = groups.pop("single", [])
    if len(singles) > _SINGLY:
        text = f"{len(singles):,} files are gone: {some(singles)}"
        examination.found(
            HomeLoss(
                "gone",
                singles[0],
                text,
                restore_paths=_together(examination, singles),
                losses=tuple(fall for path in singles for fall in examination.file_gone(path)),
            ),
            *singles,
        )
        singles = []
    for path in singles:
        losses = examination.file_gone(path)
        examination.found(HomeLoss("gone", path, f"{path} is gone", restore_paths=(path,), losses=losses))
    for worth, paths in sorted(groups.items()):
        _mass(examination, worth, paths)


def _mass(examination: Examination, worth: str, gone: list[str]) -> None:
    """Plugins and hooks that are gone as a whole; elsewhere, so many files that it was no tidying up."""
    recorded = Counter(
        _unit(examination, path, worth)
        for path in _paths(examination)
        if examination.layout.worth(path) == worth
    )
    units: dict[str, list[str]] = {}
    for path in gone:
        units.setdefault(_unit(examination, path, worth), []).append(path)
    for unit, lost in sorted(units.items()):
        fall = Shrinkage("", "files", recorded[unit], recorded[unit] - len(lost))
        if fall.alarming and (worth == "skills" or len(lost) >= _TIDIED):
            text = f"{unit}: {of_them(len(lost), recorded[unit], 'files')}"
            examination.found(HomeLoss("gone", unit, text, restore_paths=_together(examination, lost)))


def _unit(examination: Examination, path: str, worth: str) -> str:
    """What is judged together: one plugin, one hook; else all that lies in one place at the top."""
    profile = examination.layout.profile_of(path)
    prefix = "" if profile == "default" else profile + "/"
    parts = path[len(prefix) :].split("/")
    depth = 2 if worth == "skills" and len(parts) > 2 else 1
    return prefix + "/".join(parts[:depth])


def _emptied(examination: Examination, path: str) -> None:
    status, before = examination.since.changed[path], examination.since.sizes[path]
    if not before or not stat.S_ISREG(status.st_mode):
        return
    if status.st_size == 0:
        text = f"{path} is empty; it had {amount(before)}"
        losses = examination.file_emptied(path)
        examination.found(HomeLoss("emptied", path, text, restore_paths=(path,), losses=losses))
    elif _zeros(examination.recorded.full(path)):
        data = examination.stored.data(path)
        if data is None or data.strip(b"\0"):
            text = f"{path} is {amount(status.st_size)} of zero bytes"
            losses = examination.file_emptied(path)
            examination.found(HomeLoss("zeroed", path, text, restore_paths=(path,), losses=losses))


def _zeros(full: str) -> bool:
    try:
        descriptor = os.open(full, READ)
    except OSError:
        return False
    try:
        data = os.read(descriptor, 4096)
        if not data or data.strip(b"\0"):
            return False
        while data := os.read(descriptor, _BLOCK):
            if data.strip(b"\0"):
                return False
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _together(examination: Examination, places: list[str]) -> tuple[str, ...]:
    """The directory that they are all in, where all of it is gone or they are too many; else each of them."""
    common, known = os.path.commonpath(places), set(places)
    if common:
        below = (path for path in _paths(examination) if path.startswith(common + "/"))
        if len(places) > _LISTED or all(_within(path, known) for path in below):
            return (common,)
    return tuple(dict.fromkeys(places))


def _within(path: str, places: set[str]) -> bool:
    """Whether a path is one of these places, or lies in one."""
    while path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False


def _paths(examination: Examination) -> list[str]:
    """Everything that was recorded. Asked for only where something is gone."""
    if not examination.paths:
        examination.paths = [
            f"{directory}/{name}" if directory else name
            for directory, marks, _ in examination.recorded.directories()
            for name in (mark[0].partition("\0")[0] for mark in marks)
        ]
    return examination.paths
