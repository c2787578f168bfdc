"""One caller of the keeper, in a process of its own: questions in, answers out, nothing is ever deleted.

Whatever a caller sends is bounded, and every question has a deadline that ends this process: a file on a
filesystem that never answers holds up only the caller who passed it.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from safekept.core.errors import BAD_SHAPE

from .history import ManifestHistory, MissingObjects
from .pages import BadManifest
from .room import MAX_OBJECT, Put, Refused
from .store import KeeperStore
from .wire import MAX_DESCRIPTORS, NAMES_AT_ONCE, BadPacket, close_all, receive, send

#: Seconds in which a caller says the next thing, and in which it takes an answer.
IDLE = 5.0
#: Seconds for a question; for one that brings objects, and more for their bytes.
_QUESTION, _PUT, _BYTES_A_SECOND = 60, 60, 4 << 20
_COMMIT = 300
#: So many manifests are named in one answer.
_MANIFESTS = 100
ROOT = 0

Answer = tuple[dict[str, Any], list[int]]


class Questions:
    """All that one caller asks."""

    def __init__(self, store: KeeperStore, connection: socket.socket, user: int, clock: Callable[[], float]):
        self._store, self._connection, self._user, self._clock = store, connection, user, clock
        self._room = store.room(user)
        self._history = ManifestHistory(self._room, clock)
        self._verbs: dict[str, Callable[[Mapping[str, Any], list[int]], Answer]] = {
            "hello": self._hello,
            "missing": self._missing,
            "put": self._put,
            "get": self._get,
            "commit": self._commit,
            "manifests": self._manifests,
            "rooms": self._rooms,
            "acknowledge": self._acknowledge,
        }

    def run(self) -> None:
        """Until the caller goes or is silent."""
        self._connection.settimeout(IDLE)
        with contextlib.suppress(OSError, EOFError):
            while True:
                signal.alarm(0)
                try:
                    question, descriptors = receive(self._connection)
                except BadPacket as error:
                    send(self._connection, {"error": "bad-packet", "text": str(error)})
                    return
                try:
                    answer, passed = self._answered(question, descriptors)
                finally:
                    close_all(descriptors)
                try:
                    send(self._connection, answer, passed)
                finally:
                    close_all(passed)

    def _answered(self, question: dict[str, Any], descriptors: list[int]) -> Answer:
        # The default action of this signal ends the process, whatever it waits for.
        signal.alarm(_QUESTION)
        verb = question.get("do")
        try:
            if not isinstance(verb, str) or verb not in self._verbs:
                raise Refused("no-such-verb", "the keeper puts, gets and lists; it does nothing else")
            return self._verbs[verb](question, descriptors)
        except Refused as error:
            return {"error": error.code, "text": str(error)}, []
        except BadManifest as error:
            return {"error": "bad-manifest", "text": f"the manifest was not taken: {error}"}, []
        except MissingObjects as error:
            return {"error": "missing", "text": str(error), "missing": error.names}, []
        except BAD_SHAPE:
            return {"error": "bad-question", "text": "a question that makes no sense"}, []
        except OSError as error:
            return {"error": "failed", "text": f"the keeper failed: {error.strerror or error}"}, []

    def _hello(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        limits = self._store.limits
        return {
            "user": self._user,
            "store": self._store.identity,
            "time": self._clock(),
            "quota": limits.quota,
            "keep_days": limits.keep_days,
            "used": self._room.used,
            "largest": MAX_OBJECT,
            **_summary(self._history),
        }, []

    def _missing(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        names = question["names"]
        if not isinstance(names, list) or len(names) > NAMES_AT_ONCE:
            raise Refused("too-many", f"at most {NAMES_AT_ONCE} names at once")
        return {"missing": self._room.missing(names)}, []

    def _put(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        """Several objects at once, each from the descriptor of the same place in the list."""
        objects = [Put(str(name), int(offset), int(size)) for name, offset, size in question["objects"]]
        if not 0 < len(objects) == len(descriptors) <= MAX_DESCRIPTORS:
            raise Refused("bad-question", "one descriptor for each object, and no other")
        size = sum(one.size for one in objects)
        signal.alarm(min(_PUT + max(0, size) // _BYTES_A_SECOND, 3600))
        refused: list[dict[str, str]] = []
        stored, full = 0, False
        for one, descriptor in zip(objects, descriptors, strict=True):
            try:
                stored += self._room.put(descriptor, one)
            except Refused as error:
                full = full or error.code == "full"
                refused.append({"name": one.name[:64], "error": error.code, "text": str(error)})
        if full or stored:
            self._history.note_full(full)
        return {"stored": stored, "refused": refused}, []

    def _get(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        return {"found": True}, [self._room.open(question["name"])]

    def _commit(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        signal.alarm(_COMMIT)
        made = self._history.commit(str(question["root"]))
        return {"manifest": asdict(made), **_summary(self._history)}, []

    def _manifests(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        """Newest first; `before` a number, to ask for older ones."""
        before = int(question.get("before") or 1 << 60)
        found = []
        for number in reversed(self._history.numbers()):
            if number < before and (one := self._history.get(number)) is not None:
                found.append({**asdict(one), "confirmed": self._history.confirmed(number)})
                if len(found) == _MANIFESTS:
                    break
        return {"manifests": found, "alarm": asdict(self._history.alarm)}, []

    def _rooms(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        self._only_root()
        found = [
            {"user": user, "used": history.room.used, **_summary(history)}
            for user, history in self._store.histories()
        ]
        return {"rooms": found[:NAMES_AT_ONCE], "quota": self._store.limits.quota}, []

    def _acknowledge(self, question: Mapping[str, Any], descriptors: list[int]) -> Answer:
        self._only_root()
        user = question["user"]
        if not isinstance(user, int) or user not in self._store.users():
            raise Refused("no-room", f"the keeper has no room of the user {user}")
        was = ManifestHistory(self._store.room(user), self._clock).acknowledge()
        return {"was": asdict(was)}, []

    def _only_root(self) -> None:
        if self._user != ROOT:
            raise Refused("only-root", "only root may ask this")


def _summary(history: ManifestHistory) -> dict[str, Any]:
    """The newest manifest, how many there are, and what a person has to look at."""
    numbers = history.numbers()
    newest = history.get(numbers[-1]) if numbers else None
    return {
        "newest": {**asdict(newest), "confirmed": history.confirmed(newest.number)} if newest else None,
        "manifests": len(numbers),
        "alarm": asdict(history.alarm),
    }
