"""`safekept snapshot diff A [B]`: what changed between two snapshots, or since one."""

from __future__ import annotations

import contextlib

import click

from safekept.actions.snapshots.contents import opened
from safekept.actions.snapshots.difference import Difference, FileChange, TableChange, as_mapping, differ

from ....console import Console, count_text, path_text, size_text
from ....options import common_options, source_options, start

_SIGNS = {"added": "+", "removed": "-", "changed": "M"}
_COLOURS = {"added": "green", "removed": "red", "changed": "yellow"}


@click.command("diff")
@click.argument("before", metavar="[A]", required=False, default="latest")
@click.argument("after", metavar="[B]", required=False, default="")
@click.option(
    "--patch",
    "-p",
    "patch",
    is_flag=True,
    help="Also show the lines that changed in texts; the text of secrets is not shown.",
)
@source_options
@common_options
def command(before: str, after: str, patch: bool, home: str, layout: str, as_json: bool) -> int:
    """See what changed from snapshot A to snapshot B, or to the home as it is now.

    A and B are numbers, ids or `latest`, which is also what A is where it is not said. Files are listed with
    their sizes; of databases the rows of every table are counted on both sides.
    Exit code 3: something could not be compared, and is named.
    """
    settings, context, console = start(as_json)
    place = context.locate(home, layout, existing=not after)
    with contextlib.ExitStack() as stack:
        listener = console.listener()
        first = stack.enter_context(opened(context, place, before, layout, listener))
        second = None
        if after:
            second = stack.enter_context(opened(context, place, after, layout, listener))
        found = differ(
            context, first, second, with_patches=patch, deadline=settings.number("database.deadline")
        )
    console.finish()
    console.document(
        {
            "before": found.before.as_dict(),
            "after": found.after.as_dict() if found.after else None,
            "home": place.home,
            "changes": [change.as_dict() for change in found.changes],
            "touched": found.touched,
            "databases": as_mapping(found.tables),
            "patches": dict(found.patches),
            "remarks": [remark.as_dict() for remark in found.remarks],
        }
    )
    _show(console, found, place.home)
    return 3 if any(remark.incomplete for remark in found.remarks) else 0


def _show(console: Console, found: Difference, home: str) -> None:
    other = f"snapshot {found.after.short}" if found.after else path_text(home)
    console.heading(f"From snapshot {found.before.short} to {other}")
    for change in found.changes:
        if change.kind == "dir" and change.how != "changed" and _covered(change, found.changes):
            continue
        console.line(_line(change), fg=_COLOURS[change.how])
        for table in found.tables.get(change.path, ()):
            if table.before != table.after:
                console.line(f"        {path_text(table.table)}: {_rows(table)}")
        for line in found.patches.get(change.path, ()):
            console.verbatim(f"    {line}")
    counts = {how: sum(1 for c in found.changes if c.how == how and c.kind != "dir") for how in _SIGNS}
    grown = sum(change.after - change.before for change in found.changes)
    words = ", ".join(f"{count:,} {how}" for how, count in counts.items() if count)
    if words:
        console.line(f"{words}; {'+' if grown >= 0 else '-'}{size_text(abs(grown))}")
    else:
        console.line("No file differs")
    if found.touched:
        console.line(f"{count_text(found.touched, 'file')} with the same content and another time or mode")
    for remark in found.remarks:
        if remark.incomplete:
            console.fact("Not seen", f"{path_text(remark.path)}: {remark.reason}")


def _covered(change: FileChange, changes: list[FileChange]) -> bool:
    """A directory whose files are listed needs no line of its own."""
    return any(one.path.startswith(change.path + "/") for one in changes)


def _line(change: FileChange) -> str:
    if change.kind == "dir":
        sizes = ""
    elif change.how == "changed":
        sizes = f"{size_text(change.before)} -> {size_text(change.after)}"
    else:
        sizes = size_text(change.after or change.before)
    name = path_text(change.path) + ("/" if change.kind == "dir" else "")
    return f"{_SIGNS[change.how]} {name}  {sizes}".rstrip()


def _rows(table: TableChange) -> str:
    before = "no table" if table.before is None else f"{table.before:,}"
    after = "no table" if table.after is None else f"{table.after:,}"
    if table.before is None or table.after is None:
        return f"{before} -> {after}"
    return f"{before} -> {after} rows ({table.after - table.before:+,})"
