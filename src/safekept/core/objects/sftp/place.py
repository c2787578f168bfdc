"""Objects on another machine over SFTP, through the OpenSSH program.

A write goes to a temporary name in the same directory, many requests under way at once, is flushed to the
server's disk where the server can (`fsync@openssh.com`), measured, and only then gets its name: by SFTP's
own rename, which refuses a taken name, or by `posix-rename@openssh.com` to replace. The plain parts of
SFTP version 3 are enough for everything else, so a key that is restricted to
`restrict,command="internal-sftp"` suffices. Files are 0400, directories 0700.

A server may refuse everything that takes away or changes (`ADD_ONLY`). A file that is there can then not be
opened for writing, since its mode forbids that and cannot be changed. The name is given by a hard link then,
which refuses a taken name as well; the temporary name stays beside it, takes no room, and is passed over.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ...errors import SafekeptError
from ...files import TEMPORARY_PREFIX
from ..base import (
    LARGEST_READ,
    NO_TRUST,
    Content,
    CredentialRights,
    NotThere,
    ObjectStore,
    Stored,
    Taken,
    checked,
    checked_prefix,
    probe_by_doing,
)
from ..errors import PlaceMissing, refused, unreachable, wrong
from .channel import Channel, Endless, Lost, Refusal
from .connections import Host, Pool, explain, explain_refusal, filesystem, ssh_command
from .transfer import Closed, fill, is_directory, make_directories, read_range, walk
from .wire import OPEN_NEW, OPEN_OVER, OPEN_READ, MalformedAnswer, Packet, Status, mode_only, number, text

_T = TypeVar("_T")
_BATCH = 8 << 20
_LINK = "hardlink@openssh.com"


class SftpObjects(ObjectStore):
    """The files below one directory of an SFTP server. `path` is absolute, or relative to the login."""

    def __init__(
        self,
        host: Host,
        path: str,
        *,
        environment: Mapping[str, str],
        timeout: float = 60.0,
        lanes: int = 4,
    ) -> None:
        self.host = host
        self.path = path.rstrip("/") or ("/" if path.startswith("/") else ".")
        self.lanes = lanes
        self.timeout = timeout
        self._environment = dict(environment)
        self._command: list[str] = []
        self._pool = Pool(self._connect, lanes)
        self._adds_only = False  # the server refused to rename: names are given by links

    @property
    def location(self) -> str:
        shown = self.path if self.path.startswith("/") else f"/~/{self.path}".removesuffix("/.")
        return f"sftp://{self.host.address}{shown}"

    def present(self) -> bool:
        return self._with(lambda channel: is_directory(channel, self.path))

    def create(self) -> None:
        def make(channel: Channel) -> None:
            make_directories(channel, "", self.path)
            if not is_directory(channel, self.path):
                raise refused(
                    self.location, "make that directory", "the server did not make it", *self._instead()
                )

        self._with(make)

    def _instead(self) -> tuple[str, ...]:
        """A path begins at the root of the server; people often mean the directory that they log into."""
        own = f"sftp://{self.host.address}/~/{os.path.basename(self.path)}"
        other = (f"Use one below the directory of that login: `{own}`",) if self.path.startswith("/") else ()
        return (*other, "Or make it on the server, so that this login may write there")

    def list(self, prefix: str = "") -> Iterator[Stored]:
        checked_prefix(prefix)

        def look(channel: Channel) -> Sequence[Stored]:
            found = walk(channel, self.path, prefix)
            if not found:
                self._need_root(channel)
            return found

        yield from (
            stored
            for stored in self._with(look, "list it")
            if not stored.name.rpartition("/")[2].startswith(TEMPORARY_PREFIX)
        )

    def directories(self, prefix: str = "") -> Iterator[str]:
        checked_prefix(prefix)

        def look(channel: Channel) -> set[str]:
            closed: list[str] = []  # each may hold something
            found = [stored.name for stored in walk(channel, self.path, prefix, closed)]
            if not found and not closed:
                self._need_root(channel)
            shown = (name for name in found if not name.rpartition("/")[2].startswith(TEMPORARY_PREFIX))
            return {
                name[len(prefix) :].partition("/")[0]
                for name in (*shown, *closed)
                if "/" in name[len(prefix) :]
            }

        yield from sorted(self._with(look, "list it"))

    def size(self, name: str) -> int:
        place = text(self._place(name))

        def look(channel: Channel) -> int:
            try:
                facts = channel.ask(Packet.STAT, place).attributes()
            except Refusal as refusal:
                raise self._not_there(channel, name, refusal) from None
            if facts.is_directory:
                raise NotThere(name)
            return facts.size

        return self._with(look, "read it")

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._with(lambda channel: self._read(channel, name, offset, length)[0], "read it")

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        # In batches: between two of them no connection is held, so a slow reader keeps no other waiting.
        total = -1
        while total < 0 or offset < total:
            data, size = self._with(
                lambda channel, at=offset: self._read(channel, name, at, _BATCH),  # type: ignore[misc]
                "read it",
            )
            if total not in (-1, size):
                raise wrong(self.location, name, "its size changed while it was read")
            if data:
                yield data
            total, offset = size, offset + len(data)

    def _read(self, channel: Channel, name: str, offset: int, length: int | None) -> tuple[bytes, int]:
        """The bytes, and the size of the whole."""
        try:
            opened = channel.ask(Packet.OPEN, text(self._place(name)), number(OPEN_READ), number(0))
        except Refusal as refusal:
            raise self._not_there(channel, name, refusal) from None
        handle = text(bytes(opened.view()))
        facts = channel.ask(Packet.FSTAT, handle).attributes()
        end = facts.size if length is None else min(facts.size, offset + length)
        if end - offset > LARGEST_READ:
            raise wrong(self.location, name, f"its {facts.size:,} bytes are more than any of ours has")
        shrank = wrong(self.location, name, "it became shorter while it was read")
        data = b"" if facts.is_directory else b"".join(read_range(channel, handle, offset, end, shrank))
        channel.settle([channel.post(Packet.CLOSE, handle)])
        if facts.is_directory:
            raise NotThere(name)
        return data, facts.size

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        self._write(name, content, replace, look=not replace)

    def _write(self, name: str, content: Content, replace: bool, look: bool) -> None:
        """`look`: refuse a taken name before anything is sent; giving the name refuses it in any case."""
        place = self._place(name)
        directory = place.rpartition("/")[0]
        temporary = f"{directory}/{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        with self._lane("write there") as channel:
            handle = self._open_new(channel, name, place, temporary, directory, look)
            try:
                self._fill(channel, handle, name, content)
                self._give_name(channel, name, temporary, place, replace)
            except BaseException:
                # Without a connection it stays behind under a temporary name, for `sweep`.
                if channel.alive:
                    with contextlib.suppress(Lost):
                        channel.settle([channel.post(Packet.REMOVE, text(temporary))])
                raise

    def _open_new(
        self, channel: Channel, name: str, place: str, temporary: str, directory: str, look: bool
    ) -> bytes:
        looked = channel.post(Packet.LSTAT, text(place)) if look else 0
        opened = channel.post(Packet.OPEN, text(temporary), number(OPEN_NEW), mode_only(0o400))
        taken = False
        if look:
            with contextlib.suppress(Refusal):
                channel.answer(looked)
                taken = True
        try:
            handle = text(bytes(channel.answer(opened).view()))
        except Refusal as refusal:
            if taken:
                raise Taken(name) from None
            if refusal.status != Status.NO_SUCH_FILE:
                raise self._explained(channel, "write there", refusal, 0) from None
            self._need_root(channel)
            make_directories(channel, self.path, directory)
            answer = channel.ask(Packet.OPEN, text(temporary), number(OPEN_NEW), mode_only(0o400))
            handle = text(bytes(answer.view()))
        if taken:
            channel.settle([channel.post(Packet.CLOSE, handle), channel.post(Packet.REMOVE, text(temporary))])
            raise Taken(name)
        return handle

    def _fill(self, channel: Channel, handle: bytes, name: str, content: Content) -> None:
        filled = fill(channel, handle, content)
        if filled.refusal is not None:
            raise self._explained(channel, "write there", filled.refusal, filled.sent)
        if filled.stored != filled.sent:
            raise wrong(self.location, name, f"{filled.stored} bytes arrived of {filled.sent}")

    def _give_name(self, channel: Channel, name: str, temporary: str, place: str, replace: bool) -> None:
        if self._adds_only:
            self._link(channel, name, temporary, place, replace)
            return
        if replace and "posix-rename@openssh.com" in channel.extensions:
            request = channel.extended("posix-rename@openssh.com", text(temporary), text(place))
        else:
            if replace:  # no server that we know of: the old one has to go first
                channel.settle([channel.post(Packet.REMOVE, text(place))])
            request = channel.post(Packet.RENAME, text(temporary), text(place))
        try:
            channel.answer(request)
        except Refusal as refusal:
            if not replace:
                self._refuse_taken(channel, name, place)
            if refusal.status != Status.PERMISSION_DENIED or _LINK not in channel.extensions:
                raise self._explained(channel, "write there", refusal, 0) from None
            self._link(channel, name, temporary, place, replace)
            self._adds_only = True

    def _link(self, channel: Channel, name: str, temporary: str, place: str, replace: bool) -> None:
        """Give the name to what has none yet; what stands there already is never replaced like this."""
        try:
            channel.answer(channel.extended(_LINK, text(temporary), text(place)))
        except Refusal as refusal:
            try:
                self._refuse_taken(channel, name, place)
            except Taken:
                if not replace:
                    raise
                advice = "Have it removed by someone who may delete files on that server"
                raise refused(self.location, f"replace `{name}`", "it can only be added to", advice) from None
            raise self._explained(channel, "write there", refusal, 0) from None
        # Where it may not be removed either, it stays: another name of the same file.
        channel.settle([channel.post(Packet.REMOVE, text(temporary))])

    def _refuse_taken(self, channel: Channel, name: str, place: str) -> None:
        """Taken, where something has that name."""
        with contextlib.suppress(Refusal):
            channel.ask(Packet.LSTAT, text(place))
            raise Taken(name) from None

    def delete(self, name: str) -> None:
        place = text(self._place(name))

        def remove(channel: Channel) -> None:
            try:
                channel.ask(Packet.REMOVE, place)
            except Refusal as refusal:
                if refusal.status != Status.NO_SUCH_FILE:
                    raise
                self._need_root(channel)

        self._with(remove, "delete there")

    def probe(self) -> CredentialRights:
        rights = probe_by_doing(
            self, versioning=None, again=lambda name: self._write(name, b"again", replace=False, look=False)
        )
        if not rights.left:
            return rights
        # Not as we would, but as an intruder with this key could: written over where it lies, and moved away.
        place = self._place(rights.left)
        away = text(f"{place}-{secrets.token_hex(4)}")
        over = self._may(Packet.OPEN, text(place), number(OPEN_OVER), number(0))
        moved = self._may(Packet.RENAME, text(place), away)
        if moved:
            self._may(Packet.RENAME, away, text(place))
        return CredentialRights(
            write=True,
            overwrite=rights.overwrite or over,
            delete=moved,
            write_once=rights.write_once,
            left=rights.left,
        )

    def _may(self, kind: Packet, *parts: bytes) -> bool:
        """Whether the server does something; what it opened is closed with the connection."""

        def attempt(channel: Channel) -> bool:
            try:
                answer = channel.ask(kind, *parts)
            except Refusal:
                return False
            if answer.kind == Packet.HANDLE:
                channel.settle([channel.post(Packet.CLOSE, text(bytes(answer.view())))])
            return True

        return self._with(attempt)

    def room(self) -> tuple[int, int] | None:
        def look(channel: Channel) -> tuple[int, int] | None:
            facts = filesystem(channel, self.path)
            return None if facts is None else (facts.free, facts.total)

        return self._with(look)

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        def clear(channel: Channel) -> Sequence[str]:
            left = [
                stored.name
                for stored in walk(
                    channel, self.path, "", closed=[]
                )  # where we may not look, we left nothing
                if stored.name.rpartition("/")[2].startswith(TEMPORARY_PREFIX)
                and time.time() - stored.modified >= older_than
            ]
            channel.settle([channel.post(Packet.REMOVE, text(self._below(name))) for name in left])
            return left

        return self._with(clear, "delete there")

    def close(self) -> None:
        self._pool.close()

    # ── connections ────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> Channel:
        if not self._command:
            self._command = ssh_command(self.host, self._environment, self.timeout)
        return Channel(self._command, self._environment, self.timeout)

    @contextlib.contextmanager
    def _lane(self, verb: str) -> Iterator[Channel]:
        """A connection for one thread; what goes wrong in it comes out as one of our errors."""
        try:
            with self._pool.channel() as channel:
                try:
                    yield channel
                except Closed as closed:
                    directory = f"{self.location.rstrip('/')}/{closed.directory}".rstrip("/")
                    words = closed.words or "permission denied"
                    raise refused(directory, verb, words, "See whom that place belongs to") from None
                except Refusal as refusal:
                    raise self._explained(channel, verb, refusal, 0) from None
        except Endless as endless:
            raise refused(self.location, verb, endless.reason, NO_TRUST) from None
        except Lost as lost:
            raise explain(self.location, self.host, lost.reason, lost.words) from None
        except (struct.error, MalformedAnswer) as error:
            raise unreachable(self.location, f"the server's answer cannot be understood ({error})") from None

    def _with(self, work: Callable[[Channel], _T], verb: str = "look at it") -> _T:
        with self._lane(verb) as channel:
            return work(channel)

    # ── what the server has, and why it refuses ────────────────────────────────────────────────────

    def _place(self, name: str) -> str:
        return self._below(checked(name))

    def _below(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}"

    def _need_root(self, channel: Channel) -> None:
        if not is_directory(channel, self.path):
            raise PlaceMissing(
                f"There is no directory `{self.path}` on `{self.host.address}`",
                kept="Nothing was made there: a drive that is not mounted is never replaced by a directory",
                next_steps=("See that the drive is mounted on that server, or make the directory there",),
                place=self.location,
            )

    def _not_there(self, channel: Channel, name: str, refusal: Refusal) -> Exception:
        if refusal.status != Status.NO_SUCH_FILE:
            return self._explained(channel, "read it", refusal, 0)
        self._need_root(channel)
        return NotThere(name)

    def _explained(self, channel: Channel, verb: str, refusal: Refusal, size: int) -> SafekeptError:
        return explain_refusal(self.location, filesystem(channel, self.path), verb, refusal, size)
