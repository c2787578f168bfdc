"""One screen: lines that fit its width, broken at words, with every printed command left whole."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import sys
from collections.abc import Iterable, Iterator

from safekept.core.next_step import Step

from .console import Console, path_text
from .lines import folded, rows

#: Where the output goes to a file or a pipe; also what a screen has at least.
NARROW, WIDE = 80, 120
LABEL = 13


def width() -> int:
    """Columns to use: the terminal's, within reason; 80 elsewhere, so that a log reads like a screen."""
    if sys.stdout is None or not sys.stdout.isatty():
        return NARROW
    return max(40, min(WIDE, shutil.get_terminal_size().columns))


def height() -> int:
    """Lines that a terminal shows at once; 0 elsewhere, where nothing scrolls away."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 0
    return max(10, shutil.get_terminal_size().lines)


class Screen:
    """Labels on the left, what they say on the right."""

    def __init__(self, console: Console, user_home: str = "") -> None:
        self.console, self._user = console, user_home.rstrip("/")
        self.columns = width()
        self._lines: list[tuple[str, dict[str, object]]] | None = None  # what is held back, to be cut

    def path(self, path: str) -> str:
        """A path as a person calls it."""
        if self._user and (path == self._user or path.startswith(self._user + "/")):
            path = "~" + path[len(self._user) :]
        return path_text(path)

    def text(self, step: Step) -> str:
        """A sentence with such paths in it; commands stay as they are, since a shell reads them."""
        text = self.console.step(step)
        if not self._user:
            return text
        command = ("`safekept", f"`{self.console.program}")
        parts = re.split(r"(`[^`]*`)", text)
        own = re.compile(re.escape(self._user) + r"(?=/|$|[\s,;:])")
        return "".join(part if part.startswith(command) else own.sub("~", part) for part in parts)

    @contextlib.contextmanager
    def first_lines(self, more: str) -> Iterator[None]:
        """What is said inside, and of it no more than a terminal shows at once: `more` says so then."""
        self._lines = []
        try:
            yield
        finally:
            lines, self._lines = self._lines, None
            room = height() - 1  # the prompt comes below
            ends = list(itertools.accumulate(self._rows(text) for text, _ in lines))
            cut = room > 0 and ends[-1:] > [room]
            for (text, style), below in zip(lines, ends, strict=True):
                if not cut or below < room:
                    self.console.verbatim(text, **style)
            if cut:
                self.console.line(more)

    def _rows(self, text: str) -> int:
        """Of the terminal: a command or a path that is longer than a line takes more than one."""
        return max(1, -(-len(text) // self.columns))

    def line(self, text: str = "", **style: object) -> None:
        """A line that fits, as `folded` made it."""
        if self._lines is None:
            self.console.verbatim(text, **style)
        else:
            self._lines.append((text, style))

    def headline(self, text: Step, indent: int = 0, /, **style: object) -> None:
        for line in folded(self.text(text), indent, self.columns).split("\n"):
            self.line(line, bold=True, **style)

    def heading(self, text: str) -> None:
        self.headline(text)

    def one_line(self, label: str, text: str) -> None:
        """A fact that has one line on a terminal, where what does not fit is cut; elsewhere nothing is."""
        if not height():
            self.fact(label, path_text(text))
            return
        text, room = self.text(path_text(text)), self.columns - LABEL
        self.line(f"  {label:<{LABEL - 2}}" + (text if len(text) <= room else text[: room - 1] + "…"))

    def facts(self, label: str, texts: Iterable[Step]) -> None:
        """Several lines with one label, which stands beside the first."""
        for start, text in rows(label, texts):
            self.fact(start, text)

    def fact(self, label: str, text: Step, *, top: bool = False) -> None:
        """`  Snapshot   7 min ago, …`; a `top` one stands at the margin and belongs to no home."""
        start = f"{label:<{LABEL}}" if top else f"  {label:<{LABEL - 2}}"
        for line in folded(start + self.text(text), LABEL, self.columns).split("\n"):
            self.line(line)
