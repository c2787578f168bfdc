"""Growth as an image: an SVG of our own making, readable on a light and on a dark page.

The area is what snapshots added in all, the bars are what each day added. Bytes that a prune gave back
are not taken off: the vault itself is said in the caption.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from safekept.actions.status.growth import DAY, by_day

from ..console import size_text

_WIDTH, _HEIGHT = 800, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 56, 56
_SPLIT = 270  # where the area ends; the bars are below
_GAP = 34
_MOST_BARS = 90
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #444; }
  .title { font-size: 16px; font-weight: 600; fill: #222; }
  .grid { stroke: #ccc; stroke-width: 1; }
  .area { fill: #2b8a6e; fill-opacity: 0.18; }
  .line { fill: none; stroke: #2b8a6e; stroke-width: 2; stroke-linejoin: round; }
  .bar { fill: #3b6fb6; }
  .back { fill: #fff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #bbb; } .title { fill: #eee; } .grid { stroke: #444; } .back { fill: #1b1d20; }
    .line { stroke: #4fc3a1; } .area { fill: #4fc3a1; } .bar { fill: #7aa7e0; }
  }
"""


def growth_svg(points: Sequence[tuple[float, int]], now: float, title: str, caption: str) -> str:
    """The whole document. Without any points it says so instead of drawing nothing."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'width="{_WIDTH}" height="{_HEIGHT}" aria-label="{_escaped(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}"/>',
        _text(_LEFT, 30, title, "title"),
        _text(_LEFT, _HEIGHT - 14, caption),
    ]
    if points:
        parts += _area(points, now)
        parts += _bars(points, now)
    else:
        parts.append(_text(_WIDTH // 2, _HEIGHT // 2, "No snapshots yet", anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _area(points: Sequence[tuple[float, int]], now: float) -> list[str]:
    first = points[0][0]
    span = max(now - first, DAY)
    total, steps = 0, [(first, 0)]
    for when, count in points:
        steps.append((when, total))
        total += count
        steps.append((when, total))
    steps.append((max(now, points[-1][0]), total))
    top = _round_up(total)

    def across(when: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (when - first) / span

    def up(count: float) -> float:
        return _SPLIT - (_SPLIT - _TOP) * count / top

    line = " ".join(f"{across(when):.1f},{up(count):.1f}" for when, count in steps)
    parts = _grid(top, up)
    parts.append(
        f'<polygon class="area" points="{line} {across(steps[-1][0]):.1f},{_SPLIT} {_LEFT},{_SPLIT}"/>'
    )
    parts.append(f'<polyline class="line" points="{line}"/>')
    parts.append(_text(_LEFT, _SPLIT + 16, _day(first)))
    parts.append(_text(_WIDTH - _RIGHT, _SPLIT + 16, _day(now), anchor="end"))
    parts.append(_text(_LEFT, _TOP - 10, "added by snapshots, in all"))
    return parts


def _bars(points: Sequence[tuple[float, int]], now: float) -> list[str]:
    # The first snapshot stores everything there is, and would make every other day a line.
    days = max(7, min(_MOST_BARS, math.ceil((now - points[0][0]) / DAY) + 1))
    values = by_day(points[1:], days, now)
    top = max(values)
    floor, ceiling = _HEIGHT - _BOTTOM, _SPLIT + _GAP + 10
    parts = [
        _text(_LEFT, _SPLIT + _GAP, f"added by each of the last {days} days, the first snapshot left out")
    ]
    parts.append(f'<line class="grid" x1="{_LEFT}" y1="{floor}" x2="{_WIDTH - _RIGHT}" y2="{floor}"/>')
    if not top:
        return parts
    parts.append(_text(_LEFT - 8, ceiling + 10, size_text(top), anchor="end"))
    room = (_WIDTH - _LEFT - _RIGHT) / days
    for number, value in enumerate(values):
        if value:
            tall = max(1.0, (floor - ceiling) * value / top)
            parts.append(
                f'<rect class="bar" x="{_LEFT + number * room + room * 0.1:.1f}" y="{floor - tall:.1f}" '
                f'width="{room * 0.8:.1f}" height="{tall:.1f}"/>'
            )
    return parts


def _grid(top: float, up: object) -> list[str]:
    assert callable(up)
    parts = []
    for quarter in range(5):
        height = up(top * quarter / 4)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" y1="{height:.1f}" x2="{_WIDTH - _RIGHT}" y2="{height:.1f}"/>'
        )
        parts.append(_text(_LEFT - 8, height + 4, size_text(top * quarter / 4), anchor="end"))
    return parts


def _round_up(count: int) -> float:
    """The next round number of its unit, so that the axis reads well."""
    unit = 1
    while count >= unit * 1024 and unit < 1 << 40:
        unit *= 1024
    whole = max(count / unit, 1.0)
    digit = 10 ** math.floor(math.log10(whole))
    return float(next(step for step in (1, 2, 4, 8, 10, 12, 16, 20) if step * digit >= whole) * digit * unit)


def _day(when: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(when))


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    printable = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = "".join(sign if sign.isprintable() else "?" for sign in printable)
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{_escaped(shown)}</text>'


# Growth in block characters: a line of fourteen days, and a plot of as many rows as are wanted.

_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " " + _BLOCKS


def sparkline(values: Sequence[int]) -> str:
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


def _escaped(text: str) -> str:
    from xml.sax.saxutils import escape  # brings half of the network along, and only a drawing needs it

    return escape(text, {'"': "&quot;"})
