"""Writes `docs/reference/commands.md` from the commands' own help and from `command_notes.md` beside it.

    .venv/bin/python workshop/command_reference.py

What a person at a terminal needs stands in the code, in a command's docstring and in the `help=` of its
options; `--help`, the manual pages and this page print it. What only this page says, and every link, stands
in the notes: one section for each command, put below its options. A test in `tests/compat/test_shells.py`
fails where the page is not what this would write.
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Iterator

import click

from safekept.cli.main import cli
from safekept.cli.manual_pages import EXIT_CODES
from safekept.cli.options import common_options, source_options
from safekept.cli.sealing import identity_options

_WORKSHOP = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(os.path.dirname(_WORKSHOP), "docs", "reference", "commands.md")
NOTES = os.path.join(_WORKSHOP, "command_notes.md")
_HEAD = (
    "Written by `workshop/command_reference.py` from the commands' own help and from "
    "`workshop/command_notes.md`; do not edit it by hand."
)
_SHARED, _CODES = "Shared options", "Exit codes"


def page(notes: str) -> str:
    """The whole page; an error where there is a note on a command that does not exist."""
    beginning, below = _sections(notes)
    with click.Context(cli, info_name="safekept") as ctx:
        parts = ["# Commands", _wrapped(_HEAD), beginning, _table("command", _index(cli, ctx))]
        parts += [f"## {_SHARED}", _table("option", _shared().items()), below.pop(_SHARED, "")]
        parts += [f"## {_CODES}", _table("code", EXIT_CODES), below.pop(_CODES, "")]
        for command, context in _commands(cli, ctx):
            name = context.command_path
            parts += [f"## {name}", _prose(command.help or "")]
            parts += _group(command, context) if isinstance(command, click.Group) else _one(command, context)
            parts.append(below.pop(name, ""))
    if below:
        raise SystemExit(f"{NOTES} speaks of what does not exist: {', '.join(below)}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _sections(notes: str) -> tuple[str, dict[str, str]]:
    """What stands before the first heading, and `## name` -> what stands below it."""
    beginning, *found = re.split(r"^## (.+)$", notes, flags=re.MULTILINE)
    return beginning.strip(), {
        name.strip(): body.strip() for name, body in zip(found[::2], found[1::2], strict=True)
    }


def _commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command and every group, each group before what is in it."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        with click.Context(command, info_name=name, parent=ctx) as below:
            yield command, below
            if isinstance(command, click.Group):
                yield from _commands(command, below)


def _index(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The commands of a group, each a link, with the line that the group's `--help` gives it."""
    for name, (_, summary) in group.table.items():  # type: ignore[attr-defined]
        title = f"{ctx.command_path} {name}"
        yield f"[{title}](#{title.replace(' ', '-')})", _marked(summary)


def _group(command: click.Group, ctx: click.Context) -> list[str]:
    return [_table("command", _index(command, ctx))]


def _one(command: click.Command, ctx: click.Context) -> list[str]:
    usage = f"{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}".rstrip()
    rows = _options(command, ctx)
    shared = _shared()
    own = [(option, text) for option, text in rows if shared.get(option) != text]
    others = [option for option, text in rows if shared.get(option) == text]
    if others:
        own.append((", ".join(others), "[shared](#shared-options)"))
    return [f"```\n{usage}\n```", _table("option", own) if own else ""]


def _options(command: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    """Arguments are told of in the description."""
    records = [parameter.get_help_record(ctx) for parameter in command.params]
    return [
        (_names(record[0]), _marked(" ".join(record[1].split())))
        for record in records
        if record and record[1]
    ]


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in re.split(r", | / ", names))


def _shared() -> dict[str, str]:
    """The options that many commands take in the same words."""

    @click.command()
    @common_options
    @source_options
    @identity_options
    def everything(**_options: object) -> None:
        """Never run."""

    return dict(_options(everything, click.Context(everything)))


def _table(of: str, rows: object) -> str:
    lines = [f"| {of} | meaning |", "|---|---|"]
    for first, second in rows:  # type: ignore[attr-defined]
        cells = (str(cell).replace("|", r"\|") for cell in (first, second))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _prose(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text).replace("\b", ""))
    return "\n\n".join(_wrapped(_marked(" ".join(paragraph.split()))) for paragraph in paragraphs)


def _marked(text: str) -> str:
    """Options as code; what stands in backticks is code already."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<![\w-])(--[a-z][a-z-]*|-[a-z])(?![\w-])", r"`\1`", parts[at])
    return "`".join(parts)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False, break_long_words=False))


def notes() -> str:
    with open(NOTES, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    with open(PAGE, "w", encoding="utf-8") as page_file:
        page_file.write(page(notes()))
