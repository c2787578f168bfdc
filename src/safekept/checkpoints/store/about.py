"""What a checkpoint says of itself: `about.json` in its tree, and a short form in the commit's message."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

from ..checkpoint import Checkpoint
from .objects import BadObject

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
    )


def about(checkpoint: Checkpoint, **more: object) -> bytes:
    """The content of `about.json`."""
    facts: dict[str, object] = {"format": "safekept-checkpoint", "version": VERSION}
    facts |= {key: value for key, value in checkpoint.as_dict().items() if key != "commit"}
    return json.dumps({**facts, **more}, indent=1).encode() + b"\n"


def short_reason(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


def git_head(project: bytes) -> str:
    """Where the project's own repository stands: a commit, read without running git; empty if unknown."""
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
            return head.decode("ascii", "replace")
        name = head[4:].strip()
        common = _first_line(os.path.join(place, b"commondir"))
        for base in (place, os.path.join(place, common)) if common else (place,):
            commit = _first_line(os.path.join(base, name))
            if commit:
                return f"{commit.decode('ascii', 'replace')} {name.decode('utf-8', 'replace')}"
        return name.decode("utf-8", "replace")
    return ""


def _first_line(path: bytes) -> bytes:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(descriptor, 4096).split(b"\n", 1)[0].strip()
        finally:
            os.close(descriptor)
    return b""
