"""What an archive was asked to hold, and what it could not: recorded when written, heeded when landed.

An exact import makes the home what the archive says. Where the archive has nothing to say (secrets
that were left out on purpose, another profile, a database that was locked), it must not delete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from safekept.home.layout import BadPattern, Layout, Matcher, parse_pattern
from safekept.home.scan import Selection

#: What became of things that the archive does not hold, or does not hold whole.
_NOT_HELD = frozenset({"unreadable", "locked", "changed", "damaged", "outside", "excluded", "gone"})
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


def spared(head: Mapping[str, object] | None, layout: Layout) -> Callable[[str], bool]:
    """Whether a path lies outside what the archive can speak for, so that nothing may be removed there."""
    scope = head.get("scope") if head else None
    scope = scope if isinstance(scope, Mapping) else {}
    not_held = {path for path, outcome, _ in _remarks(head) if outcome in _NOT_HELD and path}
    excluded = _matcher(scope.get("exclude"))
    inside = f"{layout.profiles}/{scope['profile']}/" if scope.get("profile") else ""
    without_secrets = scope.get("secrets") is False
    quick, included = scope.get("quick") is True, _matcher(scope.get("include"))

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


def _matcher(patterns: object) -> Matcher:
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
