"""What a checkpoint says of itself: `about.json` in its tree, and a short form in the commit's message."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping

from safekept.core.regular import read_start

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
    with contextlib.suppress(OSError):
        return read_start(path, 4096, follow=False).split(b"\n", 1)[0].strip()
    return b""
