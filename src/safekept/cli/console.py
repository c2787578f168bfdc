"""Words out: renders results, errors and progress, and decides nothing.

Results go to stdout; errors, questions and progress go to stderr. With `--json` stdout carries one
document and nothing else. Colour only at a terminal, and never where NO_COLOR is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import click

from safekept.core.ages import count_text as count_text
from safekept.core.ages import size_text as size_text
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.next_step import PROGRAM, NextStep, Step, step_text
from safekept.core.spelling import shell_word, shown

from .lines import (
    FACT,
    fact_line,
    folded,
    harmless,
    prose,
    rows,
    screen_width,
    styled,
    width_beside,
)
from .questions import confirm

if TYPE_CHECKING:
    from .progress import Progress


def time_text(seconds: float) -> str:
    """4.2 -> '4.2 s', 75 -> '1 min 15 s'."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def sentence(text: str) -> str:
    """What stands by itself begins with a capital letter, wherever it comes from."""
    return text[:1].upper() + text[1:]


def path_text(path: str) -> str:
    """A name as it can be shown safely: control characters and stray bytes as escapes.

    File names come from archives and agents; an escape sequence in one must not reach the terminal.
    """
    return shown(path)


def path_argument(path: str) -> str:
    """A name as it can be pasted into a shell."""
    return shell_word(path)


#: The shape of documents for programs. Keys are only ever added under the same version; it grows when one is
#: taken away or means something else, so that a program can refuse what it does not know.
VERSION = 1


def document_text(
    document: Mapping[str, object],
    indent: int | None = 2,
    default: Callable[[object], object] | None = None,
) -> str:
    """The document with its version first. What is in it may have a version of its own, one level down."""
    rest = {name: value for name, value in document.items() if name != "version"}
    return json.dumps({"version": VERSION, **rest}, indent=indent, default=default)


class Console:
    """One command's way of talking."""

    #: Whether results go to stderr, because stdout belongs to a program that the command runs.
    beside: ClassVar[bool] = False
    #: The bar on the screen. There is one screen, so the next line can take it away.
    _progress: ClassVar[Progress | None] = None

    def __init__(self, *, as_json: bool, program: str = "safekept") -> None:
        self.as_json = as_json
        self.program = program

    # -- results ---------------------------------------------------------------------------

    def document(self, document: Mapping[str, object]) -> None:
        """The one JSON document of a command called with `--json`."""
        if self.as_json:
            click.echo(self.json(document))

    def json(self, document: Mapping[str, object], indent: int | None = 2) -> str:
        """A document with the commands in it as they are to be typed."""
        return document_text(document, indent, self._spelled)

    def _spelled(self, value: object) -> str:
        if isinstance(value, NextStep):
            return value.text(self.program)
        raise TypeError(f"{type(value).__name__} has no place in a document")

    def step(self, step: Step) -> str:
        """A sentence as it is, a command with the launcher that was called."""
        return step_text(step, self.program)

    def line(self, text: Step = "", indent: int | None = None, /, **style: Any) -> None:
        """A line of the result, for a person; at a terminal, broken at words."""
        if not self.as_json:
            self._echo(prose(self.step(text), indent, self.columns()), style)

    def verbatim(self, text: str = "", **style: Any) -> None:
        """Another program's line, or one that is copied whole: never broken by us."""
        if not self.as_json:
            self._echo(harmless(text), style)

    def _echo(self, text: str, style: Mapping[str, Any]) -> None:
        self._pause()
        click.echo(styled(text, **style), err=self.beside)

    @staticmethod
    def _pause() -> None:
        if Console._progress is not None:
            Console._progress.pause()

    def columns(self) -> int:
        """Of the terminal that results go to; 0 where they go elsewhere and are not broken."""
        return width_beside() if self.beside else screen_width()

    def fact(self, label: str, text: Step) -> None:
        """An aligned line: `  Files      412`."""
        self.line(fact_line(label, self.step(text)), FACT)

    def facts(self, label: str, texts: Iterable[Step]) -> None:
        """Several lines with one label, which stands beside the first."""
        for start, text in rows(label, texts):
            self.fact(start, text)

    def next(self, steps: Iterable[Step]) -> None:
        """What to do now: the same on every screen."""
        self.facts("Next", steps)

    def item(self, text: Step) -> None:
        """A line of a list, indented."""
        self.line(f"    {self.step(text)}")

    def heading(self, text: str, good: bool = True) -> None:
        self.line(text, bold=True, fg="green" if good else "yellow")

    def say(self, text: Step, indent: int | None = None) -> None:
        """A line beside the result: to stderr."""
        self._pause()
        click.echo(prose(self.step(text), indent, width_beside()), err=True)

    def clear_line(self) -> None:
        """Takes away the `^C` that a terminal shows: what follows would be broken too late."""
        self.finish()
        if self.draws():
            click.echo("\r\x1b[K", nl=False, err=True)

    def command(self, *words: str) -> str:
        """A command line that runs as printed, from any directory."""
        return " ".join([self.program, *(path_argument(word) for word in words)])

    # -- questions -------------------------------------------------------------------------

    def ask(self, question: str) -> bool:
        """Ask at a terminal; the caller has made sure that there is one."""
        self.finish()
        return confirm(question, default=False)

    def can_ask(self) -> bool:
        """Whether there is a person to ask. With `--json` there is a program, which is not asked."""
        return not self.as_json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def draws(self) -> bool:
        """Whether progress is drawn: at a terminal that can."""
        return not self.as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    # -- errors ----------------------------------------------------------------------------

    def error(self, error: SafekeptError) -> None:
        """What happened, what was kept safe, what to do next."""
        self.finish()
        if self.as_json:
            click.echo(document_text({"error": error.as_dict(self.program)}))
            return
        click.echo(error_text(error, self.program), err=True)

    def error_beside(self, error: SafekeptError) -> None:
        """One of several failed and the others go on: said to a person; a document has it in its place."""
        if not self.as_json:
            self.error(error)

    def usage(self, error: click.UsageError) -> None:
        if self.as_json:
            click.echo(document_text({"error": {"code": "usage", "what": error.format_message()}}))
            return
        from .groups import EXAMPLES, LazyGroup

        # What the parser of options itself refuses does not say of which command it is.
        words = error.ctx.command_path.partition(" ")[2] if error.ctx else LazyGroup.called
        what, param = error.format_message(), None
        steps = [NextStep(words, ("--help",), before="See")]
        if isinstance(error, click.MissingParameter):
            param = error.param
        if isinstance(param, click.Argument) and error.ctx and words in EXAMPLES:
            what = f"`{words}` needs {param.make_metavar(error.ctx)} after it."
            steps.insert(0, EXAMPLES[words])
        answers = "usage", what, "Nothing changed", tuple(map(self.step, steps))
        click.echo(_answers(*answers), err=True)

    # -- progress --------------------------------------------------------------------------

    def listener(self) -> Listener:
        """A listener that draws progress at a terminal, and says only remarks elsewhere."""
        if self.as_json:
            return self._say_notes
        if self.draws():
            from .progress import Progress

            self.finish()
            progress = Console._progress = Progress(self.program)
            progress.start()  # known by then: a Ctrl-C while it starts brings the cursor back
            return progress.listen
        return self._plain_listener()

    def notes(self) -> Listener:
        """A listener for what is quickly done: remarks are listed, nothing is drawn."""

        def listen(event: Event) -> None:
            if event.text and not self.as_json:
                self.say(event.text)

        return self._say_notes if self.as_json else listen

    def _say_notes(self, event: Event) -> None:
        """For who asked for a document: what went wrong beside the work is on standard error, too."""
        text = self.step(event.text)
        if text.startswith("Note: "):
            click.echo(text, err=True)

    def _plain_listener(self) -> Listener:
        def listen(event: Event) -> None:
            if event.text:
                self.say(event.text)

        return listen

    @staticmethod
    def finish() -> None:
        """Take the progress bar off the screen."""
        if Console._progress is not None:
            Console._progress.close()
            Console._progress = None

    @staticmethod
    @contextlib.contextmanager
    def asking() -> Iterator[None]:
        """No bar while a person is asked: it would draw over the question. What follows draws it again."""
        progress = Console._progress
        if progress is not None:
            progress.held = True
            progress.pause()
        try:
            yield
        finally:
            if progress is not None:
                progress.held = False


def error_text(error: SafekeptError, program: str = PROGRAM) -> str:
    """The three answers, aligned, readable without colour; at a terminal, broken at words."""
    return _answers(error.code, error.what, error.kept, error.advice(program))


def _answers(code: str, what: str, kept: str, steps: Sequence[str]) -> str:
    """The sentence first, for the person; the code last, for a search or a report."""
    width = width_beside()
    first, *more = harmless(what).split("\n")
    lines = [styled(folded(first, 0, width), bold=True)]
    lines += [folded(f"  {line}", 4, width) for line in more]
    texts = [("Kept", kept), *rows("Next", steps)]
    answers = [folded(fact_line(label, path_text(text)), FACT, width) for label, text in texts]
    return "\n".join([*lines, "", *answers, styled(fact_line("Error", code), dim=True)])
