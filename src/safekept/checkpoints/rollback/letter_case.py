"""Names that differ only in case, on a disk that takes them for one.

A checkpoint taken on another disk, or of a project that was moved, can hold `Readme` and `README`.
Where the disk cannot, neither is written over the other: both are left, and listed.
"""

from __future__ import annotations

import itertools
import os
import stat
import unicodedata
from collections.abc import Iterable, Mapping

from safekept.core.files import temporary_name

from ..checkpoint import FileState
from ..points.rollback_plan import Step, parents
from .project_tree import ProjectTree


def alike_names(
    ground: ProjectTree, steps: Iterable[Step], then: Mapping[str, FileState], now: Mapping[str, FileState]
) -> dict[str, str]:
    """Paths that may not be touched on a disk that takes `A` and `a` for one name, each with its double.

    Asked only where two names differ in nothing but case, and then of the very directory.
    """
    steps = list(steps)
    touched = [step.path for step in steps]
    if not any(step.places or step.action == "make-directory" for step in steps):
        return {}
    places = {place for path in touched for place in (path, *parents(path))}
    above = {place.rpartition("/")[0] for place in places}
    spellings: dict[str, set[str]] = {}
    # Directories are listed in every state: the names beside a path are all there are to compare with.
    for path in itertools.chain(then, now, places):
        if path.rpartition("/")[0] in above:
            spellings.setdefault(_fold(path), set()).add(path)
    doubles = {place: names for names in spellings.values() if len(names) > 1 for place in names}
    found: dict[str, str] = {}
    folding: dict[str, bool] = {}
    for path in touched:
        for place in (*parents(path), path):
            if place not in doubles:
                continue
            inside = place.rpartition("/")[0]
            if inside not in folding:
                folding[inside] = folds_case(ground, inside)
            if folding[inside]:
                found[path] = min(doubles[place] - {place})
                break
    return found


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def folds_case(ground: ProjectTree, path: str) -> bool:
    """Whether a directory takes names that differ only in case for one; asked by trying."""
    while path:  # the nearest directory that is there; one may be about to come in place of a file
        facts = ground.look(path)
        if facts is not None and stat.S_ISDIR(facts.st_mode):
            break
        path = path.rpartition("/")[0]
    probe = temporary_name(path)
    try:
        parent, name = ground.parent(probe)
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
    except OSError:
        return True  # unknown: better to leave two files than to lose one
    os.close(descriptor)
    try:
        head, _, last = probe.rpartition("/")
        return ground.look(f"{head}/{last.upper()}" if head else last.upper()) is not None
    finally:
        ground.unlink(probe)
