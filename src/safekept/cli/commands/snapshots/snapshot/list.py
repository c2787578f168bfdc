"""`safekept snapshot list`: the snapshots of a home, newest first, with numbers to restore by."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from safekept.actions.alarms.alarms import Alarm, losses_in_snapshots
from safekept.actions.snapshots.choosing import usual_ones
from safekept.actions.snapshots.listing import Listed, Listing, list_home
from safekept.actions.snapshots.soundness import sound_ones
from safekept.actions.vault.opening import open_vault
from safekept.core.ages import clock_text
from safekept.vault.tags import KINDS, OTHER

from ....console import Console, count_text, path_text
from ....lines import screen_width
from ....options import common_options, source_options, source_vault, start
from ....words.snapshots import age_text, amount, incomplete_text, named_home

_STATES = {"sound": "yes", "unverified": "not yet", "damaged": "DAMAGED", "": "–"}


@click.command("list")
@click.option("--all", "every", is_flag=True, help="Those of other homes and forgotten ones, too.")
@click.option(
    "--kind",
    type=click.Choice((*KINDS, OTHER)),
    help="Only this kind; `pre-change` are home points, `other` were made by restic.",
)
@source_options
@common_options
def command(every: bool, kind: str | None, home: str, layout: str, as_json: bool) -> int:
    """See the snapshots of a home: number, id, time, age, kind, files, size, what it added, verified, label.

    The number counts from the newest and moves on with every snapshot; the id stays. One that another
    machine made of the same path has no number while this machine has its own; nor has a home point, which
    an agent's change of its own files left. `verified` says whether the
    databases in it were checked: a snapshot may reuse a check of some hours ago. One that a drill restored
    whole is `proven`.
    """
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with open_vault(context, listener=console.listener()) as repository:
        listing = list_home(repository, place.home)
    console.finish()
    chosen = [one for one in (listing.all if every else listing.of_home) if kind in (None, one.kind)]
    console.document(
        {
            "home": place.home,
            "vault": context.places.reads_from,
            "snapshots": [one.as_dict() for one in chosen],
            "elsewhere": len(listing.elsewhere),
            "forgotten": len(listing.forgotten),
            "damaged": [{"name": name, "reason": why} for name, why in sorted(listing.damaged.items())],
        }
    )
    alarms = losses_in_snapshots(context, place.home)
    _show(console, listing, chosen, alarms, every, kind, named_home(home, layout))
    return 3 if listing.damaged else 0


def _show(
    console: Console,
    listing: Listing,
    chosen: list[Listed],
    alarms: Sequence[Alarm],
    every: bool,
    kind: str | None,
    named: list[str],
) -> None:
    now = time.time_ns()
    if chosen:
        rows: list[tuple[str, ...]] = [
            ("#", "ID", "TAKEN", "AGE", "KIND", "FILES", "SIZE", "ADDED", "VERIFIED", "LABEL")
        ]
        foreign = {one.id for one in listing.elsewhere}
        rows += [_row(one, now, one.id in foreign) for one in chosen]
        for row in _aligned(rows, screen_width()):
            console.line(row, _BELOW)
        if before := [one for one in listing.before if one in chosen]:
            places = {f"{path_text(one.home)} on {path_text(one.snapshot.hostname)}" for one in before}
            of = f"{len(before):,} of them {'is' if len(before) == 1 else 'are'} of"
            console.line(f"{of} {', '.join(sorted(places))}, where this home was before")
        # The newest of them, as a restore takes it: one that was not checked again so soon is no worse.
        good = sound_ones(usual_ones(listing), alarms)
        first = max(good, key=lambda one: one.snapshot.time_ns, default=None)
        if first := first or next((one for one in listing.shown if one.number), None):
            example = console.command("snapshot", "restore", first.short, *named)
            console.line(f"Restore one with its id: `{example}`")
    else:
        what = f"No {kind} snapshots" if kind else "No snapshots"
        console.line(f"{what} of {path_text(listing.home)} yet")
        if not listing.shown and not source_vault():  # a copy that is read takes none
            console.line(f"Take one: `{console.command('snapshot', *named)}`")
    if not every and (listing.elsewhere or listing.forgotten):
        more = [f"{len(listing.elsewhere):,} of other homes"] if listing.elsewhere else []
        more += [f"{len(listing.forgotten):,} forgotten"] if listing.forgotten else []
        console.line(
            f"Not shown: {', '.join(more)} (`{console.command('snapshot', 'list', '--all', *named)}`)"
        )
    if listing.damaged:
        console.heading(f"{count_text(len(listing.damaged), 'snapshot file')} cannot be read", good=False)
        for name, reason in sorted(listing.damaged.items()):
            console.line(f"  {name[:8]}  {reason}")
        console.line(f"See how the vault is: `{console.command('vault', 'check')}`")


_BELOW = 6  # columns before a label that stands below its row


def _row(one: Listed, now: int, foreign: bool) -> tuple[str, ...]:
    notes = []
    if one.pinned:
        notes.append(f"pinned until {one.pinned_until}" if one.pinned_until else "pinned")
    if lacking := incomplete_text(one):
        notes.append(lacking)
    if one.forgotten_ns is not None:
        notes.append("forgotten")
    elif foreign:
        notes.append(f"of {path_text(one.home)} on {path_text(one.snapshot.hostname)}")
    elif not one.here:
        notes.append(f"on {path_text(one.snapshot.hostname)}")
    return (
        str(one.number) if one.number else "",
        one.short,
        clock_text(one.snapshot.time_ns / 1e9, now / 1e9),
        age_text(one, now),
        one.kind,
        "–" if one.files is None else f"{one.files:,}",
        amount(one.bytes),
        amount(one.added),
        "proven" if one.proven_ns is not None else _STATES.get(one.state, one.state),
        " ".join(filter(None, (path_text(one.label), f"({', '.join(notes)})" if notes else ""))),
    )


def _aligned(rows: list[tuple[str, ...]], width: int) -> list[str]:
    """Columns as wide as their widest text; numbers to the right, the last one free.

    Where a row is longer than a line of the terminal, the last one has lines of its own below it.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    right = {0, 3, 5, 6, 7}
    between = "  " if not width or sum(widths) + 2 * len(widths) <= width else " "
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row[:-1], widths, strict=True))
        ]
        line = between.join([*cells, row[-1]]).rstrip()
        if row[-1] and width and len(line) > width:
            line = between.join(cells).rstrip() + "\n" + " " * _BELOW + row[-1]
        lines.append(line)
    return lines
