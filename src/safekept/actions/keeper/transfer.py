"""What is new of the stores goes to the keeper, in a process in the background; a manifest ends it.

One at a time. What is stored while one is at work is sent by the next.
Nothing of it can fail what was stored: it is done again after the next snapshot or turn.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.files.small import open_regular, read_fields, read_regular, write_document
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.records import dataclass
from safekept.keeper.client import Keeper, KeeperRefused
from safekept.keeper.pages import INLINE, Entry, packed_pages
from safekept.keeper.room import Put
from safekept.keeper.wire import MAX_DESCRIPTORS, close_all, is_name

from ..base.context import UserContext
from .stores import JOURNAL, NAMED, Stores

#: A large file is several objects; one that only grows is many small ones, of which the last is new.
_PART, _GROWING_PART = 64 << 20, 16 << 10
#: Seconds to wait for a transfer that is at work.
_PATIENCE = 1800.0
#: So often it is looked again where files went while they were read.
_TRIES = 3
_REMEMBERED = "keeper.json"
OUTCOME = "keeper-outcome.json"


@dataclass(frozen=True, slots=True)
class Transferred:
    """What one transfer did."""

    number: int  # of the manifest
    files: int
    sent: int  # objects that were new there
    bytes: int  # of them
    seconds: float
    shrunk: bool


class _Gone(Exception):
    """A file went while it was read: maintenance was at work."""


def begin_transfer(context: UserContext) -> None:
    """Start one, where this machine has a keeper; at once, and without a word."""
    if not context.choices.keeper_socket or not os.path.exists(context.choices.keeper_socket):
        return
    from safekept.core.processes.process import run_detached

    with contextlib.suppress(OSError):
        run_detached(__name__, Stores.of(context).as_text())


def main() -> None:
    """The process: `python -c … ROOT STORES`."""
    os.umask(0o077)
    os.nice(10)
    stores = Stores.from_text(sys.argv[2])
    outcome: dict[str, object] = {"time": time.time(), "ok": True}
    try:
        transfer(stores)
    except AlreadyRunning:
        return
    except (SafekeptError, OSError) as error:
        outcome |= {"ok": False, "what": error.what if isinstance(error, SafekeptError) else str(error)}
    if stores.cache_directory:
        with contextlib.suppress(OSError):
            write_document(os.path.join(stores.cache_directory, OUTCOME), outcome, durable=False)


def last_failure(cache_directory: str) -> str:
    """Why the last transfer failed; "" where it did not, or that is not known."""
    found = read_fields(os.path.join(cache_directory, OUTCOME)) if cache_directory else {}
    return str(found.get("what", "")) if found.get("ok") is False else ""


def transfer(stores: Stores) -> Transferred:
    """Send what the keeper has not. AlreadyRunning where one waits that will send the same."""
    began = time.monotonic()
    with contextlib.ExitStack() as held:
        directory = os.path.join(stores.data_directory, "keeper")
        with process_lock(os.path.join(directory, "next.lock"), "keeper transfer"):
            held.enter_context(process_lock(at_work(stores), "keeper transfer", _PATIENCE))
        keeper = held.enter_context(Keeper(stores.socket))
        distrusted: set[str] = set()
        for _ in range(_TRIES):
            with contextlib.suppress(_Gone):
                return _Transfer(stores, keeper, began, distrusted).run()
        raise KeeperRefused("changing", "files of the stores went while they were read, again and again")


def at_work(stores: Stores) -> str:
    """The lock that a transfer holds while it looks at the stores."""
    return os.path.join(stores.data_directory, "keeper", "now.lock")


class _Transfer:
    """One look at everything, and what is missing there."""

    def __init__(self, stores: Stores, keeper: Keeper, began: float, distrusted: set[str]) -> None:
        self._stores, self._keeper, self._began = stores, keeper, began
        self._distrusted = distrusted  # names that files have whose bytes are others
        self._remembered = _Hashes(stores.cache_directory)
        self._sent = self._bytes = 0

    def run(self) -> Transferred:
        entries = list(self._stores.refs())
        where: dict[str, tuple[str, int, int]] = {}  # object -> file, offset, size
        for path, file in self._stores.files():
            with contextlib.suppress(FileNotFoundError):
                entry = self._entry(path, file)
                entries.append(entry)
                offset = 0
                for name, size in entry.parts:
                    where[name] = (file, offset, size)
                    offset += size
        if not entries:
            raise KeeperRefused("empty", "there is nothing to send yet")
        self._send({name: where[name] for name in sorted(self._keeper.missing(where))})
        pages, root = packed_pages(entries)
        new = self._keeper.missing(pages)
        self._check(self._keeper.put_bytes({name: pages[name] for name in new}))
        taken = self._keeper.commit(root)
        self._remembered.write()
        seconds = round(time.monotonic() - self._began, 3)
        sent = self._sent + len(new)
        return Transferred(taken.number, len(entries), sent, self._bytes, seconds, taken.shrunk)

    def _entry(self, path: str, file: str) -> Entry:
        facts = os.stat(file, follow_symlinks=False)
        name = os.path.basename(path)
        # A file of the vault is called by the hash of its bytes; the keeper looks whether that is true.
        named = path.startswith(NAMED) and is_name(name) and name not in self._distrusted
        if named and facts.st_size <= _PART:
            return Entry(path, ((name, facts.st_size),))
        if path != JOURNAL and facts.st_size <= INLINE:
            return Entry(path, inline=read_regular(file, INLINE))
        return Entry(path, self._remembered.parts(path, file, _GROWING_PART if path == JOURNAL else _PART))

    def _send(self, missing: dict[str, tuple[str, int, int]]) -> None:
        waiting = list(missing.items())
        for start in range(0, len(waiting), MAX_DESCRIPTORS):
            held: list[tuple[Put, int]] = []
            try:
                for name, (file, offset, size) in waiting[start : start + MAX_DESCRIPTORS]:
                    try:
                        held.append((Put(name, offset, size), open_regular(file, follow=False)))
                    except FileNotFoundError:
                        raise _Gone from None
                    self._bytes += size
                self._check(self._keeper.put(held))
                self._sent += len(held)
            finally:
                close_all(descriptor for _, descriptor in held)

    def _check(self, refused: list[dict[str, str]]) -> None:
        for one in refused:
            if one["error"] in ("mismatch", "too-short"):
                # Changed since its hash was taken; or a damaged file of the vault, which is sent as it is.
                self._remembered.forget(one["name"])
                self._distrusted.add(one["name"])
                raise _Gone
            raise KeeperRefused(one["error"], one["text"])


class _Hashes:
    """The hashes of files by their size and time, so that an old pack is not read again."""

    def __init__(self, cache_directory: str) -> None:
        self._path = os.path.join(cache_directory, _REMEMBERED) if cache_directory else ""
        self._old = read_fields(self._path) if self._path else {}
        self._new: dict[str, object] = {}

    def parts(self, path: str, file: str, size: int) -> tuple[tuple[str, int], ...]:
        facts = os.stat(file)
        seen = [facts.st_size, facts.st_mtime_ns, facts.st_ino]
        match self._old.get(path):
            case [old, list(parts)] if old == seen and all(_is_part(one) for one in parts):
                found = tuple((str(name), int(length)) for name, length in parts)
            case _:
                found = tuple(_hashed(file, size))
        self._new[path] = [seen, [list(one) for one in found]]
        return found

    def forget(self, name: str) -> None:
        for remembered in (self._old, self._new):
            for path in [one for one, value in remembered.items() if name in str(value)]:
                del remembered[path]
        self.write()

    def write(self) -> None:
        if self._path and self._new != self._old:
            with contextlib.suppress(OSError):
                write_document(self._path, self._new, durable=False)


def _is_part(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_name(value[0]) and isinstance(value[1], int)


def _hashed(file: str, size: int) -> Iterator[tuple[str, int]]:
    descriptor = open_regular(file, follow=False)
    try:
        while True:
            digest, length = hashlib.sha256(), 0
            while length < size and (piece := os.read(descriptor, min(1 << 20, size - length))):
                digest.update(piece)
                length += len(piece)
            if length:
                yield digest.hexdigest(), length
            if length < size:
                return
    finally:
        os.close(descriptor)
