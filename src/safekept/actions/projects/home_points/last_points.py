"""The last home points of a home, so that a second one of the same is not taken: a cache, never the truth.

Paths count as unchanged when every file in them has the status it had, and that status was old enough when
it was looked at: what is written within the same tick of the clock does not show in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence

from safekept.core.files.small import read_fields, write_document
from safekept.core.objects.address import is_address
from safekept.vault.write import RACY_NS

from ...base.context import UserContext
from .point import HomePoint

#: Beyond so many files, looking for a change costs more than storing what changed.
_MOST_FILES = 4000
_MOST_POINTS = 32
#: A vault on a server is not asked whether a point is still there; for so long it is taken to be.
_TRUSTED_NS = 3600 * 1_000_000_000
#: Seconds for which a server that did not answer is left alone.
_RESTED = 300.0


def signature(home: str, paths: Sequence[str], now_ns: int) -> str:
    """What the paths are like now; empty where that cannot be relied on."""
    digest, left = hashlib.sha256(), _MOST_FILES
    waiting = [os.path.join(home, path) for path in reversed(paths)]
    while waiting:
        path = waiting.pop()
        left -= 1
        try:
            facts = os.lstat(path)
            names = sorted(os.listdir(path)) if os.path.isdir(path) and not os.path.islink(path) else []
        except FileNotFoundError:
            digest.update(os.fsencode(path) + b"\0-\n")
            continue
        except OSError:
            return ""
        if left < 0 or max(facts.st_mtime_ns, facts.st_ctime_ns) > now_ns - RACY_NS:
            return ""
        mark = (facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        digest.update(os.fsencode(path) + b"\0" + repr(mark).encode() + b"\n")
        waiting += [os.path.join(path, name) for name in reversed(names)]
    return digest.hexdigest()


class LastPoints:
    """One small file for each home in our data directory."""

    def __init__(self, context: UserContext, home: str) -> None:
        name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
        self._path = os.path.join(context.places.data_directory, "home-points", f"{name}.json")
        self._vault, self._home = context.places.vault, home

    def same(self, paths: Sequence[str], seen: str) -> HomePoint | None:
        """The last point of exactly these paths, if they are as they were then and it is still stored."""
        found = self._points().get(_key(paths)) if seen else None
        if not isinstance(found, dict) or found.get("signature") != seen or found.get("vault") != self._vault:
            return None
        try:
            point = HomePoint(
                str(found["id"]),
                str(found["id"]),
                self._home,
                tuple(paths),
                int(found["time_ns"]),
                str(found["reason"]),
                str(found["session"]),
                str(found["turn"]),
                str(found["host"]),
                tuple(map(str, found["absent"])),
                taken=False,
            )
        except (KeyError, TypeError, ValueError):
            return None
        return point if self._stored(point) else None

    def remember(self, point: HomePoint, seen: str) -> None:
        """Keep it for `same`, and count it. A cache that cannot be written is no error."""
        points = self._points()
        points.pop(_key(point.paths), None)
        points[_key(point.paths)] = {
            "signature": "" if point.undo else seen,
            "vault": self._vault,
            "id": point.id,
            "time_ns": point.time_ns,
            "reason": point.reason,
            "session": point.session,
            "turn": point.turn,
            "host": point.host,
            "absent": list(point.absent),
        }
        kept = dict(list(points.items())[-_MOST_POINTS:])
        self._save({"version": 1, "taken": self.count() + 1, "points": kept})

    def remember_unreachable(self, what: str) -> None:
        """A server that does not answer is not asked again before every tool call."""
        if is_address(self._vault):
            self._save({**self._read(), "unreachable": {"time": time.time(), "what": what}})

    def unreachable(self) -> str:
        """Why the vault is not tried at the moment; empty where it is."""
        found = self._read().get("unreachable")
        if not is_address(self._vault) or not isinstance(found, dict):
            return ""
        since = found.get("time")
        fresh = isinstance(since, int | float) and 0 <= time.time() - since < _RESTED
        return str(found.get("what") or "it cannot be reached") if fresh else ""

    def _save(self, document: dict[str, object]) -> None:
        with contextlib.suppress(OSError):
            # Not durably: what is lost with the power costs one more point.
            write_document(self._path, document, durable=False)

    def count(self) -> int:
        """How many were taken here, as far as is known."""
        taken = self._read().get("taken")
        return taken if isinstance(taken, int) else 0

    def _stored(self, point: HomePoint) -> bool:
        if is_address(self._vault):
            return 0 <= time.time_ns() - point.time_ns < _TRUSTED_NS
        return os.path.exists(os.path.join(self._vault, "snapshots", point.id))

    def _points(self) -> dict[str, object]:
        points = self._read().get("points")
        return points if isinstance(points, dict) else {}

    def _read(self) -> dict[str, object]:
        return read_fields(self._path)


def _key(paths: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(paths).encode("utf-8", "surrogateescape")).hexdigest()[:24]
