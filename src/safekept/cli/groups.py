"""Groups of commands that know their commands by name and import only the one that is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: name -> (module, one line for --help). The module has a click command called `command`, or another one
#: that stands behind a colon.
Table = Mapping[str, tuple[str, str]]


class LazyGroup(click.Group):
    """A group with a table of modules; `default` is the command that bare options belong to."""

    def __init__(self, *arguments: Any, table: Table, default: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.table = table
        self.default = default

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        found = getattr(import_module(module), name or "command")
        assert isinstance(found, click.Command)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*ctx.help_option_names, *(name for option in self.params for name in option.opts)}
        alone = not args and not ctx.resilient_parsing  # whoever completes a line may still name a command
        if self.default and (alone or (args and args[0].startswith("-") and args[0] not in own)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.table.items()])

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
