"""Carry a home away in one file, while the agent runs.

The archive appears under its name only after it was read back whole. Exit and journal tell apart
*complete*, *incomplete* (something selected is missing, torn or damaged; all of it listed) and
*failed*. Only complete archives push older ones out, and only archives of this home made here.

A sealed archive is sealed on its way to the disk. What it needs beside (a private copy of a database that
cannot be read where it lies) goes beside our own data on this host, never to where the archive goes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial

from safekept import __version__
from safekept.archive import Seal, Written, write_archive
from safekept.archive.reading import fingerprint
from safekept.core.entries import Kind, Remark
from safekept.core.events import Event, Listener, expecting, silent
from safekept.core.files import durable_write, private_directory
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.core.sqlite import CaptureOptions
from safekept.home.scan import Scan, Selection, scan

from ..alarms.meant import meant_links, without_meant_links
from ..base.context import HomeRef, UserContext
from ..base.operations.stores import BackupFacts
from ..base.record import expected_bytes, record, recording
from ..base.recovery import recover_interrupted
from ..base.scope import scope_of
from ..base.scratch import scratch
from ..base.search_behind import finish
from ..snapshots.databases import LeanChoice
from .output import OwnArchives, beside, names_a_file, output_path
from .rotation import Rotated, Rotation, plan_rotation
from .sealing import seal_for

# The full account of one operation as a file, so that no list has to be cut short on a screen.

#: Reports are small and dated; the oldest go when there are more than this.
KEPT = 100


def write_report(directory: str, operation: str, document: Mapping[str, object]) -> str:
    """Write `<operation>.json`; returns its path."""
    private_directory(directory)
    path = os.path.join(directory, f"{operation}.json")
    durable_write(path, json.dumps(document, indent=1).encode() + b"\n")
    older = sorted(name for name in os.listdir(directory) if name.endswith(".json"))[:-KEPT]
    for name in older:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))
    return path


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What to carry away, and where to."""

    place: HomeRef
    output: str = ""  # a file, a directory, a name without suffix, or nothing
    form: str = "zip"
    selection: Selection = field(default_factory=Selection)
    keep: int = 0  # 0 keeps everything
    deadline: float = 30.0
    measure: bool = False  # count first, so that progress knows its end
    seal: tuple[str, ...] = ()  # whom it is sealed to, as `--seal` takes them; empty: it is not sealed
    now: float = 0.0  # the time it is made at, as a schedule's clock says; 0: what the clock says
    isolated: bool = False  # capture in a helper process: inside an agent, never needed by a command
    lean: bool = False  # without what can be rebuilt in databases; Hermes itself would not rebuild it


@dataclass(frozen=True, slots=True)
class BackupResult:
    """What was stored, what was not and why."""

    operation: str
    place: HomeRef
    written: Written
    facts: BackupFacts  # what the journal says of it, and every document
    report: str = ""

    @property
    def rotated(self) -> tuple[str, ...]:
        """Archives that went for it."""
        return self.facts.rotated or ()

    @property
    def kept_until(self) -> float:
        """When they go for good; 0: they are gone."""
        return self.facts.rotated_until or 0.0

    def as_dict(self) -> dict[str, object]:
        """The archive by itself."""
        written = self.written
        return {
            **self.facts.document("path", "files", "bytes", "stored_bytes", "damaged", "seconds"),
            "complete": written.complete,
            "directories": written.directories,
            "links": written.links,
            "sealed": written.seal.as_dict() if written.seal is not None else None,
            "remarks": [remark.as_dict() for remark in written.remarks],
        }


@dataclass(frozen=True, slots=True)
class Preview:
    """Exactly what a run would select, without reading any content."""

    place: HomeRef
    output: str
    paths: list[str]
    files: int
    bytes: int
    largest: list[tuple[str, int]]
    remarks: list[Remark]
    rotation: Rotation
    seal: Seal | None = None


def preview_backup(context: UserContext, request: BackupRequest, listener: Listener = silent) -> Preview:
    """What a run would take: the same scan, unread."""
    recover_interrupted(context, request.place.home, listener)
    seal = seal_for(context, request.seal, preview=True)
    known = OwnArchives(context)
    output = output_path(context, request.place, request.output, request.form, seal, known)
    source = _scan(context, request, output, os.path.dirname(output), known, silent)
    paths: list[str] = []
    files = total = 0
    tops: dict[str, int] = {}
    for entry in source:
        paths.append(entry.path)
        if entry.kind is Kind.FILE:
            files += 1
            total += entry.size
            top = entry.path.split("/", 1)[0]
            tops[top] = tops.get(top, 0) + entry.size
    largest = sorted(tops.items(), key=lambda item: -item[1])[:8]
    rotation = plan_rotation(
        os.path.dirname(output),
        request.place,
        scope_of(request.selection),
        request.keep,
        coming=1,
        known=known,
        to=seal.to if seal is not None else (),
    )
    remarks = without_meant_links(source.remarks, meant_links(context, request.place.home))
    return Preview(request.place, output, paths, files, total, largest, remarks, rotation, seal)


def backup(context: UserContext, request: BackupRequest, listener: Listener = silent) -> BackupResult:
    """Write one archive of a home, read it back, and account for everything."""
    operation = new_id()
    with recording(context, operation, BackupFacts(home=request.place.home), listener):
        size = expected_bytes(context, "backup", request.place.home) if listener is not silent else 0
        result = _backup(context, request, operation, expecting(listener, "store", size))
    state = "done" if result.written.complete else "incomplete"
    record(context, result.facts.line(operation, state), listener)
    return result


def _backup(context: UserContext, request: BackupRequest, operation: str, listener: Listener) -> BackupResult:
    recover_interrupted(context, request.place.home, listener)
    if not request.lean:
        finish(request.place.home, listener)
    seal = seal_for(context, request.seal)
    known = OwnArchives(context)
    output = output_path(context, request.place, request.output, request.form, seal, known, request.now)
    # Where this fails, the writer says so in its own words.
    with contextlib.suppress(OSError):
        private_directory(os.path.dirname(output))
    with contextlib.ExitStack() as stack:
        copies = os.path.dirname(output) if seal is None else stack.enter_context(scratch(context))
        source = _scan(context, request, output, copies, known, listener)
        return _write(context, request, operation, source, output, seal, known, listener)


def _write(
    context: UserContext,
    request: BackupRequest,
    operation: str,
    source: Scan,
    output: str,
    seal: Seal | None,
    known: OwnArchives,
    listener: Listener,
) -> BackupResult:
    directory = os.path.dirname(output)
    work = BackupFacts(home=request.place.home, layout=request.place.layout.name)
    head: dict[str, object] = {
        "id": operation,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(request.now or None)),
        "tool": f"safekept {__version__}",
        **work.document("layout", "home"),
        "host": socket.gethostname(),
        "user": _user(context),
        "scope": scope_of(request.selection),
    }
    if request.measure:
        listener = _with_total(listener, source.measure()[1])
    written = write_archive(
        source,
        output,
        form=request.form,
        head=head,
        closing=lambda: {"census": source.census()},
        judged=partial(without_meant_links, meant=meant_links(context, request.place.home)),
        # A name with a time in it was made up here, perhaps by two backups in the same second.
        replace=names_a_file(request.output),
        when_incomplete=beside(output, "-incomplete") if os.path.lexists(output) else "",
        seal=seal,
        listener=listener,
    )
    work.archive, work.files, work.bytes = written.path, written.files, written.bytes
    work.stored_bytes, work.damaged = written.stored_bytes, tuple(written.damaged)
    work.seconds, work.census = round(written.seconds, 3), source.census()
    if seal is not None:
        # This host may be unable to read it: the journal remembers what it has to know of it.
        mark = fingerprint(written.path)
        sealed = {"sealed": {**seal.as_dict(), "fingerprint": mark}}
        work.add({**sealed, "scope": head["scope"], "created": head["created"]})
        known.remember(mark, {**head, **sealed, "complete": written.complete, "damaged": written.damaged})
    rotated = Rotated()
    if written.complete and request.keep:
        scope, to = scope_of(request.selection), seal.to if seal is not None else ()
        plan = plan_rotation(
            directory, request.place, scope, request.keep, known=known, to=to, new=written.path
        )
        rotated = plan.carry_out(operation)
    work.rotated, work.rotated_until = tuple(rotated.paths), rotated.until
    result = BackupResult(operation, request.place, written, work)
    with contextlib.suppress(OSError):  # the manifest inside the archive has the same account
        report = write_report(
            os.path.join(context.places.data_directory, "reports"),
            operation,
            {**head, **result.as_dict(), **work.document("census", "rotated")},
        )
        return replace(result, report=report)
    return result


def _scan(
    context: UserContext,
    request: BackupRequest,
    output: str,
    copies: str,
    known: OwnArchives,
    listener: Listener,
) -> Scan:
    return scan(
        request.place.home,
        request.place.layout,
        request.selection,
        # The command line holds no handle on any database, so it may capture in its own process.
        capture=CaptureOptions(scratch=copies, deadline=request.deadline, isolated=request.isolated),
        avoid=(output, context.places.data_directory),
        user_home=context.places.user_home,
        own_archive=known,
        lean=LeanChoice(request.place, request.lean).request,
        listener=listener,
    )


def _with_total(listener: Listener, total: int) -> Listener:
    def listen(event: Event) -> None:
        if event.phase == "store" and not event.total and not event.text:
            event = replace(event, total=max(total, event.done))
        listener(event)

    return listen


def _user(context: UserContext) -> str:
    return os.path.basename(context.places.user_home.rstrip("/"))
