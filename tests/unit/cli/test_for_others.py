"""What root may do with somebody's home is a list of commands that there are; every other one refuses."""

import click
import pytest

from safekept.cli.main import cli
from safekept.cli.options import FOR_OTHERS, _words


def every_command(group: click.Group, ctx: click.Context, before: str = "") -> set[str]:
    found = set()
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        found.add(before + name)
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=ctx)
            found |= every_command(command, inner, f"{before}{name} ")
    return found


def test_every_command_of_the_list_is_there():
    assert FOR_OTHERS - every_command(cli, click.Context(cli, info_name="safekept")) == set()


@pytest.mark.parametrize(
    "name",
    [
        "doctor",
        "guard",
        "snapshot adopt",
        "rebuild",
        "connect",
        "run",
        "sessions restore",
        "checkpoint adopt",
    ],
)
def test_what_looks_into_a_home_or_writes_there_by_itself_is_not_on_it(name):
    assert name not in FOR_OTHERS
    assert name in every_command(cli, click.Context(cli, info_name="safekept"))


def test_a_command_that_calls_another_counts_as_the_one_that_was_called():
    seen = []

    @click.group()
    def program() -> None: ...

    @program.command()
    def inner() -> None:
        seen.append(_words())

    @program.command()
    @click.pass_context
    def outer(ctx: click.Context) -> None:
        ctx.invoke(inner)

    program.main(["outer"], standalone_mode=False)
    program.main(["inner"], standalone_mode=False)
    assert seen == ["outer", "inner"]
