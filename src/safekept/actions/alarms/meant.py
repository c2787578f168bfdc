"""Losses that a person means: what fell, by name and count, so that whatever goes beyond it is a loss again.

One way to say so for all of them: `status --acknowledge NAME`. Before a snapshot saw the loss, its name holds
the counts; afterwards it is the id of the alarm.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

from safekept.home.health import Shrinkage

from ..base.context import UserContext
from .declined import declined

LOST_SINCE = "lost-since"


def loss_name(home: str, falls: Iterable[Shrinkage]) -> str:
    """`lost-since:/home/ada/.hermes:default/memories=12-0`."""
    counts = (f"{quote(one.profile)}/{quote(one.name, safe='')}={one.before}-{one.after}" for one in falls)
    return f"{LOST_SINCE}:{home}:{','.join(counts)}"


def meant_losses(context: UserContext, home: str) -> list[tuple[Shrinkage, float]]:
    """What a person meant in this home, each with the time at which that was confirmed."""
    found = []
    for name, when in declined(context).items():
        of_home, _, counts = name.removeprefix(f"{LOST_SINCE}:").rpartition(":")
        if name.startswith(f"{LOST_SINCE}:") and of_home == home:
            found += [(fall, when) for part in counts.split(",") if (fall := _read(part)) is not None]
    return found


def is_meant(context: UserContext, home: str, fall: Shrinkage, since: float) -> bool:
    """Whether this fall was confirmed after it was last counted, and no more is gone than that."""
    return any(
        when >= since and (one.profile, one.name) == (fall.profile, fall.name) and one.after <= fall.after
        for one, when in meant_losses(context, home)
    )


def _read(part: str) -> Shrinkage | None:
    place, _, counts = part.partition("=")
    profile, _, name = place.rpartition("/")
    before, _, after = counts.partition("-")
    if not (profile and name and before.isdecimal() and after.isdecimal()):
        return None
    return Shrinkage(unquote(profile), unquote(name), int(before), int(after))
