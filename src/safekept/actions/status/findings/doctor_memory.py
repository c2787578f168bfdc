"""What the doctor found when it last looked closely, for a status that opens no database.

Only what counts and what a status does not see by itself. It counts until the doctor looks again, or until a
later snapshot of the same home has checked the same databases.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence

from safekept.core.ages import seconds_text
from safekept.core.files import durable_write
from safekept.core.finding import Finding
from safekept.core.next_step import NextStep

from ...base.context import UserContext
from ..home_status import HomeStatus

VERSION = 1


def remember(context: UserContext, findings: Iterable[Finding], now: float) -> None:
    """Write it down. Nothing is made where safekept has nothing yet, nor written where nothing changes."""
    kept = [
        {"code": one.code, "level": one.level, "alarm": one.alarm, "text": one.text, "home": one.home}
        for one in findings
        if one.counts
    ]
    path = _file(context)
    if not os.path.isdir(context.places.data_directory) or (not kept and not os.path.exists(path)):
        return
    document = {"version": VERSION, "time": now, "findings": kept}
    with contextlib.suppress(OSError):  # a memory, and not a condition for looking
        durable_write(path, json.dumps(document, indent=1).encode("utf-8", "surrogateescape") + b"\n")


def remembered(context: UserContext, homes: Sequence[HomeStatus], now: float) -> Iterator[Finding]:
    """What it found then, unless something newer says more."""
    try:
        with open(_file(context), encoding="utf-8", errors="surrogateescape") as file:
            document = json.load(file)
        when = float(document["time"])
        found = [
            Finding(
                str(one["code"]),
                str(one["level"]),
                str(one["text"]),
                (f"the doctor found this {seconds_text(max(0.0, now - when))} ago",),
                (NextStep("doctor", before="Look again:"),),
                home=str(one["home"]),
                alarm=bool(one["alarm"]),
            )
            for one in document["findings"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    newer = {home.home for home in homes if home.last is not None and home.last.time > when}
    for one in found:
        if one.code != "database-damaged" or one.home not in newer:
            yield one


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "doctor.json")
