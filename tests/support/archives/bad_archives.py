"""Archives that nobody should be able to hurt a home with, one maker per kind."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib

GOOD = {"config.yaml": b"model: {}\n", "SOUL.md": b"You are Iris.\n", ".env": b"KEY=1\n"}


def zip_of(path: str, members: list[tuple[str, bytes]], modes: dict[str, int] | None = None) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = ((modes or {}).get(name, 0o100644)) << 16
            archive.writestr(info, data)
    return path


def good_zip(path: str, *extra: tuple[str, bytes], modes: dict[str, int] | None = None) -> str:
    return zip_of(path, [*GOOD.items(), *extra], modes)


def tar_of(path: str, *members: tarfile.TarInfo | tuple[str, bytes], mode: str = "w:gz") -> str:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in [*GOOD.items(), *members]:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def directory(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


def rename_in_place(path: str, old: bytes, new: bytes) -> str:
    """Patch a name of the same length in local and central headers: what no honest writer makes."""
    assert len(old) == len(new)
    with open(path, "rb") as file:
        data = file.read()
    assert data.count(old) == 2, data.count(old)
    with open(path, "wb") as file:
        file.write(data.replace(old, new))
    return path


def encrypted_zip(path: str) -> str:
    """A zip whose members claim to be password-protected."""
    good_zip(path)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(magic)
        while start >= 0:
            data[start + offset] |= 1
            start = data.find(magic, start + 4)
    with open(path, "wb") as file:
        file.write(data)
    return path


def bomb_by_ratio(path: str, gigabytes: int = 2) -> str:
    """Two gigabytes of zeros in two megabytes, honestly declared."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in GOOD.items():
            archive.writestr(name, data)
        with archive.open("zeros.bin", "w", force_zip64=True) as member:
            member._compressor = _Zeros()
            for _ in range(gigabytes * 1024):
                member.write(_MEGABYTE)
    return path


_MEGABYTE = bytes(1 << 20)


class _Zeros:
    """Packs a megabyte of zeros once, and gives the same bytes each time: as a packer would, but at once."""

    def __init__(self) -> None:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        self._packed = packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)

    def compress(self, data: bytes) -> bytes:
        assert data is _MEGABYTE
        return self._packed

    def flush(self) -> bytes:
        return zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def bomb_by_lie(path: str) -> str:
    """A member that declares ten bytes and inflates to ten million."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(10_000_000)) + packer.flush()
    name, crc = b"state.db", zlib.crc32(bytes(10))
    local = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 8, 0, 33, crc, len(packed), 10, len(name), 0)
    central = struct.pack(
        "<4sHHHHHHIIIHHHHHII",
        b"PK\x01\x02", 0x0314, 20, 0, 8, 0, 33, crc, len(packed), 10, len(name), 0, 0, 0, 0,
        (stat.S_IFREG | 0o644) << 16, 0,
    )  # fmt: skip
    body = local + name + packed
    assert len(packed) < 20_000
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(central) + len(name), len(body), 0)
    with open(path, "wb") as file:
        file.write(body + central + name + end)
    return path


def truncated(path: str, keep: float) -> str:
    size = os.path.getsize(path)
    os.truncate(path, int(size * keep))
    return path
