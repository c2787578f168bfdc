"""Staging: everything that will land is first written, whole, on the home's own filesystem.

Files are created 0600 and get their final mode and time here, so that the swap is nothing
but renames. Names in `staged/` are numbers: no name of the source can matter before it was judged.
There is no fsync per file; one sync of the filesystem follows before the first change of the home.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any

from safekept.core.entries import ZEROS, Content, Entry, EntryLost, Kind, Outcome, Remark, Source
from safekept.core.events import Event, Listener
from safekept.core.files import write_all
from safekept.core.platform.filesystems import NO_SYMBOLIC_LINKS
from safekept.core.platform.syncing import start_writeback
from safekept.core.records import dataclass
from safekept.core.sqlite import is_database
from safekept.core.worker import Digest, Worker

from ..items import Item
from ..plan import LandingPlan
from ..search import Unfilled
from ..tree import LandingTree
from .comparing import untouched

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NO_SYMLINKS = "this filesystem has no symbolic links"
_HOLE = 64 << 10
_EVENTS_EVERY = 4 << 20
_WRITEBACK_STEP = 16 << 20
#: Small files are told of together: twenty thousand locks and calls are time too.
_TOLD_TOGETHER = 1 << 20


class Interrupted(Exception):
    """Ends the other thread when one of them failed."""


@dataclass(slots=True)
class Staged:
    """One thing in `staged/`."""

    item: Item
    name: str  # relative to `staged/`
    size: int = 0
    head: bytes = b""
    database: bool = False
    recorded_damaged: bool = False  # the source itself says that this database is not sound
    lean: dict[str, Any] | None = None  # what of a database is to be rebuilt before it is proven
    damage: str = ""  # what the check said of one that was recorded so
    wrong: str = ""  # why it is not what was recorded
    lost: Remark | None = None  # the source could not give its bytes


@dataclass(slots=True)
class Staging:
    """Everything that was staged."""

    directory: str
    things: dict[str, Staged] = field(default_factory=dict)
    same: dict[str, os.stat_result] = field(default_factory=dict)  # already there; nothing was staged
    left_out: set[str] = field(default_factory=set)  # not to land after all; a remark says why
    remarks: list[Remark] = field(default_factory=list)
    unfilled: list[Unfilled] = field(default_factory=list)  # their search indexes follow the landing

    def path(self, staged: Staged) -> str:
        return os.path.join(self.directory, staged.name)


class Stager:
    """Writes entries into one directory; each thread has its own."""

    def __init__(self, staging: Staging, name: str, tell: Callable[[int, str], None]):
        self.staging, self.name, self.tell = staging, name, tell
        self.count = 0
        self.untold = 0
        path = os.path.join(staging.directory, name)
        os.mkdir(path, 0o700)
        self.directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.stop = threading.Event()

    def close(self) -> None:
        os.close(self.directory)

    def add(self, item: Item, entry: Entry) -> Staged:
        """Write one file or link."""
        self.count += 1
        name = str(self.count)
        staged = Staged(item, f"{self.name}/{name}")
        if item.kind is Kind.SYMLINK:
            if not self._link(item, name):
                self.staging.left_out.add(item.path)
                self.staging.remarks.append(Remark(item.path, Outcome.UNREADABLE, NO_SYMLINKS))
                return staged
        else:
            self._file(item, entry, name, staged)
        self.staging.things[item.path] = staged
        return staged

    def _link(self, item: Item, name: str) -> bool:
        """False where this filesystem has no symbolic links at all: one of them never costs the rest."""
        try:
            os.symlink(item.target, name, dir_fd=self.directory)
        except OSError as error:
            if error.errno in NO_SYMBOLIC_LINKS:
                return False
            raise
        os.utime(name, ns=(item.mtime_ns, item.mtime_ns), dir_fd=self.directory, follow_symlinks=False)
        return True

    def _file(self, item: Item, entry: Entry, name: str, staged: Staged) -> None:
        descriptor = os.open(name, _CREATE, 0o600, dir_fd=self.directory)
        try:
            try:
                with entry.open() as content:
                    if content.size < _HOLE:
                        self._whole(entry, content, descriptor, staged)
                    else:
                        self._streamed(entry, content, descriptor, staged)
                    self._look_at(content, staged)
            except EntryLost as lost:
                staged.wrong, staged.lost = lost.remark.reason, lost.remark
            if item.mode != 0o600:
                os.fchmod(descriptor, item.mode)
            os.utime(descriptor, ns=(item.mtime_ns, item.mtime_ns))
        finally:
            os.close(descriptor)

    def _whole(self, entry: Entry, content: Content, descriptor: int, staged: Staged) -> None:
        """A small file, in one write: homes have tens of thousands of them."""
        chunks = list(content.chunks())
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        staged.size, staged.head = len(data), data[:16]
        if os.write(descriptor, data) != len(data):
            os.lseek(descriptor, 0, os.SEEK_SET)
            write_all(descriptor, data)
        self._judge(entry, content, hashlib.sha256(data).hexdigest() if entry.sha256 else "", staged)
        self.untold += len(data)
        if self.untold >= _TOLD_TOGETHER:
            self.say(entry.path)

    def _streamed(self, entry: Entry, content: Content, descriptor: int, staged: Staged) -> None:
        started = 0
        with contextlib.closing(Digest(content.size)) as digest:
            for chunk in content.chunks():
                if not staged.size:
                    staged.head = chunk[:16]
                if entry.sha256:
                    digest.update(chunk)
                _write(descriptor, chunk)
                staged.size += len(chunk)
                if staged.size - started >= _WRITEBACK_STEP:
                    start_writeback(descriptor, started, staged.size - started)
                    started = staged.size
                self.tell(len(chunk), entry.path)
                if self.stop.is_set():
                    raise Interrupted
            start_writeback(descriptor, started, staged.size - started)
            os.ftruncate(descriptor, staged.size)  # a hole at the very end has no write of its own
            self._judge(entry, content, digest.hexdigest() if entry.sha256 else "", staged)

    def say(self, path: str = "") -> None:
        """Tell of the small files written since the last time."""
        if self.untold:
            self.tell(self.untold, path)
            self.untold = 0

    @staticmethod
    def _judge(entry: Entry, content: Content, digest: str, staged: Staged) -> None:
        if staged.size != content.size:
            staged.wrong = f"{staged.size:,} bytes came out where {content.size:,} were announced"
        if digest != entry.sha256:
            staged.wrong = "its bytes do not have the recorded hash"

    def _look_at(self, content: Content, staged: Staged) -> None:
        if content.remarks:
            self.staging.remarks.extend(content.remarks)
        staged.database = is_database(staged.head)
        facts = content.database
        staged.recorded_damaged = facts is not None and facts.state == "damaged"
        if staged.database and facts is not None and facts.left_out:
            staged.lean = facts.lean


def stage(
    source: Source,
    plan: LandingPlan,
    directory: str,
    listener: Listener,
    ready: Callable[[Staging, Staged], None],
) -> Staging:
    """Write every chosen entry below `directory`. `ready` is called for each, from its own thread.

    A file that the plan found to be there already, byte for byte, is only noted.

    Unordered sources are read by two threads: the largest files in one, the small ones in the other;
    who is done first helps.
    """
    staging = Staging(directory)
    tell = _progress(listener, plan.bytes)
    items = plan.items
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(LandingTree(root.base)) for root in plan.roots]

        def landable(entry: Entry) -> bool:
            if entry.kind is Kind.DIRECTORY or entry.path not in items:
                return False
            then, item = plan.unchanged.get(entry.path), items[entry.path]
            if then is not None and untouched(trees[item.root].look(item.place), then):
                staging.same[entry.path] = then
                tell(item.size, entry.path)
                return False
            return True

        if source.ordered:
            stager = Stager(staging, "0", tell)
            try:
                for entry in source:
                    if landable(entry):
                        ready(staging, stager.add(items[entry.path], entry))
                stager.say()
            finally:
                stager.close()
        else:
            work = [(items[entry.path], entry) for entry in source if landable(entry)]
            _by_two(work, staging, tell, ready)
    return staging


def _by_two(
    work: list[tuple[Item, Entry]],
    staging: Staging,
    tell: Callable[[int, str], None],
    ready: Callable[[Staging, Staged], None],
) -> None:
    shared = StagingQueue(work)
    small, large = Stager(staging, "0", tell), Stager(staging, "1", tell)

    def take_large() -> None:
        try:
            while not large.stop.is_set() and (pair := shared.large()) is not None:
                ready(staging, large.add(*pair))
            # Making a file is mostly the kernel's work, and that can be done twice at once.
            while not large.stop.is_set() and (half := shared.rest()):
                for item, entry in half:
                    if large.stop.is_set():
                        return
                    ready(staging, large.add(item, entry))
            large.say()
        except Interrupted:
            pass
        except BaseException:
            small.stop.set()
            raise

    helper = Worker(take_large, "safekept-stage")
    try:
        while not small.stop.is_set() and (pair := shared.next()) is not None:
            ready(staging, small.add(*pair))
        small.say()
        helper.wait()
    except Interrupted:
        pass
    finally:
        large.stop.set()
        try:
            helper.wait_through_signals()
        finally:
            small.close()
            large.close()
    if helper.error is not None:
        raise helper.error


def _write(descriptor: int, chunk: bytes) -> None:
    """Write, or leave a hole where there are only zeros: sparse files stay sparse."""
    length = len(chunk)
    if length >= _HOLE and not chunk[0] and not chunk[-1] and chunk == ZEROS[:length]:
        os.lseek(descriptor, length, os.SEEK_CUR)
    else:
        write_all(descriptor, chunk)


def _progress(listener: Listener, total: int) -> Callable[[int, str], None]:
    lock, done, reported = threading.Lock(), 0, 0

    def tell(count: int, path: str) -> None:
        nonlocal done, reported
        with lock:
            done += count
            if done - reported < _EVENTS_EVERY and done < total:
                return
            reported = done
            now = done
        listener(Event("stage", done=now, total=total, path=path))

    return tell


# What two threads have to stage: the largest files go to one, the small ones to the other, and the one that
# is done first helps. Nothing is staged twice, and small files stay in the order of their source.


#: Below this a second thread gains nothing: the work is Python's own and not inflating or hashing.
WORTH_A_THREAD = 256 << 10
#: Small files that one thread takes over from the other when it has nothing else to do.
_WORTH_HALVING = 32


class StagingQueue:
    """What two threads have to stage: large files from one end, small ones in order from the other."""

    def __init__(self, work: list[tuple[Item, Entry]]) -> None:
        # The small ones stay in the order of the source: in an archive they lie one after the other.
        self._small = deque(pair for pair in work if pair[0].size < WORTH_A_THREAD)
        self._large = sorted(
            (pair for pair in work if pair[0].size >= WORTH_A_THREAD), key=lambda pair: pair[0].size
        )
        self._mutex = threading.Lock()

    def next(self) -> tuple[Item, Entry] | None:
        """The next small file; when they are all taken, the smallest of the large ones."""
        with self._mutex:
            if self._small:
                return self._small.popleft()
            return self._large.pop(0) if self._large else None

    def large(self) -> tuple[Item, Entry] | None:
        """The largest that is left."""
        with self._mutex:
            return self._large.pop() if self._large else None

    def rest(self) -> list[tuple[Item, Entry]]:
        """The later half of the small files that are left, in order; nothing where it is not worth it."""
        with self._mutex:
            count = len(self._small) // 2
            if count < _WORTH_HALVING:
                return []
            half = [self._small.pop() for _ in range(count)]
        half.reverse()
        return half
