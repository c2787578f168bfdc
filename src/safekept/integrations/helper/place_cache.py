"""Settings of every environment that asked lately, loaded again when a file behind them changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..places import Later, Place
from .client import counts

_MOST = 16
#: Loaded again after so many seconds in any case, since homes come and go; but no caller waits for that.
_SECONDS = 60.0

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    place: Place
    files: tuple[str, ...]
    stamp: tuple[object, ...]
    loaded: float


class PlaceCache:
    """One `Place` for each environment. `base`: the helper's own, for what no caller sends."""

    def __init__(self, base: Mapping[str, str], later: Later) -> None:
        # What a caller could have said and did not say is not said by whoever started the helper either.
        self._base = {name: value for name, value in base.items() if not counts(name)}
        self._later = later
        self._lock = threading.Lock()
        self._kept: dict[Key, _Kept] = {}

    def get(self, sent: Mapping[str, str]) -> Place:
        """What holds for a caller; never raises, a `Place` says itself what is wrong with it."""
        key = tuple(sorted(sent.items()))
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is None or _stamp(kept.files) != kept.stamp:
                kept = self._load(sent, kept)
            self._kept[key] = kept  # the one used last is the last to go
            while len(self._kept) > _MOST:
                self._kept.pop(next(iter(self._kept)))
        if time.monotonic() - kept.loaded >= _SECONDS:
            self._later(("place", key), lambda: self._refresh(key))
        return kept.place

    def _refresh(self, key: Key) -> None:
        with self._lock:
            before = self._kept.get(key)
        if before is None:
            return
        new = self._load(dict(key), before)
        place = new.place
        _ = (place.policy, place.homes, place.forbidden)  # looked up once, here
        with self._lock:
            if self._kept.get(key) is before:
                self._kept[key] = new

    def _load(self, sent: Mapping[str, str], before: _Kept | None) -> _Kept:
        place = Place.load({**self._base, **sent}, self._later)
        if before is not None:
            place = replace(place, told=before.place.told)
        files = place.files
        return _Kept(place, files, _stamp(files), time.monotonic())


def _stamp(files: tuple[str, ...]) -> tuple[object, ...]:
    marks: list[object] = []
    for path in files:
        try:
            found = os.stat(path)
            marks.append((found.st_ino, found.st_mtime_ns, found.st_size))
        except OSError:
            marks.append(None)
    return tuple(marks)
