"""What `safekept status` shows of one home: its snapshots, copies, proof, and what is not kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safekept.actions.status.coverage import Gap
from safekept.actions.status.destination_status import DestinationStatus
from safekept.actions.status.growth import by_day
from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.home_summary import FailedAttempt, LastSnapshot
from safekept.actions.status.status import Status
from safekept.core.ages import ago_text, seconds_text
from safekept.core.entries import Outcome
from safekept.core.next_step import NextStep

from ..console import count_text, path_text, size_text
from ..screen import Screen
from ..words.remarks import amount_text, left_out_bytes
from ..words.snapshots import incomplete_text
from .growth import sparkline

_DATABASES = {
    "sound": "its databases sound",
    "unverified": "databases not rechecked",
    "damaged": "a database is DAMAGED",
}
_GAPS = 3
_REASON = 120  # letters of a reason; the rest is in `snapshot show`
_DAYS = 14


def show_home(screen: Screen, status: Status, home: HomeStatus, *, fewer: bool = True) -> None:
    now = status.time
    if home.exists:
        screen.heading(f"{screen.path(home.home)} ({home.layout})")
    elif home.guessed and home.last is None:
        screen.heading("No agent's home was found here")
    else:
        screen.heading(f"No {home.layout.replace('-', ' ').title()} home at {screen.path(home.home)}")
    screen.fact("Snapshot", snapshot_text(home.last, now) if home.last else "none yet")
    if home.last and home.last.databases != "sound" and home.verified:
        screen.fact("", f"the last verified one: {ago_text(home.verified.time, now)} ({home.verified.short})")
    archive = home.archive
    if archive is not None:  # an archive is optional
        size = f", {size_text(archive.bytes)}" if archive.bytes is not None else ""
        state = incomplete_text(archive, ", ")
        seal = "not sealed"
        if archive.sealed:
            seal = "sealed, with its key on this machine" if archive.key_here else "sealed"
        where = screen.path(archive.path) if archive.there else "not where it was written any more"
        screen.fact("Archive", f"{ago_text(archive.time, now)}{size}, {seal}{state}: {where}")
    screen.fact("Off-host", _off_host(status))
    if here := [one for one in status.destinations if not one.away]:
        why = here[0].here if len({one.here for one in here}) == 1 else "would be lost with this machine"
        screen.fact("Copy here", f"{_copies(here, status.time)}; {'it' if len(here) == 1 else 'each'} {why}")
    screen.fact("Proven", _proven(screen, home, now))
    if fewer:
        show_fewer(screen, home)
    _show_gaps(screen, home)
    _show_lean(screen, home.coverage.lean if home.coverage else {})
    for one in home.leftovers:
        what = "half way through" if one.half_way else "litter of"
        screen.fact("Left over", f"{what} {one.operation}: {screen.path(one.place)}")
    for unfilled in home.unfilled:
        state = f"complete in about {seconds_text(max(1.0, unfilled.seconds))}"
        if unfilled.wrong:
            state = f"not complete, the last try gave up: {unfilled.wrong}; every command tries again"
        screen.fact("Search", f"in {screen.path(unfilled.path)}: {state}")
    if home.growth.per_day is not None and home.growth.last_week is not None:
        line = sparkline(by_day(home.growth.points[1:], _DAYS, now))
        rate = f"{size_text(home.growth.per_day)} a day, {size_text(home.growth.last_week)} in the last week"
        screen.fact("Growth", f"{rate} {line}".rstrip())


def show_fewer(screen: Screen, home: HomeStatus, *, alone: bool = False) -> None:
    """What an agent seldom takes away by itself, and the way back. `alone`: no heading names the home."""
    where = f" in {screen.path(home.home)}" if alone else ""
    for fewer in home.now.fewer():
        before = f"{path_text(fewer.fall.text)}{where} since snapshot {fewer.snapshot}:"
        verb = "snapshot restore" if fewer.paths else "snapshot diff"
        words = (fewer.snapshot, *fewer.paths, *home.named)
        screen.fact("Fewer", NextStep(verb, words, before=before), top=alone)


def _show_lean(screen: Screen, lean: Mapping[str, Mapping[str, Any]]) -> None:
    left_out = sum(map(left_out_bytes, lean.values()))
    if left_out:
        screen.fact("Databases", f"search indexes left out ({size_text(left_out)}); a restore rebuilds them")


def snapshot_text(last: LastSnapshot, now: float) -> str:
    parts = ["in the future: a clock is wrong" if last.future else ago_text(last.time, now), last.kind]
    parts.append(incomplete_text(last))
    if last.partial and last.kind != "quick":
        parts.append("partial")
    if (word := _DATABASES.get(last.databases)) and " is damaged" not in last.why_incomplete:
        parts.append(word)
    if last.files is not None:
        parts.append(count_text(last.files, "file"))
    if last.bytes is not None:
        parts.append(size_text(last.bytes))
    if last.from_journal:
        parts.append("by the journal")
    return f"{', '.join(filter(None, parts))} ({last.short})"


def _off_host(status: Status) -> str:
    if not status.destinations and not status.vault.off_host:
        found = {one.code for one in status.verdict.reasons}
        if "emptied" in found and "no-copy-elsewhere" not in found:
            return "not known: your settings are gone, too"
        return "never: no destination is set up"
    copies = ["the vault itself"] if status.vault.off_host else []
    copies.append(_copies([one for one in status.destinations if one.away], status.time))
    return ", ".join(filter(None, copies)) or "none"


def _copies(found: Sequence[DestinationStatus], now: float) -> str:
    """When each of them got its last copy."""
    words = []
    for one in found:
        when = ago_text(one.last, now) if one.last else "never"
        failed = f"; {_ended(one.failure)} {ago_text(one.failure.time, now)}" if one.failure else ""
        kept = ", and nothing here can delete it" if one.keeps else ""
        words.append(f"{path_text(one.name)} {when}{kept}{failed}")
    return ", ".join(words)


def _ended(push: FailedAttempt) -> str:
    """A push that was interrupted is no failure: the next one goes on with it."""
    return "interrupted" if push.state == "interrupted" else "FAILED"


def _proven(screen: Screen, home: HomeStatus, now: float) -> str:
    proof, drill = home.proof, home.drill
    if drill is not None and not drill.ok:
        rows = ", ".join(row.check for row in drill.failed)  # the first line of the screen says why
        before = f"; before that, {ago_text(proof.started, now)}" if proof else ""
        return f"FAILED {ago_text(drill.started, now)}: {rows}{before}"
    if proof is None:
        command = screen.console.command("drill", *home.named)
        return f"never: `{command}`" if home.last else "never"
    name = proof.name[:8] if proof.subject == "snapshot" else path_text(proof.name)
    small = ", a sample" if proof.small else ""
    return f"{ago_text(proof.started, now)}, {proof.subject} {name}{small}"


def _show_gaps(screen: Screen, home: HomeStatus) -> None:
    coverage = home.coverage
    if coverage is None:
        return
    mended = {one.path for one in home.now.databases if one.mended}  # only stored so, as the first line says
    damaged = [gap for gap in coverage.of(Outcome.DAMAGED) if gap.path not in mended]
    for number, gap in enumerate(damaged[:_GAPS]):
        screen.fact("Damaged" if number == 0 else "", _gap(screen, gap))
    shown = (Outcome.EXCLUDED.value, Outcome.DAMAGED.value)
    lines = [_gap(screen, gap) for gap in coverage.gaps if gap.outcome not in shown]
    lines = [*lines[:_GAPS], *([f"… and {len(lines) - _GAPS:,} more"] if len(lines) > _GAPS else [])]
    if coverage.quick:
        lines.append("everything but the state files (quick)")
    if coverage.profile:
        lines.append(f"everything but the profile {path_text(coverage.profile)}")
    if not coverage.secrets:
        lines.append("secrets (--no-secrets)")
    if left := coverage.of(Outcome.EXCLUDED):
        lines.append(_left_out(left))
    for number, line in enumerate(lines):
        screen.fact("Not kept" if number == 0 else "", line)


def _gap(screen: Screen, gap: Gap) -> str:
    where = f"{screen.path(gap.path)}: " if gap.path else ""
    return where + (gap.reason if len(gap.reason) <= _REASON else gap.reason[: _REASON - 1] + "…")


def _left_out(gaps: Sequence[Gap]) -> str:
    """By rules: how much in all, and the largest by name."""
    names = [path_text(gap.path) for gap in gaps if gap.path][:_GAPS]
    more = f" and {len(gaps) - len(names):,} more" if len(gaps) > len(names) else ""
    return f"by rules {amount_text(gaps)}: {', '.join(names)}{more}"
