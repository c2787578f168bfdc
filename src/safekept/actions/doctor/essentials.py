"""What every agent has that was ever used, and a profile of it has not: a persona, mostly.

A restore of such a profile is as good as any other, so a drill has nothing to say about it. Here it is
reported, as a note: it may have been deleted by mistake, and where it was meant, that is said once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from safekept.core.finding import MEANT, NOTE, Finding
from safekept.core.next_step import NextStep, Step
from safekept.home.health import places_of

from ..alarms.meant import meant_losses
from .case import Case


def look_at_essentials(case: Case) -> Iterator[Finding]:
    for home in case.status.homes:
        layout = case.context.choices.layouts.get(home.layout)
        base = os.path.join(home.home, layout.profiles) if layout is not None and layout.profiles else ""
        if layout is None or not home.exists or not os.path.isdir(base):
            continue
        # What a snapshot had is a loss, which is said elsewhere, or was meant.
        falls = [*home.now.lost.falls, *(fall for fall, _ in meant_losses(case.context, home.home))]
        said = {place for fall in falls for place in places_of(layout, fall)}
        for name in sorted(os.listdir(base)):
            place = os.path.join(base, name)
            if not any(os.path.lexists(os.path.join(place, proof)) for proof in layout.profile_proof):
                continue
            for pattern in layout.essential_patterns:
                path = os.path.join(place, pattern.text.strip("/"))
                if not os.path.lexists(path) and os.path.relpath(path, home.home) not in said:
                    yield _finding(case, home.home, path)


def _finding(case: Case, home: str, path: str) -> Finding:
    key, inside = f"essential-missing:{path}", os.path.relpath(path, home)
    steps: tuple[Step, ...] = (
        NextStep("status", ("--acknowledge", key), before=MEANT),
        case.command("history", inside, home=home, before="Else see whether a snapshot has it:"),
    )
    text = f"{inside} in {home} is not there, and profiles that are used have one"
    return Finding("essential-missing", NOTE, text, (path,), steps, home=home, declinable=key)
