"""What `doctor --fix` does: modes, locks of dead processes, what was cut off. Written down, and undoable.

Modes are put back by `safekept undo ID`. A lock of a process that is gone protects nothing, and what was
cut off is made right as the next command would do it: neither has anything to be brought back.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files.belt import set_mode_of
from safekept.core.finding import Finding, Repair
from safekept.core.journal import new_id
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.care import DoctorFacts
from ..base.record import record
from ..base.recovery import recover_interrupted


@dataclass(frozen=True, slots=True)
class Repaired:
    """One repair, and why it failed where it did."""

    repair: Repair
    failure: str = ""

    def as_dict(self) -> dict[str, object]:
        return {**self.repair.as_dict(), "failure": self.failure or None}


@dataclass(frozen=True, slots=True)
class Repairs:
    """All of them."""

    operation: str
    done: tuple[Repaired, ...]

    @property
    def undoable(self) -> bool:
        """Whether there is anything that `undo` would put back."""
        return any(one.repair.kind == "mode" and not one.failure for one in self.done)

    def as_dict(self) -> dict[str, object]:
        return {"operation": self.operation, "repairs": [one.as_dict() for one in self.done]}


def carry_out(context: UserContext, findings: Iterable[Finding], listener: Listener = silent) -> Repairs:
    """Mend what may be mended unasked; one that fails stops no other."""
    operation, done = new_id(), []
    wanted = list(dict.fromkeys(one.repair for one in findings if one.repair is not None))
    for repair in wanted:
        try:
            _mend(context, repair, listener)
            done.append(Repaired(repair))
        except SafekeptError as error:
            done.append(Repaired(repair, error.what))
        except OSError as error:
            done.append(Repaired(repair, error.strerror or str(error)))
    result = Repairs(operation, tuple(done))
    if done:
        state = "incomplete" if any(one.failure for one in done) else "done"
        work = DoctorFacts(fixes=tuple(one.as_dict() for one in done))
        record(context, work.line(operation, state), listener)
    return result


def _mend(context: UserContext, repair: Repair, listener: Listener) -> None:
    if repair.kind == "mode":
        set_mode(repair.path, repair.before, repair.after)
    elif repair.kind == "landing":
        recover_interrupted(context, repair.path, listener)
    elif repair.kind == "rollback":
        from safekept.checkpoints.rollback import recover

        from ..projects.rollback import checkpoint_store

        with checkpoint_store(context, listener) as store:
            recover(store, repair.path, listener=listener)
    elif repair.kind == "git-lock":
        from safekept.checkpoints.store import sweep_stale_lock

        sweep_stale_lock(repair.path)
    elif repair.kind == "vault-locks":
        _unlock(context)


def set_mode(path: str, before: int, after: int) -> None:
    """Change a mode, and only if it is still what was seen; never through a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        mode = stat.S_IMODE(facts.st_mode)
        if stat.S_ISDIR(facts.st_mode):
            # Whether its owner can write there is the seat belt's.
            before, after = ((one & ~0o200) | (mode & 0o200) for one in (before, after))
        if mode == before:
            set_mode_of(descriptor, after)
        elif mode != after:
            raise OSError(0, f"its mode is {mode:04o} by now, and was left alone")
    finally:
        os.close(descriptor)


def put_modes_back(
    fixes: Iterable[Mapping[str, object]], *, dry_run: bool = False
) -> tuple[list[str], list[str]]:
    """Give files the modes back that a repair took from them; those that got it, and those that did not."""
    back, lost = [], []
    for fix in fixes:
        if fix.get("kind") != "mode" or fix.get("failure"):
            continue
        path = str(fix.get("path"))
        try:
            if not dry_run:
                set_mode(path, int(str(fix["after"]), 8), int(str(fix["before"]), 8))
            back.append(f"{path} ({fix['before']})")
        except (OSError, ValueError, KeyError) as error:
            lost.append(f"{path}: {error.args[-1] if error.args else error}")
    return back, lost


def _unlock(context: UserContext) -> None:
    """Only locks of processes of this machine that are provably gone; others may belong to a living one."""
    from safekept.vault.repo import read_locks
    from safekept.vault.storage import FileKind, NotStored

    from ..vault.opening import open_vault

    with open_vault(context) as repository:
        for lock in read_locks(repository.storage, repository.key):
            if lock.abandoned:
                with contextlib.suppress(NotStored):
                    repository.storage.delete(FileKind.LOCK, lock.id)
