"""Thirty days of one home as a row of bars. Height and pattern say what colour says, too."""

from __future__ import annotations

import time
from collections.abc import Sequence

from markupsafe import Markup

from safekept.actions.page.days import BEFORE, KEPT, OVERDUE, UNCHANGED, WAITING, Day
from safekept.core.ages import count_text, size_text

_STEP, _WIDTH, _TALL = 20, 14, 30
_TOP = 10  # room for an alarm above the bars
_MARKS = _TOP + _TALL + 9  # the row of copies and proofs below them

#: In words, for a day, a legend and a reader who does not see the picture.
WORDS = {
    KEPT: "snapshot",
    UNCHANGED: "nothing had changed",
    WAITING: "no snapshot yet, none due",
    OVERDUE: "overdue",
    BEFORE: "nothing kept yet",
}
_HEIGHTS = {KEPT: _TALL, UNCHANGED: _TALL // 2, WAITING: 3, OVERDUE: _TALL, BEFORE: 3}


def strip_picture(days: Sequence[Day]) -> Markup:
    """The picture by itself; `strip_words` is what it says."""
    half = (len(days) + 1) // 2
    return Markup('<div class="strip" role="img" aria-label="{}">{}{}</div>').format(
        strip_words(days), _row(days[:half]), _row(days[half:])
    )


def _row(days: Sequence[Day]) -> Markup:
    """Half of them: side by side on a screen, one above the other on a telephone."""
    size = len(days) * _STEP, _MARKS + 8
    parts = [Markup('<svg viewBox="0 0 {} {}" aria-hidden="true" focusable="false">').format(*size)]
    parts += [_day(day, number * _STEP + (_STEP - _WIDTH) // 2) for number, day in enumerate(days)]
    return Markup("").join([*parts, Markup("</svg>")])


def _day(day: Day, left: int) -> Markup:
    tall = _HEIGHTS[day.state]
    middle = left + _WIDTH / 2
    parts = [
        Markup("<g><title>{}</title>").format(day_words(day)),
        Markup('<rect class="day {}" x="{}" y="{}" width="{}" height="{}" rx="3"/>').format(
            day.state, left, _TOP + _TALL - tall, _WIDTH, tall
        ),
    ]
    if day.state == OVERDUE:  # hatched
        for up in (8, 16, 24):
            parts.append(
                Markup('<line class="hatch" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                    left + 2, _TOP + up + 4, left + _WIDTH - 2, _TOP + up - 4
                )
            )
    if day.alarms or day.unproven or day.failed:
        parts.append(
            Markup('<path class="alarm" d="M{} 0l4.5 7.5h-9z"/>').format(f"{middle:g}"),
        )
    if day.pushed:
        parts.append(
            Markup('<circle class="pushed" cx="{}" cy="{}" r="2.6"/>').format(
                f"{middle - (3.6 if day.proven else 0):g}", _MARKS
            )
        )
    if day.proven:
        parts.append(
            Markup('<path class="proven" d="M{} {}l2.2 2.4 4-5.2"/>').format(
                f"{middle + (0.6 if day.pushed else -3):g}", _MARKS
            )
        )
    return Markup("").join([*parts, Markup("</g>")])


def day_words(day: Day) -> str:
    """`Tue 17 Nov: 2 snapshots (1.2 MB), copied elsewhere`."""
    when = time.strftime("%a %d %b", time.strptime(day.date, "%Y-%m-%d"))
    said = [WORDS[day.state]]
    if day.snapshots:
        same = ", nothing had changed" if day.state == UNCHANGED else ""
        said = [f"{count_text(day.snapshots, 'snapshot')} ({size_text(day.bytes)}{same})"]
    said += [word for count, word in _also(day) if count]
    return f"{when}: {', '.join(said)}"


def _also(day: Day) -> tuple[tuple[int, str], ...]:
    return (
        (day.pushed, "copied elsewhere"),
        (day.proven, "restore proven"),
        (day.unproven, "a drill failed"),
        (day.failed, "a snapshot failed"),
        (day.alarms, "alarm"),
    )


def strip_words(days: Sequence[Day]) -> str:
    """The row in one sentence."""
    kept = sum(1 for day in days if day.snapshots)
    parts = [f"{kept} of the last {len(days)} days with a snapshot"]
    for count, word in (
        (sum(1 for day in days if day.state == OVERDUE), "overdue"),
        (sum(1 for day in days if day.pushed), "with a copy elsewhere"),
        (sum(1 for day in days if day.proven), "with a proven restore"),
        (sum(1 for day in days if day.alarms or day.unproven or day.failed), "with an alarm"),
    ):
        if count:
            parts.append(f"{count} {word}")
    return ", ".join(parts)


def _sample(state: str, pushed: int = 0, proven: int = 0, alarms: int = 0) -> Markup:
    day = Day("2026-01-01", state, 0, 0, pushed, proven, 0, alarms)
    top, tall = (_MARKS - 8, 16) if pushed or proven else (-5, 20) if alarms else (_TOP - 2, _TALL + 4)
    return Markup('<svg class="sample" viewBox="0 {} {} {}" aria-hidden="true">{}</svg>').format(
        top, _STEP, tall, _day(day, (_STEP - _WIDTH) // 2)
    )


#: What each mark means, with the mark itself.
LEGEND = (
    (_sample(KEPT), "snapshot"),
    (_sample(UNCHANGED), "nothing had changed"),
    (_sample(OVERDUE), "overdue"),
    (_sample(BEFORE, pushed=1), "copied elsewhere"),
    (_sample(BEFORE, proven=1), "restore proven"),
    (_sample(BEFORE, alarms=1), "alarm"),
)
