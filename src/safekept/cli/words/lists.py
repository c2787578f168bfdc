"""Checkpoints in words: their age, what changed, what a plan leaves."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from safekept.core.ages import ago_text, minute_text
from safekept.core.errors import ConsentNeeded
from safekept.core.next_step import NextStep

from ..console import Console, count_text, path_text

if TYPE_CHECKING:
    from safekept.checkpoints.points import Changes

SHOWN = 10
_NARROWEST = 10  # of a column that is cut
_ROOM, _BELOW = 20, 6  # what the last column of a table wants at least, and its margin where it gets less
_DATED = 48 * 3600  # seconds; from there on a list shows the date, as `core/ages` begins to count days


def ago(time_ns: int, now_ns: int | None = None) -> str:
    """`12 s ago`, `5 min ago`, `3 h ago`, then the date; a time ahead of the clock as the date, too."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    if 0 <= (now_ns - time_ns) / 1e9 < _DATED:
        return ago_text(time_ns / 1e9, now_ns / 1e9)
    return minute_text(time_ns / 1e9)


def changes_text(changes: Changes | None) -> str:
    """`3 files +12 -3`, `3 files and hidden files`, `hidden files`."""
    if changes is None:
        return ""
    if changes.hidden and not changes.files:
        return "hidden files"
    lines = f" +{changes.added:,} -{changes.removed:,}" if changes.added or changes.removed else ""
    more = " and more" if changes.more else ""
    hidden = " and hidden files" if changes.hidden else ""
    return count_text(changes.files, "file") + lines + more + hidden


def fitting(console: Console, text: str, used: int) -> str:
    """The text, cut to what is left of a terminal's line; elsewhere as it is."""
    columns = console.columns()
    room = max(_NARROWEST, columns - used)
    return text if not columns or len(text) <= room else text[: room - 1] + "…"


def table(
    console: Console,
    given: Sequence[Sequence[str]],
    *,
    cut: bool = False,
    headings: Mapping[int, str] | None = None,
) -> None:
    """Aligned columns; a column with nothing in it is not shown.

    The last one is as long as it is, or with `cut` as long as the terminal is wide. `headings`: a line above
    the row of that number, cut in the same way.
    """
    wide = console.columns()
    filled = [column for column in range(len(given[0])) if any(row[column] for row in given[1:])]
    rows = [[row[column] for column in filled] for row in given]
    numbers = all(not row[0].strip("0123456789,") for row in rows[1:])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = 2 + sum(width + 2 for width in widths[:-1])
    for number, row in enumerate(rows):
        if heading := (headings or {}).get(number):
            console.line("  " + fitting(console, heading, 2), 2, bold=True)
        cells = [
            cell if column == len(row) - 1 else cell.ljust(widths[column]) for column, cell in enumerate(row)
        ]
        below = ""  # where the last column has no room, it has a line of its own
        if number and wide and cells[-1] and wide - last < min(len(cells[-1]), _ROOM):
            below = fitting(console, cells.pop(), _BELOW) if cut else cells.pop()
        elif cut:
            cells[-1] = fitting(console, cells[-1], last)
        if numbers:  # they stand under each other by their last digit
            cells[0] = row[0].rjust(widths[0])
        console.line("  " + "  ".join(cells).rstrip(), last, **({"dim": True} if number == 0 else {}))
        if below:
            console.line(" " * _BELOW + below, _BELOW)


def styled(line: str) -> dict[str, object]:
    """How a line of a difference is shown."""
    if line.startswith("+"):
        return {"bold": True} if line.startswith("+++") else {"fg": "green"}
    if line.startswith("-"):
        return {"bold": True} if line.startswith("---") else {"fg": "red"}
    return {"fg": "cyan"} if line.startswith("@@") else {}


def listing(console: Console, label: str, lines: Iterable[str]) -> None:
    """A label and the first few of many lines."""
    found = list(lines)
    console.facts(label, [path_text(line) for line in found[:SHOWN]])
    if len(found) > SHOWN:
        console.fact("", f"… and {len(found) - SHOWN:,} more")


def directory_of(given: str) -> str:
    """The directory that is meant: the one given, else the one stood in."""
    given = os.path.expanduser(given)
    return os.path.normpath(given if os.path.isabs(given) else os.path.join(standing_in(), given))


def standing_in() -> str:
    """The directory stood in; where that was deleted, the path that it had."""
    if path := _current() or _deleted():
        return path
    from safekept.actions.projects.project import NoSuchDirectory

    raise NoSuchDirectory(
        "The directory that you stand in is gone, and nothing says which it was",
        kept="Nothing was changed",
        next_steps=(
            NextStep("rollback", ("--all-projects",), before="See every project that has checkpoints:"),
            NextStep("rollback", ("--dir", "DIR"), before="Name the one that you mean:"),
        ),
    )


def _current() -> str:
    """Nothing where it was deleted."""
    with contextlib.suppress(OSError):
        return os.getcwd()
    return ""


def _deleted() -> str:
    """The path of a deleted directory, as the system knows it; else as the shell does."""
    from safekept.core.platform import descriptors

    with contextlib.suppress(OSError):
        descriptor = os.open(".", descriptors.WALK)
        try:
            path = descriptors.path_of(descriptor).removesuffix(" (deleted)")
        finally:
            os.close(descriptor)
        if os.path.isabs(path):
            return path
    path = os.environ.get("PWD", "")
    return path if os.path.isabs(path) and not os.path.lexists(path) else ""


def show_where_to_stand(console: Console, place: str) -> None:
    """A shell whose directory was deleted does not see that it is back."""
    if not _current() and os.path.isdir(place):
        again = path_text(shlex.quote(place))
        console.line(f"Your shell still stands in the directory that was deleted: `cd {again}`")


def at_directory(given: str) -> list[str]:
    """The option that a printed command needs to mean the same directory."""
    return ["--dir", directory_of(given)] if given else []


def consent(console: Console, force: bool, what: str, again: str) -> None:
    """Ask, unless `--yes` did; refuse where no person can be asked. `anew` is the command as it was given."""
    if force:
        return
    if not console.can_ask():
        raise ConsentNeeded(
            f"This needs your consent: {what}",
            kept="Nothing was changed",
            next_steps=(f"See the plan: `{again} --dry-run`", f"Agree to it: `{again} --yes`"),
        )
    if not console.ask("Continue?"):
        raise click.Abort
