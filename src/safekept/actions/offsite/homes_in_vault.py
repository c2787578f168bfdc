"""The homes that a vault keeps: one for each host, home and agent, newest snapshot first.

Where a rebuild has to choose, it never guesses between two machines or two agents: what there is is listed,
with the words that choose one of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field

from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import earlier_homes, layout_of

from ..snapshots.listing import UNDO_POINTS, Listed, continued_homes, listing_of, newest_first

_SHOWN = 12


class SeveralHomes(SafekeptError):
    code, exit_code = "several-homes", 2
    #: For each home, as listed: which host, path, agent or vault a request has to name, to mean no other.
    choices: Sequence[Mapping[str, str]] = ()


@dataclass(slots=True)
class HomeInVault:
    """One home in a vault."""

    vault: str  # how the vault is named
    host: str
    home: str
    layout: str  # "" where restic made it, or a person by hand
    #: Newest first, those of where it was before among them; forgotten ones only where all are.
    snapshots: list[Listed] = field(default_factory=list)
    continued: bool = False  # it goes on elsewhere: all of it is the past of another home

    @property
    def usual(self) -> list[Listed]:
        """Without what was stored only to undo something, and without times to come, where there is more."""
        usual = [one for one in self.snapshots if one.kind not in UNDO_POINTS]
        return [one for one in usual if not one.future] or usual or self.snapshots

    @property
    def newest(self) -> Listed:
        return self.usual[0]

    @property
    def newest_whole(self) -> Listed:
        """The newest of the whole home; where there is none, the newest part of it."""
        return next((one for one in self.usual if not one.partial), self.newest)

    def as_dict(self) -> dict[str, object]:
        return {
            "vault": self.vault,
            "host": self.host,
            "home": self.home,
            "layout": self.layout,
            "snapshots": len(self.snapshots),
            "newest": self.newest.snapshot.time,
            "id": self.newest_whole.id,
        }


def homes_in_vault(
    repository: Repository, vault: str, *, cached: bool = True, forgotten: bool = False, every: bool = False
) -> tuple[list[HomeInVault], dict[str, str]]:
    """Every home of a vault, by host and path, and the snapshot files that cannot be read.

    With `forgotten` also homes of which everything is forgotten: a mark needs the right to add alone,
    and must not leave a machine without its home. With `every` what is forgotten counts as the rest does.
    """
    snapshots, damaged = list_snapshots(repository, cached=cached)
    # Seen from nowhere: whatever is there is of another home, and nothing is left out but what is forgotten.
    listing = listing_of(snapshots, damaged, "", host="")
    listed = newest_first([*listing.elsewhere, *listing.forgotten]) if every else listing.elsewhere
    found = _by_home(vault, listed)
    if forgotten:
        found = _by_home(vault, listing.forgotten) | found
    continued = continued_homes(snapshots)
    for kept in found.values():
        kept.continued = (kept.host, kept.home) in continued
    return [found[key] for key in sorted(found)], damaged


def _by_home(vault: str, listed: Sequence[Listed]) -> dict[tuple[str, str, str], HomeInVault]:
    found: dict[tuple[str, str, str], HomeInVault] = {}
    for one in listed:
        key = (one.snapshot.hostname, one.home, layout_of(one.snapshot))
        found.setdefault(key, HomeInVault(vault, *key)).snapshots.append(one)
    for kept in found.values():
        lives = {life for one in kept.snapshots for life in earlier_homes(one.snapshot)}
        if lives:
            before = [one for one in listed if any(life.holds(one.snapshot) for life in lives)]
            own = {one.id for one in kept.snapshots}
            kept.snapshots = newest_first([*kept.snapshots, *(one for one in before if one.id not in own)])
    return found


def choose_home(
    homes: Sequence[HomeInVault],
    place: str,
    *,
    host: str = "",
    layout: str = "",
    of: str = "",
    target: str = "",
) -> HomeInVault:
    """The one that is meant. `target` is where it is to go: a home of that very path comes before others.

    SeveralHomes where that is not clear; `homes` is not empty.
    """
    left = [
        one
        for one in homes
        if (not host or one.host == host)
        and (not layout or one.layout in ("", layout))
        and (not of or one.home.rstrip("/") == of.rstrip("/"))
    ]
    if not of:  # who names a path means the home that was there then
        left = [one for one in left if not one.continued] or left
    if len(left) > 1 and target:
        left = [one for one in left if one.home == target] or left
    if len(left) == 1:
        return left[0]
    shown = sorted(left or homes, key=lambda one: one.newest_whole.snapshot.time_ns, reverse=True)
    named = " and ".join(f"`{value}`" for value in (host, layout, of) if value)
    what = (
        f"`{place}` holds {len(shown)} homes, and which one is meant is not clear:"
        if left
        else f"`{place}` holds nothing of {named}; there is:"
    )
    now = time.time()
    lines = [_line(number, one, now) for number, one in enumerate(shown[:_SHOWN], 1)]
    if len(shown) > _SHOWN:
        lines.append(f"… and {len(shown) - _SHOWN:,} more")
    choices = [_choice(one, shown) for one in shown[:_SHOWN]]
    error = SeveralHomes(
        "\n".join([what, *lines]),
        kept="Nothing was changed",
        next_steps=tuple(
            _command(place, choice, f"Home {number}:") for number, choice in enumerate(choices[:3], 1)
        ),
        homes=[one.as_dict() for one in shown],
    )
    error.choices = choices if left else ()
    raise error


def _line(number: int, one: HomeInVault, now: float) -> str:
    """`1  vm  /home/ada/.hermes  hermes  4 snapshots, newest 2026-11-16 13:59, 1 min old`."""
    newest, count = one.newest_whole.snapshot.time_ns / 1e9, len(one.snapshots)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest))
    kept = f"{count:,} snapshot{'s' if count > 1 else ''}, newest {when}"
    age = seconds_text(max(0.0, now - newest))
    named = f"{one.host or 'unknown'}  {one.home}  {one.layout or 'unknown'}"
    return f"  {number}  {named}  {kept}, {age} old"


def _choice(one: HomeInVault, among: Sequence[HomeInVault]) -> dict[str, str]:
    """What chooses this one and no other."""
    choice = {}
    if len({other.vault for other in among}) > 1:
        choice["place"], among = one.vault, [other for other in among if other.vault == one.vault]
    if len({other.host for other in among}) > 1 and one.host:
        choice["host"] = one.host
    beside = [other for other in among if other.host == one.host]
    if len({other.home for other in beside}) > 1:
        choice["of"] = one.home
    elif len(beside) > 1:
        choice["layout"] = one.layout
    return choice


def _command(place: str, choice: Mapping[str, str], before: str) -> NextStep:
    words = [choice.get("place", place)]
    for name in ("host", "of", "layout"):
        words += [f"--{name}", choice[name]] if name in choice else []
    return NextStep("rebuild", tuple(words), before=before)
