"""Copies that other tools left in a home: what they weigh, and how to have their room back without a loss."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

from safekept.core.archive_names import READ_ENDINGS
from safekept.core.errors import SafekeptError
from safekept.core.finding import NOTE, Finding
from safekept.core.next_step import Step
from safekept.core.spelling import shell_line
from safekept.core.trash import weight
from safekept.home.copies import QUICK_COPIES, ZIP
from safekept.home.layout import Layout
from safekept.home.scan import amount

from ..base.context import HomeRef
from .case import Case

#: Smaller ones are not worth a line.
_LEAST = 1 << 20
#: Files that repairs, updates and people leave beside what they were made from.
_COPIES = ("*.malformed-backup*", "*.corrupt*", "*.bak", "*.bak-*", "*.backup", "*.orig", "*.old", "*~")
_SHOWN = 4
_FIRST = "Have them in a snapshot first, from which they can be brought back:"


def look_at_clutter(case: Case) -> Iterator[Finding]:
    for home in case.status.homes:
        layout = case.context.choices.layouts.get(home.layout)
        if layout is None or not home.exists:
            continue
        yield from _hermes(case, home.home, layout)
        yield from _loose(case, home.home, layout)


def _hermes(case: Case, home: str, layout: Layout) -> Iterator[Finding]:
    """Hermes's own copies: the vault takes them in, and then they are there twice."""
    if layout.name != "hermes":
        return
    sizes = {
        os.path.join(place, name): weight(os.path.join(place, name))
        for place in _places(home, layout)
        for name in (QUICK_COPIES, ZIP)
    }
    total = sum(sizes.values())
    if total < _LEAST:
        return
    waiting, taken = _adopted(case, home, layout)
    steps: list[Step] = []
    if waiting:
        count = f"{waiting:,} of them {'is' if waiting == 1 else 'are'} not in the vault yet"
        steps.append(case.command("snapshot adopt", home=home, before=f"{count}; take them in first:"))
    if taken:
        more = f" (and {len(taken) - _SHOWN:,} more)" if len(taken) > _SHOWN else ""
        steps.append(f"Whole in the vault, so these may go: `rm -r {shell_line(taken[:_SHOWN])}`{more}")
    elif waiting:
        steps.append(case.command("doctor", home=home, before="Then see which of them can be deleted:"))
    yield Finding(
        "other-copies",
        NOTE,
        f"copies that Hermes made take {amount(total)} in {home}",
        tuple(f"{place}: {amount(size)}" for place, size in sizes.items() if size)[:_SHOWN],
        tuple(steps),
        home=home,
    )


def _adopted(case: Case, home: str, layout: Layout) -> tuple[int, list[str]]:
    """How many of them are not whole in the vault, and the paths of those that are."""
    from ..archives.adopt import PRESENT, plan_adoption

    try:
        plan = plan_adoption(case.context, HomeRef(home, layout))
    except (SafekeptError, OSError):
        return 1, []
    taken = [one.copy.path for one in plan.copies if one.state == PRESENT and one.complete]
    return len(plan.copies) - len(taken), taken


def _loose(case: Case, home: str, layout: Layout) -> Iterator[Finding]:
    """Copies and archives that lie at the top of the home or of a profile."""
    found: dict[str, int] = {}
    for place in _places(home, layout):
        try:
            with os.scandir(place) as listing:
                for item in listing:
                    if item.is_file(follow_symlinks=False) and _is_copy(item.name):
                        found[item.path] = item.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    total = sum(found.values())
    if total < _LEAST:
        return
    largest = sorted(found, key=lambda path: -found[path])
    names = shell_line(largest[:_SHOWN])
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    yield Finding(
        "other-copies",
        NOTE,
        f"{len(found):,} older copies of files take {amount(total)} in {home}",
        tuple(f"{path}: {amount(found[path])}" for path in largest[:_SHOWN]),
        (
            case.command("snapshot", home=home, before=_FIRST),
            f"Then they may go: `rm {names}`{more}",
        ),
        home=home,
    )


def _is_copy(name: str) -> bool:
    name = name.lower()
    return name.endswith(READ_ENDINGS) or any(fnmatch.fnmatchcase(name, pattern) for pattern in _COPIES)


def _places(home: str, layout: Layout) -> list[str]:
    places = [home]
    base = os.path.join(home, layout.profiles) if layout.profiles else ""
    if base and os.path.isdir(base):
        places += [os.path.join(base, name) for name in sorted(os.listdir(base))]
    return places
