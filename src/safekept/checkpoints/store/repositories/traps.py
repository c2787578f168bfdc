"""What git would wait for in a project's repository: a pipe or a device where it reads or appends.

git opens whatever has the name. So what it is going to open is looked at first; what is put there after the
look costs the deadline of one call, and no further call is made.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator

from safekept.core.files.small import is_short, read_start

_INCLUDE = re.compile(rb"(?i)\[[ \t]*include")
_PATH = re.compile(rb'(?im)(?:^|\])[ \t]*path[ \t]*=[ \t]*"?([^"\n#;]+)')
#: Files that settings include, one from another.
_MOST_SETTINGS = 50
_LARGEST_SETTINGS = 1 << 20


def trap_among(base: str, names: Iterable[str]) -> str:
    """The first of these names below a directory that is neither file nor directory; "" where none is."""
    return next((name for name in names if _is_trap(os.path.join(base, name))), "")


def trap_in_objects(objects: str) -> str:
    """The same of everything that git may open among its objects."""
    return next(_traps_below(objects, ""), "")


def trap_in_settings(*places: str) -> str:
    """A file that these settings include, however far around, and that git could not read to its end."""
    waiting, seen = list(places), set[str]()
    while waiting and len(seen) < _MOST_SETTINGS:
        place = waiting.pop()
        if place in seen or not os.path.lexists(place):
            continue
        seen.add(place)
        if os.path.exists(place) and not is_short(place, _LARGEST_SETTINGS):
            return place
        with contextlib.suppress(OSError, ValueError):
            text = read_start(place, _LARGEST_SETTINGS)
            if _INCLUDE.search(text):
                found = (os.fsdecode(path.strip()) for path in _PATH.findall(text))
                waiting += [os.path.join(os.path.dirname(place), path) for path in found if "\0" not in path]
    return "more settings than are ever included" if waiting else ""


def _traps_below(directory: str, below: str, depth: int = 0) -> Iterator[str]:
    """Kinds come with the names, so a look at a hundred thousand objects is a listing of 258 directories."""
    with contextlib.suppress(OSError), os.scandir(directory) as listing:
        for entry in listing:
            if entry.is_file(follow_symlinks=False):
                continue
            name = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if depth < 2:
                    yield from _traps_below(entry.path, f"{name}/", depth + 1)
            elif _is_trap(entry.path):
                yield name


def _is_trap(path: str) -> bool:
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False
