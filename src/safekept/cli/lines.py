"""Lines for a terminal: broken at words and never inside a command, safe to show, in colour where it fits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import click

from safekept.core.next_step import Step
from safekept.core.spelling import shown

_Step = TypeVar("_Step", bound=Step)

#: What is never broken: a command, a number and what it counts, a word.
_PIECES = re.compile(r"[^\s`]*`[^`\n]*`[^\s`]*|\(?\d[\d.,]* [A-Za-z]\S*|\S+")
FACT = 13  # columns before what a label says
_ALONE = 4  # columns before a piece that has a line of its own, because it is too long for the room there is


def harmless(text: str) -> str:
    """A text as it can be shown safely: control characters and stray bytes as escapes; line breaks stay."""
    return "\n".join(shown(line) for line in text.split("\n"))


def folded(text: str, indent: int, columns: int) -> str:
    """The text in lines of at most so many columns, the later ones indented; with 0 columns as it is.

    A command, a path or a word is never broken, so that it can be copied: one that is longer than a line
    stands alone on its own, or beside its label, and the terminal wraps it.
    """
    if not columns or len(text) <= columns:
        return text
    indent = min(indent, columns // 2)
    lines, line, end = [], "", 0
    for found in _PIECES.finditer(text):
        piece, space = found[0], text[end : found.start()]
        end = found.end()
        room, start = columns - len(piece), len(line) + len(space)
        wide = start <= indent <= FACT and room < _ALONE  # a label, and what fits nowhere
        if not line.strip() and start > room:  # alone on its line: less of a margin, where that is enough
            space = space[: max(0, room)] if room >= 0 else space
        if line.strip() and start > room and not wide:
            lines.append(line.rstrip())
            # What just fits is not pushed over the edge.
            alone = _ALONE if room < 0 else min(_ALONE, room)
            line, space = " " * (indent if indent <= room else min(indent, alone)), ""
        line += space + piece
    return "\n".join([*lines, line])


def _terminal_width() -> int:
    import shutil  # costly, and only a terminal has a width

    return shutil.get_terminal_size().columns


def screen_width() -> int:
    """Columns of the terminal that results go to; 0 where they go elsewhere and are not broken."""
    return _terminal_width() if sys.stdout is not None and sys.stdout.isatty() else 0


def width_beside() -> int:
    """The same of the terminal that errors and remarks go to."""
    return _terminal_width() if sys.stderr is not None and sys.stderr.isatty() else 0


def prose(text: str, indent: int | None, columns: int) -> str:
    """Each line of a text folded, with a hanging indent of its own unless one is given."""
    return "\n".join(
        folded(line, len(line) - len(line.lstrip()) + 2 if indent is None else indent, columns)
        for line in harmless(text).split("\n")
    )


def styled(text: str, **style: Any) -> str:
    """In colour; plain where NO_COLOR is set or the terminal has none. Elsewhere click strips it."""
    plain = not style or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else click.style(text, **style)


def rows(label: str, texts: Iterable[_Step]) -> Iterator[tuple[str, _Step]]:
    """What stands before each of several lines, and the line."""
    for number, text in enumerate(texts):
        yield "" if number else label, text


def fact_line(label: str, text: str) -> str:
    return f"  {label:<{FACT - 3}} {text}"
