"""Which checkpoints are damaged: something that they hold is not in the store any more."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..checkpoint import Checkpoint
from ..store.objects import DIRECTORY, BadObject, decode_commit, decode_tree
from ..store.pack_reader import BadPack
from ..store.store import Store

#: A status must not take long: after so many seconds what was not looked at counts as sound.
_SECONDS = 1.0


class Soundness:
    """Looks whether everything that is held is there. What points share is looked at once."""

    def __init__(self, store: Store, seconds: float = _SECONDS) -> None:
        self._store, self._until = store, time.monotonic() + seconds
        self._whole: dict[bytes, bool] = {}

    def damaged(self, points: Iterable[Checkpoint]) -> list[Checkpoint]:
        """Those that are not whole."""
        return [point for point in points if not self._sound(point)]

    def _sound(self, point: Checkpoint) -> bool:
        try:
            data = self._store.objects.read_as(b"commit", bytes.fromhex(point.commit))
            return self._tree(decode_commit(data, point.commit)[0])
        except (BadObject, BadPack, OSError, ValueError):
            return False
        except RecursionError:  # nested deeper than this can look
            return True

    def _tree(self, oid: bytes) -> bool:
        known = self._whole.get(oid)
        if known is not None or time.monotonic() > self._until:
            return known is not False
        try:
            entries = decode_tree(self._store.objects.read_as(b"tree", oid), oid.hex())
        except (BadObject, BadPack, OSError):
            self._whole[oid] = False
            return False
        sound = all(
            self._tree(child) if mode == DIRECTORY else child in self._store.objects
            for mode, _, child in entries
        )
        self._whole[oid] = sound
        return sound
