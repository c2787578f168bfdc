"""A caller's side of the keeper: put, get, list, and what it answers as typed errors.

Nothing of ours waits for it without a deadline. A connection that the keeper closed is made again, and a
keeper with too many callers is asked again for a while: every question can be asked twice.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from safekept.core.errors import BAD_SHAPE, SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.platform.descriptors import in_memory
from safekept.core.platform.sockets import peer

from .history import Manifest, read_manifest
from .room import Put
from .wire import MAX_DESCRIPTORS, NAMES_AT_ONCE, BadPacket, close_all, new_socket, receive, send

KEPT = "What the keeper holds is as it was"
#: Seconds for an answer; taking a large object or a manifest takes its time.
_PATIENCE = 320.0
#: Seconds for which a busy keeper is asked again.
_BUSY = 30.0
#: What is said of an object that was refused.
_REFUSED = ("name", "error", "text")
#: One an hour for ten years; a keeper that names more of them does not end.
_MOST_MANIFESTS = 100_000


class KeeperUnreachable(SafekeptError):
    code, exit_code, retry = "keeper-unreachable", 10, True


class KeeperRefused(SafekeptError):
    """It answered, and did not do it; `reason` is its own code for why."""

    code = "keeper-refused"

    def __init__(self, reason: str, text: str, **facts: object) -> None:
        super().__init__(
            f"The keeper refused: {text}",
            kept=KEPT,
            next_steps=(NextStep("keeper status", before="See how it is:"),),
            reason=reason,
            **facts,
        )
        self.reason = reason


class Keeper:
    """A connection to the keeper at a socket; a context manager. For one thread."""

    def __init__(self, path: str, patience: float = _PATIENCE) -> None:
        self.path, self._patience = path, patience
        self._connection: socket.socket | None = None
        self.owner = -1  # who made its socket, as the kernel says: root, for a keeper of the machine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def hello(self) -> dict[str, Any]:
        return self._ask({"do": "hello"})[0]

    def missing(self, names: Iterable[str]) -> set[str]:
        """Those of these objects that it does not have."""
        wanted, found = list(names), set()
        for start in range(0, len(wanted), NAMES_AT_ONCE):
            answer, _ = self._ask({"do": "missing", "names": wanted[start : start + NAMES_AT_ONCE]})
            with _understanding():
                found |= set(answer["missing"])
        return found

    def put(self, objects: Sequence[tuple[Put, int]]) -> list[dict[str, str]]:
        """Objects, each with a descriptor of a file that has its bytes; what was refused, and why."""
        refused: list[dict[str, str]] = []
        for start in range(0, len(objects), MAX_DESCRIPTORS):
            some = objects[start : start + MAX_DESCRIPTORS]
            rows = [[one.name, one.offset, one.size] for one, _ in some]
            answer, _ = self._ask({"do": "put", "objects": rows}, [descriptor for _, descriptor in some])
            with _understanding():
                refused += [{name: str(one[name]) for name in _REFUSED} for one in answer["refused"]]
        return refused

    def put_bytes(self, contents: dict[str, bytes]) -> list[dict[str, str]]:
        """The same for what is in memory."""
        refused, waiting = [], list(contents.items())
        for start in range(0, len(waiting), MAX_DESCRIPTORS):
            held: list[tuple[Put, int]] = []
            try:
                for name, data in waiting[start : start + MAX_DESCRIPTORS]:
                    descriptor = in_memory("safekept-keeper")
                    held.append((Put(name, 0, len(data)), descriptor))
                    with open(descriptor, "wb", closefd=False) as file:
                        file.write(data)
                refused += self.put(held)
            finally:
                close_all(descriptor for _, descriptor in held)
        return refused

    def commit(self, root: str) -> Manifest:
        """End a transfer: these are the stores now. KeeperRefused with `missing` where something is not."""
        answer = self._ask({"do": "commit", "root": root})[0]
        with _understanding():
            return read_manifest(answer["manifest"])

    def manifests(self) -> list[Manifest]:
        """Newest first."""
        found: list[Manifest] = []
        while len(found) < _MOST_MANIFESTS:
            before = found[-1].number if found else 0
            answer, _ = self._ask({"do": "manifests", "before": before})
            with _understanding():
                rows = [read_manifest(one) for one in answer["manifests"]]
                if not rows:
                    return found
                numbers = [one.number for one in (*found[-1:], *rows)]
                if numbers != sorted(set(numbers), reverse=True):
                    raise ValueError("manifests that do not end")
            found += rows
        return found

    def get(self, name: str) -> int:
        """A descriptor to read an object by; the caller closes it, and checks what it reads."""
        _, descriptors = self._ask({"do": "get", "name": name})
        if len(descriptors) != 1:
            close_all(descriptors)
            raise KeeperRefused("bad-answer", "it answered without the object")
        return descriptors[0]

    def rooms(self) -> dict[str, Any]:
        """Every room, for root."""
        return self._ask({"do": "rooms"})[0]

    def acknowledge(self, user: int) -> dict[str, Any]:
        return self._ask({"do": "acknowledge", "user": user})[0]

    def _ask(
        self, question: dict[str, Any], descriptors: Sequence[int] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        until = time.monotonic() + _BUSY
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connected()
                send(self._connection, question, descriptors)
                answer, passed = receive(self._connection)
            except (OSError, EOFError, BadPacket) as error:
                # Closed for being silent too long, or by a keeper that has too many callers.
                self.close()
                if isinstance(error, TimeoutError | BadPacket) or time.monotonic() > until:
                    raise self._unreachable(str(error) or "it closed the connection") from error
                _wait_a_little()
                continue
            if "error" not in answer:
                return answer, passed
            close_all(passed)
            if answer["error"] == "busy" and time.monotonic() < until:
                self.close()
                _wait_a_little()
                continue
            facts = {"missing": answer["missing"]} if "missing" in answer else {}
            raise KeeperRefused(str(answer["error"]), str(answer.get("text", "")), **facts)

    def _connected(self) -> socket.socket:
        try:
            connection = new_socket()
        except OSError as error:
            raise self._unreachable(f"{error.strerror}; a keeper needs Linux") from error
        try:
            # The kernel lets those in who wait, one after the other; who only tries again is passed by.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_BUSY), 0))
            connection.connect(self.path)
            connection.settimeout(self._patience)
            _, self.owner = peer(connection)
        except OSError as error:
            connection.close()
            raise self._unreachable(error.strerror or str(error)) from error
        return connection

    def _unreachable(self, why: str) -> KeeperUnreachable:
        return KeeperUnreachable(
            f"The keeper at `{self.path}` does not answer: {why}",
            kept=KEPT,
            next_steps=(NextStep("keeper status", before="See how it is:"),),
            socket=self.path,
        )


@contextlib.contextmanager
def _understanding() -> Iterator[None]:
    """What listens there may answer anything: KeeperRefused for what no keeper says."""
    try:
        yield
    except BAD_SHAPE as error:
        raise KeeperRefused("bad-answer", "it answers what this safekept does not understand") from error


def _wait_a_little() -> None:
    time.sleep(0.02 + random.random() * 0.2)
