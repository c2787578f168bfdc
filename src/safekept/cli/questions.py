"""Questions at a terminal. Ctrl-C or Ctrl-D at one ends the command, which says what was not done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import click

#: What holds at most questions: they come before anything is done.
UNCHANGED = "nothing was changed"
#: Where a secret is asked for while the work has begun: the command says what stands.
AT_WORK = "it was not given"


class LeftAtQuestion(click.Abort):
    """A person left at a question. `kept` says what that means."""

    def __init__(self, kept: str, *, interrupted: bool) -> None:
        super().__init__(kept)
        self.kept, self.interrupted = kept, interrupted


def prompt(
    text: str,
    *,
    default: str | None = None,
    hidden: bool = False,
    twice: bool = False,
    kept: str = UNCHANGED,
) -> str:
    """What was typed; the default is not shown: `text` names it where a person should see it."""
    with _leaving(kept, hidden):
        typed = click.prompt(
            text,
            default=default,
            show_default=False,
            hide_input=hidden,
            confirmation_prompt=twice,
            err=True,
        )
    return str(typed)


def confirm(text: str, *, default: bool, kept: str = UNCHANGED) -> bool:
    """Yes or no; asked until it is one of them. Enter is the default."""
    question = f"{text} [{'Y/n' if default else 'y/N'}]"
    while True:
        typed = prompt(question, default="", kept=kept).strip().lower()
        if typed in ("", "y", "yes", "n", "no"):
            return default if not typed else typed.startswith("y")
        margin = text[: len(text) - len(text.lstrip())]
        click.echo(f"{margin}Please type y or n", err=True)


@contextlib.contextmanager
def _leaving(kept: str, hidden: bool = False) -> Iterator[None]:
    from .console import Console

    try:
        with Console.asking():
            yield
    except click.Abort as left:
        if not hidden and sys.stdin.isatty():  # the cursor is still on the line of the question
            click.echo(err=True)
        raise LeftAtQuestion(kept, interrupted=isinstance(left.__context__, KeyboardInterrupt)) from None
