"""Tells cheaply whether a file is one of our archives, and what its manifest says.

Used to decide what may be rotated away, so it answers None whenever it is not sure. A sealed archive says
nothing by itself; whoever remembers the ones it made knows them again by their fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from safekept.core.errors import SafekeptError

from .container.handle import Handle, open_handle
from .container.manifest import HEAD, HEAD_LIMIT, parse_head
from .sealing.seal import sealed_kind
from .zip.records import CENTRAL, CENTRAL_SIGNATURE, COMMENT

_NAME = HEAD.encode()
_ENDS = 4096
Remembered = Callable[[str], dict[str, object] | None]


def fingerprint(path: str) -> str:
    """What a sealed file is known by: its size, its beginning and its end, which no other one shares."""
    handle = open_handle(path)
    try:
        return _fingerprint(handle)
    finally:
        handle.close()


def _fingerprint(handle: Handle) -> str:
    first, last = handle.some(0, _ENDS), handle.some(max(0, handle.size - _ENDS), _ENDS)
    return hashlib.sha256(b"%d " % handle.size + first + last).hexdigest()


def identify(path: str, sealed: Remembered | None = None) -> dict[str, object] | None:
    """The head of our manifest, or None for anything that is not surely a finished archive of ours.

    Of a sealed file, what `sealed` remembers under its fingerprint.
    """
    try:
        handle = open_handle(path)
    except SafekeptError:
        return None
    try:
        if sealed_kind(handle):
            return sealed(_fingerprint(handle)) if sealed is not None else None
        return _of_zip(handle) if handle.some(0, 2) == b"PK" else _of_tar(handle)
    except SafekeptError:
        return None
    finally:
        handle.close()


def _of_zip(handle: Handle) -> dict[str, object] | None:
    """The manifest is the last member, so the end of the central directory is enough."""
    from .zip.content import MemberContent
    from .zip.directory import Directory, Member, read_extra

    directory = Directory(handle)
    if not directory.comment.startswith(COMMENT):
        return None
    length = min(directory.size, 4096)
    tail = handle.read(directory.start + directory.size - length, length)
    at = tail.rfind(_NAME) - CENTRAL.size
    if at < 0:
        return None
    signature, *fields = CENTRAL.unpack_from(tail, at)
    if signature != CENTRAL_SIGNATURE or fields[9] != len(_NAME):
        return None
    member = Member(fields, _NAME)
    start = at + CENTRAL.size + fields[9]
    read_extra(handle.path, member, tail[start : start + fields[10]])
    member.offset += directory.shift
    if not member.own or member.size > HEAD_LIMIT:
        return None
    return parse_head(handle.path, b"".join(MemberContent(handle, member).chunks()))


def _of_tar(handle: Handle) -> dict[str, object] | None:
    from .tar.trailer import read_trailer

    trailer = read_trailer(handle)
    if trailer is None:
        return None
    from .tar.parser import Feed, TarParser
    from .tar.streams import frame

    offset = sum(trailer.frames[: trailer.manifest])
    data = frame(handle, offset, trailer.frames[trailer.manifest])
    parser = TarParser(Feed(handle.path, iter((data,))))
    member = parser.next()
    if member is None or member.name != _NAME or member.size > HEAD_LIMIT:
        return None
    return parse_head(handle.path, b"".join(parser.body(member)))
