"""Growth in block characters: a line of fourteen days, and a plot of as many rows as are wanted."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..console import size_text

_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " " + _BLOCKS


def spark(values: Sequence[int]) -> str:
    """One character for each value; a day without anything is the lowest line."""
    top = max(values, default=0)
    if not top:
        return ""
    return "".join(_BLOCKS[min(7, round(7 * value / top))] if value else _BLOCKS[0] for value in values)


def plot(points: Sequence[tuple[float, int]], now: float, columns: int, rows: int = 10) -> list[str]:
    """What was added up to each day, as bars from the first day to today, with both axes named."""
    if not points:
        return []
    label = 9
    room = max(10, columns - label - 2)
    first = points[0][0]
    span = max(now - first, 3600.0)
    totals = [_total(points, first + span * (step + 1) / room) for step in range(room)]
    top = max(totals) or 1
    lines = []
    for row in range(rows, 0, -1):
        name = size_text(top * row / rows) if row in (rows, (rows + 1) // 2) else ""
        bars = "".join(_cell(total / top * rows - (row - 1)) for total in totals)
        lines.append(f"{name:>{label}} │{bars}".rstrip())
    start, end = (time.strftime("%Y-%m-%d", time.localtime(when)) for when in (first, now))
    gap = max(1, room - len(start) - len(end))
    lines.append(f"{'':>{label}} └{'─' * room}")
    lines.append(f"{'':>{label}}  {start}{' ' * gap}{end}")
    return lines


def _cell(height: float) -> str:
    return _EIGHTHS[max(0, min(8, round(height * 8)))]


def _total(points: Sequence[tuple[float, int]], until: float) -> int:
    return sum(count for when, count in points if when <= until)
