"""What an exact landing takes away: selected by the one scanner, and not in the source."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import field, replace

from safekept.core.entries import Kind, Outcome
from safekept.core.records import dataclass

from ..layout.layout import Layout
from .area import is_area
from .disk_names import OtherSpellings
from .items import Chosen


@dataclass(slots=True)
class Removals:
    """Paths relative to the home."""

    files: list[str] = field(default_factory=list)  # and links
    directories: list[str] = field(default_factory=list)  # removed where they end up empty
    unseen: list[tuple[str, str]] = field(default_factory=list)  # could not be looked at: path, why


def never(path: str) -> bool:
    """No path at all is spared: the source is taken to be the whole of the home."""
    return False


def find_removals(
    home: str, layout: Layout, chosen: Chosen, spare: Callable[[str], bool] = never
) -> Removals:
    """What the home has and the source has not.

    Only what a backup would select is ever removed: what the layout leaves out, what is bound to
    this machine, sockets, and the work area stay. So does what `spare` names: the source lacks it
    for another reason than that it was not there. Directories that were empty before stay where the
    source does not list directories at all.
    """
    removals = Removals()
    if not os.path.isdir(home):
        return removals
    wanted = _with_parents(chosen)
    spellings = OtherSpellings(home, wanted)
    emptied: set[str] = set()
    empty_before: list[str] = []
    spared: set[str] = set()
    selected, unreadable = _selected(home, layout)
    removals.unseen = [
        (path, f"{reason}, so what an exact restore would remove there stays")
        for path, reason in unreadable
        if _asked(path, chosen.only) and not spare(path) and not _is_replaced(path, chosen)
    ]
    for path, kind in selected:
        if path in wanted or is_area(path) or layout.machine_bound(path) or not _asked(path, chosen.only):
            continue
        if spellings.of(path) or spare(path):
            spared.update((path, *_parents(path)))
        elif kind is Kind.DIRECTORY:
            empty_before.append(path)
        else:
            removals.files.append(path)
            emptied.update(_parents(path))
    directories = set(empty_before) if chosen.directories_listed else emptied & set(empty_before)
    removals.directories = sorted(directories - spared, reverse=True)
    return removals


def tombstones(home: str, layout: Layout, chosen: Chosen) -> list[str]:
    """The marks by which the agent counts a profile as deleted, of profiles that come back now."""
    if not (layout.profiles and layout.profile_tombstones):
        return []
    parts = [path.split("/") for path in chosen.items if path.startswith(layout.profiles + "/")]
    names = sorted({part[1] for part in parts if len(part) > 2})
    marks = (f"{layout.profiles}/{layout.profile_tombstones}/{name}" for name in names)
    return [path for path in marks if path not in chosen.items and _is_file(os.path.join(home, path))]


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_replaced(path: str, chosen: Chosen) -> bool:
    """Whether the source has a file for it: then what stands there need not be read."""
    item = chosen.items.get(path)
    return item is not None and item.kind is not Kind.DIRECTORY


def _selected(home: str, layout: Layout) -> tuple[list[tuple[str, Kind]], list[tuple[str, str]]]:
    """What a backup would hold, and what could not be looked at."""
    from safekept.core.sqlite import CaptureOptions

    from ..scan.scanning import Selection, scan

    if not os.listdir(home):
        return [], []
    # Nothing is read but headers, so the scratch place is never used. What lies outside the home is
    # never removed, so it is not looked for.
    options = CaptureOptions(scratch=home, isolated=False)
    source = scan(home, replace(layout, external=()), Selection(), capture=options, user_home=home)
    found = [(entry.path, entry.kind) for entry in source]
    return found, [(one.path, one.reason) for one in source.remarks if one.outcome is Outcome.UNREADABLE]


def _with_parents(chosen: Chosen) -> set[str]:
    wanted = set(chosen.items) | set(chosen.kept)
    for path in list(wanted):
        wanted.update(_parents(path))
    return wanted


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _asked(path: str, only: tuple[str, ...]) -> bool:
    return not only or any(path == wanted or path.startswith(wanted + "/") for wanted in only)
