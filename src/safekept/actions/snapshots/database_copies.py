"""Copies of databases for looking into: out of a snapshot or out of the live home, and what they count.

A copy is private and ours, so it may be opened in any way; the live database is captured as a backup
does it, and never touched otherwise.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.entries import Content, EntryLost
from safekept.core.files import write_all
from safekept.core.sqlite import SIDECARS, CaptureOptions, is_database
from safekept.core.sqlite.capture import capture
from safekept.core.sqlite.fold import fold
from safekept.core.sqlite.format import connect
from safekept.core.sqlite.lean import LeanWish
from safekept.vault.format import Node
from safekept.vault.read import HomeSource

from .contents import not_readable


def stored_copy(source: HomeSource, path: str, node: Node, target: str) -> str:
    """A stored database as one file; a log that another tool stored beside it is folded in."""
    try:
        _write(source.content(path, node), target)
        for suffix in SIDECARS:
            beside = source.node(path + suffix)
            if beside is not None and beside.type == "file" and suffix != "-shm":
                _write(source.content(path + suffix, beside), target + suffix)
    except EntryLost as lost:
        raise not_readable(lost.remark.path, source, lost.remark.reason) from lost
    fold(target)
    return target


def live_copy(full: str, name: str, target: str, deadline: float, lean: LeanWish | None = None) -> str:
    """The live database as one committed state; with `lean`, as such a snapshot would store it.

    Raises EntryLost.
    """
    options = CaptureOptions(
        scratch=os.path.dirname(target), deadline=deadline, check=False, isolated=False, lean=lean
    )
    _write(capture(full, name, options), target)
    return target


def _write(content: Content, target: str) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with content:
            for chunk in content.chunks():
                write_all(descriptor, chunk)
    finally:
        os.close(descriptor)


def row_counts(path: str) -> dict[str, int | None]:
    """Rows of every table; None where a table cannot be read. Indexes of a full-text search do not count."""
    import sqlite3

    counts: dict[str, int | None] = {}
    with contextlib.closing(connect(path, "mode=ro&immutable=1")) as connection:
        try:
            tables = connection.execute(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            ).fetchall()
        except sqlite3.Error:
            return {}
        for (table,) in tables:
            quoted = '"' + table.replace('"', '""') + '"'
            try:
                counts[table] = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
            except sqlite3.Error:
                counts[table] = None
    return counts


def looks_like_database(source: HomeSource, path: str, node: Node) -> bool:
    """By the snapshot's own account, else by its first bytes."""
    if source.database(path) is not None:
        return True
    if node.type != "file" or node.size < 512 or node.size % 512:
        return False
    try:
        with source.content(path, node) as content:
            return is_database(next(content.chunks(), b"")[:16])
    except EntryLost:
        return False
