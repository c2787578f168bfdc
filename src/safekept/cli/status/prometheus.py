"""Status as Prometheus reads it: the text format of node_exporter's textfile collector.

Numbers and paths only: no text of an alarm, no URL, no name of a key. Times are seconds since 1970, so
that a monitor can tell by itself how old something is. What is not known is left out: Prometheus then has
no sample, which is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from safekept import __version__
from safekept.actions.status.status import Status
from safekept.actions.status.vault_status import OPEN
from safekept.core.finding import LADDER

Sample = tuple[dict[str, str], float | None]
Metric = tuple[str, str, list[Sample]]  # name after `safekept_`, meaning, values


def exposition(status: Status) -> str:
    """All metrics of a host, each with its help and type."""
    return rendered(_metrics(status))


def rendered(metrics: Iterable[Metric]) -> str:
    """Metrics as the format has them; ends with a line feed, as it wants."""
    lines = []
    for name, meaning, samples in metrics:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines += [f"# HELP safekept_{name} {meaning}", f"# TYPE safekept_{name} gauge"]
            lines += [f"safekept_{name}{_labels(labels)} {_number(value)}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _metrics(status: Status) -> Iterator[Metric]:
    code = "what `safekept status --check` returns: 0 well, 3 partly or not protected, 4 alarm"
    ladder = "the rung of the ladder: 0 not protected, 1 partly, 2 on this machine, 3 if the machine is lost"
    yield "info", "which safekept wrote this", [({"version": __version__}, 1)]
    yield "status_code", code, [({}, status.verdict.exit_code)]
    yield "protection_level", ladder, [({}, LADDER.index(status.verdict.level))]
    yield "status_timestamp_seconds", "when this was written", [({}, status.time)]
    yield "alarms_open", "alarms not acknowledged yet", [({}, len(status.alarms))]
    yield from _of_homes(status)
    yield from _of_vault(status)
    pushed = [({"destination": one.name}, one.last or None) for one in status.destinations]
    yield "last_push_timestamp_seconds", "when something last arrived at a destination", pushed
    kept = status.projects
    yield "checkpoints_size_bytes", "what the checkpoints of all projects take", [({}, kept.bytes)]
    yield "checkpoint_projects", "projects that have checkpoints", [({}, len(kept.projects))]
    failing = len(kept.failing)
    yield "checkpoint_projects_failing", "projects whose last checkpoint failed", [({}, failing)]
    yield "last_checkpoint_timestamp_seconds", "when any project was last kept", [({}, kept.last or None)]
    run = status.schedule
    yield "last_run_timestamp_seconds", "when scheduled work last ran", [({}, run.last or None)]
    yield "next_run_timestamp_seconds", "when it is due next", [({}, run.next or None)]


def _of_homes(status: Status) -> Iterator[Metric]:
    homes = [({"home": home.home, "layout": home.layout}, home) for home in status.homes]
    kept = [(labels, home.last) for labels, home in homes if home.last is not None]
    counted = status.vault.state == OPEN

    yield "home_exists", "whether the home is there", [(at, home.exists) for at, home in homes]
    snapshots: list[Sample] = [(at, home.snapshots if counted else None) for at, home in homes]
    yield "home_snapshots", "snapshots of the home that are not forgotten", snapshots
    alarms: list[Sample] = [(at, len(home.alarms)) for at, home in homes]
    yield "home_alarms_open", "alarms of the home not acknowledged yet", alarms
    taken: list[Sample] = [(at, last.time) for at, last in kept]
    yield "last_snapshot_timestamp_seconds", "when the home was last stored", taken
    whole: list[Sample] = [(at, last.complete) for at, last in kept]
    yield "last_snapshot_complete", "whether everything that was selected is in it", whole
    sound: list[Sample] = [(at, last.databases == "sound") for at, last in kept]
    yield "last_snapshot_verified", "whether its databases were checked and found sound", sound
    yield "last_snapshot_size_bytes", "what the home held then", [(at, last.bytes) for at, last in kept]
    yield "last_snapshot_files", "how many files that were", [(at, last.files) for at, last in kept]
    written: list[Sample] = [(at, home.archive.time if home.archive else None) for at, home in homes]
    yield "last_archive_timestamp_seconds", "when the last archive was written", written
    proven: list[Sample] = [(at, home.proof.started if home.proof else None) for at, home in homes]
    yield "last_proof_timestamp_seconds", "when a restore was last proven", proven
    passed: list[Sample] = [(at, home.drill.ok if home.drill else None) for at, home in homes]
    yield "last_drill_ok", "whether the last drill passed", passed
    growth: list[Sample] = [(at, home.growth.per_day) for at, home in homes]
    yield "added_bytes_per_day", "what snapshots of the home add to the vault, on average", growth


def _of_vault(status: Status) -> Iterator[Metric]:
    vault, at = status.vault, {"vault": status.vault.place}
    opened = vault.state == OPEN
    yield "vault_open", "whether the vault could be opened", [(at, opened)]
    yield "vault_size_bytes", "what the vault takes", [(at, vault.bytes)]
    yield "vault_free_bytes", "what is left on its disk", [(at, vault.free)]
    yield "vault_snapshots", "snapshots of all homes", [(at, vault.snapshots if opened else None)]
    yield "vault_damaged", "whether damage is known", [(at, vault.health == "damaged")]
    checked = vault.check.time if vault.check else None
    yield "last_check_timestamp_seconds", "when the vault was last checked", [(at, checked)]
    second = bool(vault.recovery_access) if opened else None
    yield (
        "vault_second_way",
        "whether a passphrase or a kit opens it without this host",
        [(at, second)],
    )


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    """As the format has it; bytes that are no text become what they would be in Python."""
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float | None) -> str:
    assert value is not None
    return str(int(value)) if isinstance(value, bool | int) else f"{value:.3f}"
