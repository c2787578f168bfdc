"""Which safekept this is, to the commit: two builds of one version are distinguished.

A wheel brings the commit that it was built from. In a checkout git's own files say it; git itself is not
run, since others may have written its settings there.
"""

from __future__ import annotations

import os
import re

from safekept import __version__

from ..files.small import read_regular, read_start

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Written into a wheel by `workshop/build_hook.py`.
BUILT_FROM = "built_from.txt"
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SHOWN = 12


def version_text(package: str = PACKAGE) -> str:
    """`0.1.0 (4f1c2d3e4b5a)`; where nothing says which commit it is, the version alone."""
    commit = _built_from(package) or _checked_out(os.path.dirname(os.path.dirname(package)))
    return f"{__version__} ({commit})" if commit else __version__


def _built_from(package: str) -> str:
    commit, *words = _line(os.path.join(package, BUILT_FROM)).split(" ", 1) or [""]
    return " ".join([commit[:_SHOWN], *words]) if _COMMIT.fullmatch(commit) else ""


def _checked_out(checkout: str) -> str:
    """The commit of a checkout of safekept, and of nothing else that happens to lie above this package."""
    if not os.path.isfile(os.path.join(checkout, "src", "safekept", "__init__.py")):
        return ""
    place = os.path.join(checkout, ".git")
    if os.path.isfile(place):  # a worktree: a file that says where its git directory is
        place = os.path.join(checkout, _line(place).removeprefix("gitdir: "))
    head = _line(os.path.join(place, "HEAD"))
    name = head.removeprefix("ref: ")
    commit = _reference(place, name) if name != head else head
    return commit[:_SHOWN] if _COMMIT.fullmatch(commit) else ""


def _reference(place: str, name: str) -> str:
    shared = os.path.join(place, _line(os.path.join(place, "commondir")) or ".")
    for directory in (place, shared):
        if found := _line(os.path.join(directory, name)):
            return found
    try:
        packed = read_regular(os.path.join(shared, "packed-refs")).decode("utf-8", "replace")
    except OSError:
        return ""
    found = next((line for line in packed.splitlines() if line.endswith(f" {name}")), "")
    return found.split(" ")[0]


def _line(path: str) -> str:
    """The first line of a small file; nothing where there is none."""
    try:
        return read_start(path, 4096).decode("utf-8", "replace").split("\n", 1)[0]
    except OSError:
        return ""
