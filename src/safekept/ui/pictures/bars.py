"""Sizes as bars beside their names, and how long snapshots took as a bar for each day."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from safekept.actions.page.days import Day
from safekept.core.ages import seconds_text

_WIDTH, _TALL = 600, 12
_STEP, _BAR, _HIGH = 20, 14, 48


def share_bar(part: int, largest: int) -> Markup:
    """One bar, as long as its share of the largest; its row says the same in words."""
    width = max(2.0, _WIDTH * part / (largest or 1)) if part else 0.0
    return Markup(
        '<svg class="share" viewBox="0 0 {w} {h}" preserveAspectRatio="none" aria-hidden="true" '
        'focusable="false"><rect class="rail" width="{w}" height="{h}"/>'
        '<rect class="fill" width="{width}" height="{h}"/></svg>'
    ).format(w=_WIDTH, h=_TALL, width=f"{min(width, _WIDTH):.0f}")


def took_text(seconds: float) -> str:
    """`under 1 s`, `12 s`, `3 min`."""
    return "under 1 s" if seconds < 1 else seconds_text(seconds)


def duration_words(days: Sequence[Day]) -> str:
    """The picture in one sentence; empty where nothing is known."""
    known = [day.seconds for day in days if day.seconds is not None]
    if not known:
        return ""
    if max(known) < 1:
        return "Each took under 1 s"
    middle = sorted(known)[len(known) // 2]
    return f"Mostly {took_text(middle)}, the longest {took_text(max(known))}"


def duration_picture(days: Sequence[Day]) -> Markup | None:
    """The longest snapshot of each day; None where nothing is known."""
    top = max((day.seconds or 0.0 for day in days), default=0.0)
    if not top:
        return None
    bars = []
    for number, day in enumerate(days):
        if day.seconds is None:
            continue
        tall = max(2.0, _HIGH * day.seconds / top)
        bars.append(
            Markup('<rect class="fill" x="{}" y="{}" width="{}" height="{}" rx="2"/>').format(
                number * _STEP + (_STEP - _BAR) // 2, f"{_HIGH - tall:.1f}", _BAR, f"{tall:.1f}"
            )
        )
    return Markup(
        '<svg class="durations" viewBox="0 0 {w} {h}" role="img" aria-label="{words}" focusable="false">'
        '{bars}<line class="grid" x1="0" y1="{high}" x2="{w}" y2="{high}"/></svg>'
    ).format(
        w=len(days) * _STEP, h=_HIGH + 1, high=_HIGH, words=duration_words(days), bars=Markup("").join(bars)
    )
