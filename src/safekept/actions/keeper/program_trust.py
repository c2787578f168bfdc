"""Whether only root can change the program that runs now: its code, its interpreter, every directory above.

A keeper whose code the agent's user can write is that user's. So everything that Python may load is looked
at, file by file.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator

from safekept.core.errors import SafekeptError
from safekept.core.owner import open_to_others
from safekept.core.spelling import shell_word


class ProgramNotRoots(SafekeptError):
    code = "keeper-program-not-roots"


def refuse_writable_program(program: str) -> None:
    """ProgramNotRoots where a user other than root can change what would run."""
    found = writable_part([program, *_loaded()])
    if not found:
        return
    raise ProgramNotRoots(
        f"`{found}` can be changed by others than root, and the keeper would run it",
        kept="Nothing was installed",
        next_steps=(
            "Install safekept for root, and run that one:",
            "`sudo python3 -m venv /opt/safekept`",
            f"`sudo /opt/safekept/bin/pip install {_source()}`",
            "`sudo ln -sf /opt/safekept/bin/safekept /usr/local/bin/safekept`",
            "`sudo /usr/local/bin/safekept keeper install`",
        ),
        path=found,
    )


def writable_part(paths: Iterable[str]) -> str:
    """The first of these, or of what lies below or above, that another user can change; empty: none."""
    paths = list(paths)
    for path in paths:
        if open_to_others(path):
            return path
    done: list[str] = []
    for top in sorted({os.path.realpath(path) for path in paths}):
        if any(top.startswith(one + os.sep) for one in done):
            continue  # looked at with what is above it
        done.append(top)
        if found := next(_others(top), ""):
            return found
    return ""


def _loaded() -> list[str]:
    """Whatever Python takes code from."""
    places = [sys.executable, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    return [*places, *(one for one in sys.path if one and os.path.exists(one))]


def _others(top: str, seen: set[str] | None = None) -> Iterator[str]:
    """Files and directories below that are not root's alone, and links that lead to such."""
    seen = set() if seen is None else seen
    if not os.path.isdir(top) or top in seen:
        return
    seen.add(top)
    for parent, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = os.path.join(parent, name)
            facts = os.lstat(path)
            shared = facts.st_mode & 0o002 or (facts.st_mode & 0o020 and facts.st_gid != 0)
            if facts.st_uid != 0 or (shared and not stat.S_ISLNK(facts.st_mode)):
                yield path
            elif stat.S_ISLNK(facts.st_mode) and not (target := os.path.realpath(path)).startswith(
                top + os.sep
            ):
                there = target
                while not os.path.lexists(there):  # a user who can make what is missing decides, too
                    there = os.path.dirname(there)
                if open_to_others(there) or next(_others(target, seen), ""):
                    yield path


def _source() -> str:
    """What to install from: the checkout that this is, else a wheel."""
    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return shell_word(above) if os.path.exists(os.path.join(above, "pyproject.toml")) else "FILE.whl"
