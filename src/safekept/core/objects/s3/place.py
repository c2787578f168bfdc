"""Objects in a bucket of an S3-compatible store, through obstore.

A write is one PUT, or the parts of a multipart upload that appear together: whole or not at all. The name
is looked at first and the PUT carries `If-None-Match: *`, so a server that knows the condition refuses a
taken name also in a race, and one that does not is no worse off than with the look. What was stored is
compared with what was sent by the ETag (the MD5 of the bytes), or, where a server encrypts and its ETags
mean nothing, by reading back once and by the size from then on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

from ...errors import SafekeptError
from ...worker import Worker
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
    allowed,
    checked,
    checked_prefix,
    probe_name,
    write_probe,
)
from ..errors import PlaceRefused, refused, wrong
from .answers import Refused, explained, understood
from .client import S3Access, S3Client, no_keys
from .transfer import LastRead, Oversize, Parts, begin, fetch, fill_buffer, remaining, skipping

_T = TypeVar("_T")
_Versions = list[str | None]
_SINGLE = 32 << 20  # up to here one PUT; above, parts
_PART = 16 << 20
_MOST_PARTS = 9_000
_PARTS_AT_ONCE = 3
_PAGE = 1000  # names that a server gives at once


class S3Objects(ObjectStore):
    """The objects below one prefix of a bucket."""

    def __init__(
        self,
        bucket: str,
        prefix: str,
        access: S3Access,
        *,
        timeout: float = 60.0,
        patience: float = 300.0,
        lanes: int = 4,
    ) -> None:
        self.bucket, self.prefix = bucket, prefix.strip("/")
        self.lanes = lanes
        self._access = access
        self._client = S3Client(bucket, self.prefix, access, timeout, patience)
        self._conditional = True  # until the server says that it does not know the condition
        self._etag_is_md5 = True  # until it shows that it is not
        self._ranges = True  # until it turns out to have none
        self._whole = LastRead()
        self._bucket_seen = False

    @property
    def location(self) -> str:
        path = f"{self.bucket}/{self.prefix}".rstrip("/")
        host = self._access.endpoint.partition("://")[2].rpartition("@")[2].rstrip("/")
        return f"s3://{path} at {host}" if host else f"s3://{path}"

    def present(self) -> bool:
        try:
            self._look_at_bucket()
        except SafekeptError as error:
            if error.code == "place-missing":
                return False
            raise
        return True

    def create(self) -> None:
        self._look_at_bucket()

    def list(self, prefix: str = "") -> Iterator[Stored]:
        found = self._call("list it", lambda: list(self._listed(checked_prefix(prefix))))
        self._bucket_seen = True
        yield from found

    def size(self, name: str) -> int:
        checked(name)
        return int(self._call("read it", lambda: self._head(name)["size"], name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        checked(name)
        if length is not None and length <= 0:
            self.size(name)
            return b""
        if offset or length is not None:
            return self._read_part(name, offset, length)
        return self._call("read it", lambda: self._get(name, 0, None), name)

    def _read_part(self, name: str, offset: int, length: int | None) -> bytes:
        if not self._ranges:
            return self._whole.part(name, offset, length, lambda: self.read(name))
        try:
            return self._call("read it", lambda: self._get(name, offset, length), name)
        except _OutOfRange:
            end = self.size(name)
        if offset >= end:
            return b""
        try:
            wanted = end - offset if length is None else min(length, end - offset)
            return self._call("read it", lambda: self._get(name, offset, wanted), name)
        except _OutOfRange:
            # A server without ranges, or (rclone's) with ranges that it does not announce as such.
            self._ranges = False
            return self._read_part(name, offset, length)

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        end = self.size(checked(name))
        if offset >= end:
            return
        try:
            start = offset if self._ranges else 0
            pieces = self._call("read it", lambda: begin(self._client.reading(), name, start), name)
        except _OutOfRange:
            pieces = iter([self._read_part(name, offset, None)])
        else:
            pieces = skipping(pieces, offset - start)
        while (piece := self._call("read it", lambda: next(pieces, None), name)) is not None:
            data = bytes(piece)
            offset += len(data)
            yield data
        if offset < end:
            raise explained(self.location, "read it", Refused(cause="the connection was cut"))

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        checked(name)
        self._whole.forget(name)
        if not replace and self._stands(name):
            raise Taken(name)
        if isinstance(content, bytes | bytearray | memoryview):
            self._write_buffer(name, memoryview(content).cast("B"), replace)
            return
        size = remaining(content)
        buffer = bytearray(_SINGLE if size is None else min(_SINGLE, size + 1))
        filled = fill_buffer(content, buffer)
        if filled < len(buffer):
            self._write_buffer(name, memoryview(buffer)[:filled], replace)
        else:
            self._write_parts(name, buffer, content, size or 0)

    def delete(self, name: str) -> None:
        import obstore

        self._whole.forget(checked(name))
        try:
            self._call("delete there", lambda: obstore.delete(self._client.reading(), name), name)
        except NotThere:
            return

    def probe(self) -> CredentialRights:
        name = probe_name()
        versions: _Versions = []

        def put(replace: bool) -> None:
            self._put(name, memoryview(b"safekept"), replace, versions)

        write_probe(self, name, lambda: put(False))
        once: bool | None = None
        try:
            # The same name again: a server that knows the condition refuses it, and by the condition.
            put(False)
            once = False
        except Taken:
            once = True
        except PlaceRefused:
            pass  # by right and not by condition: unknown
        overwrite = once is False or allowed(lambda: put(True))
        delete = allowed(lambda: self.delete(name))
        left = "" if delete else name
        # Where nothing was written this time, no answer said whether it became a version.
        return CredentialRights(True, overwrite, delete, any(versions) if versions else None, once, left)

    def close(self) -> None:
        self._client.close()

    # ── writing ────────────────────────────────────────────────────────────────────────────────────

    def _stands(self, name: str) -> bool:
        try:
            return self.exists(name)
        except PlaceRefused:
            # A credential that may add and not look: the condition of the PUT has to do.
            if self._conditional:
                return False
            raise

    def _write_buffer(self, name: str, data: memoryview, replace: bool) -> None:
        etag = self._put(name, data, replace, [])
        if self._etag_is_md5 and etag == hashlib.md5(data, usedforsecurity=False).hexdigest():
            return
        try:
            if self.size(name) != len(data):
                raise self._not_kept(name, replace, "it has another size")
            # A server that encrypts has ETags of its own: look once, and trust the size from then on.
            if self._etag_is_md5 and self.read(name) != data:
                raise self._not_kept(name, replace, "it reads back differently")
        except NotThere:
            raise self._not_kept(name, replace, "it is not there") from None
        self._etag_is_md5 = False

    def _put(self, name: str, data: memoryview, replace: bool, versions: _Versions) -> str:
        import obstore

        begun = time.monotonic()

        def send() -> str:
            mode = "create" if self._conditional and not replace else "overwrite"
            store = self._client.putting(len(data))
            answer = obstore.put(store, name, data, mode=mode, use_multipart=False)  # type: ignore[arg-type]
            versions.append(answer["version"])
            return (answer["e_tag"] or "").strip('"').lower()

        etag = self._call("write there", send, name)
        self._client.learn(len(data), time.monotonic() - begun)
        return etag

    def _write_parts(self, name: str, begin: bytearray, rest: BinaryIO, size: int) -> None:
        """A large file in parts that are sent as they are read; the last step makes them one object."""
        import obstore

        length = max(_PART, -(-size // _MOST_PARTS))
        parts = Parts(begin, rest, length)

        def send() -> None:
            store = self._client.putting(length * _PARTS_AT_ONCE, parts=True)
            obstore.put(
                store,
                name,
                iter(parts),
                use_multipart=True,
                chunk_size=length,
                max_concurrency=_PARTS_AT_ONCE,
            )

        try:
            self._call("write there", send, name)
        except SafekeptError:
            if parts.error is not None:
                raise parts.error from None
            raise
        try:
            facts = self._call("read it", lambda: self._head(name), name)
        except NotThere:
            raise self._not_kept(name, True, "it is not there") from None
        if facts["size"] != parts.size:
            raise self._not_kept(name, True, f"it has {facts['size']} bytes instead of {parts.size}")
        etag = (facts["e_tag"] or "").strip('"').lower()
        if self._etag_is_md5 and "-" in etag and etag != parts.etag():
            theirs = hashlib.sha256()
            for piece in self.stream(name):
                theirs.update(piece)
            if theirs.digest() != parts.digest():
                raise self._not_kept(name, True, "it reads back differently")
            self._etag_is_md5 = False

    def _not_kept(self, name: str, replaced: bool, reason: str) -> SafekeptError:
        if not replaced:
            try:
                self.delete(name)
            except SafekeptError:
                reason += f"; what stands under `{name}` now is worthless and could not be deleted"
        return wrong(self.location, name, reason)

    # ── asking ─────────────────────────────────────────────────────────────────────────────────────

    def _head(self, name: str) -> Any:
        import obstore

        return obstore.head(self._client.reading(), name)

    def _get(self, name: str, offset: int, length: int | None) -> bytes:
        try:
            data = fetch(self._client.reading(), name, offset, length)
        except Oversize:
            reason = f"it has more than {LARGEST_READ:,} bytes, as none of ours has"
            raise wrong(self.location, name, reason) from None
        if data is None:
            raise explained(self.location, "read it", Refused(cause="the connection was cut"))
        return data

    def _look_at_bucket(self) -> None:
        self._call("list it", lambda: list(self._listed("safekept-nothing/")))
        self._bucket_seen = True

    def _listed(self, prefix: str) -> Iterator[Stored]:
        """A server can say for ever that there is more: so many names, and so long for the next of them."""
        import obstore

        pages = iter(obstore.list(self._client.reading(), prefix or None, chunk_size=_PAGE))
        left = MOST_NAMES
        while (page := self._in_time(lambda: next(pages, None))) is not None:
            left -= len(page)
            if left < 0:
                raise refused(self.location, "list it", ENDLESS, NO_TRUST)
            for facts in page:
                if facts["path"]:  # some consoles store an empty object in the place of a directory
                    yield Stored(facts["path"], facts["size"], facts["last_modified"].timestamp())

    def _in_time(self, work: Callable[[], _T]) -> _T:
        """What obstore comes back with. Of itself it asks for page after page that names nothing."""
        found: list[_T] = []
        asking = Worker(lambda: found.append(work()), "safekept-listing")
        # One answer is waited for and asked for again within these; a page of names takes two at most.
        if not asking.wait(2 * (self._client.timeout + self._client.patience)):
            raise refused(self.location, "list it", "it answers without end and names nothing", NO_TRUST)
        if asking.error is not None:
            raise asking.error
        return found[0]

    def _call(self, verb: str, work: Callable[[], _T], name: str = "") -> _T:
        """Ask obstore; what it raises comes out as one of our errors, without its own text."""
        from obstore.exceptions import BaseError

        if not self._access.key and not self._access.from_machine:
            raise no_keys(self.location, self._access)
        try:
            answered = work()
        except (BaseError, OSError) as error:
            answer = understood(error)
        else:
            self._bucket_seen = True
            return answered
        if not self._access.key and answer.machine:
            raise no_keys(self.location, self._access)
        if answer.not_there and verb in ("read it", "delete there"):
            if not self._bucket_seen:
                self._look_at_bucket()
            raise NotThere(name)
        if verb == "write there" and answer.taken:
            raise Taken(name)
        if verb == "write there" and answer.condition_unknown and self._conditional:
            self._conditional = False
            return self._call(verb, work, name)
        if verb == "write there" and answer.checksum_wanted and not self._client.checksums:
            self._client.send_checksums()
            return self._call(verb, work, name)
        if verb == "read it" and answer.out_of_range:
            raise _OutOfRange(name)
        if verb == "write there" and answer.timed_out:
            self._client.allow_more()
        raise explained(self.location, verb, answer) from None


class _OutOfRange(Exception):
    """The range begins behind the end, or the server does not understand it."""
