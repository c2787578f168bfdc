"""What an archive was asked to hold, and what it could not: recorded when written, heeded when landed.

An exact import makes the home what the archive says. Where the archive has nothing to say (secrets
that were left out on purpose, another profile, a database that was locked), it must not delete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from safekept.core.entries import Outcome
from safekept.home.layout import BadPattern, Layout, Matcher, parse_pattern
from safekept.home.scan import Selection
from safekept.vault.format import Snapshot
from safekept.vault.read import HomeSource

from ..snapshots.stored_home import Stored
from .context import UserContext

#: What became of things that the archive does not hold, or does not hold whole.
_NOT_HELD = frozenset({"unreadable", "locked", "changed", "damaged", "outside", "excluded", "gone"})
_MISSING = frozenset({"unreadable", "locked", "changed"})
_LOST = frozenset({"unreadable", "locked", "changed", "damaged", "outside"})


def scope_of(selection: Selection) -> dict[str, object]:
    """What was asked for, as recorded in the archive: only like is compared with like."""
    scope: dict[str, object] = {
        "secrets": selection.secrets,
        "profile": selection.profile,
        "include": sorted(selection.include),
        "exclude": sorted(selection.exclude),
    }
    if selection.quick:
        scope["quick"] = True
    return scope


def losses(head: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """What is missing, torn or damaged in an archive by its own account: path and reason."""
    return [(path, reason) for path, outcome, reason in _remarks(head) if outcome in _LOST]


def damaged_in(head: Mapping[str, object] | None) -> list[str]:
    """The databases in an archive or a snapshot that are not sound, by its own account."""
    found = [path for path, outcome, _ in _remarks(head) if outcome == "damaged"]
    databases = head.get("databases") if head else None
    for path, facts in databases.items() if isinstance(databases, Mapping) else ():
        if isinstance(facts, Mapping) and facts.get("state") == "damaged" and path not in found:
            found.append(str(path))
    return found


def missing_in(head: Mapping[str, object] | None) -> list[str]:
    """What was selected and is not in it, or not whole; what lies behind a link was never selected."""
    return [path for path, outcome, _ in _remarks(head) if outcome in _MISSING]


def spared(head: Mapping[str, object] | None, layout: Layout) -> Callable[[str], bool]:
    """Whether a path lies outside what the archive can speak for, so that nothing may be removed there."""
    scope = head.get("scope") if head else None
    scope = scope if isinstance(scope, Mapping) else {}
    not_held = {path for path, outcome, _ in _remarks(head) if outcome in _NOT_HELD and path}
    excluded = matcher_of(scope.get("exclude"))
    inside = f"{layout.profiles}/{scope['profile']}/" if scope.get("profile") else ""
    without_secrets = scope.get("secrets") is False
    quick, included = scope.get("quick") is True, matcher_of(scope.get("include"))

    if scope.get("partial") is True:  # it speaks only for what it holds: an adopted copy
        return lambda path: True

    def spare(path: str) -> bool:
        if inside and not path.startswith(inside):
            return True
        if quick and not layout.quick(path) and not included.covers(path):
            return True
        if (without_secrets and layout.secret(path)) or excluded.covers(path):
            return True
        parts = path.split("/")
        return any("/".join(parts[:depth]) in not_held for depth in range(1, len(parts) + 1))

    return spare


def matcher_of(patterns: object) -> Matcher:
    """The patterns of a scope as it was recorded; one that cannot be read matches nothing."""
    parsed = []
    for text in patterns if isinstance(patterns, list) else []:
        try:
            parsed.append((parse_pattern(str(text)), True))
        except BadPattern:
            continue
    return Matcher(parsed)


def _remarks(head: Mapping[str, object] | None) -> list[tuple[str, str, str]]:
    remarks = head.get("remarks") if head else None
    return [
        (str(item.get("path", "")).rstrip("/"), str(item.get("outcome", "")), str(item.get("reason", "")))
        for item in (remarks if isinstance(remarks, list) else [])
        if isinstance(item, dict)
    ]


# What a snapshot speaks for when it is restored: where it may write, and where it may remove. An exact
# restore makes the home what the snapshot says. A snapshot that safekept made tells what it was asked to
# hold; of one that restic made only its paths and exclusions are known, and nothing is removed beyond
# those. What is damaged speaks for nothing.


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


def removal_scope(snapshot: Snapshot, stored: Stored) -> str:
    """What an exact restore may remove, in words, where that is less than the home; else empty."""
    if snapshot.excludes:
        listed = ", ".join(snapshot.excludes[:3]) + (" …" if len(snapshot.excludes) > 3 else "")
        return f"what it holds (restic was told to leave out {listed}): nothing is removed"
    if stored.manifest is not None or _given(snapshot, stored.home):
        return ""
    inside = [path for path in snapshot.paths if within(path, stored.home)]
    listed = ", ".join(inside[:3]) + (" …" if len(inside) > 3 else "")
    return f"{listed or 'what it holds'}: nothing else is removed"


def without_removal(snapshot: Snapshot, stored: Stored, layout: Layout) -> Callable[[str], bool]:
    """What an exact restore must not remove: what the snapshot cannot speak for, damage included."""
    by_account = spared(stored.manifest, layout)
    source, foreign = stored.source, stored.manifest is None

    def spare(path: str) -> bool:
        if snapshot.excludes or (foreign and not _given(snapshot, f"{stored.home.rstrip('/')}/{path}")):
            return True
        lost = [one.path for one in source.remarks if one.outcome is Outcome.UNREADABLE]
        # Without its own account it is unknown what the snapshot was asked to hold.
        unknown = ".safekept/manifest.json" in lost or "" in lost
        return unknown or by_account(path) or any(within(path, place) for place in lost)

    return spare


def _given(snapshot: Snapshot, path: str) -> bool:
    """Whether restic was given this path, or a directory above it."""
    return any(within(path, given.rstrip("/")) for given in snapshot.paths)


def within(path: str, place: str) -> bool:
    return path == place or path.startswith(place + "/")
