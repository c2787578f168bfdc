"""What a checkpoint left out and is gone now: no rollback can bring it back, so it is said.

It may only have got another name: `mv .env config.txt` leaves a file that looks as if it was made since,
and is the only copy outside the store. So where something that was left out is missing, a new file that
may be it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from safekept.core.files import TEMPORARY_PREFIX

from ..checkpoint import FileState, Skipped
from ..store.tree_state import TreeState

#: Left out for these reasons, a path is worth a word when it is gone.
_MISSED = ("git", "ignored", "oversize", "secret", "unreadable", "limit", "database", "changing", "excluded")
#: Of what is excluded, these make themselves again; a film or an archive does not.
_MAKE_THEMSELVES = (
    "__pycache__ .cache .pytest_cache .mypy_cache .ruff_cache .next .nuxt .coverage .DS_Store Thumbs.db"
).split()
_MOVABLE = ("ignored", "oversize", "secret", "unreadable", "limit", "excluded")
#: Nobody's keys are larger.
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
