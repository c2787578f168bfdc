"""What an import and a restore share: a plan, why it needs consent, and the one way to carry it out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from typing import ClassVar, Protocol

from safekept.core.entries import Outcome, Source
from safekept.core.events import Listener
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.home.landing import Landed, LandingPlan, expire, land

from ..base.context import HomeRef, UserContext
from ..base.operations.homes import LandingFacts
from ..base.record import record, recording
from ..base.search_behind import begin
from ..hosts.connections import staying_connected
from ..undo.safety_snapshot import take_undo_point
from .starting import NEW, Wrapper, make_wrappers, newly_made, planned_wrappers, profiles_after


class LandingRequest(Protocol):
    """How it is to be brought back; what is meant is in each request of its own."""

    @property
    def into(self) -> str: ...  # a directory to restore into instead of the home
    @property
    def allow_damaged(self) -> bool: ...
    @property
    def without_search(self) -> bool: ...  # leave the search indexes empty that a lean backup left out
    @property
    def deadline(self) -> float: ...
    @property
    def keep_days(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LandingResult:
    """What was done."""

    operation: str
    place: HomeRef
    landed: Landed
    facts: LandingFacts  # what the journal says of it, and every document
    lost: list[tuple[str, str]] = field(default_factory=list)  # what could not be had: path and reason
    wrappers: list[Wrapper] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what became of the agents' connections, and what is left
    search_seconds: float = 0.0  # about so long until the search indexes are filled, too

    @property
    def complete(self) -> bool:
        return not self.lost

    @property
    def undo_point(self) -> str:
        """The snapshot that was taken first; empty where there is none."""
        return self.facts.undo_point or ""


@dataclass(slots=True)
class PreparedLanding(ABC):
    """What is to be brought back, with its plan: look at it, ask, then carry it out."""

    context: UserContext
    request: LandingRequest
    source: Source
    place: HomeRef
    plan: LandingPlan

    noun: ClassVar[str]  # what is brought back, for a sentence
    point: ClassVar[str]  # the kind of the snapshot that is taken first

    @property
    @abstractmethod
    def losses(self) -> list[tuple[str, str]]:
        """What is known to be missing among what was asked for: path and reason."""

    @property
    def brings_commands(self) -> bool:
        """Whether commands of profiles, which lie outside the home, are made with it."""
        return not (self.request.into or self.plan.only)

    @property
    def wrappers(self) -> list[Wrapper]:
        """The commands of profiles, outside the home: those that will be made, are there, or are not made."""
        if not self.brings_commands:
            return []
        return planned_wrappers(self.place, self.context, profiles_after(self.place, self.plan))

    @property
    def writes_outside(self) -> list[str]:
        """Every path outside the home that would be written."""
        return [*self.plan.outside, *(one.path for one in self.wrappers if one.state == NEW)]

    def consent_reasons(self, going: str = "") -> list[str]:
        """Why consent is needed. `going`: rows of databases that would be lost."""
        plan, reasons = self.plan, []
        if sure := plan.replaced_for_sure:
            reasons.append(f"{files_text(len(sure), 'existing file')} would be replaced")
        if several := len(plan.compared):
            differs = "if it differs" if several == 1 else "where they differ"
            reasons.append(f"{files_text(several, 'database')} would be replaced {differs}")
        if going:
            reasons.append(f"{going} would go")
        if plan.remove:
            reasons.append(
                f"{files_text(len(plan.remove), 'file')} that the {self.noun} lacks would be removed"
            )
        if plan.outside:
            reasons.append(f"{files_text(len(plan.outside), 'file')} outside the home would be written")
        return reasons

    def bring_back(
        self,
        work: LandingFacts,
        label: str,
        listener: Listener,
        *,
        check: bool = True,
        leave_lost: bool = False,
        search_behind: bool = False,
    ) -> LandingResult:
        """Keep what is there, stage, prove, swap in; journalled either way.

        `label`: of the snapshot of what is there; `check`: its databases, too. `leave_lost`: what cannot be
        read stays as it is in the home, and is listed. `search_behind`: large search indexes may be filled
        when everything else is there, by a process of its own.
        """
        request, place, operation = self.request, self.place, new_id()
        work.home, work.layout = place.home, place.layout.name
        work.only, work.directory = tuple(self.plan.only), self.context.caller.directory or None
        record(self.context, work.line(operation, "begun"), listener)
        with (
            staying_connected(self.context, place.home) as notes,
            recording(self.context, operation, work, listener),
        ):
            work.undo_point = self._undo_point(label, check, listener)
            landed = land(
                self.source,
                self.plan,
                operation=operation,
                deadline=request.deadline,
                allow_damaged=request.allow_damaged,
                leave_lost=leave_lost,
                without_search=request.without_search,
                search_behind=search_behind,
                listener=listener,
            )
        search_seconds = begin(place.home) if search_behind else 0.0
        lost = self.losses
        named = {path for path, _ in lost}
        lost += [
            (one.path, one.reason)
            for one in landed.remarks
            if one.outcome is Outcome.UNREADABLE and (leave_lost or one.path not in named)
        ]
        wrappers = make_wrappers(place, self.context) if self.brings_commands else []
        work.add({**landed.as_dict(), "wrappers": newly_made(wrappers)})
        record(self.context, work.line(operation, "incomplete" if lost else "done"), listener)
        if not request.into:
            expire(place.home, request.keep_days)
        return LandingResult(operation, place, landed, work, lost, wrappers, notes, search_seconds)

    def _undo_point(self, label: str, check: bool, listener: Listener) -> str:
        """A snapshot of what would be replaced, where there is a vault; the landing keeps it, too."""
        if self.request.into or not (self.plan.replace or self.plan.remove):
            return ""
        deadline = self.request.deadline
        return take_undo_point(
            self.context, self.place, self.point, label, check=check, deadline=deadline, listener=listener
        )


def files_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
