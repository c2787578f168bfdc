"""Writes zip: deflate, readable by Hermes and by every unzip there is.

Large members are cut into pieces that are deflated independently, each ended by a flush and the last
by the end of the stream; one after the other they are a valid deflate stream, and both cores make it.
Sizes follow the data of large members, so the output is never sought in. Links are not members (Hermes
would turn them into text files): the manifest has them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import lru_cache

from isal import isal_zlib

from safekept.core.entries import ZEROS, Content, EntryLost, Kind
from safekept.core.events import Listener
from safekept.core.worker import Digest, in_order

from ..container.account import Spool
from ..container.container import IN_FLIGHT, Container, unreadable
from ..container.lanes import Batch
from ..container.manifest import ENTRIES, HEAD, PIECE, README, Record
from ..container.output import Target
from .records import (
    COMMENT,
    DEFLATED,
    DESCRIBED,
    OWN_EXTRA,
    STORED,
    UTF8,
    ZIP64_FROM,
    Placed,
    dos_time,
    end_of_directory,
    times_extra,
)

#: Measured on a 700 MB chat database and 20,000 small files: see benchmarks/README.md.
LEVEL = 2
#: An empty final block: ends a deflate stream at any byte boundary.
END_OF_STREAM = b"\x03\x00"
_BATCH_BYTES, _BATCH_COUNT = 1 << 20, 256


#: What each thread of the pool has for itself.
_own = threading.local()


class ZipBatch:
    """Small members, packed and ready to be written."""

    def __init__(self, container: ZipContainer) -> None:
        self.container = container
        self.parts: list[bytes] = []
        self.members: list[Placed] = []
        self.lines: list[bytes] = []
        self.weight = 0
        self.ready = True

    def add(self, placed: Placed | None, body: bytes, line: bytes) -> None:
        if placed is not None:
            header = placed.local()
            placed.offset = self.weight
            self.parts += (header, body)
            self.weight += len(header) + len(body)
            self.members.append(placed)
        self.lines.append(line)

    def place(self) -> None:
        start = self.container.output.offset
        self.container.output.write(b"".join(self.parts))
        central = []
        for placed in self.members:
            placed.offset += start
            central.append(placed.central())
        self.container.central.add(b"".join(central), len(central))
        self.container.lines.add(b"".join(self.lines), len(self.lines))


class ZipMember:
    """One member of middling size, in the hands of a compressor."""

    def __init__(self, container: ZipContainer, record: Record, data: bytes) -> None:
        self.container, self.record = container, record
        self.weight = len(data)
        self._packed = container.pool.submit(_packed, record, data)

    @property
    def ready(self) -> bool:
        return self._packed.done()

    def place(self) -> None:
        batch = ZipBatch(self.container)
        batch.add(*self._packed.result(), self.record.line())
        batch.place()


class ZipContainer(Container):
    """A zip being written."""

    form = "zip"

    def __init__(self, output: Target, threads: int, listener: Listener) -> None:
        super().__init__(output, threads, listener)
        self.central = Spool(output.directory, veiled=output.sealed)
        self._batch = ZipBatch(self)

    def close(self) -> None:
        super().close()
        self.central.close()

    def add_plain(self, record: Record) -> None:
        placed = None
        if record.kind is Kind.DIRECTORY:
            placed = _placed(record, STORED, 0)
        self._batch.add(placed, b"", record.line())
        self._flush_when_full()

    def add_small(self, record: Record, data: bytes) -> None:
        _pack(self._batch, record, data)
        self._flush_when_full()

    def _flush_when_full(self) -> None:
        if self._batch.weight >= _BATCH_BYTES or len(self._batch.lines) >= _BATCH_COUNT:
            self.flush()

    def flush(self) -> None:
        if self._batch.lines:
            batch, self._batch = self._batch, ZipBatch(self)
            self.sink.offer(batch)

    def _batch_of_one(self, record: Record, data: bytes) -> Batch:
        return ZipMember(self, record, data)

    def _stream(self, record: Record, content: Content) -> None:
        digest = Digest(content.size)
        placed = _placed(record, DEFLATED, DESCRIBED)
        try:
            record.pieces = self._deflate(
                placed, self.pieces(record, content, PIECE, digest), wide=content.size >= ZIP64_FROM
            )
            record.sha256 = digest.hexdigest()
        except EntryLost as lost:
            self.account.remark(lost.remark)
            return
        except OSError as error:
            self.account.remark(unreadable(record.path, error))
            return
        finally:
            digest.close()
        if content.database is not None:
            record.database = content.database.as_dict()
        self.central.add(placed.central())
        self.lines.add(record.line())
        self.account.stored(record, content.remarks)

    def _deflate(self, placed: Placed, pieces: Iterator[bytes], wide: bool) -> list[int]:
        """Write one member piece by piece; returns the deflated size of each piece.

        When reading fails in the middle, what was written is ended as a stream of its own and gets no
        line in the central directory: a dead area that no reader ever looks at.
        """
        placed.offset = self.output.offset
        self.output.write(placed.local_streamed(wide))
        sizes: list[int] = []
        crc = 0

        def submitted() -> Iterator[Future[tuple[bytes, int, int]]]:
            held = None
            for piece in pieces:
                if held is not None:
                    yield self.pool.submit(_deflate_piece, held, False)
                held = piece
            yield self.pool.submit(_deflate_piece, held or b"", True)

        try:
            for body, piece_crc, length in in_order(submitted(), IN_FLIGHT):
                self.output.write(body)
                crc = isal_zlib.crc32_combine(crc, piece_crc, length) if sizes else piece_crc
                sizes.append(len(body))
                placed.deflated += len(body)
                placed.size += length
        except (EntryLost, OSError):
            self.output.write(END_OF_STREAM)
            placed.crc = crc
            placed.deflated += len(END_OF_STREAM)
            self.output.write(placed.descriptor(wide))
            raise
        placed.crc = crc
        self.output.write(placed.descriptor(wide))
        return sizes

    def finish(self, head: bytes, readme: bytes, identity: dict[str, object]) -> None:
        now = _now(identity)
        entries = _placed(Record(ENTRIES, Kind.FILE, 0o600, now), DEFLATED, DESCRIBED)
        self._deflate(entries, self.lines.chunks(), wide=self.lines.size >= ZIP64_FROM)
        self.central.add(entries.central())
        for name, data in ((README, readme), (HEAD, head)):
            record = Record(name, Kind.FILE, 0o600, now, len(data))
            placed, body = _packed(record, data)
            placed.offset = self.output.offset
            if name == HEAD:
                placed.extra += OWN_EXTRA
            self.output.write(placed.local() + body)
            self.central.add(placed.central())
        start = self.output.offset
        for chunk in self.central.chunks():
            self.output.write(chunk)
        comment = COMMENT + str(identity.get("id", "")).encode("ascii", "replace")[:200]
        self.output.write(end_of_directory(self.central.count, self.central.size, start, comment))


def _now(identity: dict[str, object]) -> int:
    value = identity.get("written_ns")
    return value if isinstance(value, int) else 0


def _deflate_piece(data: bytes, last: bool) -> tuple[bytes, int, int]:
    return _zero_piece(last) if data == ZEROS else _deflated(data, last)


@lru_cache(maxsize=2)
def _zero_piece(last: bool) -> tuple[bytes, int, int]:
    """A piece of zeros is always the same, and sparse files have thousands."""
    return _deflated(ZEROS, last)


def _deflated(data: bytes, last: bool) -> tuple[bytes, int, int]:
    # A full flush makes the packer forget all that came before, so one serves a thread for ever: a new
    # one for every piece is a tenth of the time. The proof inflates each piece on its own.
    packer = getattr(_own, "packer", None)
    if packer is None:
        packer = _own.packer = isal_zlib.compressobj(LEVEL, wbits=-15)
    try:
        parts = [packer.compress(data), packer.flush(isal_zlib.Z_FULL_FLUSH)]
    except BaseException:
        _own.packer = None
        raise
    if last:
        parts.append(END_OF_STREAM)
    return b"".join(parts), isal_zlib.crc32(data), len(data)


def _placed(record: Record, method: int, flags: int) -> Placed:
    name = os.fsencode(record.path)
    attributes = (0o100000 | record.mode) << 16
    if record.kind is Kind.DIRECTORY:
        name += b"/"
        attributes = (0o040000 | record.mode) << 16 | 0x10
    if not name.isascii():
        try:
            name.decode("utf-8")
            flags |= UTF8
        except UnicodeDecodeError:
            pass  # raw bytes without the flag: unzip on Linux takes them as they are
    seconds = record.mtime_ns // 1_000_000_000
    return Placed(name, flags, method, dos_time(seconds), attributes, times_extra(seconds))


def _packed(record: Record, data: bytes) -> tuple[Placed, bytes]:
    body = isal_zlib.compress(data, LEVEL, -15) if data else b""
    method = DEFLATED
    if len(body) >= len(data):
        body, method = data, STORED
    placed = _placed(record, method, 0)
    placed.crc, placed.deflated, placed.size = isal_zlib.crc32(data), len(body), len(data)
    return placed, body


def _pack(batch: ZipBatch, record: Record, data: bytes) -> None:
    placed, body = _packed(record, data)
    batch.add(placed, body, record.line())
