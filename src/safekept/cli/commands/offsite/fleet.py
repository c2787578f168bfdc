"""`safekept fleet`: every host of a destination or a vault at a glance."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from safekept import __version__
from safekept.actions.offsite.fleet import OPEN, Fleet
from safekept.core.ages import seconds_text

from ...console import Console, count_text, path_text, size_text
from ...lines import screen_width
from ...options import only_destination, place_or_file, start
from ...sealing import given_passphrase, identity_options
from ...status.prometheus import Metric, Sample, rendered

if TYPE_CHECKING:
    from safekept.actions.offsite.fleet import Fleet, FleetHome, FleetVault


# A fleet as Prometheus reads it: numbers, hosts and paths; no text of an alarm.


def fleet_exposition(fleet: Fleet) -> str:
    return rendered(_metrics(fleet))


def _metrics(fleet: Fleet) -> Iterator[Metric]:
    yield "fleet_info", "which safekept wrote this", [({"version": __version__, "place": fleet.place}, 1)]
    code = "what `--check` returns: 0 well, 3 late, incomplete or not proven, 4 alarm"
    yield "fleet_status_code", code, [({}, fleet.exit_code)]
    yield "fleet_timestamp_seconds", "when this was written", [({}, fleet.time)]
    vaults = [({"vault": one.directory or one.place}, one) for one in fleet.vaults]
    yield "fleet_vault_open", "whether a key here opens it", [(at, one.state == OPEN) for at, one in vaults]
    yield "fleet_vault_snapshots", "its snapshot files", [(at, one.snapshots) for at, one in vaults]
    yield "fleet_vault_size_bytes", "what it takes there", [(at, one.bytes) for at, one in vaults]
    arrived: list[Sample] = [(at, one.newest or None) for at, one in vaults]
    yield "fleet_vault_newest_timestamp_seconds", "when a snapshot last arrived", arrived
    homes = [
        ({"vault": vault.directory or vault.place, "host": home.host, "home": home.home}, home)
        for vault in fleet.vaults
        for home in vault.homes
    ]
    taken: list[Sample] = [(at, one.last.snapshot.time_ns / 1e9) for at, one in homes]
    yield "fleet_last_snapshot_timestamp_seconds", "when the home was last stored", taken
    yield "fleet_home_snapshots", "snapshots of the home", [(at, one.snapshots) for at, one in homes]
    yield "fleet_home_overdue", "whether that is too long ago", [(at, one.overdue) for at, one in homes]
    whole: list[Sample] = [(at, one.last.complete) for at, one in homes]
    yield "fleet_last_snapshot_complete", "whether everything that was selected is in it", whole
    sound: list[Sample] = [(at, one.last.state == "sound") for at, one in homes]
    yield "fleet_last_snapshot_verified", "whether its databases were checked and found sound", sound
    proven: list[Sample] = [(at, one.proven or None) for at, one in homes]
    yield "fleet_last_proof_timestamp_seconds", "when a restore was last proven", proven
    yield "fleet_home_alarms", "what is wrong with it", [(at, len(one.alarms)) for at, one in homes]
    sent: list[Sample] = [({"host": one.host}, one.modified or None) for one in fleet.archives]
    yield "fleet_last_archive_timestamp_seconds", "when an archive of the host last arrived", sent


#: What is wrong with a home where nothing is lost, in a word.
_STATES = {
    "no-whole-snapshot": "PARTS ONLY",
    "clock": "CLOCK",
    "incomplete": "incomplete",
    "leads-out": "incomplete",
    "not-proven": "not proven",
}
#: Host, home, age, verified; what is wrong has the rest of 80 columns. More on a wide screen.
_HOST, _HOME, _LAST, _VERIFIED = 16, 27, 8, 10


def fleet_width() -> int:
    """Columns of the terminal; 80 elsewhere."""
    return max(80, screen_width())


@click.command("fleet")
@click.argument("place", metavar="[DESTINATION|PLACE|VAULT]", default="")
@click.option(
    "--key-file",
    metavar="FILE",
    multiple=True,
    help="A key to try, beside this machine's own; may be repeated.",
)
@identity_options
@click.option(
    "--overdue",
    metavar="HOURS",
    type=float,
    help="After so many hours a home is overdue; 0: never; default: the setting `schedule.overdue_hours`.",
)
@click.option("--fast", is_flag=True, help="Do not compare what was counted in each home.")
@click.option("--check", is_flag=True, help="Exit code 0: well; 3: late, incomplete or not proven; 4: alarm.")
@click.option("--prometheus", is_flag=True, help="In the text format of Prometheus.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    place: str,
    key_file: tuple[str, ...],
    overdue: float | None,
    fast: bool,
    check: bool,
    prometheus: bool,
    as_json: bool,
) -> int:
    """Every host's homes in a destination, or in one vault: last snapshot, verification, alarms, who is late.

    Where there is only one destination, it need not be named.
    With --identity the kits in escrow beside the vaults open them: one private key for a whole fleet.
    Vaults that no key here opens are shown by what the place lists: when a snapshot last arrived, how many
    there are, how large they are. Nothing is changed, and no lock is written.
    """
    from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet
    from safekept.actions.vault.keys.passphrase import secret_from_text

    if prometheus and as_json:
        raise click.UsageError("--prometheus and --json are two formats; choose one.")
    settings, context, console = start(as_json)
    given = given_passphrase(settings)
    if given is not None:
        context = context.changed(vault_secret=lambda: secret_from_text(given(), "The passphrase"))
    elif not settings.text("vault.passphrase_command"):
        context = context.changed(vault_secret=None)  # a person is not asked once for each vault
    keys = tuple(os.path.abspath(os.path.expanduser(path)) for path in key_file)
    for path in keys:
        if not os.path.isfile(path):
            raise click.UsageError(f"There is no key file {path_text(path)}.")
    request = FleetRequest(
        place=place_or_file(place, tuple(one.name for one in context.choices.destinations))
        if place
        else only_destination(context),
        keys=keys,
        overdue_hours=settings.number("schedule.overdue_hours") if overdue is None else overdue,
        counts=not fast,
    )
    fleet = look_at_fleet(context, request, console.listener())
    console.finish()
    code = fleet.exit_code if check else 0
    if prometheus:
        click.echo(fleet_exposition(fleet), nl=False)
        return code
    console.document(fleet.as_dict())
    _show(console, fleet)
    return code


def _show(console: Console, fleet: Fleet) -> None:
    from safekept.actions.offsite.fleet import LOCKED, OPEN

    hosts = {home.host for home in fleet.homes} | {one.host for one in fleet.archives}
    locked = sum(vault.state == LOCKED for vault in fleet.vaults)
    summary = f"{count_text(len(fleet.homes), 'home')} on {count_text(len(hosts), 'host')}"
    summary += f" in {count_text(len(fleet.vaults), 'vault')}"
    summary += f", {locked} of them not opened" if locked else ""
    console.heading(f"{path_text(fleet.place)}: {summary}", not fleet.exit_code)
    if fleet.vaults:
        _row(console, "HOST", "HOME", "LAST", "VERIFIED", "STATE")
    notes: list[str] = []
    for vault in fleet.vaults:
        for home in vault.homes:
            _show_home(console, home, notes)
        if vault.state != OPEN or not vault.homes or vault.damaged:
            _show_vault(console, vault, fleet.time, notes)
    for note in notes:
        console.item(note)
    for one in fleet.archives:
        age = f"{seconds_text(max(0.0, fleet.time - one.modified))} ago" if one.modified else "unknown"
        late = ", OVERDUE" if one.overdue else ""
        count = count_text(one.count, "archive")
        console.line(f"{_cut(one.host, _HOST)} {count}, {size_text(one.bytes)}, the last {age}{late}")


def _show_home(console: Console, home: FleetHome, notes: list[str]) -> None:
    state = "ok"
    codes = {one.code for one in home.findings}
    if home.alarms:
        state = "ALARM"
    elif home.overdue:
        state = "OVERDUE"
    elif home.findings:
        state = next((word for code, word in _STATES.items() if code in codes), "PARTLY")
    shown = [one for one in home.findings if one.alarm or one.code in ("clock", "incomplete", "leads-out")]
    where = f"lost in {home.home}: "  # its row says where
    notes += [f"{path_text(home.host)}: {path_text(one.text.removeprefix(where))}" for one in shown]
    verified = home.last.state or "-"
    if home.proven:
        verified = f"proven {_days(home.proven)}"
    _row(console, home.host or "unknown", home.home, seconds_text(home.age), verified, state)


def _show_vault(console: Console, vault: FleetVault, now: float, notes: list[str]) -> None:
    from safekept.actions.offsite.fleet import LOCKED, OPEN

    name = vault.directory or os.path.basename(vault.place.rstrip("/"))
    age = seconds_text(max(0.0, now - vault.newest)) if vault.newest else "-"
    what = f"{count_text(vault.snapshots, 'snapshot')}, {size_text(vault.bytes)}"
    if vault.state == LOCKED:
        state = "OVERDUE" if vault.overdue else "no key"
        if "config" in vault.reason:
            state = "not whole"
    elif vault.state == OPEN:
        state = "ALARM" if vault.damaged else "empty"
        if vault.damaged:
            notes.append(f"{name}: {count_text(vault.damaged, 'snapshot file')} cannot be read")
    else:
        state = "ALARM"
        notes.append(f"{name}: {path_text(vault.reason)}")
    _row(console, name, what, age, "-", state)


def _days(when: float) -> str:
    days = int(max(0.0, time.time() - when) // 86400)
    return f"{days} d" if days else "today"


def _row(console: Console, host: str, home: str, last: str, verified: str, state: str) -> None:
    place, more = path_text(home), fleet_width() - 80
    at_host, at_home = _HOST + more // 3, _HOME + more - more // 3
    if len(verified) > _VERIFIED:  # it is never cut: the home gives way
        at_home -= len(verified) - _VERIFIED
    if len(place) > at_home:
        place = "…" + place[-(at_home - 1) :]  # the end of a path says more than its start
    style = {"fg": "yellow"} if state.isupper() and state not in ("STATE",) else {}
    row = (_cut(host, at_host), f"{place:<{at_home}}", f"{last:<{_LAST}}", f"{verified:<{_VERIFIED}}", state)
    console.line(" ".join(row).rstrip(), **style)


def _cut(text: str, width: int) -> str:
    text = path_text(text)
    return f"{text if len(text) <= width else text[: width - 1] + '…':<{width}}"
