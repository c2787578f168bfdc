"""Small homes made of a dictionary, scanned: what came out, by path."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping

from safekept.core.entries import Entry, EntryLost, Outcome, Remark
from safekept.core.sqlite import CaptureOptions
from safekept.home.layout.layout import Layout, load_layouts
from safekept.home.scan.scanning import Scan, Selection, scan

HERMES = load_layouts()["hermes"]


def plant(root: object, files: Mapping[str, str | bytes | None]) -> str:
    """Make files; None makes a directory. Returns the root, links resolved."""
    for path, content in files.items():
        full = os.path.join(str(root), path)
        if content is None:
            os.makedirs(full, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    return os.path.realpath(str(root))


def plant_database(path: str, rows: int = 3, journal: str = "delete") -> None:
    """A small chat database as Hermes has it: so many sessions, twice as many messages."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.execute("CREATE TABLE sessions (id INTEGER PRIMARY KEY)")
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)")
    connection.executemany("INSERT INTO sessions VALUES (?)", [(row,) for row in range(rows)])
    connection.executemany("INSERT INTO messages VALUES (?, 'hello')", [(row,) for row in range(2 * rows)])
    connection.commit()
    connection.close()


def look(
    home: str,
    selection: Selection | None = None,
    *,
    layout: Layout = HERMES,
    user_home: str = "/nonexistent",
    isolated: bool = False,
    **options: object,
) -> Scan:
    capture = CaptureOptions(scratch=os.path.dirname(home), isolated=isolated)
    return scan(home, layout, selection, capture=capture, user_home=user_home, **options)  # type: ignore[arg-type]


def paths(source: Scan) -> list[str]:
    return [entry.path for entry in source]


def remarks(source: Scan, outcome: Outcome) -> dict[str, Remark]:
    return {remark.path: remark for remark in source.remarks if remark.outcome is outcome}


def consume(source: Scan) -> tuple[dict[str, bytes], list[Remark]]:
    """Read everything; the bytes by path, and what the contents said about themselves."""
    taken: dict[str, bytes] = {}
    said: list[Remark] = []
    for entry in source:
        if entry.kind == "file":
            data, spoken = read(entry)
            if data is not None:
                taken[entry.path] = data
            said += spoken
    return taken, said


def read(entry: Entry) -> tuple[bytes | None, list[Remark]]:
    try:
        with entry.open() as content:
            data = b"".join(content.chunks())
            assert len(data) == content.size
            return data, content.remarks
    except EntryLost as lost:
        return None, [lost.remark]
