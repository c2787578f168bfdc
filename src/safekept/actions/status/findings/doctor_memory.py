"""What the doctor found when it last looked closely, for a status that looks quickly.

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
from safekept.core.next_step import NextStep, read_step, step_texts

from ...alarms.declined import declined
from ...base.context import UserContext
from ..home_now import DAMAGED_NOW, doctor_file, restored_since
from ..home_status import HomeStatus
from .losses import OF_DATABASES, PATHS

VERSION = 1
_AGAIN = (NextStep("doctor", before="Look again:"),)


def remember(context: UserContext, findings: Iterable[Finding], now: float) -> None:
    """Write it down. Nothing is made where safekept has nothing yet, nor written where nothing changes."""
    kept = [
        {
            "code": one.code,
            "level": one.level,
            "alarm": one.alarm,
            "text": one.text,
            "home": one.home,
            "path": one.path,
            "declinable": one.declinable,
            "fix": step_texts(one.fix),
        }
        for one in findings
        if one.counts
    ]
    path = doctor_file(context)
    if not os.path.isdir(context.places.data_directory) or (not kept and not os.path.exists(path)):
        return
    document = {"version": VERSION, "time": now, "findings": kept}
    with contextlib.suppress(OSError):  # a memory, and not a condition for looking
        durable_write(path, json.dumps(document, indent=1).encode("utf-8", "surrogateescape") + b"\n")


def remembered(context: UserContext, homes: Sequence[HomeStatus], now: float) -> Iterator[Finding]:
    """What it found then, unless something newer says more."""
    try:
        with open(doctor_file(context), encoding="utf-8", errors="surrogateescape") as file:
            document = json.load(file)
        when = float(document["time"])
        found = [
            Finding(
                str(one["code"]),
                str(one["level"]),
                str(one["text"]),
                (f"the doctor found this {seconds_text(max(0.0, now - when))} ago",),
                tuple(read_step(str(text)) for text in one.get("fix") or ()) or _AGAIN,
                home=str(one["home"]),
                alarm=bool(one["alarm"]),
                path=str(one.get("path") or ""),
                declinable=str(one.get("declinable") or ""),
            )
            for one in document["findings"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    by_path = {home.home: home for home in homes}
    for one in found:
        home = by_path.get(one.home)
        if home is None or one.code not in OF_DATABASES or not _settled(context, home, one, when):
            yield one


def _settled(context: UserContext, home: HomeStatus, one: Finding, when: float) -> bool:
    """Whether something newer speaks for the home: a snapshot, a restore, or what a look of today says."""
    if home.last is not None and home.last.time > when and one.code != DAMAGED_NOW:
        return True
    if home.checked.get(one.path, 0.0) > when:
        return True  # one that did not check it says nothing of it
    if any(now.path == one.path for now in home.now.databases) or one.code == "damaged-when-stored":
        return True
    if one.code == "lost-since" and home.now.census and not home.now.unread:
        return True  # whatever is lost, this look found by itself
    if declined(context).get(one.declinable, 0.0) >= when:
        return True  # it was meant
    back = restored_since(context, home.home, when)
    return all(map(back, one.path.split(PATHS)))
