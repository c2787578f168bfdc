"""Will the host really start us? Asked of systemd, launchd or cron itself; and is our program there?"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence

from safekept.core.files.small import read_regular, read_start
from safekept.core.objects import program_for
from safekept.core.owner import by_root
from safekept.core.owner.nightly import PREFIX
from safekept.core.platform.processes import name_of_process, numbers, program_and_user
from safekept.schedule.hosts import cron
from safekept.schedule.tasks import Cadence, Plan

from ..base.context import UserContext
from .host import USUAL, Machine, search_path
from .host_commands import HostRefused, read_table
from .install import CRON, LAUNCHD, SYSTEMD, Installed
from .whose import another_runs, stores_of

#: Where cron says that it runs, on one system or another.
_CRON_RUNS = ("/run/crond.pid", "/var/run/crond.pid", "/run/cron.pid", "/var/run/cron.pid")
_CRON_NAMES = frozenset({"cron", "crond", "busybox", "fcron", "anacron"})

#: How that sentence begins: what is installed is right, and only a person with `sudo` can mend it.
CRON_STOPPED = "cron is not running"

Answer = tuple[str, tuple[str, ...]]
_ARMED: Answer = ("", ())


def why_host_will_not_start(
    context: UserContext, found: Installed | None, machine: Machine | None = None
) -> Answer:
    """Why the host will not start it, in a sentence, and how that is known; nothing where it will."""
    machine = machine or Machine(context.caller.environment, context.places.user_home, "")
    if found is None:
        return "the schedule is not installed any more", ("nothing says that a host was asked to start it",)
    gone = [path for path, state in found.states().items() if state == "gone"]
    if gone:
        return f"the schedule's file {gone[0]} is gone", (f"it was installed with {found.host}",)
    if found.table:
        try:
            table = read_table(machine.run)
        except HostRefused as error:
            return "crontab does not answer, so it is unknown whether the schedule runs", (error.what,)
        ours = cron.own_lines(table, stores_of(context))
        if not ours:
            return "the schedule's lines are gone from your crontab", ("`crontab -l` has none of them",)
        if broken := next((line for line in ours if not _words_of(line)), ""):
            return "a line of the schedule in your crontab is broken", (broken,)
        programs = [_of_cron(line) for line in ours]
    else:
        programs = [words for path in found.files for words in _in_file(path)]
    missing = next((path for words in programs for path in _missing(words)), "")
    if missing:
        return f"the schedule calls {missing}, which is not there any more", (f"{missing} does not exist",)
    return _host_says(found, machine)


def _texts(context: UserContext, found: Installed, machine: Machine) -> Iterator[str]:
    """What was installed, as it stands there now. OSError or HostRefused where that cannot be read."""
    if found.table:
        yield cron.own_part(read_table(machine.run), stores_of(context))
    for path in found.files:
        yield read_regular(path).decode("utf-8", "surrogateescape")


def unfound_programs(
    context: UserContext, found: Installed | None, machine: Machine | None = None
) -> tuple[str, ...]:
    """Programs that a run needs and that the installed schedule does not find, where a new one would.

    What a schedule looks through is written down when it is installed: a program that came or moved later,
    and one that an older safekept did not look for, is not in it.
    """
    machine = machine or Machine(context.caller.environment, context.places.user_home, "")
    now = search_path(machine.environment)
    there = {name: place for name in _needed(context) if (place := shutil.which(name, path=now))}
    elsewhere = {name: place for name, place in there.items() if os.path.dirname(place) not in USUAL}
    if found is None or not elsewhere:
        return ()
    searched = _searched(context, found, machine)
    return tuple(
        place for name, place in elsewhere.items() if searched and not shutil.which(name, path=searched)
    )


def other_times(context: UserContext, found: Installed | None, machine: Machine | None = None) -> str:
    """That a time is set at which the host was not asked to start it, in a sentence; "" where there is none.

    A time more than is set does no harm, and every hour is what each host is asked for.
    """
    machine = machine or Machine(context.caller.environment, context.places.user_home, "")
    wanted = (context.choices.schedule or Plan()).cadence
    asked = installed_times(context, found, machine) if found is not None else None
    if found is None or asked is None or set(wanted.times) <= set(asked) or _by_the_hour(found):
        return ""
    return f"the schedule was installed for {Cadence(asked)}; {wanted} is set, and this machine was not told"


def _by_the_hour(found: Installed) -> bool:
    """Root set it up without reading this user's settings: the look in every hour keeps the times."""
    return any(os.path.basename(path).startswith(PREFIX) for path in found.files)


def installed_times(
    context: UserContext, found: Installed, machine: Machine
) -> tuple[tuple[int, int], ...] | None:
    """The times of the day in what was installed, as it stands there now; None where that is unknown."""
    try:
        texts = list(_texts(context, found, machine))
    except (HostRefused, OSError):
        return None
    times = {(int(hour), int(minute)) for text in texts for hour, minute in _times_in(text)}
    return tuple(sorted(times))


def _times_in(text: str) -> Iterator[tuple[str, str]]:
    """Hours and minutes in a crontab, a timer or a property list."""
    for line in cron.own_lines(text):
        minute, hour, *_ = [*line.split(), "", ""]
        if hour.isdecimal() and minute.isdecimal():
            yield hour, minute
    yield from re.findall(r"^OnCalendar=\*-\*-\* (\d\d):(\d\d):00$", text, re.M)
    number = r"\s*<integer>(\d+)</integer>\s*"
    yield from re.findall(rf"<key>Hour</key>{number}<key>Minute</key>{number}", text)


def _needed(context: UserContext) -> Iterator[str]:
    """What a run calls that may lie anywhere: Hermes, whom a drill asks, and ways to destinations."""
    yield "hermes"
    yield from filter(None, dict.fromkeys(program_for(one.url) for one in context.choices.destinations))


def _searched(context: UserContext, found: Installed, machine: Machine) -> str:
    """The PATH that the installed schedule was given; "" where that is unknown."""
    texts: list[str] = []
    with contextlib.suppress(HostRefused, OSError):
        texts.extend(_texts(context, found, machine))
    for text in texts:
        words = [word for line in cron.own_lines(text) for word in _words_of(line)]
        words += map(str, re.findall(r'^Environment="?([^"\n]*)', text, re.M))
        for word in words:
            if word.startswith("PATH="):
                return word.removeprefix("PATH=").replace("%%", "%")
        if listed := re.search(r"<key>PATH</key>\s*<string>([^<]*)</string>", text):
            return listed[1]
    return ""


def _host_says(found: Installed, machine: Machine) -> Answer:
    if found.host == SYSTEMD:
        named = (os.path.basename(path) for path in found.files if path.endswith(".timer"))
        unit = next(named, "safekept.timer")
        words = ("systemctl", *(() if found.user else ("--user",)), "is-active", unit)
        if other := _another(found, words, machine):
            return f"systemd runs {other} under the name {unit}, and not what was installed here", (
                "earlier versions gave the timers of every HOME of a user one name",
            )
        code, text = machine.run(words, "")
        if code != 0:
            return f"systemd does not run {unit}", (
                f"`{shlex.join(words)}` says: {' '.join(text.split())[:80]}",
            )
    elif found.host == CRON and not cron_runs(machine):
        return f"{CRON_STOPPED}, so nothing happens by itself", ("no process of cron's is there",)
    elif found.host == LAUNCHD and found.stop:
        target = found.stop[0][-1]
        if other := _another(found, found.stop[0], machine):
            return f"launchd runs {other} under that name, and not what was installed here", (target,)
        code, text = machine.run(("launchctl", "print", target), "")
        if code != 0:
            return f"launchd does not know {target}", (" ".join(text.split())[:80],)
    return _ARMED


def _another(found: Installed, words: Sequence[str], machine: Machine) -> str:
    """The file of another HOME that runs under the name that an earlier version gave to each."""
    return "" if found.stores or found.user else another_runs(words, found.files, machine.run)


def ends_at_logout(context: UserContext, found: Installed | None, machine: Machine | None = None) -> bool:
    """Whether the timer is one of a user whose systemd ends with the last session."""
    if found is None or found.host != SYSTEMD or found.user:
        return False
    return until_logout(machine or Machine(context.caller.environment, context.places.user_home, ""))


def until_logout(machine: Machine) -> bool:
    """Whether this user's systemd ends with the last session, as logind itself says."""
    code, text = machine.run(("loginctl", "show-user", str(os.getuid()), "--property=Linger"), "")
    return code == 0 and text.strip() == "Linger=no"


def start_cron() -> str:
    """What only a person with the right can do."""
    return f"Start cron: `{by_root('service cron start')}`"


def cron_runs(machine: Machine) -> bool:
    """By its own file, and where that is old or not there, by the names of processes."""
    if any(_is_cron(machine, number, _CRON_NAMES) for number in _cron_numbers(machine)):
        return True
    if not _name_of(machine, "1"):
        return True  # processes of others are hidden here, or there is no list: unknown
    everybody = numbers(machine.root)
    return any(_is_cron(machine, number, _CRON_NAMES - {"busybox"}) for number in everybody)


def _is_cron(machine: Machine, number: str, names: frozenset[str]) -> bool:
    """A script of that name is not cron: its program is a shell. Nor is a program of some other user's."""
    if _name_of(machine, number) not in names:
        return False
    with contextlib.suppress(OSError):
        program, user = program_and_user(number, machine.root)
        return os.path.basename(program) in names and user in (0, os.getuid())
    return False


def _cron_numbers(machine: Machine) -> Iterator[str]:
    """The process that each file of cron's names; it outlives the process where that was killed."""
    for path in _CRON_RUNS:
        with contextlib.suppress(OSError):
            number = read_start(machine.at(path), 32).decode("ascii", "replace").strip()
            if number.isdigit():
                yield number


def _name_of(machine: Machine, number: str) -> str:
    """What a process is called; "" where there is none, or it is hidden."""
    return name_of_process(number, machine.root)


def _of_cron(line: str) -> list[str]:
    """The command of a line: after five times, a user where the file is the system's, `env` and settings."""
    words = _words_of(line)
    words = words[words.index("env") + 1 :] if "env" in words else words[5:]
    while words and re.match(r"[A-Za-z_][A-Za-z0-9_]*=", words[0]):
        words = words[1:]
    return words


def _words_of(line: str) -> list[str]:
    """The words of a line; none where it was edited, and no shell would take it either."""
    try:
        return shlex.split(line.replace("\\%", "%"))
    except ValueError:
        return []


def _in_file(path: str) -> list[list[str]]:
    """The commands that stand in a unit, a property list or a file of cron's."""
    try:
        content = read_regular(path)
    except OSError:
        return []
    if path.endswith(".plist"):
        import plistlib

        try:
            return [[str(word) for word in plistlib.loads(content).get("ProgramArguments", [])]]
        except (plistlib.InvalidFileException, ValueError, AttributeError):
            return []
    text = content.decode("utf-8", "surrogateescape")
    starts = re.findall(r"^ExecStart=(.*)$", text, re.M)
    if starts:
        return [shlex.split(line.replace("%%", "%").replace("$$", "$")) for line in starts]
    return [_of_cron(line) for line in cron.own_lines(text)]


def _missing(words: Sequence[str]) -> list[str]:
    """Of the program, and of the script that it is given, what is not there."""
    return [word for word in words[:2] if os.path.isabs(word) and not os.path.exists(word)]
