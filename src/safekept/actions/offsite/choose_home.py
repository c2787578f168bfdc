"""Which homes of a vault a rebuild means.

It never guesses between two machines, two people or two agents: what there is is listed, in the order of the
paths, with the words that choose. What lay below one home directory belongs together, and is chosen and
brought as one: a person who lost a machine wants all of its agents back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from .homes_in_vault import HomeInVault

_SHOWN = 12


class SeveralHomes(SafekeptError):
    code, exit_code = "several-homes", 2
    #: For each line of the list: which host, path, agent or vault a request has to name, to mean no other.
    choices: Sequence[Mapping[str, str]] = ()
    #: Which line is meant where a person only presses Enter, from 1 on; 0: a number has to be typed.
    usual: int = 0
    #: The words for each of the homes, where nothing has to be chosen: they are brought one after the other.
    together: Sequence[Mapping[str, str]] = ()
    #: Every home that may be meant.
    left: Sequence[HomeInVault] = ()


def choose_home(
    homes: Sequence[HomeInVault],
    place: str,
    *,
    host: str = "",
    layout: str = "",
    of: str = "",
    target: str = "",
    kind: str = "",
    single: bool = False,
) -> HomeInVault:
    """The one that is meant; SeveralHomes where that is not clear, or more than one is. `homes` is not empty.

    `of` is the path that it had, or the directory that several lay in. `target` is where it is to go: a home
    of that very path comes before others, and of the `kind` that belongs there. With `single` that place was
    named, and takes one home; else every home that lay beside one of that path is meant, too.
    """
    left = [
        one for one in homes if (not host or one.host == host) and (not layout or one.layout in ("", layout))
    ]
    if of:
        path = of.rstrip("/") or "/"
        exact = [one for one in left if (one.home.rstrip("/") or "/") == path]
        beside = [one for one in left if one.directory == path and not one.continued]
        left = exact or next((group for group in _machines(beside) if group[1:]), beside)
    else:  # who names a path means the home that was there then
        left = [one for one in left if not one.continued] or left
    if single:
        left = [one for one in left if one.home == target] or left
        left = [one for one in left if kind and one.layout == kind] or left
    groups = [[one] for one in left] if single else _machines(left)
    if target and not single and len(groups) > 1:
        groups = [group for group in groups if any(one.home == target for one in group)] or groups
    if len(groups) == 1 and len(groups[0]) == 1:
        return groups[0][0]
    raise _several(groups, left, homes, place, " and ".join(f"`{one}`" for one in (host, layout, of) if one))


def _machines(homes: Sequence[HomeInVault]) -> list[list[HomeInVault]]:
    """What is brought as one: homes of different agents, each of which goes to its agent's own place.

    All of one machine, where no two are of one agent; else those below one home directory. A second home of
    an agent there stands by itself, and so does one of an unknown agent.
    """
    if len({one.host for one in homes}) == 1 and _of_different_agents(homes):
        return [_in_order(homes)]
    found: dict[tuple[str, str, str], list[HomeInVault]] = {}
    groups: list[list[HomeInVault]] = []
    for one in _in_order(homes):
        found.setdefault((one.vault, one.host, one.directory), []).append(one)
    for (_, _, directory), beside in found.items():
        first = [one for one in beside if _alone_or_usual(one, beside, directory)]
        groups += [first] if first else []
        groups += [[one] for one in beside if one not in first]
    return groups


def _of_different_agents(homes: Sequence[HomeInVault]) -> bool:
    layouts = [one.layout for one in homes]
    return len(set(layouts)) == len(layouts) and not {"", "generic"} & set(layouts)


def _alone_or_usual(one: HomeInVault, beside: Sequence[HomeInVault], directory: str) -> bool:
    if one.layout in ("", "generic"):
        return False
    usual = f"{directory.rstrip('/')}/{one.usual_place}" if one.usual_place else ""
    return one.home == usual or not any(other is not one and other.layout == one.layout for other in beside)


def _in_order(homes: Sequence[HomeInVault]) -> list[HomeInVault]:
    return sorted(homes, key=lambda one: (one.directory, one.home, one.host, one.vault))


def _several(
    groups: Sequence[Sequence[HomeInVault]],
    left: Sequence[HomeInVault],
    homes: Sequence[HomeInVault],
    place: str,
    named: str,
) -> SeveralHomes:
    shown = groups or [[one] for one in _in_order(homes)]
    shown = sorted(shown, key=lambda group: (group[0].directory, group[0].home, group[0].host))
    count, all_of = sum(map(len, shown)), [one for group in shown for one in group]
    below = f" of {len(shown)} machines or users" if len(shown) < count else ""
    what = (
        f"`{place}` holds {count} homes{below}, and which one is meant is not clear:"
        if left
        else f"`{place}` holds nothing of {named}; there is:"
    )
    now = time.time()
    lines = [_line(number, group, now) for number, group in enumerate(shown[:_SHOWN], 1)]
    if len(shown) > _SHOWN:
        lines.append(f"… and {len(shown) - _SHOWN:,} more")
    choices = [_choice(group, all_of) for group in shown[:_SHOWN]]
    labels = [
        f"All of {number}:" if group[1:] else f"Home {number}:" for number, group in enumerate(shown, 1)
    ]
    error = SeveralHomes(
        "\n".join([what, *lines]),
        kept="Nothing was changed",
        next_steps=tuple(
            _command(place, choice, label) for choice, label in zip(choices[:3], labels, strict=False)
        ),
        homes=[one.as_dict() for one in all_of],
    )
    if not left:
        return error
    error.left = left
    if len(shown) == 1:
        error.together = [
            {**_choice([one], all_of), "of": one.home, "layout": one.layout} for one in shown[0]
        ]
        return error
    error.choices = choices
    if len({tuple(sorted(one.layout for one in group)) for group in shown}) == 1:
        newest = max(range(len(choices)), key=lambda number: _newest(shown[number]))
        error.usual = newest + 1
    return error


def _newest(group: Sequence[HomeInVault]) -> int:
    return max(one.newest_whole.snapshot.time_ns for one in group)


def _line(number: int, group: Sequence[HomeInVault], now: float) -> str:
    """`1  vm  /home/ada/.hermes  hermes  4 snapshots, newest 2026-11-16 13:59, 1 min old`; of several homes
    `/home/ada: .claude, .hermes`."""
    first, newest = group[0], _newest(group) / 1e9
    count = sum(len(one.snapshots) for one in group)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest))
    kept = f"{count:,} snapshot{'s' if count > 1 else ''}, newest {when}"
    age = seconds_text(max(0.0, now - newest))
    what = f"{first.home}  {first.layout or 'unknown'}"
    if len(group) > 1:
        inside = first.directory.rstrip("/") + "/"
        what = f"{first.directory}: {', '.join(one.home.removeprefix(inside) for one in group)}"
    return f"  {number}  {first.host or 'unknown'}  {what}  {kept}, {age} old"


def _choice(group: Sequence[HomeInVault], among: Sequence[HomeInVault]) -> dict[str, str]:
    """What chooses these and no other."""
    choice, one = {}, group[0]
    if len({other.vault for other in among}) > 1:
        choice["place"], among = one.vault, [other for other in among if other.vault == one.vault]
    if len({other.host for other in among}) > 1 and one.host:
        choice["host"] = one.host
    beside = [other for other in among if other.host == one.host]
    if len(group) > 1:
        if len(beside) > len(group):
            choice["of"] = one.directory
    elif len({other.home for other in beside}) > 1:
        choice["of"] = one.home
    elif len(beside) > 1:
        choice["layout"] = one.layout
    return choice


def _command(place: str, choice: Mapping[str, str], before: str) -> NextStep:
    words = [choice.get("place", place)]
    for name in ("host", "of", "layout"):
        words += [f"--{name}", choice[name]] if name in choice else []
    return NextStep("rebuild", tuple(words), before=before)
