"""The building itself: the one landing, into the ground of a rebuild, and every check of a drill over it."""

from __future__ import annotations

import contextlib
import os

from safekept.core.entries import Kind
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener
from safekept.core.files import NoRoom, free_bytes
from safekept.core.records import dataclass
from safekept.core.sqlite import SIDECARS
from safekept.home.landing import Targets, existing, land, plan_landing

from ..base.context import UserContext
from ..drill.checks.every_check import look_at_everything
from ..drill.checks.restored import Findings, RestoredHome, plural
from ..drill.drill_report import RESTORE, STORE
from ..drill.landing import LocalDamage, as_restored
from ..drill.receipts import PASSED
from ..drill.subject import Subject
from .rebuild_target import RebuildTarget, exact_times, modes_stay, no_room


@dataclass(frozen=True, slots=True)
class Built:
    """A home that stands beside its place."""

    restored: RestoredHome
    files: int
    bytes: int


def build(
    context: UserContext,
    subject: Subject,
    ground: RebuildTarget,
    operation: str,
    findings: Findings,
    listener: Listener,
) -> Built:
    """Restore into the ground and look at everything; what is wrong is a row, not an exception.

    What could not be read is lost and listed. Raises NoRoom, and what the landing refuses.
    """
    source = LocalDamage(subject.source, subject.entries)
    external = {
        prefix: os.path.join(ground.staging, f"external-{number}")
        for number, prefix in enumerate(subject.external)
    }
    try:
        # With the layout as it is: what is bound to a machine is not taken.
        plan = plan_landing(source, Targets(home=ground.built, external=external), subject.layout)
        landed = land(
            source, plan, operation=operation, allow_damaged=True, leave_lost=True, listener=listener
        )
    except NoRoom as error:
        raise no_room(ground.home, plan.needed, free_bytes(existing(ground.home))) from error
    # No mode of the home: that a secret lay open on the machine that is gone is no reason to refuse it
    # here, where it is closed.
    restored = as_restored(plan, subject, source, exact_times=exact_times(ground), modes=modes_stay(ground))
    text = f"{plural(landed.created, 'file')} and links, landed as by a real restore"
    findings.add(RESTORE, PASSED, landed.created, text)
    _judge_store(subject, restored, findings)
    work = os.path.join(ground.staging, "work")
    os.mkdir(work, 0o700)
    live = ground.home if os.path.isdir(ground.home) else ""
    environment = context.caller.environment
    read = look_at_everything(restored, work, live, environment, findings, listener, stays=True)
    return Built(restored, len(restored.files()), read)


def _judge_store(subject: Subject, restored: RestoredHome, findings: Findings) -> None:
    if not restored.lost:
        try:
            subject.finish()
        except SafekeptError as error:
            subject.damage.append(("", error.what))
    if subject.damage:
        findings.fail(STORE, subject.damage)
    else:
        findings.add(STORE, PASSED, subject.store_count, subject.store_text)


def restore_times_after_checks(built: Built, root_mode: int | None) -> None:
    """Put modes and times back that the checks touched: SQLite makes and removes files beside a database."""
    restored = built.restored
    for path, item in restored.items.items():
        if item.root or item.kind is not Kind.FILE or path in restored.lost:
            continue
        full = restored.full(path)
        for suffix in SIDECARS:  # a look at a database leaves them, whether it is touched itself or not
            if path + suffix not in restored.items:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(full + suffix)
        facts = os.stat(full)
        if facts.st_mode & 0o777 == item.mode and facts.st_mtime_ns == item.mtime_ns:
            continue
        os.chmod(full, item.mode)
        os.utime(full, ns=(item.mtime_ns, item.mtime_ns))
    directories = [(path, item) for path, item in restored.items.items() if item.kind is Kind.DIRECTORY]
    for path, item in sorted(directories, reverse=True):  # the innermost first: it touches those above
        if not item.root:
            os.chmod(restored.full(path), item.mode)
            os.utime(restored.full(path), ns=(item.mtime_ns, item.mtime_ns))
    if root_mode is not None:
        os.chmod(restored.home, root_mode & 0o777 | 0o700)
