"""Lines for cron, where there is nothing better: in the user's own table, or as a file for the system.

cron forgets what it slept through; the look in every hour makes up for it. What else is in a table is left
as it is to the byte, and so it is again when our lines are taken out. A user has one table, and may have
several HOMEs: the marks around the lines say for which stores they work. Lines without such a mark, as
earlier versions wrote them, belong to the stores that they name with their variables, and to no others.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator

from .call import HOURLY, Call
from .stores import Stores, data_meant_by

_BEGIN, _END = "# safekept: begin", "# safekept: end"
#: With the id of the stores; without one in a file of the system, and in what earlier versions wrote.
_BEGINS = re.compile(rf"{_BEGIN}(?: ([0-9a-f]{{8}}) (?:for )?(.*))?\. .*")
_WHY = f"# {HOURLY}"
#: How every line of ours ends.
CALLED = " schedule run --quiet"
#: A variable that cron gives to the lines after it, and that moves our places.
_MOVES = re.compile(r"""^\s*["']?(?:HOME|XDG_DATA_HOME|XDG_CONFIG_HOME)["']?\s*=""", re.M)
#: A line as only we write it: whatever copies a table without its comments leaves it without its marks.
_OURS = re.compile(r"\d+ [\d*]+ \* \* \* (?:root )?env (?:\S+ )*PATH=\S+ .*safekept schedule run --quiet")


def lines(call: Call, *, names_user: bool = False) -> list[str]:
    """The lines of ours; in a file of the system each names who runs it."""
    who = f"{call.user if call.as_user else 'root'} " if names_user else ""
    settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(call.environment.items())]
    # cron ends a command at `%`, wherever it stands; a backslash keeps it.
    command = " ".join(["env", *settings, *map(shlex.quote, call.command)]).replace("%", "\\%")
    at = [f"{minute} {hour} * * * {who}{command}" for hour, minute in call.times]
    whose = f" {call.stores.id}" if call.stores else ""
    begin = f"{_BEGIN}{whose} for {call.stores.data}" if call.stores else _BEGIN
    hourly = f"{call.minute_of_run} * * * * {who}{command}"
    return [f"{begin}. {call.mark}", *at, _WHY, hourly, f"{_END}{whose}"]


def system_file(call: Call, directory: str) -> dict[str, str]:
    """A file for `/etc/cron.d`. cron passes over names with a dot in them."""
    name = call.name.replace(".", "_")
    return {os.path.join(directory, name): "\n".join(lines(call, names_user=True)) + "\n"}


def joined(table: str, ours: str, stores: Stores | None = None) -> str:
    """A user's table with our lines at its end, in the place of older ones of ours."""
    rest = without_lines(table, stores)
    return rest + ("" if not rest or rest.endswith("\n") else "\n") + ours


def without_lines(table: str, stores: Stores | None = None) -> str:
    """The table without the lines of these stores; nothing else is changed.

    Where the last line of ours was taken away, only what calls us goes: the rest is not ours.
    """
    return "".join(line for line, own in _told_apart(table, stores) if not own)


def has_lines(table: str, stores: Stores | None = None) -> bool:
    return any(own for _, own in _told_apart(table, stores))


def own_part(table: str, stores: Stores) -> str:
    """What `without_lines` leaves out."""
    return "".join(line for line, own in _told_apart(table, stores) if own)


def own_lines(table: str, stores: Stores | None = None) -> list[str]:
    """The lines of ours that call us, as they stand there; also those that lost the marks around them."""
    found = (line.rstrip("\n") for line, own in _told_apart(table, stores) if own)
    return [line for line in found if line.endswith(CALLED) and not line.startswith("#")]


def others(table: str, stores: Stores) -> list[str]:
    """The directories of data of this user's other installations that lines in this table call."""
    found: dict[str, None] = {}
    named = ""
    for line in without_lines(table, stores).splitlines():
        begin = _BEGINS.fullmatch(line)
        if begin or line.startswith(_END):
            named = (begin[2] or "") if begin else ""
        elif line.endswith(CALLED) and not line.lstrip().startswith("#"):
            found[named or data_meant_by(_variables(line) or {}, stores.user_home)] = None
    return list(found)


def _told_apart(table: str, stores: Stores | None) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is of these stores. None: of any, as in a file that is ours as a whole."""
    found = table.splitlines(keepends=True)
    moved = bool(_MOVES.search(table))
    number = 0
    while number < len(found):
        begin = _BEGINS.fullmatch(found[number].rstrip("\n"))
        if not begin:
            bare = found[number].rstrip("\n")
            yield found[number], bool(_OURS.fullmatch(bare)) and _work_for([bare], stores, moved)
            number += 1
            continue
        block, whole = _block(found, number, begin[1] or "")
        called = [line.rstrip("\n") for line in block if line.rstrip("\n").endswith(CALLED)]
        own = stores is None or begin[1] == stores.id
        own |= not begin[1] and _work_for(called, stores, moved)
        for line in block:
            bare = line.rstrip("\n")
            yield (
                line,
                own
                and (
                    whole
                    or line is block[0]
                    or bare == _WHY
                    or (bare.endswith(CALLED) and _work_for([bare], stores, moved))
                ),
            )
        number += len(block)


def _block(found: list[str], first: int, whose: str) -> tuple[list[str], bool]:
    """The lines from one mark to the other, and whether the other is there; never into another block."""
    end = f"{_END} {whose}" if whose else _END
    for number in range(first + 1, len(found)):
        bare = found[number].rstrip("\n")
        if bare == end:
            return found[first : number + 1], True
        if _BEGINS.fullmatch(bare):
            return found[first:number], False
    return found[first:], False


def _work_for(called: Iterable[str], stores: Stores | None, moved: bool) -> bool:
    """Whether all of these lines, and there are some, call us with the places of these stores."""
    if stores is None:
        return True
    found = list(called)
    return bool(found) and all(_works_for(line, stores, moved) for line in found)


def _works_for(line: str, stores: Stores, moved: bool) -> bool:
    given = _variables(line)
    if given is None:
        return False  # where a line was broken by hand there is no telling
    if moved and not {"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} <= given.keys():
        return False
    return stores.meant_by(given)


def _variables(line: str) -> dict[str, str] | None:
    """What a line gives to the call; None where it was broken by hand."""
    try:
        words = shlex.split(line.replace("\\%", "%"))
    except ValueError:
        return None
    words = words[words.index("env") + 1 :] if "env" in words else []
    return dict(word.split("=", 1) for word in words if re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word))
