"""Files that are there and hold nothing any more: each is a loss of its own, whatever the counts say.

One of five skills may go, and an agent may forget a memory: counts that fall a little raise no alarm. A file
that held something and holds nothing is another matter, because tidying up removes files and empties none.
One that held nothing before, such as a template, is none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..census import count_document, is_blank
from ..layout.rules import Count, is_file
from .loss_rules import Shrinkage

if TYPE_CHECKING:
    from ..layout.patterns import Matcher

#: What a file held when it was stored; None where that is not known.
Stored = Callable[[str], bytes | None]


def with_emptied(
    falls: Iterable[Shrinkage],
    blank: Iterable[str],
    profile_of: Callable[[str], str],
    stored: Stored,
    counted: Iterable[tuple[Count, Matcher]] = (),
) -> list[Shrinkage]:
    """The falls, with every file of `blank` that held something before.

    A file that should last and was blank already when it was counted has not fallen: earlier versions counted
    it by its name alone. `counted`: the classes of the layout; of one that fell by what these files held,
    they are all that has to come back.
    """
    falls = list(falls)
    found = {_path(fall): fall for fall in falls if is_file(fall.name)}
    held: dict[str, bytes] = {}
    for path in sorted(blank):
        data, fall = stored(path), found.pop(path, None)
        profile = profile_of(path)
        name = path if profile == "default" else path[len(profile) + 1 :]
        was_blank = is_blank(data) if data is not None else fall is None
        if was_blank or not is_file(name):
            continue
        held[path] = data or b""
        found[path] = replace(fall or Shrinkage(profile, name, 1, 0), emptied=True)
    classes = {count.name: (count, matcher) for count, matcher in counted}
    rest = [
        replace(fall, places=_explained(fall, *classes[fall.name], profile_of, held))
        if fall.name in classes
        else fall
        for fall in falls
        if not is_file(fall.name)
    ]
    return [*rest, *found.values()]


def _explained(
    fall: Shrinkage, count: Count, matcher: Matcher, profile_of: Callable[[str], str], held: dict[str, bytes]
) -> tuple[str, ...]:
    """The emptied files of a class, where they held all that it has less."""
    mine = [path for path in held if matcher.covers(path) and profile_of(path) == fall.profile]
    less = sum(count_document(held[path], count) or 0 for path in mine) if not count.by_name else 0
    return tuple(mine) if mine and fall.before - fall.after <= less else ()


def _path(fall: Shrinkage) -> str:
    return fall.name if fall.profile == "default" else f"{fall.profile}/{fall.name}"
