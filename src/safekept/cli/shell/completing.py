"""What may come next on a command line, for the shells that ask: never slow, and never heard.

Commands and options come from the commands themselves, of which only the one on the line is imported. What
its words stand for is told by the placeholder that `--help` shows. Whatever goes wrong is an empty answer:
a person who presses Tab wants no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from ..console import path_text
from .completers import completer_for

FILES, DIRECTORIES, COMMANDS = "files", "directories", "commands"
#: Placeholders of values that the shell itself knows how to complete.
_BY_THE_SHELL = {"DIR": DIRECTORIES, "FILE": FILES, "PATH": FILES, "COMMAND": COMMANDS, "AGENT": COMMANDS}


@dataclass(slots=True)
class Answer:
    """Values with a word about each; and what the shell is to complete by itself."""

    values: list[tuple[str, str]] = field(default_factory=list)
    by_the_shell: str = ""  # FILES, DIRECTORIES, COMMANDS or nothing

    def lines(self, prefix: str = "") -> list[str]:
        """`value<tab>words`; a line without a value names what the shell is to do."""
        found = [f"{prefix}{value}\t{path_text(' '.join(words.split()))}" for value, words in self.values]
        return [*found, *([f"\t{self.by_the_shell}"] if self.by_the_shell else [])]


def complete(group: click.Group, words: Sequence[str]) -> Answer:
    """What the last of the words, which may be empty, can become. The program itself is not among them."""
    from click.shell_completion import _resolve_context, _resolve_incomplete

    before, last = list(words[:-1]), words[-1] if words else ""
    if last.startswith("--") and "=" in last:
        name, _, last = last.partition("=")
        before.append(name)
    ctx = _resolve_context(group, {}, group.name or "", before)
    thing, last = _resolve_incomplete(ctx, before, last)
    answer = Answer()
    if isinstance(thing, click.Parameter):
        return _value_of(thing, ctx, last)
    for item in thing.shell_complete(ctx, last):
        if item.type == "plain" and item.value.startswith(last):
            answer.values.append((item.value, item.help or ""))
    answer.values = list(dict(answer.values).items())  # a group and its default command share `--help`
    return answer


def _value_of(parameter: click.Parameter, ctx: click.Context, last: str) -> Answer:
    """What a parameter may be: its choices, what we know of, or what the shell finds."""
    answer = Answer()
    found = completer_for(parameter)
    if found is not None:
        answer.values = [(value, words) for value, words in found(ctx) if value.startswith(last)]
    else:
        items = parameter.shell_complete(ctx, last)
        answer.values = [(item.value, item.help or "") for item in items if item.type == "plain"]
    for word in placeholder(parameter).replace("|", " ").split():
        answer.by_the_shell = answer.by_the_shell or _BY_THE_SHELL.get(word, "")
    if isinstance(parameter.type, click.Path):
        answer.by_the_shell = FILES
    if answer.by_the_shell == COMMANDS and parameter.nargs == -1 and ctx.params.get(parameter.name or ""):
        answer.by_the_shell = FILES  # the program is named already
    if parameter.name in ("home", "scratch"):
        answer.by_the_shell = DIRECTORIES
    return answer


def placeholder(parameter: click.Parameter) -> str:
    """`ID|N|latest`, `DIR`: as `--help` shows it, without brackets and dots."""
    return (parameter.metavar or "").strip("[].")
