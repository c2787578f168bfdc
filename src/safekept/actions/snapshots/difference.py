"""What changed between two snapshots, or since one: files, rows inside databases, lines of texts.

Between snapshots only directories that differ are looked at. Against the live home, a file whose size,
time and mode agree counts as the same, as it does for a new snapshot; every other is compared by its
bytes, and databases by a captured state.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import field

from safekept.core.entries import EntryLost, Remark
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.vault.format import Node
from safekept.vault.read import HomeSource, has_bytes, same_content, tree_changes

from ..base.context import UserContext
from ..base.scratch import scratch
from .contents import LARGEST_TEXT, Opened, patch, text_of
from .listing import Listed
from .live_home import LiveHome, live_copy, looks_like_database, row_counts, stored_copy

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path that is not the same on both sides."""

    path: str
    how: str
    kind: str  # "file", "dir", "symlink"
    before: int  # bytes
    after: int
    database: bool = False

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "how": self.how,
            "kind": "directory" if self.kind == "dir" else self.kind,
            "before_bytes": self.before,
            "after_bytes": self.after,
            "database": self.database,
        }


@dataclass(frozen=True, slots=True)
class TableChange:
    """The rows of one table on both sides; None where there is no such table, or it cannot be read."""

    table: str
    before: int | None
    after: int | None


@dataclass(slots=True)
class Difference:
    """What changed from one side to the other."""

    before: Listed
    after: Listed | None  # None: the live home
    changes: list[FileChange] = field(default_factory=list)
    touched: int = 0  # same bytes, other time or mode
    tables: dict[str, list[TableChange]] = field(default_factory=dict)
    patches: dict[str, list[str]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


class _Side:
    """Reads one side of a difference: a snapshot, or the live home where `source` is None."""

    def __init__(self, source: HomeSource | None, live: LiveHome | None, deadline: float) -> None:
        self.source, self.live, self.deadline = source, live, deadline

    def text(self, path: str, node: Node | None) -> str | None:
        """A text; empty where there is no such file, None where it is no text."""
        if node is None or node.type != "file":
            return ""
        if self.source is not None:
            return text_of(self.source, path, node)
        assert self.live is not None
        return self.live.text(path, LARGEST_TEXT)

    def is_database(self, path: str, node: Node | None) -> bool:
        if node is None or node.type != "file":
            return False
        if self.source is not None:
            return looks_like_database(self.source, path, node)
        assert self.live is not None
        return self.live.entries[path].database

    def rows(self, path: str, node: Node | None, target: str) -> dict[str, int | None]:
        if node is None or node.type != "file":
            return {}
        if self.source is not None:
            stored_copy(self.source, path, node, target)
        else:
            assert self.live is not None
            live_copy(self.live.full(path), path, target, self.deadline)
        try:
            return row_counts(target)
        finally:
            os.unlink(target)


def differ(
    context: UserContext,
    first: Opened,
    second: Opened | None,
    *,
    with_patches: bool = False,
    deadline: float = 30.0,
) -> Difference:
    """From `first` to `second`, or to the live home of `first`."""
    found = Difference(first.chosen, second.chosen if second else None)
    before = first.stored.source
    with scratch(context) as place:
        if second is not None:
            pairs = _between(before, second.stored.source, found.remarks)
            sides = (_Side(before, None, deadline), _Side(second.stored.source, None, deadline))
        else:
            live = LiveHome(context, first, place)
            pairs = _to_live(before, live, found.remarks)
            sides = (_Side(before, None, deadline), _Side(None, live, deadline))
        for path, old, new in pairs:
            _judge(found, sides, path, old, new, place, with_patches, first)
    found.changes.sort(key=lambda change: change.path)
    return found


def _judge(
    found: Difference,
    sides: tuple[_Side, _Side],
    path: str,
    old: Node | None,
    new: Node | None,
    place: str,
    with_patches: bool,
    first: Opened,
) -> None:
    if old is not None and new is not None and _same(sides, path, old, new):
        found.touched += old.type != "dir"
        return
    some = new or old
    assert some is not None
    how = ADDED if old is None else REMOVED if new is None else CHANGED
    database = sides[0].is_database(path, old) or sides[1].is_database(path, new)
    sizes = [node.size if node is not None and node.type == "file" else 0 for node in (old, new)]
    found.changes.append(FileChange(path, how, some.type, sizes[0], sizes[1], database))
    try:
        if database:
            found.tables[path] = _tables(sides, path, old, new, place)
        elif with_patches and some.type == "file":
            secret = first.stored.layout.secret(path)
            texts = ("", "") if secret else (sides[0].text(path, old), sides[1].text(path, new))
            found.patches[path] = ["(a secret: its text is not shown)"] if secret else patch(path, *texts)
    except EntryLost as lost:
        found.remarks.append(lost.remark)
    except SafekeptError as error:
        from safekept.core.entries import Outcome

        found.remarks.append(Remark(path, Outcome.UNREADABLE, error.what))


def _same(sides: tuple[_Side, _Side], path: str, old: Node, new: Node) -> bool:
    if old.type == new.type == "dir":
        return True  # what lies in it is judged by itself
    if same_content(old, new):
        return True
    if old.type != "file" or new.type != "file" or old.size != new.size or sides[1].source is None:
        return False
    # Equal in size and time, stored in other blocks: the bytes decide.
    return old.mtime_ns == new.mtime_ns and _digest(sides[0], path, old) == _digest(sides[1], path, new)


def _digest(side: _Side, path: str, node: Node) -> bytes:
    import hashlib

    assert side.source is not None
    digest = hashlib.sha256()
    with contextlib.suppress(EntryLost), side.source.content(path, node) as content:
        for chunk in content.chunks():
            digest.update(chunk)
        return digest.digest()
    return b""


def _tables(
    sides: tuple[_Side, _Side], path: str, old: Node | None, new: Node | None, place: str
) -> list[TableChange]:
    before = sides[0].rows(path, old, os.path.join(place, "before.db"))
    after = sides[1].rows(path, new, os.path.join(place, "after.db"))
    names = sorted(before.keys() | after.keys())
    return [TableChange(name, before.get(name), after.get(name)) for name in names]


Pairs = Iterator[tuple[str, Node | None, Node | None]]


def _between(before: HomeSource, after: HomeSource, remarks: list[Remark]) -> Pairs:
    for prefix in sorted({root.prefix for root in (*before.roots, *after.roots)}):
        nodes = [source.node(prefix) if _has(source, prefix) else None for source in (before, after)]
        trees = [node.subtree if node is not None else None for node in nodes]
        start = prefix + "/" if prefix else ""
        yield from tree_changes(before.repository, trees[0], trees[1], remarks, start)


def _has(source: HomeSource, prefix: str) -> bool:
    return any(root.prefix == prefix for root in source.roots)


def _to_live(before: HomeSource, live: LiveHome, remarks: list[Remark]) -> Pairs:
    stored = {entry.path: entry for entry in before}
    remarks += before.remarks
    for path in sorted(stored.keys() | live.entries.keys()):
        old = live.node_of(stored[path]) if path in stored else None
        new = live.look(path)
        if old is None or new is None:
            if old is not None or new is not None:
                yield path, old, new
        elif (old.type, old.size, old.mtime_ns, old.mode, old.target) != (
            new.type,
            new.size,
            new.mtime_ns,
            new.mode,
            new.target,
        ) or live.has_log(path):
            new.content = old.content if live.same_bytes(before, path, old, new, has_bytes) else None
            yield path, old, new


def as_mapping(tables: Mapping[str, list[TableChange]]) -> dict[str, object]:
    """Row counts for `--json`."""
    return {
        path: {one.table: {"before": one.before, "after": one.after} for one in changes}
        for path, changes in tables.items()
    }
