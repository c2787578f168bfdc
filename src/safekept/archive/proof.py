"""Reads an archive back whole, through the reader that an import uses, before it gets its name.

Every member is unpacked and its size compared with the manifest. Every byte is held against a checksum
made from the bytes that were read at the source (CRC-32 in zip, the frame checksum in zstd), small
members against their SHA-256 too. A second SHA-256 of large members would find nothing more and cost a
tenth of the whole backup; an import computes it. Both cores take part. A sealed archive is opened for
this from the disk with the key that made it, which is forgotten afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from safekept.core.entries import CHUNK, Entry, Kind
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.next_step import NextStep
from safekept.core.worker import Worker

from .container.account import ArchiveAccount
from .container.limits import NO_LIMITS
from .container.output import Target
from .errors import NOTHING_WRITTEN, ArchiveNotProven
from .reading import Archive


def prove(output: Target, account: ArchiveAccount, lines: int, listener: Listener) -> None:
    """Raise ArchiveNotProven unless the archive gives back what went into it."""
    listener(Event("verify", total=account.bytes))
    try:
        handle = output.reopen()
        try:
            archive = Archive(handle, NO_LIMITS, hash_up_to=CHUNK)
        except BaseException:
            handle.close()
            raise
        with archive:
            _read_all(archive, account, lines, listener)
    except SafekeptError as error:
        if isinstance(error, ArchiveNotProven):
            raise
        raise _not_proven(output.path, error.what) from error
    listener(Event("verify", done=account.bytes, total=account.bytes))


def _read_all(archive: Archive, account: ArchiveAccount, lines: int, listener: Listener) -> None:
    if archive.head is None or len(archive) != lines:
        raise _not_proven(archive.path, f"{lines} entries were written, {len(archive)} came back")
    reading = Reading(account.bytes, listener)
    if archive.ordered:
        reading.read(iter(archive))
    else:
        _both_lanes(archive, reading)
    archive.finish()
    if reading.bytes != account.bytes or reading.files != account.files:
        raise _not_proven(archive.path, f"{account.bytes} bytes went in, {reading.bytes} came back")


def _both_lanes(archive: Archive, reading: Reading) -> None:
    """Large members beside the small ones, as they were written."""
    large = [entry for entry in archive if entry.size > CHUNK]
    lane = Worker(lambda: reading.read(iter(large)), "safekept-prove")
    try:
        reading.read(entry for entry in archive if entry.size <= CHUNK)
    except BaseException:
        reading.stopped = True
        raise
    finally:
        lane.wait_through_signals()
    if lane.error is not None:
        raise lane.error


_SAID_EVERY = 32 << 20


class Reading:
    """Reads entries and adds up what came back."""

    def __init__(self, total: int, listener: Listener) -> None:
        self.total, self.listener = total, listener
        self.files = self.bytes = 0
        self.stopped = False
        self._said = 0
        self._lock = threading.Lock()

    def read(self, entries: Iterator[Entry]) -> None:
        files = size = 0
        for entry in entries:
            if entry.kind is not Kind.FILE:
                continue
            files += 1
            with entry.open() as content:
                for chunk in content.chunks():
                    size += len(chunk)
                    if self.stopped:
                        return
                    if size >= _SAID_EVERY:  # a large member takes long, and is named meanwhile
                        self._add(0, size, entry.path)
                        size = 0
            if size >= 4 << 20:
                self._add(files, size, entry.path)
                files = size = 0
        self._add(files, size, "")

    def _add(self, files: int, size: int, path: str) -> None:
        with self._lock:
            self.files += files
            self.bytes += size
            done = self.bytes
        self.listener(Event("verify", done=done, total=self.total, path=path))


def _not_proven(path: str, why: str) -> ArchiveNotProven:
    return ArchiveNotProven(
        f"The archive did not read back as it was written: {why}",
        kept=NOTHING_WRITTEN,
        next_steps=(
            "Run the command again; if it fails again, the disk or the memory of this machine is not sound",
            NextStep("backup", ("-o", "DIRECTORY"), before="Write it to another disk:"),
        ),
        path=path,
        reason=why,
    )
