"""Carry a home away in one file, while the agent runs.

The archive appears under its name only after it was read back whole. Exit and journal tell apart
*complete*, *incomplete* (something selected is missing, torn or damaged; all of it listed) and
*failed*. Only complete archives push older ones out, and only archives of this home made here.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast import __version__
from holdfast.actions.record import record
from holdfast.actions.recovery import make_right
from holdfast.actions.report import write_report
from holdfast.actions.rotation import Rotation, plan_rotation
from holdfast.actions.scope import scope_of
from holdfast.actions.surroundings import Place, Surroundings
from holdfast.archive import Written, identify, write_archive
from holdfast.core.entries import Kind, Remark
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event, Listener, silent
from holdfast.core.files import private_directory
from holdfast.core.journal import Record, new_id
from holdfast.core.sqlite import CaptureOptions
from holdfast.home.scan import Scan, Selection, scan

SUFFIXES = {"zip": ".zip", "tar.zst": ".tar.zst"}


class OutputTaken(HoldfastError):
    code = "output-taken"


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What to carry away, and where to."""

    place: Place
    output: str = ""  # a file, a directory, a name without suffix, or nothing
    form: str = "zip"
    selection: Selection = field(default_factory=Selection)
    keep: int = 0  # 0 keeps everything
    deadline: float = 30.0
    measure: bool = False  # count first, so that progress knows its end


@dataclass(frozen=True, slots=True)
class BackupResult:
    """What was stored, what was not and why."""

    operation: str
    place: Place
    written: Written
    census: Mapping[str, object]
    rotated: list[str]
    report: str


@dataclass(frozen=True, slots=True)
class Preview:
    """Exactly what a run would select, without reading any content."""

    place: Place
    output: str
    paths: list[str]
    files: int
    bytes: int
    largest: list[tuple[str, int]]
    remarks: list[Remark]
    rotation: Rotation


def preview_backup(
    surroundings: Surroundings, request: BackupRequest, listener: Listener = silent
) -> Preview:
    """What a run would take: the same scan, unread."""
    make_right(surroundings, request.place.home, listener)
    output = _output_path(surroundings, request)
    source = _scan(surroundings, request, output, silent)
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
        os.path.dirname(output), request.place, scope_of(request.selection), request.keep, coming=1
    )
    return Preview(request.place, output, paths, files, total, largest, list(source.remarks), rotation)


def backup(surroundings: Surroundings, request: BackupRequest, listener: Listener = silent) -> BackupResult:
    """Write one archive of a home, read it back, and account for everything."""
    operation = new_id()
    try:
        result = _backup(surroundings, request, operation, listener)
    except HoldfastError as error:
        failure: dict[str, object] = {"home": request.place.home, "error": error.as_dict()}
        record(surroundings, Record(operation, "backup", "failed", facts=failure), listener)
        raise
    written = result.written
    facts: dict[str, object] = {
        "home": request.place.home,
        "layout": request.place.layout.name,
        "archive": written.path,
        "files": written.files,
        "bytes": written.bytes,
        "stored_bytes": written.stored_bytes,
        "damaged": written.damaged,
        "seconds": round(written.seconds, 3),
        "census": result.census,
        "rotated": result.rotated,
    }
    state = "done" if written.complete else "incomplete"
    record(surroundings, Record(operation, "backup", state, facts=facts), listener)
    return result


def _backup(
    surroundings: Surroundings, request: BackupRequest, operation: str, listener: Listener
) -> BackupResult:
    make_right(surroundings, request.place.home, listener)
    output = _output_path(surroundings, request)
    directory = os.path.dirname(output)
    # Where this fails, the writer says so in its own words.
    with contextlib.suppress(OSError):
        private_directory(directory)
    source = _scan(surroundings, request, output, listener)
    head = {
        "id": operation,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "tool": f"holdfast {__version__}",
        "layout": request.place.layout.name,
        "home": request.place.home,
        "host": socket.gethostname(),
        "user": _user(surroundings),
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
        # A name with a time in it was made up here, perhaps by two backups in the same second.
        replace=_names_a_file(request.output),
        when_incomplete=_beside(output, "-incomplete") if os.path.lexists(output) else "",
        listener=listener,
    )
    rotated: list[str] = []
    if written.complete and request.keep:
        rotated = plan_rotation(
            directory, request.place, scope_of(request.selection), request.keep
        ).carry_out()
    census = source.census()
    report = ""
    with contextlib.suppress(OSError):  # the manifest inside the archive has the same account
        report = write_report(
            os.path.join(surroundings.data_directory, "reports"),
            operation,
            {**head, **written.as_dict(), "census": census, "rotated": rotated},
        )
    return BackupResult(operation, request.place, written, census, rotated, report)


def _scan(surroundings: Surroundings, request: BackupRequest, output: str, listener: Listener) -> Scan:
    return scan(
        request.place.home,
        request.place.layout,
        request.selection,
        # The command line holds no handle on any database, so it may capture in its own process.
        capture=CaptureOptions(scratch=os.path.dirname(output), deadline=request.deadline, isolated=False),
        avoid=(output, surroundings.data_directory),
        user_home=surroundings.user_home,
        own_archive=lambda path: identify(path) is not None,
        listener=listener,
    )


def _output_path(surroundings: Surroundings, request: BackupRequest) -> str:
    """Where the archive goes. Never over a file that is not an archive of ours."""
    suffix = SUFFIXES[request.form]
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    name = f"{request.place.layout.archive_prefix}-{stamp}{suffix}"
    output = os.path.expanduser(request.output) if request.output else surroundings.user_home
    if not _names_a_file(output):
        return os.path.join(os.path.abspath(output), name)
    output = os.path.abspath(output)
    if not output.endswith(suffix):
        output += suffix
    if os.path.lexists(output) and (not os.path.isfile(output) or identify(output) is None):
        raise OutputTaken(
            f"`{output}` exists and is not an archive that holdfast made",
            kept="It was left as it is; nothing was written",
            next_steps=("Name another file with `holdfast backup -o PATH`",),
        )
    return output


def _names_a_file(output: str) -> bool:
    return bool(output) and not output.endswith("/") and not os.path.isdir(output)


def _beside(path: str, addition: str) -> str:
    for suffix in SUFFIXES.values():
        if path.endswith(suffix):
            return path.removesuffix(suffix) + addition + suffix
    return path + addition


def _with_total(listener: Listener, total: int) -> Listener:
    def listen(event: Event) -> None:
        if event.phase == "store" and not event.total and not event.text:
            event = replace(event, total=max(total, event.done))
        listener(event)

    return listen


def _user(surroundings: Surroundings) -> str:
    return os.path.basename(surroundings.user_home.rstrip("/"))
