"""What is wrong with what works by itself: the schedule, connected agents, checkpoints of projects.

And homes of agents that are used here and were never kept, and what the doctor found when it last looked.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from safekept.core.ages import iso_time, seconds_text
from safekept.core.finding import MEANT, NOTE, PARTLY, Finding, Repair
from safekept.core.next_step import NextStep, Step

from ..home_status import HomeStatus
from ..host_status import GONE, SWITCHED_OFF, UNREADABLE, HostStatus
from ..project_summaries import ProjectSummaries, ProjectSummary
from ..schedule_status import ScheduleStatus

_HOUR, _DAY = 3600.0, 86400.0
#: The host looks in every hour. A machine that slept looks again within this time of waking up.
MISSED = 3 * _HOUR
#: "Nothing could be kept" is old news after so long.
UNKEPT_DAYS = 7


def _install(homes: Sequence[HomeStatus]) -> NextStep:
    """One that is not where homes of its agent are has to be named."""
    here = sorted((one for one in homes if one.exists), key=lambda one: not one.default)
    return NextStep("schedule install", here[0].named if here else (), "Have it done every day:")


def of_schedule(schedule: ScheduleStatus, homes: Sequence[HomeStatus], now: float) -> Iterator[Finding]:
    install = _install(homes)
    if not schedule.installed and not schedule.looked:
        if any(home.last is not None for home in homes):
            seen = ("no schedule is installed",)
            yield Finding(
                "no-schedule",
                PARTLY,
                "nothing takes snapshots by itself",
                seen,
                (install,),
                declinable="no-schedule",
            )
        return
    if schedule.trouble:
        from ...schedule.host_start import CRON_STOPPED, start_cron  # loads much; most schedules are well

        again: Step = replace(install, before="Install it again:")
        if schedule.trouble.startswith(CRON_STOPPED):  # what is installed is right
            again = start_cron()
        yield Finding("schedule-not-armed", PARTLY, schedule.trouble, schedule.evidence, (again,))
    elif schedule.until_logout:
        yield Finding(
            "schedule-until-logout",
            PARTLY,
            "the schedule ends when you log out: nothing takes snapshots by itself until you come back",
            ("`loginctl` says that your services do not linger",),
            ("Let it run at any time: `loginctl enable-linger`",),
            declinable="schedule-until-logout",
        )
    if schedule.trouble:
        return
    if schedule.missed > MISSED:
        hourly = "the host is asked to look in every hour"
        seen = (f"it looked last at {iso_time(schedule.looked)}; {hourly}",)
        fix = (
            NextStep("schedule run", before="Run what is due now:"),
            NextStep("schedule show", before="See what the host says:"),
        )
        text = f"the schedule missed its time: it last ran {seconds_text(now - schedule.looked)} ago"
        if not schedule.looked:
            text = f"the schedule was installed {seconds_text(schedule.missed)} ago and never ran"
            seen = (hourly,)
        yield Finding("schedule-silent", PARTLY, text, seen, fix)
    elif schedule.state in ("failed", "interrupted"):
        how = "failed" if schedule.state == "failed" else "was cut off"
        seen = (f"it began at {iso_time(schedule.last)}",)
        fix = (
            NextStep("schedule run", before="Run what is due now:"),
            NextStep("log", before="See what failed:"),
        )
        yield Finding("schedule-failed", NOTE, f"the last run of the schedule {how}", seen, fix)
    if schedule.unfound:
        yield _old_path(schedule, homes)
    if schedule.other_times:
        seen = ("the look of every hour does what is due, up to an hour late",)
        again = replace(install, before="Install it again:")
        yield Finding("schedule-other-time", NOTE, schedule.other_times, seen, (again,))


def _old_path(schedule: ScheduleStatus, homes: Sequence[HomeStatus]) -> Finding:
    """What a night does not find: without Hermes a drill asks less, without a way there no copy goes out."""
    less = all(os.path.basename(one) == "hermes" for one in schedule.unfound)
    return Finding(
        "schedule-old-path",
        NOTE if less else PARTLY,
        f"the schedule does not find {' and '.join(schedule.unfound)}: it was installed with another PATH",
        ("where it looks is written down when it is installed",),
        (replace(_install(homes), before="Install it again:"),),
    )


def of_hosts(hosts: Iterable[HostStatus], now: float, homes: Sequence[HomeStatus] = ()) -> Iterator[Finding]:
    """What a person believes to be at work and is not; what they switched off themselves is no reason."""
    for host in hosts:
        connect = host.connecting()
        meant = f"not-connected:{host.host}"
        if host.found and (not host.places or not host.everywhere):
            lately = host.used_lately(now)
            text = f"{host.title} {'works' if lately else 'was used'} here and is not connected"
            if host.places:
                only = host.places[0].scope if len(host.places) == 1 else f"{len(host.places)} places"
                text = text.replace("not connected", f"connected in {only} only")
            level = PARTLY if lately else NOTE
            yield Finding("host-not-connected", level, text, (host.found,), (connect,), declinable=meant)
        elif host.places and host.unconnected:
            yield _of_profiles(host)
        ruined = [one.place for one in host.places if one.trouble == UNREADABLE]
        for kind, text, step in host.troubles:
            steps: tuple[Step, ...] = (step,)
            if kind == UNREADABLE:
                steps = (*_brought_back(ruined.pop(0), homes), step)
            if kind == GONE and isinstance(step, NextStep):
                words = (*step.arguments, "--remove")
                steps = (step, NextStep("connect", words, before="Or, where that is meant:"))
            # Who switched it off in the agent's own settings meant it.
            level = NOTE if kind == SWITCHED_OFF else PARTLY
            yield Finding(f"connection-{kind}", level, text, (), steps)
        if host.unguarded:
            yield Finding(
                "updates-not-guarded",
                PARTLY,
                f"an update of {host.title} takes no snapshot first any more: its command was replaced",
                (f"{host.unguarded} is not the one that setup wrote",),
                (replace(connect, before="Guard its updates again:"),),
                declinable=f"updates-not-guarded:{host.host}",
            )
        yield from _of_unkept(host, now)


def _of_profiles(host: HostStatus) -> Finding:
    missing = host.unconnected
    all_of_them = len(missing) + sum(not one.trouble for one in host.places)
    names = ", ".join(one.name for one in missing)
    text = f"{all_of_them - len(missing)} of {all_of_them} {host.title} profiles connected; not: {names}"
    fix = tuple(host.connecting(one.option) for one in missing)
    return Finding(
        "profile-not-connected", PARTLY, text, (), fix, declinable=f"profile-not-connected:{host.host}"
    )


def _brought_back(place: str, homes: Sequence[HomeStatus]) -> Iterator[Step]:
    """What brings settings back that cannot be read any more, where a snapshot of their home has them."""
    for home in homes:
        path = os.path.relpath(place, home.home)
        if home.whole is None or path.startswith(".."):
            continue
        try:
            later = os.lstat(place).st_ctime > home.whole.time
        except OSError:
            continue
        words = (path, *home.named)
        if later:  # the snapshot is older than what is wrong with it
            yield NextStep("snapshot restore", (home.whole.short, *words), before="Bring it back:")
        else:
            yield NextStep("history", words, before="See every version of it:")
        return


def _of_unkept(host: HostStatus, now: float) -> Iterator[Finding]:
    """A shell command of an agent ran where nothing could be kept: that is not undone by a later success."""
    when, what = host.calls.unkept_at, host.calls.unkept
    if when and now - when < UNKEPT_DAYS * _DAY:
        text = (
            f"{host.title} ran a command {seconds_text(max(0.0, now - when))} ago where nothing could be kept"
        )
        key = f"unkept-command:{host.host}:{int(when)}"
        fix = (NextStep("status", ("--acknowledge", key), before="Once you have seen to it:"),)
        yield Finding("unkept-command", PARTLY, text, (what,), fix, declinable=key)


def of_projects(projects: ProjectSummaries) -> Iterator[Finding]:
    status = NextStep("checkpoint status", before="See how the store is:")
    for one in projects.projects:
        if one.cut_off and one.here:
            yield Finding(
                "interrupted-rollback",
                PARTLY,
                f"a rollback of {one.project} was cut off half way",
                ("no process is at work there",),
                (NextStep("rollback", ("--dir", one.project), before="Finish it or take it back:"),),
                Repair("rollback", one.project, f"finishes the rollback of {one.project}, or takes it back"),
                alarm=True,
            )
    for one in projects.failing:
        text = f"checkpoints of {one.project} fail: {one.failure}"
        again = NextStep("checkpoint", (one.project,), before="Try it again:")
        yield Finding("checkpoints-fail", PARTLY, text, (), (again, status))
    for one in projects.projects:
        if one.here and not one.failing:
            yield from _of_hidden(one)
    for problem in projects.problems:
        again = NextStep("checkpoint prune", before="Let it be tidied again:")
        yield Finding("checkpoint-store", PARTLY, problem, (), (again, status))


def _of_hidden(one: ProjectSummary) -> Iterator[Finding]:
    """Ignored files, secrets and large files of a project: none of them is kept, or not all."""
    if one.hidden_trouble:
        again = NextStep("checkpoint", (one.project,), before="Try it again:")
        text = f"ignored files and secrets of {one.project} are not kept"
        yield Finding("hidden-not-kept", PARTLY, text, (one.hidden_trouble,), (again,))
    left = one.left_out
    if left is not None:
        names = ", ".join(other.path for other in left.some[:3])
        more = f" and {left.count - 3:,} more" if left.count > 3 else ""
        seen = tuple(f"{other.path}: {other.why}" for other in left.some[:3])
        # Another file that is left out is another question.
        about = zlib.crc32("\0".join(sorted(other.path for other in left.some)).encode("utf-8", "replace"))
        key = f"hidden-left-out:{one.project}:{about:08x}"
        fix = (
            NextStep("status", ("--acknowledge", key), before=MEANT),
            NextStep("checkpoint", (one.project, "--show"), before="See what is kept, and why not all:"),
        )
        text = f"no checkpoint of {one.project} holds {names}{more}"
        yield Finding("hidden-left-out", PARTLY, text, seen, fix, declinable=key)


def of_unkept_homes(unkept: Sequence[tuple[str, str]], used: Iterable[str]) -> Iterator[Finding]:
    """A home of an agent that works here, of which nothing was ever kept."""
    lately = set(used)
    for home, layout in unkept:
        yield Finding(
            "home-unkept",
            PARTLY if home in lately else NOTE,
            f"nothing of {home} was ever kept ({layout})",
            (f"it has the marks of {layout}", "no snapshot in the vault is of it"),
            (NextStep("snapshot", ("--home", home)),),
            home=home,
            declinable=f"home-unkept:{home}",
        )
