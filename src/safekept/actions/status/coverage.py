"""What a snapshot does not hold, and why: read out of its own account, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from safekept.core.entries import Outcome
from safekept.core.records import dataclass

#: What is not held although it was selected; the worst first.
MISSING = (Outcome.DAMAGED, Outcome.UNREADABLE, Outcome.LOCKED, Outcome.CHANGED)
_ORDER = {outcome.value: rank for rank, outcome in enumerate((*MISSING, Outcome.OUTSIDE, Outcome.EXCLUDED))}
_EXTERNAL = "_external/"


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that is not kept, or not kept whole."""

    outcome: str  # as in the account: "excluded", "outside", "locked", …; "noted" for what needs more
    path: str
    reason: str
    files: int
    bytes: int

    @property
    def missing(self) -> bool:
        """Selected, and not stored as it should be; a rule or a link is no such thing."""
        return self.outcome in {outcome.value for outcome in MISSING}

    def as_dict(self) -> dict[str, object]:
        return {
            "outcome": self.outcome,
            "path": self.path,
            "reason": self.reason,
            "files": self.files,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one snapshot says of itself."""

    snapshot: str
    gaps: tuple[Gap, ...] = ()  # the worst first
    databases: Mapping[str, str] | None = None  # path -> sound, unverified or damaged; None: not known
    quick: bool = False
    profile: str = ""  # it holds this profile only
    secrets: bool = True
    #: What of a database is rebuilt by a restore, and which of its indexes are held in full and why.
    lean: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    meant: Collection[str] = frozenset()  # links that lead out of the home, and the user said that they may

    @property
    def unstored(self) -> list[Gap]:
        """What could not be stored as it should be; damage is told by the databases."""
        return [gap for gap in self.gaps if gap.missing and gap.outcome != Outcome.DAMAGED.value]

    @property
    def led_out(self) -> list[Gap]:
        """What matters to the agent and lies behind a link out of the home, and was not said to be meant."""
        return [gap for gap in self.of(Outcome.OUTSIDE) if gap.path not in self.meant]

    @property
    def explained(self) -> bool:
        """Whether it says itself why it is not complete."""
        return any(gap.missing or gap.outcome == Outcome.OUTSIDE.value for gap in self.gaps)

    def of(self, *outcomes: Outcome) -> list[Gap]:
        return [gap for gap in self.gaps if gap.outcome in {outcome.value for outcome in outcomes}]

    def as_dict(self) -> dict[str, object]:
        return {
            "snapshot": self.snapshot,
            "quick": self.quick,
            "profile": self.profile or None,
            "secrets": self.secrets,
            "databases": dict(self.databases) if self.databases is not None else None,
            "gaps": [gap.as_dict() for gap in self.gaps],
            "lean_databases": {
                path: {
                    "bytes": lean.get("bytes"),
                    "left_out": [one.get("table") for one in lean.get("tables", ())],
                    "in_full": [{"table": pair[0], "reason": pair[1]} for pair in lean.get("kept", ())],
                }
                for path, lean in self.lean.items()
            },
        }


def coverage_of(snapshot: str, manifest: Mapping[str, Any], meant: Collection[str] = frozenset()) -> Coverage:
    """Out of the manifest of a snapshot; whatever in it is not understood is left out. `meant`: see there."""
    scope = manifest.get("scope")
    scope = scope if isinstance(scope, Mapping) else {}
    databases = manifest.get("databases")
    return Coverage(
        snapshot,
        tuple(_gaps(manifest.get("remarks"))),
        {
            str(path): str(facts.get("state", ""))
            for path, facts in databases.items()
            if isinstance(facts, Mapping)
        }
        if isinstance(databases, Mapping)
        else None,
        quick=scope.get("quick") is True,
        profile=str(scope.get("profile") or ""),
        secrets=scope.get("secrets") is not False,
        lean=_lean(databases),
        meant=meant,
    )


def _lean(databases: object) -> dict[str, Mapping[str, Any]]:
    if not isinstance(databases, Mapping):
        return {}
    left_out = {
        str(path): facts.get("lean") for path, facts in databases.items() if isinstance(facts, Mapping)
    }
    return {path: lean for path, lean in left_out.items() if isinstance(lean, Mapping) and _understood(lean)}


def _understood(lean: Mapping[str, Any]) -> bool:
    from safekept.core.sqlite.lean import read_facts

    try:
        read_facts(lean)
    except (ValueError, KeyError, TypeError, IndexError):
        return False
    return True


def _gaps(remarks: object) -> Iterable[Gap]:
    found = [_gap(item) for item in remarks if isinstance(item, Mapping)] if isinstance(remarks, list) else []
    return sorted(
        (gap for gap in found if gap.outcome in _ORDER or _needs_more(gap)),
        key=lambda gap: (_ORDER.get(gap.outcome, len(_ORDER)), -gap.bytes, gap.path),
    )


def _needs_more(gap: Gap) -> bool:
    """A place outside the home that a copy of its files does not keep whole: a database server's, mostly."""
    return gap.outcome == Outcome.NOTED.value and gap.path.startswith(_EXTERNAL)


def _gap(item: Mapping[str, Any]) -> Gap:
    return Gap(
        str(item.get("outcome", "")),
        str(item.get("path", "")),
        str(item.get("reason", "")),
        _number(item.get("files")),
        _number(item.get("bytes")),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
