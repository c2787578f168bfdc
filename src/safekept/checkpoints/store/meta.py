"""What git cannot hold of a directory: modes, times, sizes, and what is not in the checkpoint and why.

One small blob per directory, `meta/<directory>/.meta`, so that directories in which nothing changed are
shared between checkpoints. Lines of text, names last, in the order of their bytes:

    safekept 1
    . 755 1718000000000000000 listed        the directory itself; `partial`: only named files are known
    = 644 1718000000000000000 1024 name     a file or link: mode, modification time, size
    - oversize 52428800 name                not stored, with the reason and the size
    ! name                                  looked for by name, and not there

A backslash and a line feed in a name are written as `\\\\` and `\\n`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .objects import BadObject

_FIRST = b"safekept 1\n"


@dataclass(slots=True)
class Meta:
    """One decoded blob."""

    mode: int = 0o755
    mtime_ns: int = 0
    partial: bool = False
    entries: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)  # name -> mode, mtime, size
    skipped: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # name -> reason, size
    absent: set[bytes] = field(default_factory=set)


def encode_line(mode: int, mtime_ns: int, size: int, name: bytes) -> bytes:
    return b"= %o %d %d %s\n" % (mode, mtime_ns, size, escape(name))


def encode(meta: Meta) -> bytes:
    lines = [
        _FIRST,
        b". %o %d %s\n" % (meta.mode, meta.mtime_ns, b"partial" if meta.partial else b"listed"),
    ]
    for name, (mode, mtime_ns, size) in sorted(meta.entries.items()):
        lines.append(b"= %o %d %d %s\n" % (mode, mtime_ns, size, escape(name)))
    for name, (reason, length) in sorted(meta.skipped.items()):
        lines.append(b"- %s %d %s\n" % (reason.encode(), length, escape(name)))
    lines += [b"! %s\n" % escape(name) for name in sorted(meta.absent)]
    return b"".join(lines)


def decode(data: bytes, oid: str = "") -> Meta:
    meta = Meta()
    try:
        if not data.startswith(_FIRST):
            raise ValueError
        for line in data[len(_FIRST) :].split(b"\n"):
            sign = line[:2]
            if sign == b"= ":
                _, mode, mtime, size, name = line.split(b" ", 4)
                meta.entries[unescape(name)] = (int(mode, 8), int(mtime), int(size))
            elif sign == b"- ":
                _, reason, size, name = line.split(b" ", 3)
                meta.skipped[unescape(name)] = (reason.decode(), int(size))
            elif sign == b"! ":
                meta.absent.add(unescape(line[2:]))
            elif sign == b". ":
                _, mode, mtime, kind = line.split(b" ")
                meta.mode, meta.mtime_ns, meta.partial = int(mode, 8), int(mtime), kind == b"partial"
    except ValueError:
        raise BadObject(oid, "is no description of a directory") from None
    return meta


def escape(name: bytes) -> bytes:
    if b"\\" in name or b"\n" in name:
        return name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    return name


def unescape(name: bytes) -> bytes:
    if b"\\" not in name:
        return name
    # A name cannot hold NUL, so it may stand for the backslash meanwhile.
    return name.replace(b"\\\\", b"\0").replace(b"\\n", b"\n").replace(b"\0", b"\\")
