"""The record of a project's rollbacks: what lets a killed one be finished or taken back.

`projects/<id>/rollback.jsonl`, one object per line: `begun` (names of ours that may be lying about),
`committed` (everything is staged and every change is listed: from here a killed rollback is
finished), `taking-back` (it failed and is being undone: from here a killed one is undone), and `done`
or `taken-back`. When one is over, its lists are dropped and one line of it stays.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any

from safekept.core.files import durable_write, private_directory, write_all

NAME = "rollback.jsonl"
VERSION = 1
_OVER = ("done", "taken-back")
_LINES_KEPT = 100


class RollbackJournal:
    """Appends durably and reads back."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)

    def write(self, state: str, operation: str, **facts: Any) -> None:
        """Add one line; durable when this returns."""
        private_directory(os.path.dirname(self.path))
        line = json.dumps({"version": VERSION, "state": state, "operation": operation, **facts}).encode()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self, state: str, operation: str, **facts: Any) -> None:
        """The rollback is over: its end is written, and what only recovery needs is dropped."""
        self.write(state, operation, **facts)
        lines = [line for line in self.read() if line["state"] in _OVER][-_LINES_KEPT:]
        with contextlib.suppress(OSError):  # longer than it need be, and right
            durable_write(self.path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def read(self) -> Iterable[dict[str, Any]]:
        """Every readable line, oldest first; a torn one is passed over."""
        try:
            with open(self.path, "rb") as file:
                lines = file.readlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            if isinstance(fields, dict) and "state" in fields and "operation" in fields:
                yield fields

    def pending(self) -> list[dict[str, Any]]:
        """The lines of a rollback that never came to an end; empty where there is none."""
        lines = list(self.read())
        over = {line["operation"] for line in lines if line["state"] in _OVER}
        return [line for line in lines if line["operation"] not in over]

    def finished(self) -> list[dict[str, Any]]:
        """Rollbacks that were carried out, oldest first."""
        return [line for line in self.read() if line["state"] == "done"]
