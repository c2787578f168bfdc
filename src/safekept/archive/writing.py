"""Writes one archive out of a Source: packed on both cores, read back whole, then named.

Exit by any error leaves nothing under the final name and no temporary file. What one entry could not
give is a remark in the result and in the manifest, never a silence.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from safekept.core.entries import Entry, EntryLost, Kind, Outcome, Remark, Source
from safekept.core.events import Event, Listener, silent
from safekept.core.files import sweep_temporaries
from safekept.core.records import dataclass

from .container.container import SMALL, Container, read_whole, record_of, unreadable
from .container.lanes import LargeLane
from .container.limits import beyond_bounds
from .container.manifest import PREFIX, Record, make_head, readme
from .container.output import Output, Target
from .proof import prove
from .sealing.seal import Seal


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the archive."""

    path: str
    files: int
    directories: int
    links: int
    bytes: int  # of content
    stored_bytes: int  # of the archive
    remarks: list[Remark] = field(default_factory=list)
    complete: bool = True
    damaged: list[str] = field(default_factory=list)
    seconds: float = 0.0
    seal: Seal | None = None


def write_archive(
    source: Source,
    path: str,
    *,
    form: str,
    head: Mapping[str, object],
    closing: Callable[[], Mapping[str, object]],
    judged: Callable[[Iterable[Remark]], list[Remark]] = list,
    when_incomplete: str = "",
    replace: bool = True,
    seal: Seal | None = None,
    listener: Listener = silent,
) -> Written:
    """Write `source` to `path` as `form` ("zip" or "tar.zst"); it appears whole and proven, or not at all.

    `head` holds the facts known beforehand, `closing()` those known once everything was read; `judged`
    has the remarks without what was meant. An incomplete archive goes to `when_incomplete` if that is given.
    With `replace=False` a file that has the name already stays, and the archive takes the next free one.
    Under a `seal` nothing of it is on the disk in the clear, at no time.
    """
    began = time.monotonic()
    output = Output(path) if seal is None else seal.output(path)
    container: Container | None = None
    try:
        sweep_temporaries(output.directory)
        container = _container(form, output, listener)
        _fill(source, container)
        account = container.account
        remarks = judged(dict.fromkeys([*source.remarks, *account.remarks]))
        complete = not any(remark.incomplete for remark in remarks)
        counts = {
            "files": account.files,
            "directories": account.directories,
            "links": len(account.links),
            "bytes": account.bytes,
        }
        facts = {**head, **closing()}
        container.finish(
            make_head(
                facts,
                complete=complete,
                damaged_paths=sorted(account.damaged),
                remarks=remarks,
                counts=counts,
                lost=account.lost,
                entries_size=container.lines.size,
                entries_sha256=container.lines.sha256,
                form=form,
            ),
            readme(form, facts.get("created", ""), sorted(account.links)),
            {"id": facts.get("id", ""), "complete": complete, "written_ns": time.time_ns()},
        )
        output.complete()
        listener(Event("store", done=account.bytes, total=account.bytes))
        prove(output, account, container.lines.count, listener)
        final = when_incomplete if when_incomplete and not complete else path
        stored = output.stored
        final = output.finish(final, replace)
    finally:
        output.discard()
        if container is not None:
            container.close()
    return Written(
        path=final,
        files=account.files,
        directories=account.directories,
        links=len(account.links),
        bytes=account.bytes,
        stored_bytes=stored,
        remarks=remarks,
        complete=complete,
        damaged=sorted(account.damaged),
        seconds=time.monotonic() - began,
        seal=seal,
    )


def _container(form: str, output: Target, listener: Listener) -> Container:
    threads = max(1, min(os.cpu_count() or 1, 4))
    if form == "zip":
        from .zip.writer import ZipContainer

        return ZipContainer(output, threads, listener)
    if form == "tar.zst":
        from .tar.writer import TarContainer

        return TarContainer(output, threads, listener)
    raise ValueError(f"no such form of archive: {form}")


def _fill(source: Source, container: Container) -> None:
    lane = LargeLane(container.sink, container.add_large)
    try:
        for entry in source:
            _add(entry, container, lane, source.ordered)
        container.flush()
        lane.finish()
        container.sink.flush()
    except BaseException:
        lane.abandon()
        raise


def _add(entry: Entry, container: Container, lane: LargeLane, ordered: bool) -> None:
    path = entry.path
    if path.startswith(PREFIX) or path == PREFIX[:-1]:
        reason = "the name is reserved for the manifest of an archive"
        container.account.remark(Remark(path, Outcome.EXCLUDED, reason, bytes=entry.size))
        return
    if reason := beyond_bounds(path):
        words = f"not stored: {reason}, which is more than an archive holds"
        container.account.remark(Remark(path, Outcome.UNREADABLE, words, bytes=entry.size))
        return
    if entry.kind is not Kind.FILE:
        record = Record(path, entry.kind, entry.mode & 0o7777, entry.mtime_ns, target=entry.target)
        container.account.stored(record, [])
        container.add_plain(record)
        return
    if (entry.database or entry.size > SMALL) and not ordered:
        lane.add((entry, None))  # a database may be waited for; that must not stop the rest
        return
    try:
        content = entry.open()
    except EntryLost as lost:
        container.account.remark(lost.remark)
        return
    except OSError as error:
        container.account.remark(unreadable(path, error))
        return
    if content.size > SMALL:
        if ordered:
            container.flush()
            container.add_large((entry, content))
        else:
            lane.add((entry, content))  # it grew since it was listed
        return
    with content:
        record = record_of(entry, content)
        data = read_whole(record, content, container.account)
        if data is not None:
            container.add_small(record, data)
            container.account.stored(record, content.remarks)
    container.progress(path)
    lane.check()
