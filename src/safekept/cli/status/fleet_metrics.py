"""A fleet as Prometheus reads it: numbers, hosts and paths; no text of an alarm."""

from __future__ import annotations

from collections.abc import Iterator

from safekept import __version__
from safekept.actions.offsite.fleet import OPEN, Fleet

from .prometheus import Metric, Sample, rendered


def fleet_exposition(fleet: Fleet) -> str:
    return rendered(_metrics(fleet))


def _metrics(fleet: Fleet) -> Iterator[Metric]:
    yield "fleet_info", "which safekept wrote this", [({"version": __version__, "place": fleet.place}, 1)]
    code = "what `--check` returns: 0 well, 3 late or incomplete, 4 alarm"
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
