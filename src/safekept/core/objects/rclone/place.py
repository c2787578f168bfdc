"""Objects in whatever `rclone config` knows: Google Drive, Dropbox, WebDAV, Azure, GCS and many more.

rclone itself reads, writes and checks: a write is its own copy of one local file, which compares hashes
where the remote has any and gives partial files another name where the remote could show them. A taken
name is refused by a look before the write; no remote of rclone's can do better.
"""

from __future__ import annotations

import calendar
import contextlib
import http.client
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ...errors import SafekeptError
from ..base import (
    CHUNK,
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
from ..errors import PlaceMissing, unreachable, wrong
from .answers import explained, not_there, shown, without_secrets
from .process import Answered, HelperLost, RcloneHelper

_T = TypeVar("_T")
_PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial$")  # rclone's name for a copy on its way
_SLOWEST = 16 << 10  # bytes a second that an upload must reach


class RcloneObjects(ObjectStore):
    """The objects below `REMOTE:PATH`."""

    def __init__(
        self,
        remote: str,
        *,
        environment: Mapping[str, str],
        config: str = "",
        timeout: float = 60.0,
        rate_limit: int = 0,
        lanes: int = 4,
    ) -> None:
        self.lanes = lanes
        self._remote = remote
        self._helper = RcloneHelper(
            environment, config=config, timeout=timeout, rate_limit=rate_limit, lanes=lanes
        )
        self._root_seen = False

    @property
    def location(self) -> str:
        return f"rclone:{shown(self._remote)}"

    def present(self) -> bool:
        def look() -> bool:
            try:
                self._helper.call("operations/list", fs=self._remote, remote="", opt={"dirsOnly": True})
            except Answered as answer:
                if not_there(answer):
                    return False
                raise
            return True

        self._root_seen = self._ask("look at it", look)
        return self._root_seen

    def create(self) -> None:
        if not self.present():
            self._ask("make it", lambda: self._helper.call("operations/mkdir", fs=self._remote, remote=""))
            self._need_root()

    def list(self, prefix: str = "") -> Iterator[Stored]:
        return self._list(checked_prefix(prefix), partial=False)

    def _list(self, prefix: str, partial: bool) -> Iterator[Stored]:
        """Whole objects, or what copies that broke off left behind."""
        options = {"recurse": True, "filesOnly": True, "noMimeType": True}

        def look() -> object:
            try:
                return self._helper.call(
                    "operations/list", fs=self._remote, remote=prefix.rstrip("/"), opt=options
                ).get("list")
            except Answered as answer:
                if not not_there(answer):
                    raise
            self._need_root()
            return []

        listed = self._ask("list it", look)
        for item in listed if isinstance(listed, list) else []:
            name = str(item["Path"])
            if (_PARTIAL.search(name) is not None) is partial:
                yield Stored(name, int(item["Size"]), _seconds(str(item.get("ModTime", ""))))

    def size(self, name: str) -> int:
        checked(name)
        options = {"filesOnly": True, "noMimeType": True, "noModTime": True}

        def look() -> int:
            try:
                found = self._helper.call("operations/stat", fs=self._remote, remote=name, opt=options)
            except Answered as answer:
                if not not_there(answer):
                    raise
                found = {}
            item = found.get("item")
            if not isinstance(item, dict):
                self._need_root()
                raise NotThere(name)
            return int(item["Size"])

        return self._ask("read it", look)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if length is not None and length <= 0:
            self.size(name)
            return b""
        return b"".join(self._pieces(name, offset, length))

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        yield from self._pieces(name, offset, None)

    def _pieces(self, name: str, offset: int, length: int | None) -> Iterator[bytes]:
        checked(name)
        span = f"bytes={offset}-{'' if length is None else offset + length - 1}"
        path = f"/{urllib.parse.quote(f'[{self._remote}]', safe='[]:,/')}/{urllib.parse.quote(name)}"
        try:
            with self._helper.get(path, span if offset or length is not None else "") as body:
                if body.status == 200 and offset:
                    raise wrong(self.location, name, "it was not given from where it was asked for")
                while data := body.read(CHUNK):
                    yield data
                if body.length:  # http.client ends quietly where a connection is cut
                    raise HelperLost("the connection was cut")
        except Answered as answer:
            # Each remote has its own words for a range behind the end.
            if offset and self.size(name) <= offset:
                return
            if not not_there(answer):
                raise explained(self.location, self._remote, "read it", answer.words) from None
        except (HelperLost, http.client.HTTPException) as lost:
            raise unreachable(self.location, without_secrets(str(lost), self._remote)) from None
        else:
            return
        self._need_root()
        raise NotThere(name)

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        checked(name)
        if not replace and self.exists(name):
            raise Taken(name)
        if not self._root_seen:
            self._need_root()
        path = _path_of(content)
        if path is not None:
            self._copy(path, name)
            return
        spool = self._ask("write there", self._helper.spool)
        try:
            _spill(content, spool)
            self._copy(spool, name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(spool)

    def _copy(self, path: str, name: str) -> None:
        directory, base = os.path.split(path)
        self._ask(
            "write there",
            lambda: self._helper.call(
                "operations/copyfile",
                os.stat(path).st_size / _SLOWEST,
                srcFs=directory,
                srcRemote=base,
                dstFs=self._remote,
                dstRemote=name,
            ),
        )

    def delete(self, name: str) -> None:
        checked(name)

        def remove() -> None:
            try:
                self._helper.call("operations/deletefile", fs=self._remote, remote=name)
            except Answered as answer:
                if not not_there(answer):
                    raise
                self._need_root()

        self._ask("delete there", remove)

    def probe(self) -> CredentialRights:
        return probe_by_doing(self, versioning=None)

    def room(self) -> tuple[int, int] | None:
        try:
            answer = self._ask("look at it", lambda: self._helper.call("operations/about", fs=self._remote))
        except SafekeptError:
            return None
        free, total = answer.get("free"), answer.get("total")
        return (free, total) if isinstance(free, int) and isinstance(total, int) else None

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        left = [
            stored.name
            for stored in self._list("", partial=True)
            if stored.modified and time.time() - stored.modified >= older_than
        ]
        for name in left:
            self.delete(name)
        return left

    def close(self) -> None:
        self._helper.close()

    def _need_root(self) -> None:
        if not self.present():
            raise PlaceMissing(
                f"`{self.location}` is not there",
                kept="Nothing was made there: a drive that is not mounted is never replaced by a directory",
                next_steps=("Make that directory or bucket, or correct the address",),
                place=self.location,
            )

    def _ask(self, verb: str, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except Answered as answer:
            raise explained(self.location, self._remote, verb, answer.words) from None
        except HelperLost as lost:
            raise unreachable(self.location, without_secrets(str(lost), self._remote)) from None


def _path_of(content: Content) -> str | None:
    """The path under which rclone finds just these bytes by itself; None where there is none."""
    if isinstance(content, bytes | bytearray | memoryview):
        return None
    try:
        path = content.name
        here, there = os.fstat(content.fileno()), os.stat(path)
        if (
            not isinstance(path, str)
            or content.tell()
            or (here.st_dev, here.st_ino)
            != (
                there.st_dev,
                there.st_ino,
            )
        ):
            return None
        path.encode("utf-8")
    except (AttributeError, OSError, TypeError, ValueError):
        return None
    return os.path.abspath(path)


def _spill(content: Content, path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        if isinstance(content, bytes | bytearray | memoryview):
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
            return
        while data := content.read(CHUNK):
            file.write(data)


def _seconds(moment: str) -> float:
    """`2026-11-15T12:30:03.665371525Z` or with an offset, as seconds; 0 where it is neither."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", moment)
    if match is None:
        return 0.0
    seconds = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
    offset = 0
    if match[3] != "Z":
        hours, minutes = match[3][1:].split(":")
        offset = (int(hours) * 3600 + int(minutes) * 60) * (1 if match[3][0] == "+" else -1)
    return seconds + float(match[2] or 0) - offset
