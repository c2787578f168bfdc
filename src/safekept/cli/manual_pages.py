"""Manual pages out of the commands themselves: what `--help` says is what `man` says.

One page for safekept and one for each command, a group with all of its commands on one page. The text is
man(7) that both `man` and `mandoc` take without a warning.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from safekept import __version__

# Completion and manual pages, made from the commands.


#: Of the pages, not of the day they are made on: the same commands give the same bytes.
DATE = "2026-11-15"
#: The reference of the commands prints them too.
EXIT_CODES = (
    ("0", "done; of `backup`: complete"),
    (
        "1",
        "failed, declined, or there was no one to agree; nothing was changed, or everything was taken back",
    ),
    ("2", "bad usage, setting, pattern or layout; nothing was read or changed"),
    (
        "3",
        "done, but incomplete: something is missing, torn or damaged, and all of it is listed; "
        "of `status --check`: not protected",
    ),
    ("4", "alarm (`status --check`), or serious findings (`doctor`)"),
    ("10", "there is no such vault"),
    ("11", "another safekept, or restic, is at work there"),
    ("12", "the vault does not open with the key or passphrase that there is"),
    ("130", "interrupted; what stands by then is said"),
    ("143", "ended by a signal (128 and its number)"),
)
_OF_ITS_COMMAND = ("guard", "run")
_FILES = (
    ("$XDG_CONFIG_HOME/safekept/config.toml", "the settings; every one can also be given as SAFEKEPT_NAME"),
    ("$XDG_CONFIG_HOME/safekept/vault.key", "the key of the vault"),
    ("$XDG_DATA_HOME/safekept/vault", "the vault: a restic repository"),
    ("$XDG_DATA_HOME/safekept/checkpoints/store", "the checkpoints of all projects: a git repository"),
    ("$XDG_DATA_HOME/safekept/journal.jsonl", "what was done, by whom, and how it ended"),
)


def pages(group: click.Group) -> Iterator[tuple[str, str]]:
    """Name of the file and its text, for every page there is."""
    with click.Context(group, info_name="safekept") as ctx:
        names = group.list_commands(ctx)
        summaries = getattr(group, "table", {})
        yield "safekept.1", _front(group, ctx, names, summaries)
        for name in names:
            command = group.get_command(ctx, name)
            if command is None or command.hidden:
                continue
            with click.Context(command, info_name=name, parent=ctx) as below:
                yield f"safekept-{name}.1", _page(command, below, summaries[name][1])


def _front(
    group: click.Group, ctx: click.Context, names: list[str], summaries: dict[str, tuple[str, str]]
) -> str:
    lines = _head("safekept", (group.help or "").split("\n")[0])
    lines += [".SH SYNOPSIS", r"\fBsafekept\fR [\fICOMMAND\fR] [\fIOPTION\fR]..."]
    lines += [".SH DESCRIPTION", *_prose(_INTRODUCTION)]
    lines += [".SH COMMANDS"]
    for name in names:
        lines += [".TP", rf"\fBsafekept\-{_text(name)}\fR(1)", _marked(summaries[name][1])]
    lines += [".SH OPTIONS", *_options(group, ctx)]
    lines += [".SH EXIT STATUS", *_status()]
    lines += [".SH FILES"]
    for name, meaning in _FILES:
        lines += [".TP", rf"\fI{_text(name)}\fR", _marked(meaning)]
    lines += [".SH ENVIRONMENT"]
    for name, meaning in _ENVIRONMENT:
        lines += [".TP", rf"\fB{_text(name)}\fR", _marked(meaning)]
    return _joined(lines)


_INTRODUCTION = (
    "safekept keeps what an AI agent knows, and undoes what it does. An agent's home (persona, memories, "
    "skills, conversations, keys) is kept in an encrypted vault and in portable archives; the projects that "
    "it edits are kept as checkpoints. Everything opens without safekept: `restic`, `unzip`, `git`.\n\n"
    "Without a command it answers the first question: am I protected? Most commands take `--json`."
)
_ENVIRONMENT = (
    ("SAFEKEPT_*", "every setting, in capitals, with _ for the dot"),
    ("HERMES_HOME", "the home of Hermes; other agents have variables of their own"),
    ("NO_COLOR", "no colour"),
)


def _page(command: click.Command, ctx: click.Context, summary: str) -> str:
    name = ctx.info_name or ""
    lines = _head(f"safekept-{name}", summary)
    lines += [".SH SYNOPSIS"]
    if isinstance(command, click.Group):
        below = []
        for each, context in _commands(command, ctx):
            lines += [_usage(each, context), ".br"]
            below += [f".SS {_text(context.command_path)}", *_described(each, context)]
        lines = lines[:-1]
        lines += [".SH DESCRIPTION", *_prose(command.help or summary), ".SH COMMANDS", *below]
    else:
        lines += [_usage(command, ctx), ".SH DESCRIPTION", *_prose(command.help or summary)]
        lines += [".SH OPTIONS", *_options(command, ctx)]
    if name in _OF_ITS_COMMAND:
        lines += [".SH EXIT STATUS", "That of the program it ran; the description says what else it may be."]
    else:
        lines += [".SH EXIT STATUS", *_status()]
    return _joined([*lines, ".SH SEE ALSO", r"\fBsafekept\fR(1)"])


def _commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """The commands of a group, those of the groups in it among them."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        with click.Context(command, info_name=name, parent=ctx) as below:
            if isinstance(command, click.Group):
                yield from _commands(command, below)
            else:
                yield command, below


def _described(command: click.Command, ctx: click.Context) -> list[str]:
    return [*_prose(command.help or ""), *_options(command, ctx)]


def _head(name: str, summary: str) -> list[str]:
    title = name.upper().replace("-", r"\-")
    return [
        rf'.TH {title} 1 "{DATE}" "safekept {__version__}" "safekept manual"',
        ".SH NAME",
        rf"{_text(name)} \- {_marked(summary.rstrip('.'))}",
    ]


def _usage(command: click.Command, ctx: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(ctx))
    return rf"\fB{_text(ctx.command_path)}\fR {_text(pieces)}".rstrip()


def _options(command: click.Command, ctx: click.Context) -> list[str]:
    lines = []
    for parameter in command.params:
        record = parameter.get_help_record(ctx)
        if record is not None and record[1]:  # an argument is explained in the description
            lines += [".TP", rf"\fB{_text(record[0])}\fR", _marked(record[1])]
    return [*lines, ".TP", r"\fB\-h, \-\-help\fR", "Show what the command does, and its options."]


def _status() -> list[str]:
    lines = []
    for code, meaning in EXIT_CODES:
        lines += [".TP", rf"\fB{code}\fR", _marked(meaning)]
    return lines


def _prose(text: str) -> list[str]:
    """Paragraphs; what stands in backticks is bold."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text).replace("\b", "")):
        lines += [".PP", _marked(" ".join(paragraph.split()))]
    return lines[1:]  # the section begins with a paragraph by itself


def _marked(text: str) -> str:
    parts = text.split("`")
    return "".join(rf"\fB{_text(part)}\fR" if at % 2 else _text(part) for at, part in enumerate(parts))


def _text(text: str) -> str:
    """As roff prints it and nothing else."""
    return text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")


def _joined(lines: list[str]) -> str:
    """One text; a line of prose that would be taken for a request is not."""
    kept = [
        line if re.match(r"\.(TH|SH|SS|TP|PP|br)\b", line) else re.sub(r"^(?=[.'])", r"\\&", line)
        for line in lines
    ]
    return "\n".join(kept) + "\n"
