"""What a push was asked to do, and what it did."""

from __future__ import annotations

import os
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.objects.base import CredentialRights
from safekept.core.records import dataclass
from safekept.vault.mirror import Mirrored, MirrorPlan, Problem

from ...base.operations.stores import PushFacts
from ..place import DestinationAbsent
from .archives import ArchivesPushed
from .copying import RepositoryCopy

if TYPE_CHECKING:
    from .hidden import HiddenPushed

DONE, INCOMPLETE, ABSENT = "done", "incomplete", "absent"


@dataclass(frozen=True, slots=True)
class PushRequest:
    """What to send, and where."""

    destination: str  # its name, or a URL
    archives: tuple[str, ...] = ()  # files to send
    archive_directory: str = ""  # where sealed archives lie of which the missing ones are sent
    prune: bool = False  # delete there what the vault here has not any more
    dry_run: bool = False
    vault: bool = True  # mirror the vault, where the destination takes it
    unsealed: bool = False  # archives that the place could read may go
    anew: bool = False  # the place is meant although it is empty now
    acknowledge_kit: bool = False  # a person says that the kit is kept elsewhere
    shared: bool = False  # a person says that another machine sends its copies there, too


@dataclass(slots=True)
class PushResult:
    """What was sent, what was not, and why."""

    operation: str
    facts: PushFacts  # what the journal says of it, and every document
    place: str
    state: str = DONE
    absence: DestinationAbsent | None = None  # a disk that is not plugged in is a fact, and this is why
    vault: str = ""  # its id
    copy: RepositoryCopy | None = None  # of the vault
    wholes: dict[str, float] = field(default_factory=dict)  # the newest of each home there
    leaving: list[str] = field(default_factory=list)  # snapshots there that a prune deletes
    staying: list[str] = field(default_factory=list)  # and those that it leaves: they were never here
    archives: ArchivesPushed = field(default_factory=ArchivesPushed)
    hidden: HiddenPushed | None = None  # what git hides in projects, where the destination takes it
    rights: CredentialRights | None = None  # what the credential may do there; None: not tried
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False

    @property
    def reason(self) -> str:
        """Why nothing was sent, where the place is absent."""
        return self.absence.what if self.absence else ""

    @property
    def destination(self) -> str:
        return self.facts.destination or ""

    @property
    def plan(self) -> MirrorPlan | None:
        return self.copy.plan if self.copy else None

    @property
    def mirrored(self) -> Mirrored | None:
        return self.copy.mirrored if self.copy else None

    @property
    def deleting(self) -> int:
        """Files there that a prune deletes."""
        return sum(one.deleting for one in (self.copy, self.hidden) if one is not None)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self._copied) + self.archives.bytes

    @property
    def _copied(self) -> list[Mirrored]:
        hidden = self.hidden.mirrored if self.hidden else None
        return [one for one in (self.mirrored, hidden) if one is not None]

    @property
    def files(self) -> int:
        return sum(one.files for one in self._copied) + len(self.archives.sent)

    @property
    def problems(self) -> list[Problem]:
        return [problem for one in self._copied for problem in one.problems]

    @property
    def complete(self) -> bool:
        return self.state == DONE

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            **self.facts.document("destination", "bytes", "seconds"),
            "place": self.place,
            "state": self.state,
            "reason": self.reason or None,
            "vault": self.vault or None,
            "plan": self.plan.as_dict() if self.plan else None,
            "mirrored": self.mirrored.as_dict() if self.mirrored else None,
            "leaving": list(self.leaving),
            "staying": list(self.staying),
            "archives": self.archives.as_dict(),
            "hidden": self.hidden.as_dict() if self.hidden else None,
            "rights": self.rights.as_dict() if self.rights else None,
            "notes": list(self.notes),
            "dry_run": self.dry_run,
        }

    def outcome(self) -> dict[str, object]:
        """What the journal says of it at its end."""
        mirrored = self.mirrored
        return {
            "absent": self.state == ABSENT,
            "vault": self.vault,
            "snapshots": mirrored.snapshots if mirrored else 0,
            "wholes": dict(self.wholes),
            "files": self.files,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "archive": os.path.basename(self.archives.sent[-1]) if self.archives.sent else "",
            "archives": self.archives.ledger(),
            "problems": [problem.as_dict() for problem in self.problems][:100],
            "rights": self.rights.as_dict() if self.rights else None,
        }
