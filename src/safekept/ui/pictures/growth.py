"""How the vault grows: what snapshots added up to each day, with a table of the days."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from safekept.actions.status.growth import DAY, Growth, by_day, calendar
from safekept.core.ages import size_text
from safekept.core.records import dataclass

_WIDTH, _HEIGHT, _FLOOR, _TOP = 600, 120, 116, 6
#: Days that are told one by one.
_DAYS = 30


@dataclass(frozen=True, slots=True)
class GrowthPicture:
    """The picture, what it says, and its table."""

    picture: Markup
    words: str
    rows: tuple[tuple[str, int, int], ...]  # day, added, in all by its end
    total: int = 0
    stands_for: int = 0  # what the snapshots would be without each other


def growth_picture(growth: Growth, now: float) -> GrowthPicture | None:
    """None where nothing was ever stored."""
    points = growth.points
    if not points:
        return None
    days = max(2, min(_DAYS, math.ceil((now - points[0][0]) / DAY) + 1))
    names, added = calendar(days, now), by_day(points, days, now)
    total = sum(count for _, count in points)
    sums, reached = list[int](), total - sum(added)
    for count in added:
        reached += count
        sums.append(reached)
    words = f"{size_text(total)} stored, {size_text(sum(added))} of it in the last {days} days"
    rows = tuple(zip(names, added, sums, strict=True))
    return GrowthPicture(_drawn(sums, words), words, tuple(reversed(rows)), total, growth.stands_for)


def _drawn(sums: Sequence[int], words: str) -> Markup:
    top = max(sums) or 1
    step = _WIDTH / (len(sums) - 1)
    places = [(number * step, _FLOOR - (_FLOOR - _TOP) * count / top) for number, count in enumerate(sums)]
    line = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
    return Markup(
        '<svg class="growth" viewBox="0 0 {w} {h}" role="img" aria-label="{words}" focusable="false">'
        '<line class="grid" x1="0" y1="{top}" x2="{w}" y2="{top}"/>'
        '<line class="grid" x1="0" y1="{half}" x2="{w}" y2="{half}"/>'
        '<polygon class="area" points="0,{floor} {line} {w},{floor}"/>'
        '<polyline class="line" points="{line}"/>'
        '<line class="grid" x1="0" y1="{floor}" x2="{w}" y2="{floor}"/>'
        "</svg>"
    ).format(
        w=_WIDTH,
        h=_HEIGHT,
        words=words,
        top=_TOP,
        half=(_TOP + _FLOOR) // 2,
        floor=_FLOOR,
        line=line,
    )
