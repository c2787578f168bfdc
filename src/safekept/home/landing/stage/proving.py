"""Proof before anything is touched: sizes, recorded hashes, and every database checked by SQLite."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from safekept.core.entries import CHUNK, EntryLost, Kind, Outcome, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep, Step
from safekept.core.sqlite import SIDECARS, CaptureOptions, verify
from safekept.core.sqlite.capture import capture
from safekept.core.sqlite.fold import fold

from ..items import Item, database_of
from ..plan import LandingPlan
from ..swap.open_databases import is_database_file
from ..tree import LandingTree
from .staging import Staged, Staging

# Damaged databases: what is stored where a database belongs and is none, or is damaged. A
# sound database is never given up silently for something worse. What the source itself recorded as
# damaged is known to be so, and does not keep the rest from landing.

#: How every reason begins that `allow_damaged` may pass over.
DAMAGED = "the database is damaged"


def judge_damaged_databases(staging: Staging, plan: LandingPlan, allow_damaged: bool) -> None:
    """Judge what is staged and not sound; what must not land is left out, with a remark."""
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(LandingTree(root.base)) for root in plan.roots]
        for staged in list(staging.things.values()):
            if staged.wrong or staged.item.kind is not Kind.FILE:
                continue
            tree = trees[staged.item.root]
            if staged.database:
                if staged.damage:
                    _known(staging, staged, tree, allow_damaged)
            elif plan.layout is not None and plan.layout.database(staged.item.path):
                _no_database(staging, staged, tree, allow_damaged)


def _known(staging: Staging, staged: Staged, tree: LandingTree, allow_damaged: bool) -> None:
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


def _no_database(staging: Staging, staged: Staged, tree: LandingTree, allow_damaged: bool) -> None:
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


def _has_database(tree: LandingTree, item: Item) -> bool:
    facts = tree.look(item.place)
    return facts is not None and is_database_file(tree, item.place, facts)


def _sound(staging: Staging, tree: LandingTree, item: Item) -> bool:
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


#: What is advised where the source itself is bad. A restore from a vault has a command for it.
TRY_OLDER = "Try an older backup of this home"

_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_SHM_VERSION = (3007000).to_bytes(4, "little"), (3007000).to_bytes(4, "big")
_DATABASE_ENDINGS = (".db", ".db3", ".sqlite", ".sqlite3")


class RestoreNotProven(SafekeptError):
    code = "restore-not-proven"


def prover(items: dict[str, Item], listener: Listener = silent) -> Callable[[Staging, Staged], None]:
    """Checks one database as soon as it is staged, while others are still being written.

    One that came with sidecars waits until they are all there.
    """
    waiting = {database_of(path) for path, item in items.items() if item.sidecar}

    def ready(staging: Staging, staged: Staged) -> None:
        if staged.database and staged.item.path not in waiting and staged.lean is None:
            _verify(staging, staged, listener)

    return ready


def prove(
    staging: Staging,
    plan: LandingPlan,
    allow_damaged: bool,
    leave_lost: bool = False,
    listener: Listener = silent,
) -> None:
    """Fold sidecars into their databases, then judge everything. Raises RestoreNotProven.

    With `leave_lost`, what the source could not give is left out with its remark, and the rest lands.
    """
    items = plan.items
    if leave_lost:
        _leave_lost(staging)
    for staged in [staged for staged in staging.things.values() if staged.item.sidecar]:
        _attach(staging, staged)
    for path in {database_of(path) for path, item in items.items() if item.sidecar}:
        staged_database = staging.things.get(path)
        if staged_database is not None and staged_database.database:
            _fold(staging, staged_database)
            if not staged_database.wrong:
                _verify(staging, staged_database, listener)
    for staged in staging.things.values():
        if staged.lean is not None and not staged.wrong:
            _verify(staging, staged, listener)
    judge_damaged_databases(staging, plan, allow_damaged)
    _judge(staging, items, allow_damaged)


def _leave_lost(staging: Staging) -> None:
    """Damage stays local. A database without its log would be another state of it: both stay out."""
    for staged in [staged for staged in staging.things.values() if staged.lost is not None]:
        assert staged.lost is not None
        staging.remarks.append(staged.lost)
        path = staged.item.path
        main = database_of(path)
        if main in staging.things and not path.endswith("-shm"):
            reason = f"its `{path.removeprefix(main)}` file is lost: without it this is not what was stored"
            staging.remarks.append(Remark(main, Outcome.UNREADABLE, reason))
            leave_out(staging, main)
        leave_out(staging, path)


def _attach(staging: Staging, staged: Staged) -> None:
    """Put a sidecar beside its database, or drop it where it has none: a stray one must never meet
    the database of the home."""
    path, main = staged.item.path, database_of(staged.item.path)
    suffix = path[len(main) :]
    owner = staging.things.get(main)
    if owner is not None and owner.database:
        if suffix == "-shm":
            os.unlink(staging.path(staged))
        else:
            os.rename(staging.path(staged), staging.path(owner) + suffix)
        del staging.things[path]
    elif owner is None and _is_sidecar(path, suffix, staged):
        os.unlink(staging.path(staged))
        del staging.things[path]
        staging.remarks.append(
            Remark(path, Outcome.EXCLUDED, "a sidecar without its database; left out", bytes=staged.size)
        )


def _is_sidecar(path: str, suffix: str, staged: Staged) -> bool:
    head = staged.head
    if not head:
        return path.removesuffix(suffix).endswith(_DATABASE_ENDINGS)
    if suffix == "-wal":
        return head.startswith(_WAL_MAGIC)
    if suffix == "-journal":
        return head.startswith((_JOURNAL_MAGIC, bytes(8)))
    return head.startswith(_SHM_VERSION)


def _fold(staging: Staging, staged: Staged) -> None:
    path, item = staging.path(staged), staged.item
    before = os.stat(path)
    try:
        fold(path)
    except SafekeptError as error:
        staged.wrong = f"{DAMAGED}: {error.facts.get('detail', error.what)}"
    for suffix in SIDECARS:
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)
    if os.geteuid() == 0:
        os.chown(path, before.st_uid, before.st_gid)
    os.chmod(path, item.mode)
    os.utime(path, ns=(item.mtime_ns, item.mtime_ns))
    staged.size = os.stat(path).st_size
    staging.remarks.append(
        Remark(item.path, Outcome.NOTED, "came with a write-ahead log or journal, which was folded in")
    )


def _verify(staging: Staging, staged: Staged, listener: Listener) -> None:
    def tell(done: int, total: int) -> None:
        listener(Event("check", done, total, path=staged.item.path))

    facts = verify(staging.path(staged), tell=tell)
    if facts.state != "damaged":
        return
    detail = facts.detail.strip().splitlines()[0] if facts.detail.strip() else "not sound"
    if staged.recorded_damaged:
        staged.damage = detail
    else:
        staged.wrong = staged.wrong or f"{DAMAGED}: {detail}"


def _judge(staging: Staging, items: dict[str, Item], allow_damaged: bool) -> None:
    wrong: list[tuple[str, str]] = []
    for staged in staging.things.values():
        if not staged.wrong:
            continue
        if allow_damaged and staged.wrong.startswith(DAMAGED):
            staging.remarks.append(Remark(staged.item.path, Outcome.DAMAGED, staged.wrong))
        else:
            wrong.append((staged.item.path, staged.wrong))
    missing = _missing(staging, items)
    wrong.extend((path, "it is no longer in the source") for path in missing)
    if wrong:
        raise _not_proven(wrong, len(items))


def _missing(staging: Staging, items: dict[str, Item]) -> list[str]:
    return [
        path
        for path, item in items.items()
        if item.kind is not Kind.DIRECTORY
        and not item.sidecar
        and path not in staging.things
        and path not in staging.same
        and path not in staging.left_out
    ]


def _not_proven(wrong: list[tuple[str, str]], total: int) -> RestoreNotProven:
    wrong.sort()
    named = "; ".join(f"`{path}`: {why}" for path, why in wrong[:5]) + (" …" if len(wrong) > 5 else "")
    steps: list[Step] = [TRY_OLDER]
    if all(why.startswith(DAMAGED) for _, why in wrong):
        steps.append(
            NextStep("import", ("FILE", "--allow-damaged"), before="Take the damaged database all the same:")
        )
    else:
        steps.append("Copy the file from its origin again; it may have been damaged on the way")
    return RestoreNotProven(
        f"{len(wrong):,} of {total:,} restored things could not be proven: {named}",
        kept="The home is as it was; what was staged has been removed",
        next_steps=tuple(steps),
        wrong=[{"path": path, "reason": why} for path, why in wrong],
    )
