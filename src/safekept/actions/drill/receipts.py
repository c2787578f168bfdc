"""Receipts: what a drill proved, row by row, kept so that `status` can say when it last was proven.

A receipt is written whatever the outcome, 0600, one small file each. What could not be decided is
"unknown" and what was not asked for is "left out"; only "failed" makes a drill fail, and nothing is
ever counted as passed that was not looked at.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from safekept.core.files.small import read_document, write_document
from safekept.core.records import dataclass

from ..base.context import UserContext

PASSED = "passed"
FAILED = "failed"
UNKNOWN = "unknown"
LEFT_OUT = "left out"

SNAPSHOT = "snapshot"
ARCHIVE = "archive"
DESTINATION = "destination"
CHECKPOINTS = "checkpoints"

VERSION = 1
#: Receipts are small and dated; the oldest go when there are more than this.
KEPT = 200
#: So many characters of a cause are repeated elsewhere; the receipt has all of it.
_LONGEST = 200
#: The id of an operation begins with so many characters of time, to the second; the rest of it is chance.
_SECOND = len("20260101-000000")


@dataclass(frozen=True, slots=True)
class Row:
    """One check: what was looked at, what came out, how many things, and a sentence."""

    check: str
    state: str  # PASSED, FAILED, UNKNOWN or LEFT_OUT
    count: int = 0  # how many things were looked at
    text: str = ""

    def as_dict(self) -> dict[str, object]:
        return {"check": self.check, "state": self.state, "count": self.count, "text": self.text}


@dataclass(frozen=True, slots=True)
class Receipt:
    """The signed-off outcome of one drill."""

    operation: str
    subject: str  # SNAPSHOT, ARCHIVE, DESTINATION or CHECKPOINTS
    name: str  # the snapshot's id, the archive's path, or the place of the checkpoints
    home: str  # the home that it was taken of; empty for checkpoints
    started: float  # seconds since 1970
    seconds: float
    ok: bool  # no row failed
    rows: tuple[Row, ...]
    small: bool = False  # only the state files and a sample of the rest
    complete: bool = True  # what was drilled says of itself that it holds all it was asked to
    files: int = 0
    bytes: int = 0
    store: str = ""  # the vault, or the destination by its name
    taken: float = 0.0  # when the snapshot or archive was made; 0 where nothing says
    host: str = ""  # the machine that the drill ran on
    tool: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.state == FAILED)

    @property
    def why(self) -> str:
        """Why it failed, in a line: the first cause with the name of its check, and which others failed."""
        if not self.failed:
            return "" if self.ok else "no row says why"
        first, *others = self.failed
        cause = self._cause(first.check) or _short(first.text)
        text = f"{cause} ({first.check})" if cause else first.check
        return f"{text}; also {', '.join(row.check for row in others)}" if others else text

    def _cause(self, check: str) -> str:
        """The first problem of a check, as the drill found it; empty where the receipt names none."""
        try:
            problem, *more = self.facts["problems"][check]
            path, reason = str(problem["path"]), str(problem["reason"])
        except (KeyError, TypeError, ValueError):
            return ""
        text = f"{path}: {_short(reason)}" if path else _short(reason)
        return f"{text}, and {len(more):,} more" if more else text

    def as_dict(self) -> dict[str, object]:
        return {
            "version": VERSION,
            "operation": self.operation,
            "subject": self.subject,
            "name": self.name,
            "home": self.home,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "small": self.small,
            "complete": self.complete,
            "files": self.files,
            "bytes": self.bytes,
            "store": self.store,
            "taken": self.taken,
            "host": self.host,
            "tool": self.tool,
            "rows": [row.as_dict() for row in self.rows],
            "facts": dict(self.facts),
        }


def _short(text: str) -> str:
    """What fits into a sentence: an agent may fail with a page."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def receipts_directory(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "receipts")


def save_receipt(context: UserContext, receipt: Receipt) -> str:
    """Write it durably; returns its path. OSError where that is not possible."""
    directory = receipts_directory(context)
    path = os.path.join(directory, f"{receipt.operation}.json")
    write_document(path, receipt.as_dict())
    _tidy(directory)
    return path


def read_receipts(context: UserContext) -> list[Receipt]:
    """Every readable receipt, newest first; one that is torn or of a later kind is passed over."""
    directory = receipts_directory(context)
    try:
        names = [name for name in os.listdir(directory) if name.endswith(".json")]
    except OSError:
        return []
    found = []
    for name in names:
        receipt = read_document(os.path.join(directory, name), _parse, None)
        if receipt is not None:
            found.append((name[:_SECOND], receipt.started, receipt))
    found.sort(key=lambda one: one[:2], reverse=True)
    return [receipt for _, _, receipt in found]


def _parse(fields: Mapping[str, Any]) -> Receipt:
    rows = tuple(
        Row(str(row["check"]), str(row["state"]), int(row["count"]), str(row["text"]))
        for row in fields["rows"]
    )
    facts = fields.get("facts")
    return Receipt(
        operation=str(fields["operation"]),
        subject=str(fields["subject"]),
        name=str(fields["name"]),
        home=str(fields["home"]),
        started=float(fields["started"]),
        seconds=float(fields["seconds"]),
        # What else the file says proves nothing against the rows.
        ok=fields["ok"] is True and all(row.state != FAILED for row in rows),
        rows=rows,
        small=fields.get("small") is True,
        complete=fields.get("complete") is not False,
        files=int(fields.get("files") or 0),
        bytes=int(fields.get("bytes") or 0),
        store=str(fields.get("store") or ""),
        taken=float(fields.get("taken") or 0.0),
        host=str(fields.get("host") or ""),
        tool=str(fields.get("tool") or ""),
        facts=facts if isinstance(facts, dict) else {},
    )


def _tidy(directory: str) -> None:
    """The newest KEPT stay, and so does the last success of each subject and home."""
    names = sorted((name for name in os.listdir(directory) if name.endswith(".json")), reverse=True)
    if len(names) <= KEPT:
        return
    spared = set(names[:KEPT])
    seen: set[tuple[str, str]] = set()
    for name in names:
        receipt = read_document(os.path.join(directory, name), _parse, None)
        if receipt is not None and receipt.ok and (receipt.subject, receipt.home) not in seen:
            seen.add((receipt.subject, receipt.home))
            spared.add(name)
    for name in names:
        if name not in spared:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
