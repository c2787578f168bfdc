"""The stores come back from the keeper, to where they were; then every other command has them again.

What is there stays: a file that is whole is left alone, one of a store that differs is put aside beside
itself. Every byte is compared with its name while it is written, and a file gets its name when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator

from safekept.checkpoints.store import belt_of, repositories_belt
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import private_directory, remove_quietly, temporary_name, write_all
from safekept.core.files.small import open_regular, read_regular
from safekept.core.journal import put_before
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep
from safekept.core.platform.syncing import sync_filesystem
from safekept.core.records import dataclass
from safekept.keeper.client import Keeper, KeeperRefused
from safekept.keeper.pages import Entry
from safekept.vault.storage import LocalStorage

from ..base.context import UserContext
from .held import PIECE, Held, RefsHere, is_of_now, pieces
from .stores import CHECKPOINTS, HIDDEN, JOURNAL, KEY, REPOSITORIES, VAULT, Stores
from .transfer import at_work

_ASIDE = ".before-rebuild-"
#: Seconds to wait for a transfer that is at work: it would send the half of what comes back.
_PATIENCE = 600.0


class AnotherVaultThere(SafekeptError):
    code = "keeper-vault-in-the-way"


@dataclass(frozen=True, slots=True)
class StoresBroughtBack:
    """What was done."""

    files: int
    bytes: int
    aside: tuple[str, ...]  # what was there and differed
    lost: tuple[tuple[str, str], ...]  # what the keeper does not have whole any more, and why


def bring_back(context: UserContext, held: Held, listener: Listener = silent) -> StoresBroughtBack:
    """Put everything that is missing back. Raises with what is there already in place: run it again."""
    stores = Stores.of(context)
    private_directory(stores.data_directory)
    with contextlib.ExitStack() as open_stores:
        open_stores.enter_context(process_lock(at_work(stores), "rebuild", _PATIENCE))
        _make_way(context, stores, held)
        work = _Work(stores, listener)
        open_stores.enter_context(_open(context, stores))
        keeper = open_stores.enter_context(Keeper(stores.socket))
        for entry in _in_order(held.entries):
            work.put(keeper, entry)
    for place in {stores.data_directory, os.path.dirname(stores.key_file) or "/"}:
        if os.path.isdir(place):
            sync_filesystem(place)
    return StoresBroughtBack(work.files, work.bytes, tuple(work.aside), tuple(work.lost))


def _make_way(context: UserContext, stores: Stores, held: Held) -> None:
    """Another vault where this one was: put aside where it is empty; else it is in use."""
    config = os.path.join(stores.vault, "config") if stores.vault else ""
    entry = next((one for one in held.entries if one.path == f"{VAULT}/config"), None)
    if entry is None or not config or not os.path.lexists(config) or is_whole(config, entry):
        return
    from ..setup.unused_vault import is_unused, put_aside

    if is_unused(context):
        put_aside(context)
        return
    raise AnotherVaultThere(
        f"Another vault is at `{stores.vault}`, and it holds snapshots",
        kept="Nothing was changed",
        next_steps=(
            NextStep("vault open", before="What is closed cannot be moved, so open it:"),
            f"Move it and its key (`{stores.key_file}`) away, then run the command again",
            "Or name another place for the vault of the keeper: set `vault.path`",
        ),
        vault=stores.vault,
    )


def is_whole(place: str, entry: Entry) -> bool:
    """Whether the file there is, to the byte, what the keeper holds."""
    try:
        facts = os.lstat(place)
    except OSError:
        return False
    if not stat.S_ISREG(facts.st_mode) or facts.st_size != entry.size:
        return False
    if entry.inline is not None:
        return read_regular(place, entry.size) == entry.inline
    with os.fdopen(open_regular(place, follow=False), "rb") as file:
        return all(_digest(file.fileno(), size) == name for name, size in entry.parts)


def _in_order(entries: tuple[Entry, ...]) -> list[Entry]:
    """What others stand on first: a snapshot or a ref that is there means that it can be read."""

    def last(one: Entry) -> int:
        return 2 if one.is_point else 1 if one.path.endswith("/config") else 0

    return sorted(entries, key=last)


@contextlib.contextmanager
def _open(context: UserContext, stores: Stores) -> Iterator[None]:
    """The seat belts of the stores are open meanwhile."""
    belts = []
    wanted = context.choices.seat_belt
    for place in (stores.vault, stores.hidden):
        if place:
            belts.append(LocalStorage(place, wanted).belt)
    belts.append(belt_of(stores.checkpoints, wanted))
    belts.append(repositories_belt(os.path.dirname(stores.checkpoints), wanted))
    try:
        for belt in belts:
            belt.open_all()
        yield
    finally:
        for belt in belts:
            belt.let_go()


class _Work:
    """Writing, file after file."""

    def __init__(self, stores: Stores, listener: Listener) -> None:
        self._stores, self._listener, self._refs = stores, listener, RefsHere(stores)
        self._stamp = f"{_ASIDE}{time.strftime('%Y%m%d-%H%M%S')}"
        # A key that is there beside a vault that comes back is of another one.
        self._key_stays = os.path.lexists(os.path.join(stores.vault, "config"))
        self.files = self.bytes = 0
        self.aside: list[str] = []
        self.lost: list[tuple[str, str]] = []

    def put(self, keeper: Keeper, entry: Entry) -> None:
        place = self._stores.place(entry.path)
        if not place or self._refs.has(entry) or is_whole(place, entry):
            return
        there = os.path.lexists(place)
        if there and self._stays(place, entry):
            return
        try:
            if there and entry.path == JOURNAL:
                self._join_journal(keeper, entry, place)
            else:
                self._write(place, pieces(keeper, entry), entry, there)
        except KeeperRefused as error:
            if error.reason not in ("damaged", "not-there"):
                raise
            self.lost.append((place, error.what))

    def _stays(self, place: str, entry: Entry) -> bool:
        """What is known of this machine now is newer, unless nothing is left in it."""
        if entry.path == JOURNAL or not is_of_now(entry):
            return False
        return bool(os.lstat(place).st_size) and (entry.path != KEY or self._key_stays)

    def _join_journal(self, keeper: Keeper, entry: Entry, place: str) -> None:
        """What was done before, and what was done since: one journal."""
        with os.fdopen(open_regular(place, follow=False), "rb") as file:
            if all(_digest(file.fileno(), size) == name for name, size in entry.parts):
                return  # the same, gone on with
        put_before(place, lambda: pieces(keeper, entry))
        self._done(place, entry)

    def _write(self, place: str, content: Iterable[bytes], entry: Entry, there: bool) -> None:
        directory = os.path.dirname(place)
        private_directory(directory)
        if entry.path.startswith(f"{REPOSITORIES}/") and os.path.basename(place) == "HEAD":
            private_directory(os.path.join(directory, "refs"))  # empty, and git wants it
        temporary = temporary_name(directory)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, _mode(entry.path))
            try:
                for piece in content:
                    write_all(descriptor, piece)
            finally:
                os.close(descriptor)
            if there:
                os.rename(place, place + self._stamp)
                self.aside.append(place + self._stamp)
            os.rename(temporary, place)
        except BaseException:
            remove_quietly(temporary)
            raise
        self._done(place, entry)

    def _done(self, place: str, entry: Entry) -> None:
        self.files += 1
        self.bytes += entry.size
        self._listener(Event("fetch", self.bytes, path=place))


def _mode(path: str) -> int:
    """As each store writes its own files."""
    top = path.partition("/")[0]
    packed = top in (CHECKPOINTS, REPOSITORIES) and "/objects/" in path
    return 0o400 if top in (VAULT, HIDDEN) or packed else 0o600


def _digest(descriptor: int, size: int) -> str:
    """Of the next bytes of a file."""
    digest = hashlib.sha256()
    while size and (piece := os.read(descriptor, min(size, PIECE))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()
