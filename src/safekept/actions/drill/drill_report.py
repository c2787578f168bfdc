"""The end of every drill: the receipt is written, the journal is told, and a failure is an alarm.

None of it can change the verdict. A full data directory costs the receipt, and that is reported.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.next_step import Step, step_texts
from safekept.core.records import dataclass

from ..alarms.alarms import DRILL, Alarm, end_alarms, raise_alarm
from ..base.context import UserContext
from ..base.operations.care import DrillFacts
from ..base.record import record
from .receipts import ARCHIVE, CHECKPOINTS, DESTINATION, Receipt, save_receipt

if TYPE_CHECKING:
    from safekept.vault.format import Snapshot


# The rows that are about the store and the way out of it, and what counts as damage of a store.

STORE, RESTORE = "store", "restore"


def is_damage(error: SafekeptError) -> bool:
    """Whether an error is about what is stored, and not about the way to it."""
    # A key that does not fit is no damage; a key file that cannot be read is.
    return error.code in _DAMAGE or (error.code == "wrong-key" and bool(error.facts.get("unreadable")))


_DAMAGE = frozenset(
    {
        "vault-damaged",
        "vault-half-made",
        "archive-altered",
        "archive-damaged",
        "archive-unsafe",
        "archive-unknown",
        "archive-unsupported",
        "not-a-home",
    }
)


@dataclass(frozen=True, slots=True)
class Drilled:
    """What came out. `receipt.ok` is the verdict; `path` is where the receipt lies."""

    receipt: Receipt
    path: str
    next_steps: tuple[Step, ...] = ()
    swept: tuple[str, ...] = ()  # what killed drills had left, and this one removed


def record_drill(context: UserContext, receipt: Receipt, work: DrillFacts, listener: Listener) -> str:
    """Write the receipt and the line of the journal; returns where the receipt lies."""
    path = ""
    try:
        path = save_receipt(context, receipt)
    except OSError as error:
        listener(Event("receipt", text=f"Note: the receipt could not be kept: {error.strerror or error}"))
    state = "failed" if not receipt.ok else "done" if receipt.complete else "incomplete"
    work = replace(
        work,
        home=receipt.home,
        ok=receipt.ok,
        files=receipt.files,
        bytes=receipt.bytes,
        seconds=round(receipt.seconds, 3),
        failed=tuple(row.check for row in receipt.failed),
        receipt=path,
    )
    if not receipt.ok:
        what = "; ".join(f"{row.check}: {row.text}" for row in receipt.failed)
        work.error = {"code": "drill-failed", "what": what}
    record(context, work.line(receipt.operation, state), listener)
    return path


def tell(context: UserContext, receipt: Receipt, steps: tuple[Step, ...], listener: Listener) -> None:
    """A drill that failed is an alarm until one like it succeeds."""
    about = receipt.store if receipt.subject == DESTINATION else receipt.subject
    small = f"{about}, small"
    if receipt.ok:
        for what in (small,) if receipt.small else (about, small):
            end_alarms(context, DRILL, receipt.home, what, listener=listener)
        return
    alarm = Alarm(
        kind=DRILL,
        home=receipt.home,
        text=f"the drill of {called(receipt)} failed: {receipt.why}",
        restore=tuple(step_texts(steps)),
        about=small if receipt.small else about,
    )
    raise_alarm(context, alarm, _without_the_sentence(listener))


def _without_the_sentence(listener: Listener) -> Listener:
    """The caller of the drill sees the rows; the sentence of the alarm would say it twice."""

    def listen(event: Event) -> None:
        if event.phase != "alarm":
            listener(event)

    return listen


def called(receipt: Receipt) -> str:
    """What was drilled, in a few words."""
    if receipt.subject == CHECKPOINTS:
        return "the checkpoints"
    if receipt.subject == ARCHIVE or "." in receipt.name:
        return os.path.basename(receipt.name)
    return "the newest snapshot" if receipt.name == "latest" else f"snapshot {receipt.name[:8]}"


def mark_snapshot(context: UserContext, snapshot: Snapshot, listener: Listener) -> None:
    """Let retention and every list know; where the vault cannot be written, the receipt knows alone."""
    from safekept.vault.care import mark_proven

    from ..snapshots.forgetting import WAIT
    from ..vault.opening import open_vault

    try:
        with (
            open_vault(context, listener=listener) as repository,
            repository.lock(exclusive=True, wait=WAIT) as lock,
        ):
            mark_proven(repository, [snapshot], lock, now_ns=time.time_ns())
    except SafekeptError as error:
        listener(Event("mark", text=f"Note: the snapshot was not marked as proven: {error.clause}"))
