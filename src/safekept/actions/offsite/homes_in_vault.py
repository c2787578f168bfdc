"""The homes that a vault keeps: one for each host, home and agent, newest snapshot first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from safekept.core.agents import shipped_place
from safekept.core.records import dataclass
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import earlier_homes, layout_of

from ..snapshots.listing import UNDO_POINTS, Listed, continued_homes, listing_of, newest_first


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
    def directory(self) -> str:
        """The home directory above it, where it lay in its agent's usual place; else what it lay in."""
        usual = self.usual_place
        path = self.home.rstrip("/")
        if usual and path.endswith("/" + usual):
            return path.removesuffix("/" + usual) or "/"
        return path.rpartition("/")[0] or "/"

    @property
    def usual_place(self) -> str:
        """Where a home of this agent is as a rule, below a home directory; "" where that is not known."""
        place = shipped_place(self.layout) if self.layout else None
        return place.default.strip("/") if place is not None else ""

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
