"""Drill: restore into an isolated place, prove what came back, and sign it off in a receipt.

A backup that was never restored may not restore. A drill restores with the same landing as a real restore,
into scratch, from the bytes of the store alone, and holds everything against what was recorded. It
never touches the live home and leaves nothing behind but the receipt. A drill that fails is an alarm.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import field

from safekept import __version__
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import NoRoom
from safekept.core.journal import new_id
from safekept.core.next_step import Step
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.imported_code import imported_code
from ..base.operations.care import DrillFacts
from ..base.operations.stores import BackupFacts
from ..base.record import record, recording
from .advice import advice
from .checks.every_check import in_order, look_at_everything
from .checks.restored import Findings, RestoredHome, plural
from .drill_report import RESTORE, STORE, Drilled, is_damage, mark_snapshot, record_drill, tell
from .landing import choose_small, land_in_scratch
from .place import DrillPlace, bases, drill_place, sweep
from .receipts import ARCHIVE, DESTINATION, FAILED, PASSED, SNAPSHOT, Receipt
from .subject import (
    ARCHIVE_ENDINGS,
    Subject,
    archives_only,
    is_archive,
    needed_bytes,
    open_archive_there,
    open_archived,
    open_stored_snapshot,
)

#: How far back the journal is searched for drills that were killed.
_LOOKED_BACK = 50


@dataclass(frozen=True, slots=True)
class DrillRequest:
    """What to prove, and how."""

    word: str = "latest"  # a number, `latest`, an id or the start of one, a label, or an archive's path
    home: str = ""
    layout: str = ""
    destination: str = ""  # a destination by its name: what lies there is drilled
    identity: tuple[str, ...] = ()  # files that may open a sealed archive; else those of the settings
    small: bool = False  # the state files and a sample of the rest: for the weekly one
    scratch: str = ""  # a directory to work in; default: the first of ours with room


def drill(context: UserContext, request: DrillRequest, listener: Listener = silent) -> Drilled:
    """Restore into scratch, prove it, write the receipt. Raises where it could not even begin.

    Damage of the store or of what it holds is never an exception: it is a row that failed.
    """
    work = _Work(context, request, listener)
    with recording(context, work.operation, work.facts, listener):
        return work.run()


@dataclass(slots=True)
class _Work:
    """One drill on its way."""

    context: UserContext
    request: DrillRequest
    listener: Listener
    operation: str = field(default_factory=new_id)
    started: float = field(default_factory=time.time)
    began: float = field(default_factory=time.monotonic)
    facts: DrillFacts = field(default_factory=DrillFacts)
    findings: Findings = field(default_factory=Findings)
    steps: tuple[Step, ...] = ()  # of an error that stands for the whole drill
    files: int = 0
    bytes: int = 0

    def run(self) -> Drilled:
        request = self.request
        self.facts = DrillFacts(
            subject=self._kind(),
            name=request.word,
            small=request.small,
            destination=request.destination or None,
        )
        swept = self._sweep()
        subject: Subject | None = None
        try:
            with self._opened() as subject:
                self._prove(subject)
        except SafekeptError as error:
            if not is_damage(error) or self._is_mistaken(error):
                raise
            # The store itself is broken: that is a result, not an inability.
            self.findings.add(STORE, FAILED, 0, error.what)
            self.steps = error.next_steps
        receipt = self._receipt(subject)
        path = record_drill(self.context, receipt, self.facts, self.listener)
        if receipt.ok and not receipt.small and subject is not None and subject.snapshot is not None:
            mark_snapshot(self.context, subject.snapshot, self.listener)
        steps = self.steps or advice(self.context, receipt, self.findings, subject)
        tell(self.context, receipt, steps, self.listener)
        return Drilled(receipt, path, steps, tuple(swept))

    def _kind(self) -> str:
        if self.request.destination:
            return DESTINATION
        return ARCHIVE if is_archive(self.request.word) else SNAPSHOT

    def _is_mistaken(self, error: SafekeptError) -> bool:
        """A file that is no archive and is not called like one was named by mistake, unless it was one
        of ours when it was written."""
        if error.code != "archive-unknown" or self.request.destination:
            return False
        path = os.path.abspath(os.path.expanduser(self.request.word))
        if path.endswith(ARCHIVE_ENDINGS):
            return False  # what is called an archive and is none was spoilt
        try:
            written = self.context.journal.backwards("backup")
            return not any(BackupFacts.read(entry).archive == path for entry in written)
        except OSError:
            return True

    def _opened(self) -> contextlib.AbstractContextManager[Subject]:
        request, context = self.request, self.context
        archive = is_archive(request.word)
        if request.destination:
            if archive or archives_only(context, request.destination):
                return open_archive_there(
                    context,
                    request.destination,
                    request.word,
                    request.layout,
                    request.identity,
                    request.scratch,
                    self.listener,
                )
            context = context.changed(source_vault=request.destination)
        elif archive:
            return open_archived(context, request.word, request.layout, request.identity, self.listener)
        return open_stored_snapshot(
            context,
            request.word,
            request.home,
            request.layout,
            small=request.small,
            destination=request.destination,
            listener=self.listener,
        )

    def _sweep(self) -> list[str]:
        """What killed drills left behind, where we work and where the journal says that they worked."""
        places = [*bases(self.context), *([self.request.scratch] if self.request.scratch else [])]
        ended: set[str] = set()
        with contextlib.suppress(OSError):
            for number, entry in enumerate(self.context.journal.backwards("drill")):
                if number >= _LOOKED_BACK:
                    break
                if entry.state != "begun":
                    ended.add(entry.operation)
                elif entry.operation not in ended and (place := DrillFacts.read(entry).scratch):
                    places.append(os.path.dirname(place))
        return sweep(places)

    def _prove(self, subject: Subject) -> None:
        self.facts.name, self.facts.home, self.facts.store = subject.name, subject.home, subject.store
        if subject.snapshot is not None:
            self.facts.snapshot = subject.name
        chosen = None
        if self.request.small:
            chosen = choose_small(subject.entries, subject.layout, self.operation)
        needed = needed_bytes(subject.entries, chosen)
        with drill_place(self.context, needed, self.request.scratch, (subject.home,)) as place:
            self.facts.scratch = place.path
            record(self.context, self.facts.line(self.operation, "begun"), self.listener)
            restored = self._restore(subject, place, needed, chosen)
            self._judge_store(subject, restored)
            if restored is not None:
                self._look(subject, restored, place)
        self.facts.scratch = None

    def _judge_store(self, subject: Subject, restored: RestoredHome | None) -> None:
        """The store itself; what stands at the end of an archive is looked at once all of it was read."""
        if restored is not None and not restored.lost and not self.request.small:
            try:
                subject.finish()
            except SafekeptError as error:
                subject.damage.append(("", error.what))
        if subject.damage:
            self.findings.fail(STORE, subject.damage)
        else:
            self.findings.add(STORE, PASSED, subject.store_count, subject.store_text)

    def _restore(
        self, subject: Subject, place: DrillPlace, needed: int, chosen: set[str] | None
    ) -> RestoredHome | None:
        """Land it in scratch; None where even that was refused."""
        try:
            restored, created = land_in_scratch(subject, place, needed, chosen, self.operation, self.listener)
        except NoRoom:
            raise
        except SafekeptError as error:
            self.findings.add(RESTORE, FAILED, 0, error.what)
            return None
        self.files = sum(path not in restored.lost for path in restored.files())
        text = f"{plural(created, 'file')} and links, landed as by a real restore"
        self.findings.add(RESTORE, PASSED, created, text)
        return restored

    def _look(self, subject: Subject, restored: RestoredHome, place: DrillPlace) -> None:
        """Every check, from the bytes to the agent; those that open databases after those that hash."""
        live = subject.home if os.path.isdir(subject.home) else ""
        self.bytes = look_at_everything(
            restored,
            place.path,
            live,
            self.context.caller.environment,
            self.findings,
            self.listener,
            imported_code(self.context, live),
        )

    def _receipt(self, subject: Subject | None) -> Receipt:
        ordered = in_order(self.findings)
        return Receipt(
            operation=self.operation,
            subject=self._kind(),
            name=subject.name if subject else self.request.word,
            home=subject.home if subject else self._home(),
            started=self.started,
            seconds=time.monotonic() - self.began,
            ok=all(row.state != FAILED for row in ordered),
            rows=ordered,
            small=self.request.small,
            complete=subject.complete if subject else True,
            files=self.files,
            bytes=self.bytes,
            store=subject.store if subject else self.request.destination or self.context.places.vault,
            taken=subject.taken if subject else 0.0,
            host=os.uname().nodename,
            tool=f"safekept {__version__}",
            facts={"problems": self.findings.facts()} if self.findings.problems else {},
        )

    def _home(self) -> str:
        try:
            return self.context.locate(self.request.home, existing=False).home
        except SafekeptError:
            return self.request.home
