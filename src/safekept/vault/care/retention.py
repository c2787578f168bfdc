"""Which snapshots go by themselves, and which never do. Nothing is changed here: a plan, with reasons.

Each (host, home, kind) is a bucket of its own, with the policy of its kind; a kind without a policy
(manual, adopted, what restic made) never goes by itself. Whatever the policies say, these stay:

* what is pinned, until the day of its pin is over;
* the newest of each home, the newest that is complete, and the newest of the whole home;
* the newest generation of each database that was found sound;
* the last one that a drill proved, and the last one of the whole home that a drill proved.

Clocks: snapshots from the future (the clock was ahead when they were taken, or is behind now) are kept
and count for nothing, so that they can never push out what is younger in truth; the policy is applied
to the others alone. "The newest" is then both the newest of all and the newest that is not from the future.
Counts, not ages, decide by default, so a clock that jumps forward makes nothing go early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.snapshot import Snapshot
from ..read.homes import read_manifest
from ..snapshots import public_id
from ..tags import (
    AUTOMATIC,
    KINDS,
    OTHER,
    PARTIAL,
    PARTS,
    PRE_CHANGE,
    PRE_IMPORT,
    PRE_MIGRATION,
    PRE_RESTORE,
    PRE_UPDATE,
    QUICK,
    SCHEDULED,
    after_a_drill,
    forgotten_at,
    is_incomplete,
    is_partial,
    is_pinned,
    kind_of,
    pinned_until,
    proven_at,
    state_of,
)
from .policy import Policy, apply_policy

if TYPE_CHECKING:
    from ..repo.repository import Repository

SOUND = "sound"
#: A bucket of its own: automatic quick ones push out none that was asked for.
AUTOMATIC_QUICK = "automatic quick"

#: What goes by itself. A kind that is not here never does.
DEFAULT_POLICIES: Mapping[str, Policy] = {
    QUICK: Policy(last=20),
    AUTOMATIC_QUICK: Policy(last=20),
    PRE_UPDATE: Policy(last=5),
    PRE_MIGRATION: Policy(last=5),
    PRE_IMPORT: Policy(last=5),
    PRE_RESTORE: Policy(last=5),
    PRE_CHANGE: Policy(last=50, daily=14),
    SCHEDULED: Policy(daily=14, weekly=8, monthly=12),
}

#: Kinds that hold a part of a home only.

#: The state of each database in a snapshot, by path: sound, unverified, damaged. `""` stands for all.
Facts = Callable[[Snapshot], Mapping[str, str]]


class Decision(NamedTuple):
    """One snapshot and why it is kept, or why it is not."""

    snapshot: Snapshot
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "id": public_id(self.snapshot),
            "time": self.snapshot.time,
            "kind": kind_of(self.snapshot),
            "reasons": list(self.reasons),
        }


@dataclass(slots=True)
class ForgetPlan:
    """What would be kept and what forgotten, newest first. What is forgotten already is in neither."""

    keep: list[Decision] = field(default_factory=list)
    forget: list[Decision] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {name: [item.as_dict() for item in getattr(self, name)] for name in ("keep", "forget")}


def for_every_kind(policy: Policy) -> dict[str, Policy]:
    """One policy for whatever kind, as `--keep-daily 7` on the command line means it."""
    return dict.fromkeys((*KINDS, OTHER), policy)


def states_in_file(snapshot: Snapshot) -> Mapping[str, str]:
    """The states of its databases as far as the snapshot file itself tells them."""
    ours = snapshot.extra.get("safekept")
    databases = ours.get("databases") if isinstance(ours, Mapping) else None
    if isinstance(databases, Mapping):
        return {str(path): after_a_drill(snapshot, str(state)) for path, state in databases.items()}
    return {"": state} if (state := state_of(snapshot)) else {}


def states_in(repository: Repository) -> Facts:
    """The same, and from the manifest in the tree where the file does not tell (restic rewrote it)."""

    def states(snapshot: Snapshot) -> Mapping[str, str]:
        found = states_in_file(snapshot)
        if found or kind_of(snapshot) == OTHER:
            return found
        try:
            manifest = read_manifest(repository, snapshot)
        except VaultDamaged:
            return {}
        databases = manifest.get("databases") if manifest else None
        if not isinstance(databases, Mapping):
            return {}
        return {
            str(path): after_a_drill(snapshot, str(facts.get("state", "")))
            for path, facts in databases.items()
            if isinstance(facts, Mapping)
        }

    return states


def plan_forget(
    snapshots: Iterable[Snapshot],
    policies: Mapping[str, Policy] = DEFAULT_POLICIES,
    *,
    now_ns: int,
    facts: Facts = states_in_file,
) -> ForgetPlan:
    """What the policies would forget at that time, and for each snapshot why."""
    present = [snapshot for snapshot in snapshots if forgotten_at(snapshot) is None]
    homes: dict[tuple[str, tuple[str, ...]], list[Snapshot]] = {}
    for snapshot in present:
        homes.setdefault((snapshot.hostname, snapshot.paths), []).append(snapshot)
    plan = ForgetPlan()
    for members in homes.values():
        members.sort(key=lambda snapshot: (snapshot.time_ns, snapshot.id), reverse=True)
        immune = _reasons_to_keep(members, now_ns, facts)
        kinds: dict[str, list[Snapshot]] = {}
        for snapshot in members:
            kinds.setdefault(_bucket(snapshot, policies), []).append(snapshot)
        for kind, bucket in kinds.items():
            policy = policies.get(kind.removeprefix(f"{PARTIAL} "))
            for snapshot, by_policy in _by_policy(bucket, kind, policy, now_ns):
                reasons = (*immune.get(snapshot.id, ()), *by_policy)
                if reasons:
                    plan.keep.append(Decision(snapshot, reasons))
                elif policy is not None:
                    why = f"{kind} beyond what its policy keeps ({_in_words(policy)})"
                    plan.forget.append(Decision(snapshot, (why,)))
    for decisions in (plan.keep, plan.forget):
        decisions.sort(key=lambda item: (item.snapshot.time_ns, item.snapshot.id), reverse=True)
    return plan


def _bucket(snapshot: Snapshot, policies: Mapping[str, Policy]) -> str:
    """Its kind; with a bucket of their own for automatic ones, where these policies have one."""
    kind = kind_of(snapshot)
    if kind == QUICK and AUTOMATIC in snapshot.tags and AUTOMATIC_QUICK in policies:
        return AUTOMATIC_QUICK
    # A part never costs a whole one of the same kind its place: each is counted by itself.
    return f"{PARTIAL} {kind}" if PARTIAL in snapshot.tags and kind not in PARTS else kind


def _by_policy(
    bucket: list[Snapshot], kind: str, policy: Policy | None, now_ns: int
) -> Iterable[tuple[Snapshot, tuple[str, ...]]]:
    if policy is None:
        return [(snapshot, (f"{kind} snapshots never go by themselves",)) for snapshot in bucket]
    future = [snapshot for snapshot in bucket if snapshot.time_ns > now_ns]
    rest = [snapshot for snapshot in bucket if snapshot.time_ns <= now_ns]
    return [
        *((snapshot, ("its time is in the future",)) for snapshot in future),
        *apply_policy(rest, policy),
    ]


def _reasons_to_keep(members: list[Snapshot], now_ns: int, facts: Facts) -> dict[str, list[str]]:
    """Reasons that no policy can overrule; `members` are one home's, newest first."""
    found: dict[str, list[str]] = {}
    for snapshot in members:
        if is_pinned(snapshot, now_ns):
            day = pinned_until(snapshot)
            found.setdefault(snapshot.id, []).append(f"pinned until {day}" if day else "pinned")
    # Home points come many a day and hold little: being the newest must not cost a real one its place.
    members = [one for one in members if kind_of(one) != PRE_CHANGE] or members
    past = [snapshot for snapshot in members if snapshot.time_ns <= now_ns]
    complete = [snapshot for snapshot in past if not is_incomplete(snapshot)]
    whole = [snapshot for snapshot in past if not is_partial(snapshot)]
    proven = [snapshot for snapshot in past if proven_at(snapshot) is not None]
    for candidates, reason in (
        (members, "the newest of its home"),
        (past, "the newest of its home"),
        (complete, "the newest complete one of its home"),
        (proven, "the last one that a drill proved"),
        ([one for one in proven if not is_partial(one)], "the last one that a drill proved"),
    ):
        if candidates and reason not in found.setdefault(candidates[0].id, []):
            found[candidates[0].id].append(reason)
    for candidates in (whole, [one for one in complete if not is_partial(one)]):
        # Said only where a newer part has the other reasons.
        if candidates and not any("newest" in one for one in found.get(candidates[0].id, ())):
            found.setdefault(candidates[0].id, []).append("the newest whole one of its home")
    # What was stored only to undo something may hold a loss: it must not cost a usual one its place.
    by_use = sorted(past, key=lambda one: kind_of(one) in (PRE_IMPORT, PRE_RESTORE))
    for path, snapshot in _newest_sound(by_use, facts).items():
        of = f"`{path}`" if path else "its databases"
        found.setdefault(snapshot.id, []).append(f"the newest verified generation of {of}")
    return found


def _newest_sound(members: list[Snapshot], facts: Facts) -> dict[str, Snapshot]:
    newest: dict[str, Snapshot] = {}
    for snapshot in members:
        for path, state in facts(snapshot).items():
            if state == SOUND:
                newest.setdefault(path, snapshot)
    return newest


def _in_words(policy: Policy) -> str:
    names = ("last", "hourly", "daily", "weekly", "monthly", "yearly")
    parts = [f"{getattr(policy, name)} {name}" for name in names if getattr(policy, name)]
    spans = [f"within {policy.within}"] if policy.within else []
    more = [f"{name} within {span}" for name in names[1:] if (span := getattr(policy, f"within_{name}"))]
    tags = [f"tagged {', '.join(group)}" for group in policy.tags]
    return ", ".join(parts + spans + more + tags)
