"""What a snapshot speaks for when it is restored: where it may write, and where it may remove.

An exact restore makes the home what the snapshot says. A snapshot that safekept made tells what it was
asked to hold; of one that restic made only its paths and exclusions are known, and nothing is removed
beyond those. What is damaged speaks for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from safekept.core.entries import Outcome
from safekept.home.layout import Layout
from safekept.vault.format import Snapshot
from safekept.vault.read import HomeSource

from ..base.context import UserContext
from ..base.scope import spared
from ..snapshots.stored_home import Stored


def targets_of(context: UserContext, layout: Layout, source: HomeSource, into: str = "") -> dict[str, str]:
    """Where things outside the home may be written: as the layout declares, or below the user's home.

    The vault opens with the user's own key, so what it says of places outside is the user's own word.
    """
    if into:
        return {}
    targets = layout.external_targets(context.places.user_home)
    for root in source.roots:
        name = root.prefix.removeprefix("_external/")
        if root.prefix and name != root.prefix and ".." not in name.split("/"):
            targets.setdefault(root.prefix, os.path.join(context.places.user_home, name))
    return targets


def speaks_for(snapshot: Snapshot, stored: Stored) -> str:
    """What an exact restore may remove, in words, where that is less than the home; else empty."""
    if snapshot.excludes:
        told = ", ".join(snapshot.excludes[:3]) + (" …" if len(snapshot.excludes) > 3 else "")
        return f"what it holds (restic was told to leave out {told}): nothing is removed"
    if stored.manifest is not None or _given(snapshot, stored.home):
        return ""
    inside = [path for path in snapshot.paths if within(path, stored.home)]
    told = ", ".join(inside[:3]) + (" …" if len(inside) > 3 else "")
    return f"{told or 'what it holds'}: nothing else is removed"


def without_removal(snapshot: Snapshot, stored: Stored, layout: Layout) -> Callable[[str], bool]:
    """What an exact restore must not remove: what the snapshot cannot speak for, damage included."""
    by_account = spared(stored.manifest, layout)
    source, foreign = stored.source, stored.manifest is None

    def spare(path: str) -> bool:
        if snapshot.excludes or (foreign and not _given(snapshot, f"{stored.home.rstrip('/')}/{path}")):
            return True
        lost = [one.path for one in source.remarks if one.outcome is Outcome.UNREADABLE]
        # Without its own account nobody knows what the snapshot was asked to hold.
        unknown = ".safekept/manifest.json" in lost or "" in lost
        return unknown or by_account(path) or any(within(path, place) for place in lost)

    return spare


def _given(snapshot: Snapshot, path: str) -> bool:
    """Whether restic was given this path, or a directory above it."""
    return any(within(path, given.rstrip("/")) for given in snapshot.paths)


def within(path: str, place: str) -> bool:
    return path == place or path.startswith(place + "/")
