"""Lines for cron, where there is nothing better: in the user's own table, or as a file for the system.

cron forgets what it slept through; the look in every hour makes up for it. What else is in a table is left
as it is to the byte, and so it is again when our lines are taken out.
"""

from __future__ import annotations

import os
import re
import shlex

from .call import HOURLY, Call

_BEGIN, _END = "# safekept: begin. ", "# safekept: end"
_WHY = f"# {HOURLY}"
#: How every line of ours ends.
CALLED = " schedule run --quiet"
#: A line as only we write it: whatever copies a table without its comments leaves it without its marks.
_OURS = re.compile(r"\d+ [\d*]+ \* \* \* (?:root )?env (?:\S+ )*PATH=\S+ .*safekept schedule run --quiet")


def lines(call: Call, *, names_user: bool = False) -> list[str]:
    """The lines of ours; in a file of the system each names who runs it."""
    who = f"{call.user if call.as_user else 'root'} " if names_user else ""
    settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(call.environment.items())]
    # cron ends a command at `%`, wherever it stands; a backslash keeps it.
    command = " ".join(["env", *settings, *map(shlex.quote, call.command)]).replace("%", "\\%")
    at = [f"{minute} {hour} * * * {who}{command}" for hour, minute in call.times]
    return [f"{_BEGIN}{call.mark}", *at, _WHY, f"{call.minute_of_run} * * * * {who}{command}", _END]


def system_file(call: Call, directory: str) -> dict[str, str]:
    """A file for `/etc/cron.d`. cron passes over names with a dot in them."""
    name = call.name.replace(".", "_")
    return {os.path.join(directory, name): "\n".join(lines(call, names_user=True)) + "\n"}


def joined(table: str, ours: str) -> str:
    """A user's table with our lines at its end, in the place of older ones of ours."""
    rest = without_lines(table)
    return rest + ("" if not rest or rest.endswith("\n") else "\n") + ours


def without_lines(table: str) -> str:
    """The table without our lines; nothing else is changed.

    Where the last line of ours was taken away, only what calls us goes: the rest is not ours.
    """
    found = table.splitlines(keepends=True)
    kept: list[str] = []
    number = 0
    while number < len(found):
        if not found[number].startswith(_BEGIN):
            kept += [] if _OURS.fullmatch(found[number].rstrip("\n")) else [found[number]]
            number += 1
            continue
        rest = [line.rstrip("\n") for line in found[number:]]
        if _END in rest:
            number += rest.index(_END) + 1
            continue
        rest = [line for line in found[number + 1 :] if line.rstrip("\n") != _WHY]
        kept += [line for line in rest if not line.rstrip("\n").endswith(CALLED)]
        break
    return "".join(kept)


def has_lines(table: str) -> bool:
    return any(line.startswith(_BEGIN) or _OURS.fullmatch(line) for line in table.splitlines())


def own_lines(table: str) -> list[str]:
    """The lines of ours that call us, as they stand there; also those that lost the marks around them."""
    found = table.splitlines()
    begin = next((number for number, line in enumerate(found) if line.startswith(_BEGIN)), len(found))
    before = [line for line in found[:begin] if _OURS.fullmatch(line)]
    return before + [line for line in found[begin + 1 :] if line.endswith(CALLED)]
