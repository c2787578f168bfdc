"""The last frame of our `tar.zst`: a skippable one, so every zstd passes over it.

It says where each frame begins and which one holds the manifest. With it the manifest is read without
unpacking the rest, and frames are unpacked on several threads. It carries nothing that is not also in
the archive itself: without it, or if it is damaged, the archive is read from front to back.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass

from ..container.handle import Handle

_SKIPPABLE = struct.Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A5E
_FOOTER = struct.Struct("<II8s")
_FOOTER_MAGIC = b"SAFEKEPT"
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Trailer:
    """Where the frames are."""

    manifest: int  # number of the frame that the manifest begins in
    frames: list[int]  # packed size of each


def make_trailer(identity: dict[str, object], manifest: int, frames: list[int]) -> bytes:
    facts = {"safekept": 1, **identity, "manifest": manifest, "frames": frames}
    body = json.dumps(facts, separators=(",", ":")).encode("ascii")
    payload = body + _FOOTER.pack(len(body), zlib.crc32(body), _FOOTER_MAGIC)
    return _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(payload)) + payload


def read_trailer(handle: Handle) -> Trailer | None:
    """The trailer, or None where there is none that is whole and fits the file."""
    if handle.size < _SKIPPABLE.size + _FOOTER.size:
        return None
    length, check, magic = _FOOTER.unpack(handle.read(handle.size - _FOOTER.size, _FOOTER.size))
    start = handle.size - _FOOTER.size - length - _SKIPPABLE.size
    if magic != _FOOTER_MAGIC or start < 0 or length > _LIMIT:
        return None
    if handle.read(start, _SKIPPABLE.size) != _SKIPPABLE.pack(_SKIPPABLE_MAGIC, length + _FOOTER.size):
        return None
    body = handle.read(start + _SKIPPABLE.size, length)
    if zlib.crc32(body) != check:
        return None
    try:
        facts = json.loads(body)
        manifest, frames = facts["manifest"], facts["frames"]
        fits = (
            type(manifest) is int
            and all(type(size) is int and size > 0 for size in frames)
            and sum(frames) == start
            and 0 <= manifest < len(frames)
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Trailer(manifest, frames) if fits else None
