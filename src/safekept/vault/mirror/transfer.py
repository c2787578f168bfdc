"""Copying files of a vault from one storage to another: several at once, each proven on its way.

* A file's bytes must give its name (SHA-256) before they are sent: rot is never carried on. What fails
  is a Problem, is left out, and stops nothing else.
* A file that stands at the target with another size is certainly wrong, since its name fixes its bytes:
  it is replaced. Where that is not allowed (a credential that can only add) it is a Problem.
* Whatever else the target says no to ends the copying: no later stage may build on a gap.
* Memory is bounded by the bytes that are on their way, whatever the size of the vault.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.objects.errors import PlaceWrong, wrong
from safekept.core.records import dataclass
from safekept.core.worker import Worker

from ..errors import VaultDamaged
from ..storage.base import AlreadyStored, FileKind, NotStored, Storage, stored_name

#: Bytes on their way at once, all lanes together: restic's packs may have 128 MiB, ours have 16.
BUDGET = 80 << 20
#: Files up to this size share the buffer of their thread; a larger one gets memory of its own.
_REUSED = 24 << 20
#: From here on every lane is used at once.
_BULK = 32 << 20
#: How often a file that was not kept as it was sent is sent again.
_TRIES = 2
#: Seconds after which another lane is added where there is more to do.
_PATIENCE = 0.2


@dataclass(frozen=True, slots=True)
class File:
    """One file to copy."""

    kind: FileKind
    name: str
    size: int
    replace: bool = False  # it stands at the target, and is certainly wrong there

    @property
    def place(self) -> str:
        return stored_name(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Problem:
    """One file that could not be copied, and why."""

    file: str
    reason: str
    here: bool  # it is damaged or gone where it was to be read; else the target would not take it

    def as_dict(self) -> dict[str, object]:
        return {"file": self.file, "reason": self.reason, "here": self.here}


class Transfer:
    """Copies files from one storage to another and keeps count. Use `run` for one stage after the other."""

    def __init__(
        self,
        source: Storage,
        target: Storage,
        *,
        config: bytes,
        lanes: int = 4,
        moved: Callable[[int], None] | None = None,
    ) -> None:
        #: What `config` was when the two were compared: no name proves that one file, so two looks have to.
        self.config = config
        self.source, self.target, self.lanes = source, target, max(1, lanes)
        self.problems: list[Problem] = []
        self.files = 0
        self.bytes = 0
        self._moved = moved or (lambda count: None)
        self._mutex = threading.Lock()
        self._room = threading.Condition(self._mutex)
        self._flying = 0

    def run(self, files: Sequence[File]) -> None:
        """Copy these files, in any order; all of them are at the target when this returns, or Problems."""
        if not files:
            return
        waiting = deque(files)
        stop = threading.Event()
        size = max((file.size for file in files if file.size <= _REUSED), default=0)
        most = min(self.lanes, len(files), max(1, BUDGET // max(size, 1)))
        # Another connection may cost more than a few small files: then it is made only if the first is slow.
        at_once = most if sum(file.size for file in files) > _BULK else 1

        def start() -> Worker:
            return Worker(lambda: self._work(waiting, size, stop, connect=at_once > 1), "vault-transfer")

        workers = [start() for _ in range(at_once)]
        try:
            for worker in workers:  # the list may grow on the way
                while not worker.wait(_PATIENCE):
                    if waiting and len(workers) < most and not stop.is_set():
                        workers.append(start())
        except BaseException:
            # A person wants out: a slow upload is not waited for; it is whole or will not have been.
            stop.set()
            raise
        for worker in workers:
            if worker.error is not None:
                raise worker.error

    def _work(self, waiting: deque[File], size: int, stop: threading.Event, *, connect: bool) -> None:
        # One buffer for all packs of this thread: a gigabyte in fresh memory is cleared page by page.
        buffer = bytearray(size)
        if connect:
            # A connection of its own, made before there is much in memory that a new process would copy.
            with contextlib.suppress(SafekeptError):
                self.target.exists(FileKind.CONFIG)
        try:
            while not stop.is_set():
                try:
                    file = waiting.popleft()
                except IndexError:
                    return
                self._reserve(file.size, stop)
                try:
                    self._copy(file, buffer)
                finally:
                    self._release(file.size)
        except BaseException:
            stop.set()
            raise

    def _reserve(self, size: int, stop: threading.Event) -> None:
        """Wait until this file fits beside the others; one that never would goes alone."""
        with self._room:
            while self._flying and self._flying + size > BUDGET and not stop.is_set():
                self._room.wait(_PATIENCE)
            self._flying += size

    def _release(self, size: int) -> None:
        with self._room:
            self._flying -= size
            self._room.notify_all()

    def _copy(self, file: File, buffer: bytearray) -> None:
        try:
            data = self.source.read_into(buffer, file.kind, file.name)
        except NotStored:
            # Keys and locks come and go; a pack that a snapshot needs may not.
            if file.kind not in (FileKind.KEY, FileKind.SNAPSHOT):
                self._problem(file, "it vanished while it was to be copied", here=True)
            return
        except VaultDamaged as error:
            self._problem(file, str(error.facts.get("reason", error.what)), here=True)
            return
        if file.kind is FileKind.CONFIG:
            if data != self.config:
                self._problem(file, "it was another one a moment ago", here=True)
                return
        elif hashlib.sha256(data).hexdigest() != file.name:
            self._problem(file, "its content does not match its name", here=True)
            return
        if not self._store(file, data):
            return
        with self._mutex:
            self.files += 1
            self.bytes += len(data)
        self._moved(len(data))

    def _store(self, file: File, data: memoryview) -> bool:
        try:
            self._write(file, data)
        except AlreadyStored:
            # Another push was quicker, or our own first try arrived after all.
            if not self._arrived(file, data):
                overwrite(self.target, file, data)
        except PlaceWrong as error:
            self._put_right(file, data, error)
        except SafekeptError as error:
            # A place that forbids overwriting refuses the second try of a write that had arrived.
            if self._arrived(file, data):
                return True
            if error.retry or not file.replace:
                raise
            self._problem(file, f"it is wrong there and may not be replaced: {error.clause}", here=False)
            return False
        return True

    def _write(self, file: File, data: memoryview) -> None:
        objects = getattr(self.target, "objects", None)
        if file.replace:
            overwrite(self.target, file, data)
        elif objects is None or file.kind is FileKind.CONFIG:
            self.target.write(file.kind, file.name, data)
        else:
            # It was not listed, and every writer of this name writes these bytes: asking once more
            # whether it is there would double the ways there and back.
            objects.write(file.place, data, replace=True)

    def _put_right(self, file: File, data: memoryview, error: PlaceWrong) -> None:
        """Other bytes stand under this name now, and their size may be right: they must not stay."""
        for _ in range(_TRIES):
            try:
                overwrite(self.target, file, data)
                return
            except PlaceWrong:
                continue
            except SafekeptError:
                break
        try:
            self.target.delete(file.kind, file.name)
        except SafekeptError:
            reason = "what stands there now is worthless and could not be deleted; delete it, then push again"
            raise wrong(self.target.location, file.place, reason) from error
        raise error

    def _arrived(self, file: File, data: memoryview) -> bool:
        """Whether exactly these bytes stand there; they are read back."""
        try:
            return self.target.read(file.kind, file.name) == data
        except (NotStored, SafekeptError):
            return False

    def _problem(self, file: File, reason: str, *, here: bool) -> None:
        with self._mutex:
            self.problems.append(Problem(file.place, reason, here))


def overwrite(target: Storage, file: File, data: memoryview) -> None:
    """Put the right bytes in the place of wrong ones, in one step where the place can do that."""
    objects = getattr(target, "objects", None)
    if objects is not None:
        objects.write(file.place, data, replace=True)
        return
    target.delete(file.kind, file.name)
    target.write(file.kind, file.name, data)
