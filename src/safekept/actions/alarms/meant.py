"""Losses that a person means: what fell, by name and count, so that whatever goes beyond it is a loss again.

One way to say so for all of them: `status --acknowledge NAME`. Before a snapshot saw the loss, its name holds
the counts; afterwards it is the id of the alarm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import quote, unquote

from safekept.home.health import Shrinkage

from ..base.context import UserContext
from .declined import declined

LOST_SINCE = "lost-since"
_GONE = "gone"


def loss_name(home: str, falls: Iterable[Shrinkage], gone: Collection[str] = ()) -> str:
    """`lost-since:/home/ada/.hermes:default/memories=12-0`; of a profile in `gone`: `profiles/coder=gone`."""
    whole = [f"{quote(profile)}={_GONE}" for profile in gone]
    counts = (
        f"{quote(one.profile)}/{quote(one.name, safe='')}={one.before}-{one.after}"
        for one in falls
        if one.profile not in gone
    )
    return f"{LOST_SINCE}:{home}:{','.join([*counts, *whole])}"


def declined_for_good(context: UserContext) -> frozenset[str]:
    """Names of findings that do not count, whenever they are found.

    No losses: what was meant once, and came back, is a loss when it is gone again (`is_meant`).
    """
    return frozenset(name for name in declined(context) if not name.startswith(f"{LOST_SINCE}:"))


def meant_losses(context: UserContext, home: str) -> list[tuple[Shrinkage, float]]:
    """What a person meant in this home, each with the time at which that was confirmed.

    One without a name is all that a profile had.
    """
    found = []
    for name, when in declined(context).items():
        of_home, _, counts = name.removeprefix(f"{LOST_SINCE}:").rpartition(":")
        if name.startswith(f"{LOST_SINCE}:") and of_home == home:
            found += [(fall, when) for part in counts.split(",") if (fall := _read(part)) is not None]
    return found


def is_meant(context: UserContext, home: str, fall: Shrinkage, since: float) -> bool:
    """Whether this fall was confirmed after it was last counted, and no more is gone than that."""
    return any(
        when >= since
        and one.profile == fall.profile
        and one.name in ("", fall.name)
        and one.after <= fall.after
        for one, when in meant_losses(context, home)
    )


def _read(part: str) -> Shrinkage | None:
    place, _, counts = part.partition("=")
    if counts == _GONE and place:
        return Shrinkage(unquote(place), "", 0, 0)
    profile, _, name = place.rpartition("/")
    before, _, after = counts.partition("-")
    if not (profile and name and before.isdecimal() and after.isdecimal()):
        return None
    return Shrinkage(unquote(profile), unquote(name), int(before), int(after))
