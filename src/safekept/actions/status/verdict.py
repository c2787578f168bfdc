"""The verdict: protected, not protected, or an alarm; with every reason, the worst first, and what to do.

Rules, in the order of their weight:

* alarm: something was lost or would be: an open alarm, a vault that does not open or is damaged, a home
  that is gone or half way through a restore, a database that was damaged when it was last stored, a drill
  that failed, a copy off this host that nobody could open if this host were lost;
* not protected: the last snapshot is missing, too old, failed since, or lacks what was selected; a copy
  off this host is too old; checkpoints of a project fail; a connected agent calls in vain or not at all;
* protected: none of these. What rules leave out is shown beside it and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from safekept.checkpoints.project import LIVE
from safekept.core.ages import seconds_text
from safekept.core.entries import Outcome
from safekept.core.spelling import shell_line, shell_word

from ..alarms.alarms import DRILL, LOSS, Alarm
from .destination_status import DestinationStatus
from .home_status import HomeStatus
from .home_summary import DAMAGED
from .host_status import FAILED, GONE, NO_PROGRAM, HostStatus
from .project_summaries import KeptProjects
from .vault_status import SHUT, VaultStatus
from .verdict_levels import ALARM, EXIT_CODES, NOT_PROTECTED, PROTECTED, PUSH_STALE_HOURS, STALE_HOURS

_HOUR = 3600.0
_WORDS = {NOT_PROTECTED: "Not protected", ALARM: "ALARM"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a user from being protected."""

    code: str  # kebab-case; stable
    level: str  # NOT_PROTECTED or ALARM
    text: str
    next: tuple[str, ...] = ()  # as in an error: sentences, or commands in backticks
    home: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "level": self.level,
            "text": self.text,
            "next": list(self.next),
            "home": self.home or None,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one answer."""

    level: str
    text: str
    reasons: tuple[Reason, ...] = ()  # the worst first
    next: tuple[str, ...] = ()  # what to do first; also where everything is well and could be better

    @property
    def exit_code(self) -> int:
        """What `status --check` returns."""
        return EXIT_CODES[self.level]

    def as_dict(self) -> dict[str, object]:
        return {
            "level": self.level,
            "exit_code": self.exit_code,
            "text": self.text,
            "next": list(self.next),
            "reasons": [one.as_dict() for one in self.reasons],
        }


def judge(
    homes: Sequence[HomeStatus],
    vault: VaultStatus,
    projects: KeptProjects,
    destinations: Sequence[DestinationStatus],
    alarms: Iterable[Alarm],
    *,
    stale_hours: float = STALE_HOURS,
    push_stale_hours: float = PUSH_STALE_HOURS,
    journal_problem: str = "",
    hosts: Sequence[HostStatus] = (),
    now: float,
) -> Verdict:
    """Weigh everything that was found."""
    alarms = list(alarms)
    reasons = [
        *_of_alarms(alarms),
        *_of_vault(vault, destinations),
        *_of_journal(journal_problem),
        *(reason for home in homes for reason in _of_home(home, alarms, stale_hours, now)),
        *_of_destinations(destinations, push_stale_hours, now),
        *_of_projects(projects),
        *_of_hosts(hosts),
    ]
    # Sorting is stable: within a level the order above stays.
    reasons.sort(key=lambda reason: reason.level != ALARM)
    if not reasons:
        return _protected(homes, vault, destinations, now)
    worst = reasons[0]
    return Verdict(worst.level, f"{_WORDS[worst.level]}: {worst.text}", tuple(reasons), worst.next)


def _protected(
    homes: Sequence[HomeStatus], vault: VaultStatus, destinations: Sequence[DestinationStatus], now: float
) -> Verdict:
    oldest = min((home.last.time for home in homes if home.last and home.exists), default=now)
    age = f"the last snapshot is {seconds_text(max(0.0, now - oldest))} old"
    if destinations or vault.off_host:
        return Verdict(PROTECTED, f"Protected: {age}")
    # Nothing is wrong, and everything is in one basket.
    step = "Copy it off this machine: `safekept push URL`"
    if not vault.second_way and not vault.kit:
        step = "Keep the key elsewhere, too: `safekept vault kit`"
    return Verdict(PROTECTED, f"Protected, on this machine only: {age}", next=(step,))


def _of_hosts(hosts: Iterable[HostStatus]) -> Iterator[Reason]:
    """What a person believes to be at work and is not; what they switched off themselves is no reason."""
    for host in hosts:
        for kind, text, step in host.troubles:
            if kind in (GONE, NO_PROGRAM, FAILED):
                given_up = (
                    f"Or, where that is meant: {step.replace('safekept connect', 'safekept disconnect')}"
                )
                steps = (step, given_up) if kind == GONE else (step,)
                yield Reason(f"connection-{kind}", NOT_PROTECTED, text, steps)


def _of_alarms(alarms: Iterable[Alarm]) -> Iterator[Reason]:
    for alarm in alarms:
        # Of a loss they are commands; of a drill they are sentences, with commands in them.
        back = tuple(f"`{step}`" if alarm.kind == LOSS else step for step in alarm.restore)
        seen = f"Once you have seen to it: `safekept status --acknowledge {alarm.id}`"
        text = f"lost in {alarm.home}: {alarm.text}" if alarm.kind == LOSS and alarm.home else alarm.text
        yield Reason(f"alarm-{alarm.kind}", ALARM, text, (*back, seen), alarm.home)


def _of_journal(problem: str) -> Iterator[Reason]:
    """Alarms are lines of the journal: where it cannot be read, nobody can say that there are none."""
    if problem:
        text = f"the journal cannot be read ({problem}): whether anything was lost is not known"
        yield Reason("journal-unreadable", NOT_PROTECTED, text, ("`safekept doctor`",))


def _of_vault(vault: VaultStatus, destinations: Sequence[DestinationStatus]) -> Iterator[Reason]:
    if vault.state == SHUT and vault.error:
        steps = vault.error.get("next")
        advice = tuple(map(str, steps)) if isinstance(steps, list) else ()
        yield Reason("vault-shut", ALARM, str(vault.error.get("what")), advice)
    if vault.damaged:
        count = len(vault.damaged)
        text = f"{count:,} snapshot {'file' if count == 1 else 'files'} in the vault cannot be read"
        yield Reason("vault-damaged", ALARM, text, ("`safekept vault check`",))
    elif vault.check is not None and not vault.check.sound:
        yield Reason(
            "vault-damaged", ALARM, "the last check found damage in the vault", ("`safekept vault repair`",)
        )
    if (destinations or vault.off_host) and vault.keys and not vault.second_way:
        yield Reason(
            "no-recovery-key",
            ALARM,
            "not protected: only this machine holds the vault's key; what is off this host "
            "could not be opened without it",
            ("`safekept vault key add --recovery`",),
        )


def _of_home(home: HomeStatus, alarms: Sequence[Alarm], stale_hours: float, now: float) -> Iterator[Reason]:
    name = home.home
    if not home.exists:
        yield from _of_gone(home)
        return
    if any(one.half_way for one in home.leftovers):
        yield Reason(
            "interrupted-landing",
            ALARM,
            f"a restore or import into {name} was cut off half way; the next command takes it back",
            (_command("snapshot", home),),
            name,
        )
    last = home.last
    if last is None:
        text = f"there is no snapshot of {name} yet"
        if home.failure is not None:
            text = f"no snapshot of {name} succeeded yet: {home.failure.what}"
        yield Reason("no-snapshot", NOT_PROTECTED, text, _again(home), name)
        return
    if last.databases == DAMAGED or home.damaged:
        yield _damaged(home)
    drill = home.drill
    if drill is not None and not drill.ok and not any(one.kind == DRILL for one in alarms):
        failed = ", ".join(row.check for row in drill.failed) or "no row says which"
        text = f"the last drill of {name} failed: {failed}"
        yield Reason("drill-failed", ALARM, text, (_command("drill", home),), name)
    age = now - last.time
    if last.future:
        text = f"the last snapshot of {name} is dated in the future: a clock is or was wrong"
        yield Reason("clock", NOT_PROTECTED, text, (_command("snapshot", home),), name)
    elif age > stale_hours * _HOUR:
        text = f"the last snapshot of {name} is {seconds_text(age)} old"
        yield Reason("stale", NOT_PROTECTED, text, (_command("snapshot", home),), name)
    if home.failure is not None and home.failure.time > last.time:
        ended = "was interrupted" if home.failure.state == "interrupted" else "failed"
        when = seconds_text(max(0.0, now - home.failure.time))
        text = f"the last attempt to take a snapshot of {name} {ended} {when} ago: {home.failure.what}"
        yield Reason("snapshot-failed", NOT_PROTECTED, text, _again(home), name)
    yield from _of_coverage(home)


def _of_gone(home: HomeStatus) -> Iterator[Reason]:
    """A home that is not there: alarming where it is the one at work, or nothing at all was ever here."""
    name = home.home
    if home.last is not None and home.default:
        text = f"the home {name} is gone; {home.last.short} has it"
        yield Reason("home-gone", ALARM, text, (_command("snapshot restore latest", home),), name)
    elif home.last is None:
        text = f"there is no home at {name}, and nothing is kept"
        yield Reason("no-home", NOT_PROTECTED, text, ("Name the home: `safekept status --home PATH`",), name)


def _damaged(home: HomeStatus) -> Reason:
    """Advice names only a generation in which that very database was found sound."""
    bad = [path for path in home.damaged if path]
    text = f"{', '.join(bad) or 'a database'} in {home.home} is damaged"
    commands = tuple(
        _command(shell_line(("snapshot", "restore", found[:8], *((path,) if path else ()))), home)
        for path, found in home.damaged.items()
        if found
    )
    if not commands:
        return Reason("database-damaged", ALARM, text, (_command("doctor", home),), home.home)
    text += "; its last sound state is kept" if len(bad) < 2 else "; their last sound states are kept"
    return Reason("database-damaged", ALARM, text, commands, home.home)


def _of_coverage(home: HomeStatus) -> Iterator[Reason]:
    if home.last is not None and home.last.quick and home.whole is None:
        text = f"only state files of {home.home} are kept; there is no whole snapshot"
        yield Reason("quick-only", NOT_PROTECTED, text, (_command("snapshot", home),), home.home)
    if home.coverage is None:
        return
    missing = [gap for gap in home.coverage.gaps if gap.missing and gap.outcome != Outcome.DAMAGED.value]
    if missing:
        first = missing[0]
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        text = f"{first.path}{more} in {home.home} could not be stored: {first.reason}"
        yield Reason("incomplete", NOT_PROTECTED, text, (_command("snapshot", home),), home.home)


def _of_destinations(
    destinations: Iterable[DestinationStatus], stale_hours: float, now: float
) -> Iterator[Reason]:
    for one in destinations:
        push = f"`safekept push {shell_word(one.name)}`"
        if not one.last:
            why = f": {one.failure.what}" if one.failure else ""
            yield Reason("never-pushed", NOT_PROTECTED, f"nothing is in {one.name} yet{why}", (push,))
        elif stale_hours and now - one.last > stale_hours * _HOUR:
            text = f"the copy in {one.name} is {seconds_text(now - one.last)} old"
            yield Reason("push-stale", NOT_PROTECTED, text, (push,))


def _of_projects(projects: KeptProjects) -> Iterator[Reason]:
    for one in projects.projects:
        if one.cut_off and one.presence == LIVE:
            text = f"a rollback of {one.project} was cut off half way; the next one makes it right"
            step = f"`safekept rollback --dir {shell_word(one.project)}`"
            yield Reason("interrupted-rollback", ALARM, text, (step,))
    for one in projects.failing:
        text = f"checkpoints of {one.project} fail: {one.failure}"
        yield Reason("checkpoints-fail", NOT_PROTECTED, text, ("`safekept checkpoints status`",))
    for problem in projects.problems:
        yield Reason("checkpoint-store", NOT_PROTECTED, problem, ("`safekept checkpoints status`",))


def _again(home: HomeStatus) -> tuple[str, ...]:
    advised = home.failure.next_steps if home.failure else ()
    return (*advised, _command("snapshot", home))


def _command(words: str, home: HomeStatus) -> str:
    call = words if home.default else f"{words} --home {shell_word(home.home)}"
    return f"`safekept {call}`"
