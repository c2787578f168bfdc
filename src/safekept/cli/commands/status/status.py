"""`safekept status`, and `safekept` alone: am I protected?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from safekept.actions.base.context import UserContext
from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_start
from safekept.core.finding import DECLINABLE
from safekept.core.next_step import NextStep
from safekept.settings import Settings

from ...console import Console, path_text, size_text
from ...options import common_options, start

if TYPE_CHECKING:
    from safekept.actions.status.status import Status

#: What `--acknowledge` means without an id.
_ALL = "all"


class PlotTaken(SafekeptError):
    code = "plot-not-written"


@click.command("status")
@click.option(
    "--check",
    is_flag=True,
    help="Say the verdict only. Exit code 0: fresh; 3: stale or otherwise not protected; 4: alarm.",
)
@click.option(
    "--short", is_flag=True, help="One line for a prompt, by the journal alone; the vault is not opened."
)
@click.option(
    "--prometheus", is_flag=True, help="Metrics in Prometheus's text format, for its textfile collector."
)
@click.option(
    "--plot",
    metavar="FILE",
    default="",
    help="How the vault grows, as an SVG image; `-` draws it in the terminal. Only a drawing of "
    "safekept's is replaced.",
)
@click.option(
    "--acknowledge",
    metavar="[ID]",
    is_flag=False,
    flag_value=_ALL,
    default="",
    help="You saw to the alarm with this id, or mean to leave the finding of this name; else: all alarms.",
)
@common_options
def command(
    check: bool,
    short: bool,
    prometheus: bool,
    plot: str,
    acknowledge: str,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Am I protected? The verdict first, then what it rests on.

    For each home: its last snapshot, archive, copy off this host and proven restore, what is not kept
    and why, and how it grows. Then the vault and its key, projects, and the schedule. Nothing is changed;
    a home gets a quick look, and a database that is locked is not waited for. `safekept` alone is the same.
    """
    _refuse_what_does_not_fit(short, prometheus, plot, as_json)
    settings, context, console = start(as_json)
    if acknowledge:
        return _acknowledge(console, context, acknowledge, home, layout)
    if short:
        return _short(console, settings, context, home, layout, check)
    from safekept.actions.status.status import look
    from safekept.integrations.connecting.overview import host_statuses

    from ...screen import Screen
    from ...status.screen import show, show_verdict

    status = look(
        context,
        home,
        layout,
        stale_hours=settings.number("status.stale_hours"),
        hosts=host_statuses(context),
        listener=console.notes(),
    )
    console.finish()
    code = status.verdict.exit_code if check else 0
    if prometheus:
        from ...status.prometheus import exposition

        click.echo(exposition(status), nl=False)
        return code
    if plot:
        _plot(console, status, plot)
        return code
    console.document(status.as_dict(console.program))
    screen = Screen(console, context.places.user_home)
    (show_verdict if check else show)(screen, status)
    return code


def _refuse_what_does_not_fit(short: bool, prometheus: bool, plot: str, as_json: bool) -> None:
    chosen = [
        name for name, given in (("--short", short), ("--prometheus", prometheus), ("--plot", plot)) if given
    ]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together.")
    if prometheus and as_json:
        raise click.UsageError("--prometheus and --json are two formats; choose one.")


def _acknowledge(console: Console, context: UserContext, name: str, home: str, layout: str) -> int:
    from safekept.actions.alarms.alarms import acknowledge
    from safekept.actions.undo.log import require_journal

    name = _whole_name(context, name, home, layout)
    if name.partition(":")[0] in DECLINABLE:
        return _decline(console, context, name)
    seen = acknowledge(context, () if name == _ALL else (name,), listener=console.notes())
    console.document({"acknowledged": [alarm.as_dict() for alarm in seen]})
    if not seen:
        require_journal(context)
        console.line("No alarm is open")
    for alarm in seen:
        console.line(f"Acknowledged: {path_text(alarm.text)} ({alarm.id})")
    return 0


def _whole_name(context: UserContext, name: str, home: str, layout: str) -> str:
    """That of a finding of now, by its short one (`lost-since-3f2a91`); anything else as it is."""
    if ":" in name or name.rpartition("-")[0] not in DECLINABLE:
        return name
    from safekept.actions.alarms.meant import short_name
    from safekept.actions.status.status import look

    found = (one.declinable for one in look(context, home, layout).verdict.findings if one.declinable)
    return next((one for one in found if short_name(one) == name), name)


def _decline(console: Console, context: UserContext, name: str) -> int:
    """A person means to leave this as it is: shown from now on, and not counted."""
    from safekept.actions.alarms.declined import decline

    decline(context, (name,))
    console.document({"declined": [name]})
    console.line(f"Left as it is, and not counted any more: {path_text(name)}")
    return 0


def _short(
    console: Console, settings: Settings, context: UserContext, home: str, layout: str, check: bool
) -> int:
    from safekept.actions.status.short_status import short_status
    from safekept.integrations.connecting.overview import host_statuses

    place = context.locate(home, layout, existing=False)
    status = short_status(
        context,
        place.home if home or layout else "",
        hosts=host_statuses(context),
        stale_hours=settings.number("status.stale_hours"),
    )
    console.document(status.as_dict())
    console.line(f"safekept: {status.text}")
    return status.exit_code if check else 0


def _plot(console: Console, status: Status, file: str) -> None:
    """The growth of the vault; as text where the file is `-`."""
    from ...status.growth import growth_svg, plot

    growth, vault = status.vault.growth, status.vault
    size = f"{size_text(vault.bytes)} on disk" if vault.bytes is not None else "its size is not known"
    rate = f", {size_text(growth.per_day)} a day" if growth.per_day is not None else ""
    title = f"What snapshots add to the vault of {status.host}"
    if file == "-":
        console.document({"points": [{"time": when, "bytes": count} for when, count in growth.points]})
        console.line(title, bold=True)
        from ...screen import width

        for line in plot(growth.points, status.time, width()) or ["No snapshots yet"]:
            console.verbatim(line)
        return
    path = os.path.abspath(os.path.expanduser(file))
    if not path.endswith(".svg"):
        raise PlotTaken(
            f"`{path}` is to be an image of a kind that safekept does not draw",
            kept="Nothing was written",
            next_steps=("Use a name that ends in `.svg`: every browser shows it",),
        )
    image = growth_svg(growth.points, status.time, title, f"{path_text(vault.place)}: {size}{rate}")
    _write(path, image)
    console.document({"plot": path})
    console.line(f"Drawn: {path_text(path)}")


def _taken(path: str) -> PlotTaken:
    return PlotTaken(
        f"`{path}` exists and is not an image that safekept drew",
        kept="It was not touched",
        next_steps=(NextStep("status", ("--plot", "FILE"), before="Name another file:"),),
    )


def _write(path: str, image: str) -> None:
    from safekept.core.files import durable_write
    from safekept.core.owner import held_output

    try:
        with held_output(path) as held:
            if os.path.lexists(held) and not _is_drawing(held):
                raise _taken(path)
            durable_write(held, image.encode("utf-8"))
    except OSError as error:
        raise PlotTaken(
            f"`{path}` cannot be written: {error.strerror or error}",
            kept="Nothing was written",
            next_steps=(NextStep("status", ("--plot", "FILE"), before="Name another file:"),),
        ) from error


def _is_drawing(path: str) -> bool:
    return b"What snapshots add to the vault" in read_start(path, 1024, follow=False)
