"""What is wrong with how one home is kept: its newest whole snapshot, its proof, what was cut off in it.

`of_last`, `of_coverage` and `of_proven` are also what a fleet says of every home in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from safekept.core.ages import minute_text, seconds_text
from safekept.core.errors import clause
from safekept.core.finding import MEANT, NOT_PROTECTED, NOTE, PARTLY, Finding, Repair
from safekept.core.next_step import NextStep, Step

from ...alarms.alarms import DRILL, Alarm
from ...alarms.meant import links_name, where_it_leads
from ...snapshots.choosing import MACHINE_GONE
from ..coverage import Coverage, Gap
from ..home_now import DamagedDatabase
from ..home_status import HomeStatus
from ..home_summary import DAMAGED, LastSnapshot
from .losses import damaged_when_stored, database_damaged, lost_since

HOUR, DAY = 3600.0, 86400.0
#: A day and two hours: a daily run may be late by that much before it is notified.
STALE_HOURS = 26.0
#: A restore that was proven so long ago proves little.
PROOF_DAYS = 90
#: Fewer files than this, and fewer bytes, are no reason to hurry, however small a home is.
FEW_FILES, FEW_BYTES = 25, 50_000_000
#: A database that is half as large again has mostly new rows. Its log comes and goes with up to 4 MB.
FEW_DATABASE_BYTES = 5_000_000

#: What to do about a link out of a home, where it is not meant; the next snapshot has it then.
INTO_THE_HOME = (
    "Move what it leads to into the home, in the place of the link; or see that something else keeps it"
)


def of_home(
    home: HomeStatus, alarms: Sequence[Alarm], stale_hours: float, now: float, provable: bool = True
) -> Iterator[Finding]:
    """Everything about one home. `provable`: the vault opens, so that a drill can be advised."""
    name = home.home
    if not home.exists:
        yield from _of_gone(home)
        return
    yield from _of_landings(home)
    yield from _of_search(home)
    if home.last is None:
        text = f"there is no snapshot of {name} yet"
        if home.failure is not None:
            text = f"no snapshot of {name} succeeded yet: {clause(home.failure.what)}"
        yield Finding("no-snapshot", NOT_PROTECTED, text, (), _again(home), home=name)
        return
    whole = home.whole
    if whole is None:
        text = f"there is no whole snapshot of {name}, only parts of it"
        seen = (_last_is(home.last),)
        yield Finding(
            "no-whole-snapshot", NOT_PROTECTED, text, seen, (_command("snapshot", home),), home=name
        )
    else:
        found = list(of_last(whole, name, stale_hours, now, (_command("snapshot", home),)))
        yield from found or _of_changes(home, whole, now)
    yield from _of_now(home)
    if home.failure is not None and home.failure.time > home.last.time:
        ended = "was interrupted" if home.failure.state == "interrupted" else "failed"
        when, why = seconds_text(max(0.0, now - home.failure.time)), clause(home.failure.what)
        text = f"the last attempt to take a snapshot of {name} {ended} {when} ago: {why}"
        yield Finding("snapshot-failed", PARTLY, text, (), _again(home), home=name)
    yield from of_coverage(whole or home.last, home.coverage, name, (_command("snapshot", home),))
    if provable:
        yield from _of_proof(home, alarms, now)


def _last_is(last: LastSnapshot) -> str:
    """In the time of this machine: a person compares it with a watch."""
    return f"the last snapshot is {last.short} of {minute_text(last.time)}"


def of_last(
    last: LastSnapshot, name: str, stale_hours: float, now: float, fix: tuple[Step, ...]
) -> Iterator[Finding]:
    """Whether the newest whole snapshot says anything about today; the same here and for a fleet."""
    seen = (_last_is(last),)
    age = now - last.time
    if last.future:
        text = f"the last snapshot of {name} is dated in the future: a clock is or was wrong"
        yield Finding("clock", PARTLY, text, seen, fix, home=name)
    elif stale_hours and age > stale_hours * HOUR:
        text = f"the last snapshot of {name} is {seconds_text(age)} old"
        yield Finding("stale", PARTLY, text, seen, fix, home=name)


def _of_changes(home: HomeStatus, whole: LastSnapshot, now: float) -> Iterator[Finding]:
    """A snapshot that is young enough by the clock, of a home that is mostly another one by now."""
    changed, had = home.changed, min(whole.files or 0, home.changed.looked)
    half = changed.files >= max(FEW_FILES, had / 2)
    if half or changed.bytes >= max(FEW_BYTES, (whole.bytes or 0) / 2):
        age = seconds_text(max(0.0, now - whole.time))
        text = f"much of {home.home} is newer than its last snapshot, which is {age} old"
        seen = (f"{changed.files:,} files are newer; {whole.short} has {whole.files or 0:,} in all",)
        yield Finding("much-changed", PARTLY, text, seen, (_command("snapshot", home),), home=home.home)
        return
    for path, (then, size) in changed.grown.items():
        if size - then >= max(FEW_DATABASE_BYTES, then / 2):
            age = seconds_text(max(0.0, now - whole.time))
            text = f"much of {path} in {home.home} is newer than its last snapshot, which is {age} old"
            seen = (f"it has {size / 1e6:,.1f} MB now, and had {then / 1e6:,.1f} MB in {whole.short}",)
            yield Finding("much-changed", PARTLY, text, seen, (_command("snapshot", home),), home=home.home)
            return


def _of_landings(home: HomeStatus) -> Iterator[Finding]:
    for left in home.leftovers:
        if left.half_way:
            text = f"a restore or import into {home.home} was cut off half way"
            fix = _command("doctor", home, "--fix", before="Take it back, and change nothing else:")
        else:
            text = f"a restore or import into {home.home} was cut off before it changed anything"
            fix = _command("doctor", home, "--fix", before="Remove what it left:")
        yield Finding(
            "interrupted-landing",
            PARTLY if left.half_way else "note",
            text,
            (f"its record is in {left.place}", "no process is at work there"),
            (fix,),
            Repair("landing", home.home, f"makes right what was cut off in {home.home}"),
            home.home,
            alarm=left.half_way,
        )


def _of_search(home: HomeStatus) -> Iterator[Finding]:
    for one in home.unfilled:
        text = f"searches in {home.home} do not find everything yet: the index of {one.path} is being filled"
        seen = f"complete in about {seconds_text(max(1.0, one.seconds))}"
        seen = f"the last try gave up: {one.wrong}" if one.wrong else seen
        fix = ("Nothing: it is filled behind the restore, and every command of safekept goes on with it",)
        yield Finding("search-not-filled", NOTE, text, (seen,), fix, home=home.home, path=one.path)


def _of_gone(home: HomeStatus) -> Iterator[Finding]:
    """A home that is not there: alarming where it is the one at work, or nothing at all was ever here."""
    name = home.home
    if home.last is not None and home.default:
        has = home.sound or home.whole or home.last
        text = f"the home {name} is gone; snapshot {has.short} has it"
        seen = (_last_is(has),)
        fix: tuple[Step, ...] = (_command("snapshot restore", home, has.short),)
        yield Finding("home-gone", NOT_PROTECTED, text, seen, fix, home=name, alarm=True)
    elif home.last is None:
        agent = home.layout.replace("-", " ").title()
        text = f"no {agent} home at {name}, and nothing is kept"
        if home.guessed:  # who has no Hermes need not hear of it
            text = "no agent's home was found here, and none is kept"
        elsewhere = NextStep("setup", ("--home", "PATH"), before="If it is elsewhere, name it:")
        fix = (MACHINE_GONE, elsewhere)
        yield Finding("no-home", NOT_PROTECTED, text, (), fix, home=name)


def _of_now(home: HomeStatus) -> Iterator[Finding]:
    """What a quick look at the home itself found, and what its newest snapshot says of its databases."""
    seen = {one.path for one in home.now.databases}
    stored = [
        DamagedDatabase(path, "", found[:8]) for path, found in home.damaged.items() if path not in seen
    ]
    databases = [*home.now.databases, *stored]
    if not databases and home.last is not None and home.last.databases == DAMAGED:
        databases = [DamagedDatabase("")]  # which one, nothing says
    databases.sort(key=lambda one: not one.snapshot)  # those that can be brought back first
    for one in databases:
        if not one.mended:
            yield database_damaged(home.home, one, home.named, (_command("doctor", home),))
    if mended := [one.path for one in databases if one.mended]:
        yield damaged_when_stored(home.home, mended, home.named)
    if home.now.lost.falls:
        yield lost_since(home.home, home.now.lost, home.now.snapshot, home.now.restore, home.named)


def of_coverage(
    last: LastSnapshot, coverage: Coverage | None, name: str, fix: tuple[Step, ...]
) -> Iterator[Finding]:
    """What the newest whole snapshot does not hold although it should; the same here and for a fleet."""
    seen = (f"the last snapshot is {last.short}",)
    missing = coverage.unstored if coverage else []
    if missing:
        first = missing[0]
        text = f"{_some(missing)} in {name} could not be stored: {first.reason}"
        yield Finding("incomplete", PARTLY, text, seen, fix, home=name)
    elif not last.complete and not (coverage and coverage.explained):
        text = f"the last snapshot of {name} is incomplete"
        yield Finding("incomplete", PARTLY, text, seen, fix, home=name)
    if coverage and (out := coverage.led_out):
        leads = "leads" if len(out) == 1 else "lead"
        text = f"{_some(out)} in {name} {leads} out of it: no snapshot has what is there"
        links = tuple(f"{gap.path} is {where_it_leads(gap.reason)}" for gap in out[:3])
        meant = links_name(name, (gap.path for gap in out))
        yield Finding(
            "leads-out", PARTLY, text, links, (INTO_THE_HOME, _meant(meant)), home=name, declinable=meant
        )


def _some(gaps: Sequence[Gap]) -> str:
    return gaps[0].path + (f" and {len(gaps) - 1:,} more" if len(gaps) > 1 else "")


def _meant(name: str) -> NextStep:
    return NextStep("status", ("--acknowledge", name), before=MEANT)


def _of_proof(home: HomeStatus, alarms: Sequence[Alarm], now: float) -> Iterator[Finding]:
    name, drill, fix = home.home, home.drill, (_command("drill", home),)
    if drill is not None and not drill.ok:
        if home.whole is not None and home.whole.id == drill.name:  # the same one would fail again
            again = _command("drill", home, before="and prove it:")
            fix = (replace(_command("snapshot", home, before="Make a new one:"), after=",", then=again),)
        if not any(one.kind == DRILL for one in alarms):
            text = f"the last drill of {name} failed: {drill.why}"
            yield Finding("drill-failed", PARTLY, text, (), fix, home=name, alarm=True)
        return
    yield from of_proven(home.proof.started if home.proof else 0.0, name, now, fix)


def of_proven(proven: float, name: str, now: float, fix: tuple[Step, ...]) -> Iterator[Finding]:
    """Whether a restore was proven lately; the same here and for a fleet. `proven`: when; 0: never."""
    if not proven:
        text = f"{name} has never passed a drill"
        yield Finding("not-proven", PARTLY, text, ("no receipt of a drill",), fix, home=name)
    elif now - proven > PROOF_DAYS * DAY:
        text = f"{name} last passed a drill {seconds_text(now - proven)} ago"
        seen = (f"the last receipt is of {minute_text(proven)}",)
        yield Finding("not-proven", PARTLY, text, seen, fix, home=name)


def _again(home: HomeStatus) -> tuple[Step, ...]:
    advised = home.failure.next_steps if home.failure else ()
    return (*advised, _command("snapshot", home))


def _command(verb: str, home: HomeStatus, *arguments: str, before: str = "") -> NextStep:
    return NextStep(verb, (*arguments, *home.named), before)
