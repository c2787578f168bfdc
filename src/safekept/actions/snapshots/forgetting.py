"""Pin, forget, call back, reclaim: what a person asks of the history of a home, with a plan first.

Forgetting hides and can be taken back; only a prune deletes, and only what was forgotten long enough
ago. Both plan, then do. Every one of them is journalled.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TypeVar

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.vault.care import (
    DEFAULT_POLICIES,
    GRACE,
    Policy,
    Pruned,
    PrunePlan,
    SnapshotPinned,
    carry_out,
    forget,
    pin,
    plan_forget,
    plan_prune,
    states_in,
    unforget,
    unpin,
)
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository
from safekept.vault.snapshots import public_id
from safekept.vault.tags import QUICK

from ..base.context import HomeRef, UserContext
from ..base.operations.facts import Facts
from ..base.operations.homes import ForgetFacts, MarkFacts, PinFacts, SnapshotFacts, UnforgetFacts, UnpinFacts
from ..base.operations.stores import SnapshotPruneFacts
from ..base.record import record, recording
from .choosing import choose
from .listing import Listed, Listing, is_of, list_home
from .stored_home import reading

#: Seconds to wait for those who work on the vault before its tags or packs are changed.
WAIT = 10.0


@dataclass(slots=True)
class Forgetting:
    """What would be forgotten and what kept, each with the reasons; newest first."""

    listing: Listing
    go: list[tuple[Listed, tuple[str, ...]]] = field(default_factory=list)
    stay: list[tuple[Listed, tuple[str, ...]]] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {
            name: [{**one.as_dict(), "reasons": list(reasons)} for one, reasons in rows]
            for name, rows in (("forget", self.go), ("keep", self.stay))
        }


def plan_forgetting(
    repository: Repository,
    place: HomeRef,
    *,
    words: Iterable[str] = (),
    policies: Mapping[str, Policy] = DEFAULT_POLICIES,
    kind: str = "",
    now_ns: int | None = None,
) -> Forgetting:
    """The named ones, or those of this home that the policies let go."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    listing = list_home(repository, place.home, now_ns, named=place.named)
    named = list(words)
    plan = Forgetting(listing)
    facts = states_in(repository)
    # What was kept of it elsewhere may still be the newest of a home that lives there: no policy counts it.
    own = [one for one in (*listing.shown, *listing.points) if is_of(one.snapshot, place.home)]
    if named:
        chosen = {one.id: one for one in (choose(listing, word) for word in named)}
        pinned = [one.snapshot for one in chosen.values() if one.pinned]
        if pinned:
            raise SnapshotPinned.of(pinned)
        immune = plan_forget([one.snapshot for one in own], {}, now_ns=now_ns, facts=facts)
        reasons = {public_id(item.snapshot): _beyond_kind(item.reasons) for item in immune.keep}
        plan.go = [(one, reasons.get(one.id, ())) for one in chosen.values()]
        return plan
    by_id = {one.snapshot.id: one for one in own}
    wanted = {name: rule for name, rule in policies.items() if not kind or name == kind}
    found = plan_forget([one.snapshot for one in own], wanted, now_ns=now_ns, facts=facts)
    plan.go = [(by_id[item.snapshot.id], item.reasons) for item in found.forget]
    plan.stay = [(by_id[item.snapshot.id], item.reasons) for item in found.keep]
    if kind:
        plan.stay = [(one, why) for one, why in plan.stay if one.kind == kind]
    return plan


def _beyond_kind(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Why a policy would have spared it; that its kind never goes by itself is no reason against a person."""
    return tuple(reason for reason in reasons if not reason.endswith("never go by themselves"))


def carry_out_forgetting(
    context: UserContext,
    repository: Repository,
    place: HomeRef,
    snapshots: list[Snapshot],
    listener: Listener = silent,
) -> ForgetFacts:
    """Forget them; what is said of it."""
    work = _marking(ForgetFacts, context, place, snapshots)
    with _journalled(context, work, listener):
        with repository.lock(exclusive=True, wait=WAIT) as lock:
            done = forget(repository, snapshots, lock, now_ns=time.time_ns(), listener=listener)
        work.snapshots = _ids(done)
    return work


def call_back(
    context: UserContext,
    repository: Repository,
    place: HomeRef,
    words: Iterable[str],
    listener: Listener = silent,
) -> list[Listed]:
    """Take a forgetting back, for those that are still there."""
    listing = list_home(repository, place.home, named=place.named)
    chosen = [choose(listing, word, forgotten=True) for word in words]
    snapshots = [one.snapshot for one in chosen]
    work = _marking(UnforgetFacts, context, place, snapshots)
    with _journalled(context, work, listener), repository.lock(exclusive=True, wait=WAIT) as lock:
        unforget(repository, snapshots, lock, listener=listener)
    return chosen


def pin_snapshots(
    context: UserContext,
    repository: Repository,
    place: HomeRef,
    words: Iterable[str],
    *,
    days: int = 0,
    off: bool = False,
    listener: Listener = silent,
) -> tuple[list[Listed], str]:
    """Pin or unpin; those that it was done to, and the last day of the pin (empty: for good)."""
    listing = list_home(repository, place.home, named=place.named)
    chosen = [choose(listing, word, forgotten=True) for word in words]
    snapshots = [one.snapshot for one in chosen]
    until = time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86400)) if days else ""
    work = _marking(UnpinFacts if off else PinFacts, context, place, snapshots)
    with _journalled(context, work, listener), repository.lock(exclusive=True, wait=WAIT) as lock:
        if off:
            unpin(repository, snapshots, lock, listener=listener)
        else:
            pin(repository, snapshots, lock, until=until, listener=listener)
    return chosen, until


def plan_reclaiming(
    repository: Repository,
    place: HomeRef,
    quick: int,
    *,
    now: bool = False,
    grace: float = GRACE,
    listener: Listener = silent,
) -> tuple[Forgetting, PrunePlan]:
    """Quick snapshots beyond so many, and what a prune would free as things are."""
    forgetting = plan_forgetting(repository, place, policies={QUICK: Policy(last=quick)}, kind=QUICK)
    with reading(repository, listener, WAIT):
        prune = plan_prune(repository, now_ns=time.time_ns(), grace=0.0 if now else grace, listener=listener)
    return forgetting, prune


def reclaim(
    context: UserContext,
    repository: Repository,
    place: HomeRef,
    snapshots: list[Snapshot],
    *,
    now: bool = False,
    grace: float = GRACE,
    listener: Listener = silent,
) -> tuple[SnapshotPruneFacts, Pruned]:
    """Forget these, then delete what was forgotten long enough ago and pack the rest tightly."""
    work = SnapshotPruneFacts(home=place.home, vault=context.places.vault, forgotten=_ids(snapshots))
    with _journalled(context, work, listener):
        with repository.lock(exclusive=True, wait=WAIT) as lock:
            moment = time.time_ns()
            done = forget(repository, snapshots, lock, now_ns=moment, listener=listener)
            plan = plan_prune(repository, now_ns=moment, grace=0.0 if now else grace, listener=listener)
            pruned = carry_out(repository, plan, lock, listener=listener)
        work.forgotten = _ids(done)
        work.add(pruned.as_dict())
    return work, pruned


def snapshots_once_here(context: UserContext) -> set[str]:
    """The ids of every snapshot that was taken or forgotten on this machine, as the journal remembers."""
    found: set[str] = set()
    for entry in context.journal.backwards(SnapshotFacts.verb, ForgetFacts.verb, SnapshotPruneFacts.verb):
        taken, marked = SnapshotFacts.read(entry), ForgetFacts.read(entry)
        found.update((taken.snapshot or "",), taken.forgotten or (), marked.snapshots or ())
    return found - {""}


_Mark = TypeVar("_Mark", bound=MarkFacts)


def _marking(kind: type[_Mark], context: UserContext, place: HomeRef, snapshots: Iterable[Snapshot]) -> _Mark:
    return kind(home=place.home, vault=context.places.vault, snapshots=_ids(snapshots))


def _ids(snapshots: Iterable[Snapshot]) -> tuple[str, ...]:
    """As people see them."""
    return tuple(map(public_id, snapshots))


@contextlib.contextmanager
def _journalled(context: UserContext, work: Facts, listener: Listener) -> Iterator[None]:
    """Writes down what was done, or why it was not."""
    operation, began = new_id(), time.monotonic()
    with recording(context, operation, work, listener):
        yield
    work.seconds = round(time.monotonic() - began, 3)
    record(context, work.line(operation, "done"), listener)
