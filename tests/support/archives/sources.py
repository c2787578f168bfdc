"""Sources made in memory, and archives as plain facts, for the tests of the archive room."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from safekept.archive import ReadLimits, open_archive, write_archive
from safekept.core.entries import (
    CHUNK,
    BytesContent,
    Content,
    DatabaseFacts,
    Entry,
    EntryLost,
    Kind,
    Outcome,
    Remark,
)
from support.home.entry_list import EntryList

HEAD = {"id": "20261115-060000-abc123", "created": "2026-11-15T06:00:00Z", "tool": "safekept 0.1.0"}
WHEN = 1_700_000_000_123_456_789
FORMS = ("zip", "tar.zst")


class FailingContent(Content):
    """Gives some of its bytes, then fails as a scan would, or as the operating system would."""

    def __init__(self, size: int, good: int, error: Exception) -> None:
        super().__init__()
        self.size, self.good, self.error, self.mtime_ns = size, good, error, WHEN

    def chunks(self) -> Iterator[bytes]:
        for start in range(0, self.good, CHUNK):
            yield os.urandom(min(CHUNK, self.good - start))
        raise self.error

    def close(self) -> None:
        pass


class UnevenContent(Content):
    """Bytes in chunks of odd sizes, with what is only known at the end."""

    def __init__(self, data: bytes, step: int, facts: DatabaseFacts | None = None) -> None:
        super().__init__()
        self.data, self.step, self.facts = data, step, facts
        self.size, self.mtime_ns = len(data), WHEN

    def chunks(self) -> Iterator[bytes]:
        for start in range(0, self.size, self.step):
            yield self.data[start : start + self.step]
        self.database = self.facts
        if self.facts is not None and self.facts.state == "damaged":
            self.remarks.append(Remark("state.db", Outcome.DAMAGED, "row 3 missing from index"))

    def close(self) -> None:
        pass


def file(path: str, data: bytes, mode: int = 0o644, mtime_ns: int = WHEN, database: bool = False) -> Entry:
    return Entry(
        path,
        Kind.FILE,
        mode,
        mtime_ns,
        len(data),
        database=database,
        open=lambda: BytesContent(data, mtime_ns),
    )


def directory(path: str, mode: int = 0o755, mtime_ns: int = WHEN) -> Entry:
    return Entry(path, Kind.DIRECTORY, mode, mtime_ns)


def link(path: str, target: str, mtime_ns: int = WHEN) -> Entry:
    return Entry(path, Kind.SYMLINK, 0o777, mtime_ns, target=target)


def failing(path: str, size: int, good: int, error: Exception | None = None) -> Entry:
    lost = error or EntryLost(Remark(path, Outcome.UNREADABLE, "input/output error"))
    return Entry(path, Kind.FILE, 0o644, WHEN, size, open=lambda: FailingContent(size, good, lost))


def write(entries: Iterable[Entry], path: object, form: str = "zip", **options: object):  # type: ignore[no-untyped-def]
    settings: dict[str, object] = {"head": HEAD, "closing": lambda: {"census": {"sessions": 3}}}
    settings.update(options)
    return write_archive(EntryList(list(entries)), str(path), form=form, **settings)  # type: ignore[arg-type]


def content_of(entry: Entry) -> bytes:
    with entry.open() as content:
        data = b"".join(content.chunks())
        assert len(data) == content.size
        return data


def facts(entries: Iterable[Entry]) -> dict[str, tuple[object, ...]]:
    """Everything that must come back, by path."""
    return {
        entry.path: (
            entry.kind.value,
            entry.mode if entry.kind is not Kind.SYMLINK else 0,
            entry.mtime_ns,
            entry.target,
            content_of(entry) if entry.kind is Kind.FILE else b"",
        )
        for entry in entries
    }


def read(path: object, limits: ReadLimits | None = None) -> dict[str, tuple[object, ...]]:
    """The whole archive as facts, checked to its last byte."""
    with open_archive(str(path), limits or ReadLimits()) as archive:
        found = facts(archive)
        archive.finish()
        return found


def sample_home() -> list[Entry]:
    """A little of everything: small, large, empty, odd names, links, early times, modes."""
    text = b"".join(b"%d: the agent said something worth keeping\n" % number for number in range(60_000))
    return [
        file(".env", b"KEY=value\n", 0o600),
        file("config.yaml", b"model: {}\n"),
        directory("cron", 0o700),
        directory("empty", 0o750, 86_400 * 10**9),
        file("notes-\udcff\udcfe.md", b"raw name"),
        directory("skills"),
        file("skills/early.md", b"early", mtime_ns=10**9),
        file("skills/empty.md", b""),
        file("skills/line\nbreak \U0001f4be.md", b"odd", 0o640),
        file("skills/run.sh", b"#!/bin/sh\n", 0o755),
        file("skills/" + "long" * 30 + ".md", b"long name"),
        link("skills/current", "run.sh"),
        link("skills/outside", "/etc/hostname"),
        file("sessions.jsonl", text, 0o600),
        file("state.db", b"SQLite format 3\x00" + os.urandom(3 * CHUNK + 17), 0o600, database=True),
    ]
