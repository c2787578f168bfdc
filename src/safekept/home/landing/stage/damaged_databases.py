"""Weighing: what is stored where a database belongs and is none, or is damaged, against the home's own.

A sound database is never given up silently for something worse. What the source itself recorded as
damaged is known to be so, and does not keep the rest from landing.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.entries import CHUNK, EntryLost, Kind, Outcome, Remark
from safekept.core.sqlite import SIDECARS, CaptureOptions
from safekept.core.sqlite.capture import capture

from ..items import Item
from ..plan import LandingPlan
from ..swap.holding import is_database_file
from ..tree import Tree
from .staging import Staged, Staging

#: How every reason begins that `allow_damaged` may pass over.
DAMAGED = "the database is damaged"


def weigh(staging: Staging, plan: LandingPlan, allow_damaged: bool) -> None:
    """Judge what is staged and not sound; what must not land is left out, with a remark."""
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(Tree(root.base)) for root in plan.roots]
        for staged in list(staging.things.values()):
            if staged.wrong or staged.item.kind is not Kind.FILE:
                continue
            tree = trees[staged.item.root]
            if staged.database:
                if staged.damage:
                    _known(staging, staged, tree, allow_damaged)
            elif plan.layout is not None and plan.layout.database(staged.item.path):
                _no_database(staging, staged, tree, allow_damaged)


def _known(staging: Staging, staged: Staged, tree: Tree, allow_damaged: bool) -> None:
    """Recorded as damaged: it comes back as it is, unless that would cost a sound one."""
    path = staged.item.path
    reason = f"was already damaged when it was stored: {staged.damage}"
    if not allow_damaged and _sound(staging, tree, staged.item):
        leave_out(staging, path)
        reason += "; the sound one of the home was kept"
    staging.remarks.append(Remark(path, Outcome.DAMAGED, reason, bytes=staged.size))


def leave_out(staging: Staging, path: str) -> None:
    """With whatever came as its sidecars: those must never meet the database of the home."""
    for name in (path, *(path + suffix for suffix in SIDECARS)):
        staged = staging.things.pop(name, None)
        if staged is not None:
            os.unlink(staging.path(staged))
            staging.left_out.add(name)


def _no_database(staging: Staging, staged: Staged, tree: Tree, allow_damaged: bool) -> None:
    """Empty, zeros or something else, where the layout knows that a database belongs."""
    what = _what_it_is(staging, staged)
    if staged.recorded_damaged:
        staged.damage = what
        _known(staging, staged, tree, allow_damaged)
    elif _has_database(tree, staged.item):
        staged.wrong = f"{DAMAGED}: it {what}"
    else:
        reason = f"a database should be here, but what was stored {what}"
        staging.remarks.append(Remark(staged.item.path, Outcome.DAMAGED, reason, bytes=staged.size))


def _what_it_is(staging: Staging, staged: Staged) -> str:
    if not staged.size:
        return "is empty"
    if staged.head.strip(b"\0"):
        return "is not a database"
    with open(staging.path(staged), "rb", buffering=0) as file:
        while data := file.read(CHUNK):
            if data.strip(b"\0"):
                return "is not a database"
    return f"is {staged.size:,} bytes of zeros"


def _has_database(tree: Tree, item: Item) -> bool:
    facts = tree.look(item.place)
    return facts is not None and is_database_file(tree, item.place, facts)


def _sound(staging: Staging, tree: Tree, item: Item) -> bool:
    """Whether the home has a database there that SQLite has nothing against.

    It may be in use, so it is looked at the way a backup does. One that cannot be read at present
    is not known to be bad, and stays.
    """
    if not _has_database(tree, item):
        return False
    options = CaptureOptions(scratch=os.path.dirname(staging.directory))
    try:
        with capture(tree.full(item.place), item.path, options) as content:
            for _ in content.chunks():
                pass
            return content.database is None or content.database.state != "damaged"
    except EntryLost:
        return True
