"""The one screen of `safekept status`: the verdict first, then what it rests on."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from safekept.actions.status.coverage import Gap
from safekept.actions.status.destination_status import DestinationStatus
from safekept.actions.status.findings.survival import BELT
from safekept.actions.status.growth import by_day
from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.home_summary import FailedAttempt, LastSnapshot
from safekept.actions.status.schedule_status import ScheduleStatus
from safekept.actions.status.status import Status
from safekept.actions.status.vault_status import NONE, OPEN
from safekept.core.ages import ago_text, seconds_text
from safekept.core.entries import Outcome
from safekept.core.finding import MACHINE_LOST, NOT_PROTECTED, PARTLY, THIS_MACHINE
from safekept.core.next_step import NextStep, Step

from ..console import count_text, path_text, size_text
from ..screen import Screen
from ..words.connecting import host_lines
from ..words.kit import revoke_step
from ..words.remarks import amount_text, left_out_bytes, not_kept_text
from ..words.snapshots import incomplete_text
from .growth import sparkline

_COLOURS = {NOT_PROTECTED: "red", PARTLY: "yellow", THIS_MACHINE: "green", MACHINE_LOST: "green"}
_DATABASES = {
    "sound": "its databases sound",
    "unverified": "databases not rechecked",
    "damaged": "a database is DAMAGED",
}
_REASONS = 6  # beside the first; the doctor has all
_STEPS = 3  # of the first; the doctor has all
_GAPS = 3
_REASON = 120  # letters of a reason; the rest is in `snapshot show`
_TROUBLED = 3  # projects
_DAYS = 14
_IN_FULL = 1  # homes with a block of their own; beyond it, those that are well have a line


def show_verdict(screen: Screen, status: Status) -> None:
    """The answer and what to do; also all that `--check` says."""
    verdict = status.verdict
    screen.headline(verdict.text, fg="red" if verdict.alarm else _COLOURS[verdict.level])
    screen.facts("Next", verdict.next[:_STEPS])
    for home in status.homes:
        _show_unseen(screen, home)
    # On the third rung the first reason is what is missing for the fourth, and is reported by its step.
    # Of a kit, no step says what is wrong with it.
    more = verdict.reasons[1:]
    if verdict.level == THIS_MACHINE and verdict.reasons and verdict.reasons[0].code == "kit-outdated":
        more = verdict.reasons
    for number, reason in enumerate(more[:_REASONS]):
        screen.one_line("Also" if number == 0 else "", reason.text)
    if len(more) > _REASONS:
        screen.fact("", f"… and {len(more) - _REASONS:,} more")
    if more:
        screen.fact("", NextStep("doctor", before="What to do about each:"))


def _show_unseen(screen: Screen, home: HomeStatus) -> None:
    """What the verdict does not rest on stands beside it: it may be as well as it was, or not."""
    for paths, how in (
        (home.now.unread, "not looked at"),
        (home.now.unchecked, "not checked since it changed"),
    ):
        if paths:
            more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
            before = f"of {path_text(paths[0])}{more} in {screen.path(home.home)} {how}:"
            screen.fact("Contents", NextStep("doctor", home.named, before=before))


def show(screen: Screen, status: Status) -> None:
    """Everything; on a terminal no more than fits it, so that the verdict never scrolls away."""
    with screen.first_lines(f"… more: `{screen.console.command('status')} | less`"):
        _show_all(screen, status)


def _show_all(screen: Screen, status: Status) -> None:
    show_verdict(screen, status)
    with_reasons = {reason.home for reason in status.verdict.reasons if reason.code != "not-proven"}
    gone = [home for home in status.homes if not home.exists and not home.default]
    here = [home for home in status.homes if home not in gone]
    for number, home in enumerate(here):
        if number < _IN_FULL or home.home in with_reasons:
            screen.line()
            _show_home(screen, status, home)
    short = [home for home in here[_IN_FULL:] if home.home not in with_reasons]
    if short or gone or status.unkept:
        screen.line()
    for home in short:
        if home.last is None:
            continue  # that is a reason, and reported above
        screen.fact("Also kept", f"{screen.path(home.home)}: {_snapshot(home.last, status.time)}", top=True)
    for home in gone:
        last = f", the last {ago_text(home.last.time, status.time)}" if home.last else ""
        screen.fact(
            "Gone",
            f"{screen.path(home.home)} is not here any more: {count_text(home.snapshots, 'snapshot')}{last}",
            top=True,
        )
    for path, layout in status.unkept:
        command = screen.console.command("snapshot", "--home", path)
        screen.fact("Never kept", f"{screen.path(path)} ({layout}): `{command}`", top=True)
    screen.line()
    _show_vault(screen, status)
    _show_keeper(screen, status)
    _show_projects(screen, status)
    for text in status.off:
        screen.fact("", text)
    _show_agents(screen, status)
    _show_rest(screen, status)


# ── one home ───────────────────────────────────────────────────────────────────────────────────────


def _show_home(screen: Screen, status: Status, home: HomeStatus) -> None:
    now = status.time
    if home.exists:
        screen.heading(f"{screen.path(home.home)} ({home.layout})")
    elif home.guessed and home.last is None:
        screen.heading("No agent's home was found here")
    else:
        screen.heading(f"No {home.layout.replace('-', ' ').title()} home at {screen.path(home.home)}")
    screen.fact("Snapshot", _snapshot(home.last, now) if home.last else "none yet")
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
    for fewer in home.now.fewer():
        before = f"{path_text(fewer.fall.text)} since snapshot {fewer.snapshot}:"
        screen.fact("Fewer", NextStep("snapshot diff", (fewer.snapshot, *home.named), before=before))
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


def _show_lean(screen: Screen, lean: Mapping[str, Mapping[str, Any]]) -> None:
    left_out = sum(map(left_out_bytes, lean.values()))
    if left_out:
        screen.fact("Databases", f"search indexes left out ({size_text(left_out)}); a restore rebuilds them")


def _snapshot(last: LastSnapshot, now: float) -> str:
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


# ── stores and the rest ────────────────────────────────────────────────────────────────────────────


def _show_vault(screen: Screen, status: Status) -> None:
    vault, now = status.vault, status.time
    where = screen.path(vault.place)
    if vault.state == NONE:
        screen.fact("Vault", f"{where}: made by the first snapshot", top=True)
        return
    if vault.state != OPEN:
        screen.fact("Vault", f"{where}: CANNOT BE OPENED", top=True)
        return
    parts = [size_text(vault.bytes)] if vault.bytes is not None else []
    parts.append(count_text(vault.snapshots, "snapshot"))
    if vault.forgotten:
        parts.append(f"{vault.forgotten:,} forgotten")
    room = f"; {size_text(vault.free)} free" if vault.free is not None else ""
    # The usual answer takes no line of its own: a screen has 24.
    closed = status.survival is not None and status.survival.step == BELT
    screen.fact("Vault", f"{where}, closed to rm -rf ~ (tried now)" if closed else where, top=True)
    screen.fact("Holds", ", ".join(parts) + room)
    check = vault.check
    if check is None:
        checked: Step = NextStep("vault check", before="never checked:")
    else:
        read = ", every byte read" if check.read_data >= 1 else ""
        checked = f"{'sound' if check.sound else 'DAMAGED'}, checked {ago_text(check.time, now)}{read}"
    screen.fact("Health", checked)
    screen.fact("Key", _key(screen, status))
    if vault.old_keys:
        screen.fact("", revoke_step(vault.old_keys))
    open_archives = sum(1 for home in status.homes if home.archive and home.archive.readable_here)
    if open_archives:
        screen.fact(
            "Readable", f"{count_text(open_archives, 'archive')} can be opened by anyone with this disk"
        )
    said = closed or any(one.code == "key-only-here" for one in status.verdict.reasons)
    if status.survival is not None and not said:
        screen.fact("rm -rf ~", status.survival.text(now))
    for lock in vault.locks:
        screen.fact("Lock", lock)


def _key(screen: Screen, status: Status) -> str:
    vault = status.vault
    where = screen.path(vault.key_file) if vault.key_file else "a passphrase"
    spare = [
        f"{key.kind} {key.id[:8]}"
        for key in vault.keys
        if key.kind and not key.current and key not in vault.old_keys
    ]
    if vault.kits.stored:
        opens = " and still opens the vault" if vault.kits.stored_opens else ""
        spare.append(f"a kit that is stored elsewhere{opens}")
    stored = NextStep("vault kit", ("--stored",), before="Stored elsewhere?")
    gone = ""
    if vault.kit > vault.kits.stored and vault.kits.gone:
        again = f"{screen.console.step(NextStep('vault kit'))}. {screen.console.step(stored)}"
        gone = f"; the kit that was written {ago_text(vault.kit, status.time)} is gone: {again}"
    elif vault.kit > vault.kits.stored:
        files = screen.path(vault.kits.files[0]) if vault.kits.files else ""
        if len(vault.kits.files) > 1:
            files += " and .html"
        where_it_is = f" ({files})" if files else ""
        spare.append(
            f"a kit written {ago_text(vault.kit, status.time)}{where_it_is}. {screen.console.step(stored)}"
        )
    return (f"{where}; also {', '.join(spare)}" if spare else f"only copy: {where}") + gone


def _show_projects(screen: Screen, status: Status) -> None:
    kept = status.projects
    if not kept.projects:
        waiting = [] if any(host.places for host in status.hosts) else [host.host for host in status.hosts]
        command = screen.console.command("connect", *(waiting if len(waiting) == 1 else []))
        advice = f": `{command}`" if waiting else ""
        screen.fact("Projects", f"no checkpoints yet{advice}", top=True)
        return
    last = f", the last checkpoint {ago_text(kept.last, status.time)}" if kept.last else ""
    names = count_text(len(kept.projects), "project")
    screen.fact("Projects", f"{names}{last}, {size_text(kept.bytes)}", top=True)
    troubled = [one for one in kept.projects if one.failing or one.unprotected or one.limited]
    for one in troubled[:_TROUBLED]:
        what = one.failure if one.failing else one.unprotected or one.limited
        word = "FAILING" if one.failing else "limited"
        screen.fact("", f"{screen.path(one.project)} {word}: {what}")
    if len(troubled) > _TROUBLED:
        screen.fact("", NextStep("checkpoint status", before=f"… and {len(troubled) - _TROUBLED:,} more:"))
    gone = [one for one in kept.projects if one.gone]
    for one in gone[:_TROUBLED]:
        back = NextStep("rollback", ("--dir", one.project), before=f"{screen.path(one.project)}:")
        screen.fact("Gone", back)
    if len(gone) > _TROUBLED:
        screen.fact("", NextStep("rebuild", ("--dry-run",), before=f"… and {len(gone) - _TROUBLED:,} more:"))
    exposed = [one for one in kept.projects if one.here and (one.left_out or one.hidden_trouble)]
    for one in exposed[:_TROUBLED]:
        what = one.hidden_trouble or (not_kept_text(one.left_out) if one.left_out else "")
        screen.fact("Not kept", f"of {screen.path(one.project)}: {what}")
    if len(exposed) > _TROUBLED:
        screen.fact("", f"… and of {count_text(len(exposed) - _TROUBLED, 'more project')}")


def _show_agents(screen: Screen, status: Status) -> None:
    """Who calls safekept, and who could; what the verdict has said is not said again."""
    if not status.projects.projects and not any(host.places for host in status.hosts):
        return  # said beside the projects
    reasons = {reason.text for reason in status.verdict.reasons}
    label = "Agents"
    for host in status.hosts:
        first, *more = host_lines(screen.console, host, status.time)
        screen.fact(label, f"{host.host} {screen.text(first)}", top=bool(label))
        label = ""
        for line, (_, text, _) in zip(more, host.troubles, strict=True):
            if text not in reasons:
                screen.fact("", screen.text(line))


def _show_keeper(screen: Screen, status: Status) -> None:
    keeper, now = status.keeper, status.time
    if keeper is None:
        return
    if keeper.wrong or keeper.newest is None:
        text = "does not answer" if keeper.wrong else "holds nothing of yours yet"
        screen.fact("Keeper", text, top=True)
        return
    screen.fact("Keeper", f"holds the stores as of {ago_text(keeper.confirmed, now)}", top=True)
    if keeper.behind:
        why = f": {keeper.failure}" if keeper.failure else ""
        screen.fact("", f"it does not have your last snapshot{why}")
    if keeper.why_not:
        screen.fact("", f"does not count: {keeper.why_not}")


def _show_rest(screen: Screen, status: Status) -> None:
    schedule, now = status.schedule, status.time
    if not schedule.looked and not schedule.installed:
        screen.fact("Schedule", "none: nothing happens by itself", top=True)
    elif schedule.trouble:
        screen.fact("Schedule", f"will not run: {schedule.trouble}", top=True)
    else:
        screen.fact("Schedule", _runs(schedule, now), top=True)
        if schedule.other_times:
            screen.fact("", NextStep("schedule install", before=f"{schedule.other_times}:"))
    journal = status.journal
    if journal.problem:
        screen.fact("Journal", f"{screen.path(journal.path)} cannot be read: {journal.problem}", top=True)
    elif journal.newer:
        screen.fact("Journal", "written by a later safekept, too; understood as far as possible", top=True)
    elif journal.unreadable:
        screen.fact("Journal", f"{count_text(journal.unreadable, 'line')} cannot be read", top=True)


def _runs(schedule: ScheduleStatus, now: float) -> str:
    """When it ran and runs again."""
    if not schedule.last:
        return f"first run {clock_text(schedule.next, now)}" if schedule.next else "no run yet"
    last = f"last run {ago_text(schedule.last, now)}, {schedule.state}"
    return f"{last}; next {clock_text(schedule.next, now)}" if schedule.next else last


def clock_text(when: float, now: float) -> str:
    """`tonight at 03:30`, `tomorrow at 12:00`, `in 3 d`. The host looks every hour for what is due."""
    if when <= now:
        return "within the hour"
    then, today = datetime.datetime.fromtimestamp(when), datetime.datetime.fromtimestamp(now)
    days = (then.date() - today.date()).days
    if days > 1:
        return f"in {seconds_text(when - now)}"
    # Before six in the morning is still the night before, to a reader.
    night = then.hour < 6 and (days == 1 or today.hour < 6)
    return f"{'tonight' if night else 'tomorrow' if days else 'today'} at {then:%H:%M}"
