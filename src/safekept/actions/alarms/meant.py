"""What a person means: losses by name and count, so that what goes beyond is one again; links that lead out.

One way to say so for all of them: `status --acknowledge NAME`. Before a snapshot saw a loss, its name holds
the counts; afterwards it is the id of the alarm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from safekept.core.entries import Outcome, Remark
from safekept.home.health import Shrinkage

from ..base.context import UserContext
from .declined import declined

LOST_SINCE, LEADS_OUT = "lost-since", "leads-out"
_GONE = "gone"


def loss_name(home: str, falls: Iterable[Shrinkage], gone: Collection[str] = ()) -> str:
    """`lost-since:/home/ada/.hermes:default/memories=12-0`; of a profile in `gone`: `profiles/coder=gone`."""
    whole = [f"{_quoted(profile)}={_GONE}" for profile in gone]
    counts = (
        f"{_quoted(one.profile)}/{_quoted(one.name, safe='')}={one.before}-{one.after}"
        for one in falls
        if one.profile not in gone
    )
    return f"{LOST_SINCE}:{home}:{','.join([*counts, *whole])}"


def short_name(name: str) -> str:
    """What a person types for it: `lost-since-3f2a91`. It means what is found now, and nothing else later."""
    kind, _, rest = name.partition(":")
    if not rest:
        return name
    from hashlib import sha256

    return f"{kind}-{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:6]}"


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
        return Shrinkage(_unquoted(place), "", 0, 0)
    profile, _, name = place.rpartition("/")
    before, _, after = counts.partition("-")
    if not (profile and name and before.isdecimal() and after.isdecimal()):
        return None
    return Shrinkage(_unquoted(profile), _unquoted(name), int(before), int(after))


def links_name(home: str, paths: Iterable[str]) -> str:
    """`leads-out:/home/ada/.hermes:state.db,memories`: links that lead out of a home."""
    return f"{LEADS_OUT}:{home}:{','.join(map(_quoted, paths))}"


def meant_links(context: UserContext, home: str) -> frozenset[str]:
    """The links that may lead out of this home, as a person said once."""
    start = f"{LEADS_OUT}:{home}:"
    names = (name.removeprefix(start) for name in declined(context) if name.startswith(start))
    return frozenset(_unquoted(path) for paths in names for path in paths.split(","))


def where_it_leads(reason: str) -> str:
    """What the account says of such a link, without its advice: "a link to `/mnt/x`, outside this home"."""
    return reason.rpartition(": what it points to")[0] or reason


def without_meant_links(remarks: Iterable[Remark], meant: Collection[str]) -> list[Remark]:
    """The account of a snapshot where these links are meant to lead out: nothing is missing behind them."""
    return [
        replace(
            one, outcome=Outcome.EXCLUDED, reason=f"{where_it_leads(one.reason)}; you said that it is meant"
        )
        if one.outcome is Outcome.OUTSIDE and one.path in meant
        else one
        for one in remarks
    ]


# Most homes have nothing of this kind, and need nothing loaded for it.


def _quoted(text: str, safe: str = "/") -> str:
    from urllib.parse import quote

    return quote(text, safe)


def _unquoted(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text)
