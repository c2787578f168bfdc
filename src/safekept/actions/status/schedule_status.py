"""Whether regular work happens by itself: what is installed, whether the host will start it, when it ran."""

from __future__ import annotations

import contextlib
import os

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

from ..base.context import UserContext


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """Whether regular work happens by itself."""

    looked: float = 0.0  # when it was last looked whether anything is due; 0: no schedule ever ran here
    last: float = 0.0  # the last run that had anything to do
    state: str = ""  # how it ended
    next: float = 0.0
    installed: str = ""  # the host that was asked to start it: systemd, launchd or cron
    trouble: str = ""  # why the host will not start it, in a sentence
    evidence: tuple[str, ...] = ()
    missed: float = 0.0  # seconds for which this machine was awake and the host did not start it
    until_logout: bool = False  # the host starts it only while this user is logged in
    unfound: tuple[str, ...] = ()  # programs that a run needs, by their paths, and that are not in its PATH
    other_times: str = ""  # that a time is set for which the host was not asked, in a sentence

    def as_dict(self) -> dict[str, object]:
        return {
            "looked": iso_time(self.looked),
            "last_run": iso_time(self.last),
            "last_state": self.state or None,
            "next_run": iso_time(self.next),
            "installed": self.installed or None,
            "trouble": self.trouble or None,
            "other_times": self.other_times or None,
        }


def schedule_status(context: UserContext, now: float, *, ask: bool = True) -> ScheduleStatus:
    """What is known of it; the host itself is asked whether it would start it."""
    by_machine = _machine_runs_it()
    if not by_machine and not os.path.isdir(os.path.join(context.places.data_directory, "schedule")):
        return ScheduleStatus()  # nothing of it is here, and its modules cost time
    from safekept.schedule.machine import awake_since
    from safekept.schedule.tasks import read_state

    from ..schedule.install import installed

    state = read_state(os.path.join(context.places.data_directory, "schedule", "state.json"))
    found = installed(context)
    if found is None and by_machine:
        from ..schedule.of_machine import run_of_machine

        found = run_of_machine()
    if not state.looked and state.run is None and found is None:
        return ScheduleStatus()
    from ..schedule.schedule import last_run, next_run

    run, upcoming = last_run(context), 0.0
    with contextlib.suppress(SafekeptError, ValueError):
        upcoming = next_run(context, now)
    trouble, evidence, until_logout, unfound = "", tuple[str, ...](), False, tuple[str, ...]()
    other = ""
    if ask:
        from ..schedule.host_start import (
            ends_at_logout,
            other_times,
            unfound_programs,
            why_host_will_not_start,
        )

        trouble, evidence = why_host_will_not_start(context, found)
        until_logout = not trouble and ends_at_logout(context, found)
        unfound = () if trouble else unfound_programs(context, found)
        other = "" if trouble else other_times(context, found)
    since = max(state.looked, found.time if found is not None else 0.0)
    return ScheduleStatus(
        state.looked,
        run.started if run else 0.0,
        run.state if run else "",
        upcoming,
        found.host if found is not None else "",
        trouble,
        evidence,
        awake_since(since, now, state.slept),
        until_logout,
        unfound,
        other,
    )


def _machine_runs_it() -> bool:
    """Whether root set up a run for this user, together with the keeper."""
    import pwd

    from safekept.core.owner.nightly import nightly_places

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container a number may have no name
        return False
    return any(os.path.exists(path) for path in nightly_places(name))
