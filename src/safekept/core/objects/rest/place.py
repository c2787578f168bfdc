"""Objects on a server that speaks restic's REST protocol, version 2: `rest-server`, `rclone serve restic`.

The server stores restic's repositories and nothing else; `names.py` says what lies where. A POST is whole or
not at all by the server's word. A taken name is looked for first; `rest-server`, and both where they can only
be added to, refuse it by themselves. TLS guards the bytes on their way, so the size is compared; without TLS
they are read back.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping

from ...errors import BAD_SHAPE, SafekeptError
from ...files import NoRoom
from ..base import (
    ENDLESS,
    LARGEST_READ,
    MOST_NAMES,
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
from ..errors import WHOLE, PlaceRefused, refused, unreachable, wrong
from .connections import Connections, ResponseHead, Server
from .credentials import authorization, no_password
from .names import KINDS, LIST, OURS, beside, list_entry, listings, name_of, path_of

_VERSION = "application/vnd.x.restic.rest.v2"
_RANGE = re.compile(r"bytes [0-9]+-[0-9]+/([0-9]{1,19})")
_PASSING = (408, 425, 429)
#: How a server says that there is no more room: by the protocol's word, and by that of `rest-server`.
_FULL = (507, 413)
#: Seconds before each look at what was written: rclone lets two write the same bytes at once.
_LOOKS = (0.0, 0.1, 0.3, 0.8)
#: A name and its size take some hundred bytes.
_LARGEST_LISTING = 160 * MOST_NAMES
_ADD_ONLY = "it can only be added to"


class RestObjects(ObjectStore):
    """The repositories below one path of a server."""

    def __init__(
        self,
        server: Server,
        path: str,
        user: str,
        *,
        environment: Mapping[str, str],
        timeout: float = 60.0,
        lanes: int = 4,
    ) -> None:
        self.lanes = lanes
        self._root = path.strip("/")
        self._server, self._user = server, user
        self._environment, self._timeout = environment, timeout
        self._opened: Connections | None = None

    @property
    def location(self) -> str:
        scheme = "https" if self._server.secure else "http"
        who = f"{self._user}@" if self._user else ""
        return f"rest:{scheme}://{who}{self._server.address}/{self._root}".rstrip("/")

    def present(self) -> bool:
        with self._ask("HEAD", self._joined("config"), "look at it", fine=(404,)):
            return True  # it answers, and lets us in

    def create(self) -> None:
        # What lies beside a vault, too: a refusal should not come first at the first pin.
        for path in (self._root, *(beside(self._root, word) for word in OURS)):
            self._make(path)

    def list(self, prefix: str = "") -> Iterator[Stored]:
        checked_prefix(prefix)
        looks = listings(self._root, prefix)
        for path, start in looks:
            for name, size in self._listed(path):
                found = name_of(start, name)
                if found.startswith(prefix) and found:
                    yield Stored(found, size, 0.0)
        if len(looks) > len(KINDS):  # everything of a repository
            with contextlib.suppress(NotThere):
                yield Stored(f"{prefix}config", self.size(f"{prefix}config"), 0.0)
        if not prefix:
            for directory in self.directories():
                yield from self.list(f"{directory}/")

    def directories(self, prefix: str = "") -> Iterator[str]:
        """The repositories that were made by us: a server does not list its own."""
        if prefix:
            return
        found = set()
        where = list_entry("")[0].rpartition("/")[0]
        for name, _ in self._listed(self._joined(where)):
            with contextlib.suppress(NotThere):
                line = self._body(self._joined(where, name), name).decode("utf-8", "replace")
                if list_entry(line.strip())[0].endswith(name):  # else another program's, or damaged
                    found.add(line.strip())
        yield from sorted(found)

    def size(self, name: str) -> int:
        path = self._path(name)
        with self._ask("HEAD", path, "read it", fine=(404,)) as answer:
            if answer.status == 404:
                raise NotThere(name)
            if answer.length is not None:
                return answer.length
        return len(self._body(path, name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if length is not None and length <= 0:
            self.size(name)
            return b""
        return self._body(self._path(name), name, offset, length)

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        with self._get(self._path(name), name, offset, None) as (answer, skip):
            if answer is None:
                return
            for piece in answer.pieces():
                if skip >= len(piece):
                    skip -= len(piece)
                    continue
                yield piece[skip:]
                skip = 0

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        path = self._path(name)
        if not replace and self.exists(name):
            raise Taken(name)
        # Files of a vault are small enough, and nothing else can go there.
        data = content if isinstance(content, bytes | bytearray | memoryview) else content.read()
        view = memoryview(data)
        if path.endswith("config"):
            self._make(path.rpartition("/")[0])
            directory = name.rpartition("/")[0]
            if directory and "/" not in directory:
                self._note(directory)
        try:
            self._post(path, name, view)
        except PlaceRefused:
            if not self._stands(name):
                raise
            if not replace:
                raise Taken(name) from None
            if self._body(path, name) == view:
                return
            self._replace(path, name, view)
        self._compare(path, name, view)

    def delete(self, name: str) -> None:
        with self._ask("DELETE", self._path(name), f"delete `{name}`", fine=(404,)):
            pass

    def probe(self) -> CredentialRights:
        def again(name: str) -> None:
            try:
                self._post(self._path(name), name, memoryview(b"safekept once more"))
            except PlaceRefused:
                raise Taken(name) from None

        return probe_by_doing(self, versioning=None, again=again)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    # The questions

    def _post(self, path: str, name: str, data: memoryview) -> None:
        with self._ask("POST", path, f"write `{name}`", body=data, fine=(400,)) as answer:
            if answer.status == 400:
                # `rest-server` holds every file against its name.
                raise wrong(self.location, name, "the server refuses it as other bytes than its name says")

    def _replace(self, path: str, name: str, data: memoryview) -> None:
        """No server replaces a file that it refuses to write over; what is there has to go first."""
        try:
            self.delete(name)
        except PlaceRefused:
            raise refused(self.location, f"replace `{name}`", _ADD_ONLY) from None
        self._post(path, name, data)

    def _compare(self, path: str, name: str, data: memoryview) -> None:
        """That what stands there is what was sent; what is not must not stay."""
        for wait in _LOOKS:
            time.sleep(wait)
            try:
                if (
                    (self.size(name) == len(data))
                    if self._server.secure
                    else (self._body(path, name) == data)
                ):
                    return
                reason = "other bytes stand there"
            except NotThere:
                reason = "it is not there"
        with contextlib.suppress(SafekeptError):
            self.delete(name)
        raise wrong(self.location, name, reason)

    def _stands(self, name: str) -> bool:
        try:
            return self.exists(name)
        except PlaceRefused:
            return False

    def _make(self, path: str) -> None:
        nothing = memoryview(b"")
        with self._ask("POST", f"{path}/" if path else "", "make it", query="?create=true", body=nothing):
            pass

    def _note(self, directory: str) -> None:
        """Write down that there is a repository of this name, before it is one."""
        name, content = list_entry(directory)
        path = self._joined(name)
        with self._ask("HEAD", path, "look at it", fine=(404,)) as answer:
            known = answer.status != 404
        if not known:
            self._make(self._joined(LIST))
            with contextlib.suppress(PlaceRefused):  # another push was quicker
                self._post(path, name, memoryview(content))

    def _listed(self, path: str) -> Iterator[tuple[str, int]]:
        with self._ask("GET", f"{path}/", "list it", fine=(404,), headers={"Accept": _VERSION}) as answer:
            if answer.status == 404:
                return
            text = self._whole(answer, path, _LARGEST_LISTING)
        # Counted before it is taken apart: a list of empty lists costs twenty times its bytes.
        if text.count(b"{") + text.count(b"[") > MOST_NAMES or text.count(b",") > 3 * MOST_NAMES:
            raise refused(self.location, "list it", ENDLESS, NO_TRUST)
        try:
            found = json.loads(text)
            if not isinstance(found, list | type(None)):  # `null` is how Go writes that there are none
                raise TypeError
            listed = [(str(one["name"]), int(one["size"])) for one in found or ()]
        except BAD_SHAPE:
            # One that speaks version 1 only lists names, which do not tell half a file from a whole one.
            reason = "its listing is not one of version 2 of restic's REST protocol"
            raise refused(self.location, "list it", reason, "See that it is a server for restic") from None
        yield from listed

    def _body(self, path: str, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._get(path, name, offset, length) as (answer, skip):
            if answer is None:
                return b""
            data = self._whole(answer, name)
            total = _RANGE.fullmatch(answer.header("Content-Range"))
        data = data[skip:] if length is None else data[skip : skip + length]
        if total is not None:
            end = int(total[1]) if length is None else min(int(total[1]), offset + length)
            if len(data) != max(0, end - offset):
                raise unreachable(self.location, "the answer was cut off")
        return data

    @contextlib.contextmanager
    def _get(
        self, path: str, name: str, offset: int, length: int | None
    ) -> Iterator[tuple[ResponseHead | None, int]]:
        """The answer, and how much of it comes before what was asked for; None beyond the object's end."""
        span = {}
        if offset or length is not None:
            span["Range"] = f"bytes={offset}-{'' if length is None else offset + length - 1}"
        with self._ask("GET", path, "read it", fine=(404, 416), headers=span) as answer:
            if answer.status == 404:
                raise NotThere(name)
            if answer.status == 416:
                yield None, 0
            else:
                yield answer, 0 if answer.status == 206 else offset

    def _whole(self, answer: ResponseHead, name: str, most: int = LARGEST_READ) -> bytes:
        found = bytearray()
        for piece in answer.pieces():
            found += piece
            if len(found) > most:
                raise wrong(self.location, name, f"it has more than {most:,} bytes, as none of ours has")
        return bytes(found)

    @contextlib.contextmanager
    def _ask(
        self,
        method: str,
        path: str,
        verb: str,
        *,
        body: memoryview | None = None,
        query: str = "",
        fine: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[ResponseHead]:
        """One question; the error that fits where the answer is neither yes nor one of `fine`."""
        shown = f"/{urllib.parse.quote(path, errors='surrogateescape')}{query}"
        with self._connections().ask(method, shown, body, headers) as answer:
            if not 200 <= answer.status < 300 and answer.status not in fine:
                raise self._explained(verb, answer.status)
            yield answer

    def _explained(self, verb: str, status: int) -> SafekeptError:
        from http.client import responses

        words = f"{responses.get(status, 'status')} ({status})"
        if status == 401:
            if not self._user and "Authorization" not in self._headers():
                return no_password(self.location, self._server.host, "")
            return refused(self.location, verb, f"the user or the password is wrong: {words}")
        if status in _FULL:
            return NoRoom(
                f"There is no room left at `{self.location}`: {words}",
                kept=WHOLE,
                next_steps=("Make room there, or raise the limit, and run the command again",),
                place=self.location,
            )
        if status in _PASSING or status >= 500:
            return unreachable(self.location, words)
        return refused(self.location, verb, words)

    def _connections(self) -> Connections:
        if self._opened is None:
            self._opened = Connections(
                self._server, self.location, self._headers(), self._timeout, max(self.lanes, 4)
            )
        return self._opened

    def _headers(self) -> dict[str, str]:
        return authorization(self.location, self._server.host, self._user, self._environment)

    def _joined(self, *parts: str) -> str:
        return "/".join(part for part in (self._root, *parts) if part)

    def _path(self, name: str) -> str:
        path = path_of(self._root, checked(name))
        if not path:
            raise refused(
                self.location,
                f"keep `{name}`",
                "a REST server keeps vaults and nothing else",
                "Send it to another kind of place: a directory, `sftp://`, `s3://` or `rclone:`",
            )
        return path
