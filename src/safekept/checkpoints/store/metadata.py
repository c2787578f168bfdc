"""What a checkpoint says of itself: `about.json` in its tree, and a short form in the commit's message."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import field

from safekept.core.files.small import read_start
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint
from .objects import BadObject

# What git cannot hold of a directory: modes, times, sizes, and what is not in the checkpoint and why.
# One small blob per directory, `meta/<directory>/.meta`, so that directories in which nothing changed
# are shared between checkpoints. Lines of text, names last, in the order of their bytes: safekept 1 .
# 755 1718000000000000000 listed the directory itself; `partial`: only named files are known = 644
# 1718000000000000000 1024 name a file or link: mode, modification time, size - oversize 52428800 name
# not stored, with the reason and the size ! name looked for by name, and not there A backslash and a
# line feed in a name are written as `\\` and `\n`.

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


VERSION = 1
_LONGEST_REASON = 500


def message(checkpoint: Checkpoint) -> bytes:
    """A commit message: the reason for people, the facts for us."""
    subject = checkpoint.reason.split("\n", 1)[0][:100] or checkpoint.kind
    printable = "".join(letter if letter.isprintable() else " " for letter in subject).strip() or "checkpoint"
    facts = {key: value for key, value in checkpoint.as_dict().items() if key != "commit"}
    facts["version"] = VERSION
    return printable.encode("utf-8", "replace") + b"\n\n" + json.dumps(facts).encode() + b"\n"


def from_message(data: bytes, commit: str) -> Checkpoint:
    """The checkpoint of a commit message. Raises BadObject for one that is not ours."""
    try:
        return from_facts(json.loads(data.rstrip(b"\n").rpartition(b"\n")[2]), commit)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadObject(commit, "is no checkpoint") from None


def from_facts(facts: Mapping[str, object], commit: str) -> Checkpoint:
    return Checkpoint(
        id=str(facts["id"]),
        project=str(facts["project"]),
        time_ns=int(facts["time_ns"]),  # type: ignore[call-overload]
        kind=str(facts["kind"]),
        reason=str(facts["reason"]),
        session=str(facts["session"]),
        turn=str(facts["turn"]),
        commit=commit,
        full=bool(facts["full"]),
        files=int(facts["files"]),  # type: ignore[call-overload]
        skipped=int(facts["skipped"]),  # type: ignore[call-overload]
        hidden=str(facts.get("hidden", "")),
    )


def about(checkpoint: Checkpoint, **more: object) -> bytes:
    """The content of `about.json`."""
    facts: dict[str, object] = {"format": "safekept-checkpoint", "version": VERSION}
    facts |= {key: value for key, value in checkpoint.as_dict().items() if key != "commit"}
    return json.dumps({**facts, **more}, indent=1).encode() + b"\n"


def short_reason(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


def git_head(project: bytes) -> str:
    """Where the project's own repository stands: a commit, read without running git; empty if unknown.

    Only what has the shape of a commit's name is ever taken out of those files, whatever they lead to.
    """
    place = os.path.join(project, b".git")
    with contextlib.suppress(OSError):
        head = _first_line(os.path.join(place, b"HEAD"))
        if not head:
            line = _first_line(place)
            if not line.startswith(b"gitdir:"):
                return ""
            place = os.path.join(project, line[7:].strip())
            head = _first_line(os.path.join(place, b"HEAD"))
        if not head.startswith(b"ref:"):
            return head.decode("ascii") if _COMMIT.fullmatch(head) else ""
        name = head[4:].strip()
        if not name.startswith(b"refs/") or b".." in name:
            return ""
        common = _first_line(os.path.join(place, b"commondir"))
        for base in (place, os.path.join(place, common)) if common else (place,):
            commit = _first_line(os.path.join(base, name))
            if _COMMIT.fullmatch(commit):
                return f"{commit.decode('ascii')} {name.decode('utf-8', 'replace')}"
        return name.decode("utf-8", "replace")
    return ""


_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _first_line(path: bytes) -> bytes:
    """Empty where it cannot be read, or was never written by git: a disk without power leaves zeros."""
    with contextlib.suppress(OSError):
        line = read_start(path, 4096, follow=False).split(b"\n", 1)[0].strip()
        return line if b"\0" not in line else b""
    return b""
