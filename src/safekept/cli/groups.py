"""Groups of commands that know their commands by name and import only the one that is called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import click

from safekept.core.next_step import NextStep, named, today

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: name -> (module, one line for --help). The module has a click command called `command`, or another one
#: that stands behind a colon.
Table = Mapping[str, tuple[str, str]]


#: What people type in any group, by habit -> what such a command is called in ours.
_HABITS = {
    "rm": "remove",
    "delete": "remove",
    "ls": "list",
    "status": "show",
    "info": "show",
    "new": "add",
    "create": "add",
}


#: What helps who typed a command without the word that it needs: one that shows what such a word is.
EXAMPLES = {
    "history": NextStep("history", ("SOUL.md",), before="For example:"),
    "rebuild": NextStep(
        "rebuild", ("safekept-kit.txt",), before="With the kit that you stored, for example:"
    ),
    "import": NextStep("import", ("backup.zip",), before="For example:"),
    "sessions show": NextStep("sessions list", before="See which there are:"),
    "sessions restore": NextStep("sessions list", before="See which there are:"),
    "snapshot restore": NextStep("snapshot list", before="See which there are:"),
}


class NoSuchCommand(click.UsageError):
    """A word that is no command, with the one that was probably meant."""


class LazyGroup(click.Group):
    """A group with a table of modules; `default` is the command that bare options belong to."""

    #: The command that runs, in words; "" before it is found. A process runs one at a time.
    called: ClassVar[str] = ""

    def __init__(
        self,
        *arguments: Any,
        table: Table,
        default: str = "",
        sections: Mapping[str, tuple[str, ...]] | None = None,
        former: Mapping[str, str] | None = None,
        words_for_default: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.table = table
        self.default = default
        self.sections = sections or {}  # heading -> commands, for --help; others are not shown there
        self.former = former or {}  # what people type -> what the command is called
        self.words_for_default = words_for_default  # whether a word that is no command is for the default one

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        found = getattr(import_module(module), name or "command")
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.table:
            raise NoSuchCommand(self._missing(ctx, args), ctx=ctx)
        found = super().resolve_command(ctx, args)
        LazyGroup.called = f"{LazyGroup.called} {found[0]}".strip() if ctx.parent else str(found[0])
        return found

    def _missing(self, ctx: click.Context, words: list[str]) -> str:
        group = ctx.command_path.split()[1:]
        meant = today([*group, *words])
        if not meant and (close := self._meant(words[0])):
            meant = [*group, *close.split()]
        missing = f"There is no command `{words[0]}`."
        if not meant:
            return missing
        from .main import program

        return named(meant, f"{missing} Did you mean:", "?").text(program())

    def _meant(self, word: str) -> str:
        """The command that was meant, also by a misspelt former name; or nothing."""
        if _HABITS.get(word) in self.table:
            return _HABITS[word]
        close = word if word in self.former else self._close(word)
        return self.former.get(close, close)

    def _close(self, word: str, likeness: float = 0.6) -> str:
        """The name that looks most like it, of those that people are shown."""
        from difflib import get_close_matches

        shown = [name for names in self.sections.values() for name in names] or list(self.table)
        return next(iter(get_close_matches(word, [*shown, *self.former], 1, likeness)), "")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*ctx.help_option_names, *(name for option in self.params for name in option.opts)}
        alone = not args and not ctx.resilient_parsing  # a line being completed may still name a command
        option = bool(args) and args[0].startswith("-") and args[0] not in own
        if self.default and (alone or option or self._is_for_default(args)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _is_for_default(self, args: list[str]) -> bool:
        if not self.words_for_default or not args or args[0].startswith("-") or args[0] in self.table:
            return False
        # A name that is not there and looks like one of the commands was one, mistyped.
        return os.path.lexists(args[0]) or not self._close(args[0], 0.75)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in (self.sections or {"Commands": tuple(self.table)}).items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.table[name][1]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Its commands by the table, none of them imported; and the options that belong here."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in self.table.items()
            if name.startswith(incomplete)
        ]
        if self.default and incomplete.startswith("-"):
            command = self.get_command(ctx, self.default)
            assert command is not None
            with command.make_context(self.default, [], parent=ctx, resilient_parsing=True) as below:
                found += command.shell_complete(below, incomplete)
        return found + click.Command.shell_complete(self, ctx, incomplete)
