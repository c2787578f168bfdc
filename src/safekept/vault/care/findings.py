"""What a check found, as values: what is damaged, and which files of which snapshots it touches."""

from __future__ import annotations

from dataclasses import dataclass, field

DAMAGE = "damage"  # something stored cannot be given back, or soon could not be
NOTE = "note"  # nothing is lost; maintenance would tidy it up


@dataclass(frozen=True, slots=True)
class Touched:
    """What one finding means for one snapshot."""

    snapshot: str
    paths: tuple[str, ...]  # the first of them; directories end with `/`
    count: int  # of all of them


@dataclass(slots=True)
class Finding:
    """One thing that is not as it should be.

    Codes: index-unreadable, snapshot-unreadable, key-unreadable, pack-missing, pack-truncated,
    pack-damaged, pack-not-indexed, blob-damaged, blob-missing, tree-unreadable, index-disagrees;
    as notes: pack-unreferenced, pack-indexed-twice, pack-mixed, lock-left-behind.
    """

    code: str
    severity: str
    file: str  # as it lies in the vault: `data/ab/ab12…`; empty where it has none
    what: str
    blobs: frozenset[bytes] = frozenset()  # what cannot be read because of it
    touches: tuple[Touched, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "what": self.what,
            "touches": [
                {"snapshot": item.snapshot, "paths": list(item.paths), "count": item.count}
                for item in self.touches
            ],
        }


@dataclass(slots=True)
class Report:
    """The whole account of one check."""

    findings: list[Finding] = field(default_factory=list)
    snapshots: int = 0
    packs: int = 0
    blobs: int = 0
    packs_read: int = 0
    bytes_read: int = 0

    @property
    def sound(self) -> bool:
        """Nothing is damaged; there may be notes."""
        return not self.damage

    @property
    def damage(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == DAMAGE]

    def add(
        self, code: str, file: str, what: str, *, note: bool = False, blobs: frozenset[bytes] = frozenset()
    ) -> None:
        self.findings.append(Finding(code, NOTE if note else DAMAGE, file, what, blobs))
