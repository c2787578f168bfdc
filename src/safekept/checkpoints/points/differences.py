"""What differs between two points: files and lines counted for a list, or shown as text.

Counting is bounded: a point is shown with `more` when too much changed to be counted in a moment, and
content that is not text, or too large to be worth it, counts as a file and no lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from safekept.core.files import TEMPORARY_PREFIX
from safekept.core.records import dataclass

from ..checkpoint import CheckpointDamaged, FileState, Skipped
from ..store.store import Store
from ..store.tree_state import TreeState

# What a checkpoint left out and is gone now: no rollback can bring it back, so it is reported. It may only
# have got another name: `mv .env config.txt` leaves a file that looks as if it was made since, and is
# the only copy outside the store. So where something that was left out is missing, a new file that may
# be it stays.

#: Left out for these reasons, a path is worth a word when it is gone.
_MISSED = ("git", "ignored", "oversize", "secret", "unreadable", "limit", "database", "changing", "excluded")
#: Of what is excluded, these make themselves again; a film or an archive does not.
_MAKE_THEMSELVES = (
    "__pycache__ .cache .pytest_cache .mypy_cache .ruff_cache .next .nuxt .coverage .DS_Store Thumbs.db"
).split()
_MOVABLE = ("ignored", "oversize", "secret", "unreadable", "limit", "excluded")
#: No key is larger.
_LARGEST_SECRET = 1 << 20


def vanished(then: TreeState, now: TreeState, on_disk: Callable[[str], int]) -> list[Skipped]:
    """Everything that was there and not saved, and is not there any more; by name."""
    gone = [one for path, one in then.skipped.items() if path not in now and not on_disk(path)]
    return sorted(gone, key=lambda one: one.path)


def missed(gone: Sequence[Skipped], wanted: Callable[[str], bool]) -> list[Skipped]:
    """Those that a person wants to hear of."""
    return [one for one in gone if one.reason in _MISSED and wanted(one.path) and not _remade(one)]


def _remade(one: Skipped) -> bool:
    name = _last(one.path)
    bytecode = name.endswith((".pyc", ".pyo"))
    return one.reason == "excluded" and (
        name in _MAKE_THEMSELVES or bytecode or name.startswith(TEMPORARY_PREFIX)
    )


class Renamed:
    """Whether a file that is new since may be one of those that are gone, under another name."""

    def __init__(self, gone: Sequence[Skipped], then: TreeState, now: TreeState, since_ns: int) -> None:
        # One that is left out today under the same last name has only moved, and nothing touches it.
        moved = {(_last(path), one.reason) for path, one in now.skipped.items() if path not in then.skipped}
        self._gone = [
            one for one in gone if one.reason in _MOVABLE and (_last(one.path), one.reason) not in moved
        ]
        self._since_ns = since_ns

    def __call__(self, path: str, state: FileState) -> str:
        """The name it may have had; "" for surely none."""
        if state.kind != "file":
            return ""
        return next((one.path for one in self._gone if self._fits(one, state)), "")

    def _fits(self, one: Skipped, state: FileState) -> bool:
        if one.size:
            return state.size == one.size
        # A move keeps the time; a file older than the checkpoint that was not in it came from somewhere.
        if state.mtime_ns < self._since_ns:
            return True
        return one.reason == "secret" and state.size <= _LARGEST_SECRET


def _last(path: str) -> str:
    return path.rpartition("/")[2]


_LARGEST = 1 << 20
_FILES_COUNTED = 200
_BYTES_COUNTED = 16 << 20


@dataclass(frozen=True, slots=True)
class Changes:
    """How much changed: going from one state to another."""

    files: int = 0
    added: int = 0  # lines
    removed: int = 0
    more: bool = False  # lines were not counted in all of the files
    hidden: bool = False  # ignored files, secrets or large files changed, too; they are not counted

    def as_dict(self) -> dict[str, object]:
        return {
            "files": self.files,
            "lines_added": self.added,
            "lines_removed": self.removed,
            "more": self.more,
            "hidden": self.hidden,
        }


def count_pairs(store: Store, pairs: list[tuple[str, FileState | None, FileState | None]]) -> Changes:
    from safekept.core.files.line_differences import changes

    added = removed = budget = 0
    more = len(pairs) > _FILES_COUNTED
    for _, one, two in pairs[:_FILES_COUNTED]:
        budget += (one.size if one else 0) + (two.size if two else 0)
        if budget > _BYTES_COUNTED:
            more = True
            break
        old, new = _lines(store, one), _lines(store, two)
        if old is None or new is None:
            continue
        for kind, start, end, new_start, new_end in changes(old, new):
            if kind != "equal":
                removed += end - start
                added += new_end - new_start
    return Changes(len(pairs), added, removed, more)


def text_difference(
    store: Store, pairs: list[tuple[str, FileState | None, FileState | None]]
) -> Iterator[str]:
    """A unified difference, line by line without line ends; what is not text is named in one line."""
    from safekept.core.files.line_differences import unified

    for path, one, two in pairs:
        old, new = _lines(store, one), _lines(store, two)
        if one is not None and two is not None and (one.kind, one.mode) != (two.kind, two.mode):
            yield f"# {path}: {one.kind} {one.mode & 0o7777:04o} -> {two.kind} {two.mode & 0o7777:04o}"
        if old is None or new is None:
            sizes = f"{one.size if one else 0} -> {two.size if two else 0} bytes"
            yield f"# {path}: not shown as text ({sizes})"
            continue
        before, after = (f"a/{path}" if one else "/dev/null"), (f"b/{path}" if two else "/dev/null")
        yield from unified(old, new, before, after)


def _lines(store: Store, state: FileState | None) -> list[str] | None:
    """The lines of a text; None for anything else. Nothing there is a text without lines."""
    if state is None or state.kind == "directory":
        return []
    if state.size > _LARGEST:
        return None
    try:
        data = store.read(state.oid)
    except CheckpointDamaged:  # said where it is gone back to
        return None
    if b"\0" in data[:8000]:
        return None
    return data.decode("utf-8", "surrogateescape").splitlines()
