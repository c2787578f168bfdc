"""What a tool says: words for the agent that reads them, and the same facts as data.

Names of any bytes are made safe for JSON and for screens; long lists are cut and counted, so
that an answer never fills a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.core.spelling import shown

#: Entries of one list in an answer; what is more is counted.
_ENTRIES = 500
#: Lines of one list in words.
_LINES = 30
#: Letters of one line of a diff, and of all of them.
_LONGEST, _LETTERS = 2_000, 500_000


@dataclass(slots=True)
class ToolAnswer:
    """One answer."""

    lines: list[str] = field(default_factory=list)
    data: dict[str, object] = field(default_factory=dict)
    failed: bool = False
    code: str = ""  # of the error, where it failed

    def add(self, *lines: str) -> None:
        self.lines += lines

    def items(self, title: str, entries: Sequence[str]) -> None:
        """`title:` and one line for each; the rest is counted."""
        if not entries:
            return
        self.lines.append(f"{title} ({len(entries):,}):")
        self.lines += [f"  {shown(entry)}" for entry in entries[:_LINES]]
        if len(entries) > _LINES:
            self.lines.append(f"  … and {len(entries) - _LINES:,} more")

    @property
    def text(self) -> str:
        return "\n".join(printable(line) for line in self.lines)

    @property
    def document(self) -> dict[str, object]:
        found = plain(self.data)
        assert isinstance(found, dict)
        return found


def clipped(lines: Sequence[str], most: int) -> list[str]:
    """So many lines at most, and none so long that it fills the answer by itself."""
    cut, room = [], _LETTERS
    for line in lines[:most]:
        line = line if len(line) <= _LONGEST else line[:_LONGEST] + f"… ({len(line):,} letters)"
        room -= len(line)
        if room < 0:
            break
        cut.append(line)
    return cut


def refused(error: SafekeptError) -> ToolAnswer:
    """An error as every face says it: what happened, what was kept safe, what to do next."""
    answer = ToolAnswer(failed=True, code=error.code, data={"error": error.as_dict()})
    answer.add(f"Error ({error.code}): {error.what}")
    if error.kept:
        answer.add(f"Kept: {error.kept}")
    answer.add(*(f"Next: {step}" for step in error.advice()))
    return answer


def plain(value: object) -> object:
    """The same value as JSON can carry it, with long lists cut."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool | int | float | type(None)):
        return value
    if isinstance(value, Mapping):
        return {printable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        cut = [plain(item) for item in value[:_ENTRIES]]
        return cut if len(value) <= _ENTRIES else [*cut, f"… and {len(value) - _ENTRIES:,} more"]
    return printable(str(value))


def printable(text: str) -> str:
    """No escape sequence and no stray byte; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else shown(c) for c in text)
