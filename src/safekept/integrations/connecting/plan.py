"""What connecting or disconnecting would change, file by file, with a diff to look at first."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from safekept.core.spelling import shown

from .settings_file import SettingsFile

_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class Edit:
    """One file: what is there, and what will be."""

    file: SettingsFile
    after: bytes | None  # None: the file goes
    base: bytes | None = None  # what `connect --remove` brings back; None: there was no file
    new_mode: int = 0o600
    known: bool = False  # what is replaced is as connecting left it: no copy is needed
    in_full: bool = True  # False: one line says that the file comes, goes or changes

    @property
    def changes(self) -> bool:
        return self.after != self.file.content

    def diff(self) -> str:
        """A unified diff; a file that is not there is `/dev/null`."""
        if not self.changes:
            return ""
        name, before = shown(self.file.path), self.file.content
        if not self.in_full:
            verb = "new" if before is None else "changed"
            return f"--- {name} (removed)" if self.after is None else f"+++ {name} ({verb})"
        old = _lines(before)
        new = _lines(self.after)
        lines = difflib.unified_diff(
            old,
            new,
            _NOWHERE if before is None else name,
            _NOWHERE if self.after is None else name,
            n=3,
        )
        told = []
        for line in lines:
            told.append(line.rstrip("\r\n"))
            if not line.endswith("\n") and line[:1] in "+- ":
                told.append("\\ No newline at end of file")
        return "\n".join(told)


def _lines(content: bytes | None) -> list[str]:
    if content is None:
        return []
    *whole, last = content.decode("utf-8", "backslashreplace").split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one command would do to the settings of one host."""

    host: str
    scope: str  # a project, or the home of Hermes; "": for this user, everywhere
    place: str  # the settings that it is about
    command: tuple[str, ...]
    edits: tuple[Edit, ...]
    notes: tuple[str, ...] = ()  # what a person must know or do besides
    connecting: bool = True
    directories: tuple[str, ...] = ()  # to be removed again where they are empty
    leftovers: tuple[str, ...] = ()  # what others left beside our own files, and goes with them

    @property
    def changes(self) -> bool:
        return any(edit.changes for edit in self.edits)

    def diff(self) -> str:
        return "\n".join(filter(None, (edit.diff() for edit in self.edits)))
