"""What a snapshot holds, for the health check: the vault is opened only when something has to be compared."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Self

from safekept.actions.surroundings import Surroundings
from safekept.core.entries import EntryLost
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.home.census import LARGEST

if TYPE_CHECKING:
    from safekept.vault.homes import HomeSource
    from safekept.vault.snapshot import Snapshot
    from safekept.vault.tree import Node


class StoredSnapshotState:
    """Reads files of one snapshot. Close it."""

    def __init__(self, surroundings: Surroundings, snapshot: Snapshot, listener: Listener = silent) -> None:
        self._surroundings, self._snapshot, self._listener = surroundings, snapshot, listener
        self._stack = contextlib.ExitStack()
        self._source: HomeSource | None = None
        self.problem: SafekeptError | None = None  # why the vault cannot be read

    def data(self, path: str) -> bytes | None:
        node = self._node(path)
        if node is None or node.type != "file" or node.size > LARGEST or self._source is None:
            return None
        try:
            with self._source.content(path, node) as content:
                return b"".join(content.chunks())
        except EntryLost:
            return None

    def owner(self, path: str) -> tuple[int, int] | None:
        node = self._node(path)
        return None if node is None else (node.uid, node.gid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _node(self, path: str) -> Node | None:
        try:
            source = self._opened()
            return source.node(path) if source is not None else None
        except SafekeptError:
            return None

    def _opened(self) -> HomeSource | None:
        if self._source is None and self.problem is None:
            from safekept.actions.stored_home import reading
            from safekept.actions.vault import open_vault
            from safekept.vault.homes import snapshot_source

            try:
                repository = self._stack.enter_context(
                    open_vault(self._surroundings, listener=self._listener)
                )
                self._stack.enter_context(reading(repository, self._listener))
                self._source = snapshot_source(repository, self._snapshot)[0]
            except SafekeptError as error:
                self.problem = error
        return self._source
