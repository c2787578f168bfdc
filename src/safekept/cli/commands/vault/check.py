"""`safekept vault check`: prove that everything stored can be given back."""

from __future__ import annotations

import click

from safekept.actions.vault.care import Checked, check_vault
from safekept.actions.vault.opening import open_vault

from ...console import Console, count_text, path_text, size_text, time_text
from ...options import source_options, start
from .options import json_option

_LISTED = 10


def _share(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`100%`, `5%` or `5` as a share between 0 and 1."""
    if value is None:
        return None
    try:
        percent = float(value.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise click.BadParameter(f"{value} is not a share such as 5% or 100%")
    return percent / 100


@click.command("check")
@click.option(
    "--read-data",
    metavar="[N%]",
    is_flag=False,
    flag_value="100%",
    callback=_share,
    help="Also read and prove every stored byte, or a random share of them, as in `--read-data=5%`.",
)
@source_options
@json_option
def command(read_data: float | None, as_json: bool) -> int:
    """Prove that everything stored can be given back.

    Without options the structure is checked: every snapshot, every directory, and that every piece
    is where it should be, with the right size. --read-data also reads and proves the bytes; a
    share of them every day comes round to all. Nothing is changed. Exit code 0: whole; 1: damaged.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        checked = check_vault(context, repository, read_data, console.listener())
    console.finish()
    console.document(checked.as_dict())
    _show(console, checked)
    return 0 if checked.report.sound else 1


def _show(console: Console, checked: Checked) -> None:
    report = checked.report
    console.heading(
        f"The vault {path_text(checked.vault)} is whole"
        if report.sound
        else f"The vault {path_text(checked.vault)} is damaged: {count_text(len(report.damage), 'finding')}",
        report.sound,
    )
    console.fact(
        "Looked at", f"{count_text(report.snapshots, 'snapshot')}, {count_text(report.packs, 'pack')}"
    )
    if report.packs_read:
        console.fact("Read", f"{size_text(report.bytes_read)} in {count_text(report.packs_read, 'pack')}")
    else:
        console.fact("Read", "the structure; `--read-data` reads the bytes too")
    console.fact("Time", time_text(checked.seconds))
    for finding in report.damage:
        console.line(finding.what, fg="yellow")
        for touched in finding.touches[:_LISTED]:
            shown = ", ".join(path_text(path) for path in touched.paths[:3])
            more = f" and {touched.count - 3:,} more" if touched.count > 3 else ""
            console.line(f"    Snapshot {touched.snapshot[:8]}: {shown}{more}")
        if len(finding.touches) > _LISTED:
            console.line(f"    … and {len(finding.touches) - _LISTED:,} more snapshots")
        if not finding.touches:
            console.line("    No file of a snapshot is touched")
    notes = [finding for finding in report.findings if finding not in report.damage]
    for note in notes[:_LISTED]:
        console.line(f"Note: {note.what}")
    if len(notes) > _LISTED:
        console.line(f"Note: … and {len(notes) - _LISTED:,} more of these")
    for number, step in enumerate(checked.next_steps):
        console.line(f"  {'next' if number == 0 else '':<4}  {step}")
