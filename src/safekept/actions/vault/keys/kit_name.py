"""The name of a new kit: never that of a kit which this machine did not write.

Whoever lost a machine lays the kit into the home directory of the new one and rebuilds from it. That page may
name places that this machine does not know, and it may be the only one: the new kit goes beside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ...base.context import UserContext
from ...base.operations.stores import VaultKitFacts
from .kit_record import written_kit

SUFFIXES = (".txt", ".html")  # to read, and the same to print


def usual_stem(context: UserContext, directory: str, vault: str, is_kit: Callable[[str], bool]) -> str:
    """Where the kit of the vault with this id goes in a directory, without a suffix."""
    usual = os.path.join(directory, f"safekept-kit-{vault[:8]}")
    stem, number = usual, 1
    own: frozenset[str] | None = None
    while kits := [path for path in _pages(stem) if is_kit(path)]:
        own = _written_here(context, vault) if own is None else own
        if own.issuperset(kits):
            break
        number += 1
        stem = f"{usual}-{number}"
    return stem


def kept_beside(text: str) -> str:
    """The kit that a new one at `text` did not replace; empty where none was in its way."""
    found = re.fullmatch(r"(.*/safekept-kit-[0-9a-f]{8})-\d+\.txt", text)
    return next(filter(os.path.exists, _pages(found[1])), "") if found else ""


def _pages(stem: str) -> list[str]:
    return [stem + suffix for suffix in SUFFIXES]


def _written_here(context: UserContext, vault: str) -> frozenset[str]:
    """Every kit that this machine has ever written."""
    last = written_kit(context, vault)
    lines = (one for one in context.journal.read() if one.verb == VaultKitFacts.verb and one.state == "done")
    before = (path for one in lines for path in VaultKitFacts.read(one).written or ())
    return frozenset((*(last.files if last else ()), *before))
