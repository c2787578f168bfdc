"""The stores come back from the keeper, to where they were; then every other command has them again.

What is there stays: a file that is whole is left alone, one that differs is put aside beside itself. Every
byte is compared with its name while it is written, and a file gets its name when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator

from safekept.checkpoints.store import Refs, belt_of
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import (
    private_directory,
    read_exactly,
    remove_quietly,
    sync_filesystem,
    temporary_name,
    write_all,
)
from safekept.core.files.small import open_regular, read_regular
from safekept.core.records import dataclass
from safekept.keeper.client import Keeper, KeeperRefused
from safekept.keeper.history import Manifest
from safekept.keeper.pages import MAX_PAGE, BadManifest, Entry, read_page, read_root
from safekept.vault.storage import LocalStorage

from ..base.context import UserContext
from .keeper_status import keeper_status
from .stores import CHECKPOINTS, HIDDEN, JOURNAL, KEY, OWN, PROJECTS, REFS, SETTINGS, VAULT, Stores

_ASIDE = ".before-rebuild-"
_PIECE = 1 << 20
#: After an alarm, so many states before it are looked at.
_EARLIER = 200
#: Stores that only grow, since each file is named by what is in it; and the file that says which store it is.
_IDENTITY = {VAULT: "config", CHECKPOINTS: "info/safekept", HIDDEN: "config"}


class AnotherVaultThere(SafekeptError):
    code = "keeper-vault-in-the-way"


@dataclass(frozen=True, slots=True)
class Held:
    """What the keeper holds of this user, and which of it is taken."""

    manifest: Manifest
    newest: Manifest
    entries: tuple[Entry, ...]

    @property
    def passed_over(self) -> bool:
        """The newest names less than half of what was there; the one before that is taken."""
        return self.manifest.number != self.newest.number

    def missing(self, stores: Stores) -> list[Entry]:
        """What is not here any more, by a look at each."""
        refs = _Refs(stores)
        return [one for one in self.entries if not refs.has(one) and not _is_there(stores, one)]


@dataclass(frozen=True, slots=True)
class StoresBroughtBack:
    """What was done."""

    manifest: Manifest
    files: int
    bytes: int
    aside: tuple[str, ...]  # what was there and differed


def look_at_keeper(context: UserContext) -> Held | None:
    """What the keeper holds of this user; None where there is no keeper, or nothing of him."""
    status = keeper_status(context)
    if status is None or status.wrong or status.newest is None:
        return None
    with Keeper(status.socket) as keeper:
        return _held(keeper, status.newest, status.pinned, status.acknowledged)


def _held(keeper: Keeper, newest: Manifest, pinned: int, acknowledged: int) -> Held:
    """The newest, unless it is an alarm: then the last one before that, and what is only in earlier ones.

    Who deletes a piece at a time sends states that are no alarm yet. Files of the stores are named by what
    is in them, so those of earlier states are simply more of the same store.
    """
    pages: dict[str, list[Entry]] = {}
    every = keeper.manifests()
    if not (pinned and newest.shrunk):
        found = _with_key(keeper, _entries(keeper, newest, pages), every[1:], pages)
        return Held(newest, newest, tuple(found.values()))
    sound = [one for one in every if not one.shrunk or one.number <= acknowledged]
    largest = [one for one in every if one.number == pinned]
    taken = [*sound[:_EARLIER], *(one for one in largest if one not in sound[:_EARLIER])] or [newest]
    found = _entries(keeper, taken[0], pages)
    for manifest in taken[1:]:
        earlier = _entries(keeper, manifest, pages)
        # Another vault, made since: its files are no part of this one.
        same = tuple(f"{top}/" for top, name in _IDENTITY.items() if _same(earlier, found, f"{top}/{name}"))
        for path, entry in earlier.items():
            if path.startswith(same):
                found.setdefault(path, entry)
    found = _with_key(keeper, found, [one for one in every if one.number < taken[0].number], pages)
    return Held(taken[0], newest, tuple(found.values()))


def _with_key(
    keeper: Keeper, found: dict[str, Entry], earlier: list[Manifest], pages: dict[str, list[Entry]]
) -> dict[str, Entry]:
    """The same with the key, the settings and the like of the last state that had a key of this vault.

    They are so small that a state without them is no alarm: one that was sent between two deletions.
    """
    config = f"{VAULT}/{_IDENTITY[VAULT]}"
    if KEY in found or config not in found:
        return found
    for manifest in earlier[:_EARLIER]:
        before = _entries(keeper, manifest, pages)
        if KEY in before and _same(before, found, config):
            own = {path: one for path, one in before.items() if path.startswith(f"{OWN}/")}
            return {**own, **found}
    return found


def _same(one: dict[str, Entry], other: dict[str, Entry], path: str) -> bool:
    return path in one and one[path] == other.get(path)


def _entries(keeper: Keeper, manifest: Manifest, pages: dict[str, list[Entry]]) -> dict[str, Entry]:
    """The files of a manifest, by path; `pages`: those that were read before."""
    try:
        names = read_root(_small(keeper, manifest.root))
        for name in names:
            if name not in pages:
                pages[name] = list(read_page(_small(keeper, name)))
    except BadManifest as error:
        raise KeeperRefused("bad-manifest", f"what it says of your stores cannot be read: {error}") from error
    return {entry.path: entry for name in names for entry in pages[name]}


def _small(keeper: Keeper, name: str) -> bytes:
    descriptor = keeper.get(name)
    try:
        data = read_exactly(descriptor, 0, min(os.fstat(descriptor).st_size, MAX_PAGE + 1))
    finally:
        os.close(descriptor)
    if hashlib.sha256(data).hexdigest() != name:
        raise KeeperRefused("damaged", f"the object {name} is not what its name says")
    return data


def bring_back(context: UserContext, held: Held, listener: Listener = silent) -> StoresBroughtBack:
    """Put everything that is missing back. Raises with what is there already in place: run it again."""
    stores = Stores.of(context)
    _make_way(context, stores, held)
    work = _Work(stores, listener)
    private_directory(stores.data_directory)
    with contextlib.ExitStack() as open_stores:
        open_stores.enter_context(_open(context, stores))
        keeper = open_stores.enter_context(Keeper(stores.socket))
        for entry in _in_order(held.entries):
            work.put(keeper, entry)
    for place in {stores.data_directory, os.path.dirname(stores.key_file) or "/"}:
        if os.path.isdir(place):
            sync_filesystem(place)
    return StoresBroughtBack(held.manifest, work.files, work.bytes, tuple(work.aside))


def _make_way(context: UserContext, stores: Stores, held: Held) -> None:
    """Another vault where this one was: put aside where nothing is in it; else it is somebody's."""
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
    try:
        for belt in belts:
            belt.open_all()
        yield
    finally:
        for belt in belts:
            belt.let_go()


class _Refs:
    """The checkpoints that are here, wherever the repository holds them."""

    def __init__(self, stores: Stores) -> None:
        refs = Refs(stores.checkpoints)
        self._here = {
            f"{REFS}safekept/{project}/{name}": commit.encode() + b"\n"
            for project in refs.projects()
            for name, commit in refs.of(project).items()
        }

    def has(self, entry: Entry) -> bool:
        return entry.inline is not None and self._here.get(entry.path) == entry.inline


def _is_there(stores: Stores, entry: Entry) -> bool:
    """By its size alone; `bring_back` reads it."""
    place = stores.place(entry.path)
    try:
        facts = os.lstat(place) if place else None
    except OSError:
        return False
    if facts is None:
        return True  # nothing of ours: it is not missing
    grows = entry.path.startswith((f"{OWN}/", f"{PROJECTS}/"))
    return stat.S_ISREG(facts.st_mode) and (grows or facts.st_size == entry.size)


class _Work:
    """Writing, file after file."""

    def __init__(self, stores: Stores, listener: Listener) -> None:
        self._stores, self._listener, self._refs = stores, listener, _Refs(stores)
        self._stamp = f"{_ASIDE}{time.strftime('%Y%m%d-%H%M%S')}"
        self.files = self.bytes = 0
        self.aside: list[str] = []

    def put(self, keeper: Keeper, entry: Entry) -> None:
        place = self._stores.place(entry.path)
        if not place or self._refs.has(entry) or is_whole(place, entry):
            return
        if os.path.lexists(place):
            if entry.path == JOURNAL:
                self._join_journal(keeper, entry, place)
                return
            if entry.path not in (KEY, SETTINGS) and entry.path.startswith((f"{OWN}/", f"{PROJECTS}/")):
                return  # what is known of this machine now is newer
            os.rename(place, place + self._stamp)
            self.aside.append(place + self._stamp)
        self._write(place, self._bytes(keeper, entry), entry)

    def _join_journal(self, keeper: Keeper, entry: Entry, place: str) -> None:
        """What was done before, and what was done since: one journal."""
        now = read_regular(place, 1 << 30)
        with os.fdopen(open_regular(place, follow=False), "rb") as file:
            if all(_digest(file.fileno(), size) == name for name, size in entry.parts):
                return  # the same, gone on with
        pieces = [*self._bytes(keeper, entry), now]
        self._write(place, iter(pieces), entry)

    def _bytes(self, keeper: Keeper, entry: Entry) -> Iterator[bytes]:
        if entry.inline is not None:
            yield entry.inline
        for name, size in entry.parts:
            descriptor = keeper.get(name)
            try:
                digest, done = hashlib.sha256(), 0
                while piece := os.read(descriptor, _PIECE):
                    digest.update(piece)
                    done += len(piece)
                    yield piece
                if digest.hexdigest() != name or done != size:
                    raise KeeperRefused("damaged", f"the object {name} is not what its name says")
            finally:
                os.close(descriptor)

    def _write(self, place: str, pieces: Iterator[bytes], entry: Entry) -> None:
        directory = os.path.dirname(place)
        private_directory(directory)
        temporary = temporary_name(directory)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, _mode(entry.path))
            try:
                for piece in pieces:
                    write_all(descriptor, piece)
            finally:
                os.close(descriptor)
            os.rename(temporary, place)
        except BaseException:
            remove_quietly(temporary)
            raise
        self.files += 1
        self.bytes += entry.size
        self._listener(Event("fetch", self.bytes, path=place))


def _mode(path: str) -> int:
    """As each store writes its own files."""
    top = path.partition("/")[0]
    packed = top == CHECKPOINTS and "/objects/" in path
    return 0o400 if top in (VAULT, HIDDEN) or packed else 0o600


def _digest(descriptor: int, size: int) -> str:
    """Of the next bytes of a file."""
    digest = hashlib.sha256()
    while size and (piece := os.read(descriptor, min(size, _PIECE))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()
