"""The tools for an agent's home: snapshots, the history of a file, bringing paths back, and the status."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.ages import seconds_text
from safekept.core.next_step import step_text
from safekept.core.spelling import shown

from ..plan_tokens import of_restore
from .answers import ToolAnswer, clipped
from .caller import Caller

if TYPE_CHECKING:
    from safekept.actions.restoring.prepared import LandingResult
    from safekept.actions.restoring.restore import PreparedRestore
    from safekept.actions.snapshots.listing import Listed


#: Lines of one difference between two versions.
_PATCH = 200


def snapshot(caller: Caller, home: str, quick: bool, label: str) -> ToolAnswer:
    """Take a point in time of a home into the vault."""
    from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
    from safekept.home.scan import Selection

    settings = caller.settings
    request = SnapshotRequest(
        caller.home(home),
        "quick" if quick else "manual",
        label,
        Selection(
            include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude"), quick=quick
        ),
        deadline=settings.number("database.deadline"),
    )
    done = create_snapshot(caller.context, request, caller.listener)
    answer = ToolAnswer(
        data={
            "operation": done.operation,
            **done.facts.document("id", "home", "kind", "label", "files", "bytes", "added_bytes", "census"),
            "complete": done.complete,
            "remarks": [remark.as_dict() for remark in done.remarks],
            "alarm": done.alarm.as_dict() if done.alarm else None,
        }
    )
    state = "complete" if done.complete else "INCOMPLETE"
    answer.add(f"Snapshot {done.id[:8]} of {shown(done.place.home)} {state}: {done.files:,} files.")
    if not done.complete:
        answer.items("Missing or damaged", [f"{one.path}: {one.reason}" for one in done.remarks])
    if done.alarm is not None:
        answer.add(f"Fewer than before: {done.alarm.text}")
    return answer


def list_snapshots(caller: Caller, home: str, limit: int) -> ToolAnswer:
    """The snapshots of a home, newest first."""
    from safekept.actions.snapshots.listing import list_home
    from safekept.actions.vault.opening import open_vault

    place = caller.home(home, existing=False)
    with open_vault(caller.context, listener=caller.listener) as repository:
        listing = list_home(repository, place.home)
    found = listing.of_home
    rows = found[: max(1, limit)]
    answer = ToolAnswer(
        data={
            "home": place.home,
            "snapshots": [one.as_dict() for one in rows],
            "more": len(found) - len(rows),
            "damaged": [{"name": name, "reason": why} for name, why in sorted(listing.damaged.items())],
        }
    )
    answer.add(f"Snapshots of {shown(place.home)}, newest first:" if rows else "There is no snapshot yet.")
    answer.add(*(f"  {_row(one)}" for one in rows))
    if len(rows) < len(found):
        answer.add(f"  … and {len(found) - len(rows):,} older ones")
    answer.items("Cannot be read", [f"{name[:8]}: {why}" for name, why in sorted(listing.damaged.items())])
    return answer


def _row(one: Listed) -> str:
    age = seconds_text(max(0, time.time_ns() - one.snapshot.time_ns) / 1e9)
    number = f"#{one.number}" if one.number else "-"
    lacking = f"INCOMPLETE: {shown(one.why_incomplete)}" if one.why_incomplete else "INCOMPLETE"
    notes = ["" if one.complete else lacking, "pinned" if one.pinned else "", shown(one.label)]
    files = "" if one.files is None else f"  {one.files:,} files"
    return "  ".join(
        part for part in (f"{number:<4} {one.short}  {age} ago  {one.kind}{files}", *notes) if part
    )


def history(caller: Caller, path: str, home: str, diff: bool) -> ToolAnswer:
    """Every version of one file of a home."""
    from safekept.actions.snapshots.history import history as versions_of

    place = caller.home(home, existing=False)
    found = versions_of(caller.context, place, path, with_patches=diff, listener=caller.listener)
    versions = []
    for number, version in enumerate(found.versions):
        document = version.as_dict()
        if diff:
            document["diff"] = clipped(found.patches[number], _PATCH)
        versions.append(document)
    answer = ToolAnswer(
        data={
            "path": found.path,
            "home": place.home,
            "live": found.live,
            "searched": found.searched,
            "versions": versions,
            "remarks": [remark.as_dict() for remark in found.remarks],
        }
    )
    answer.add(f"{shown(found.path)}: {len(found.versions):,} versions in {found.searched:,} snapshots")
    for number, version in enumerate(found.versions):
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.node.mtime_ns / 1e9))
        now = "  (as it is now)" if version.now else ""
        answer.add(f"  snapshot {version.last.short}  written {written}  {version.node.size:,} bytes{now}")
        if diff:
            answer.add(*(f"      {line}" for line in clipped(found.patches[number], _PATCH)))
            more = len(found.patches[number]) - _PATCH
            answer.add(*([f"      … {more:,} more lines"] if more > 0 else []))
    answer.items("Not looked into", [remark.reason for remark in found.remarks])
    answer.add("One comes back with the tool `restore`: its snapshot and this path.")
    return answer


def restore(caller: Caller, snapshot: str, paths: Sequence[str], home: str, confirm: str) -> ToolAnswer:
    """Bring paths of a home back from a snapshot: the plan, or with its token the deed."""
    from safekept.actions.restoring.restore import RestoreRequest, prepare_restore

    place, settings = caller.home(home, existing=False), caller.settings
    request = RestoreRequest(
        word=snapshot or "latest",
        paths=tuple(paths),
        home=place.home,
        deadline=settings.number("database.deadline"),
        keep_days=settings.whole("import.keep_days"),
        isolated=True,  # another thread of this process may be at the same databases
    )
    with prepare_restore(caller.context, request, caller.listener) as prepared:
        plan = prepared.plan
        answer = _restore_plan(prepared)
        differs = plan.create or plan.replace or plan.remove
        fingerprint = of_restore(prepared)
        unconfirmed = caller.planned(answer, confirm, fingerprint, differs=differs)
        if unconfirmed is not None:
            return unconfirmed
        prepared.refuse_doubt()
        caller.spending(confirm)(of_restore(prepared))
        return _restored(prepared.carry_out(caller.listener))


def _restore_plan(prepared: PreparedRestore) -> ToolAnswer:
    plan, chosen = prepared.plan, prepared.chosen
    answer = ToolAnswer(
        data={
            "snapshot": chosen.as_dict(),
            "home": prepared.place.home,
            "missing": [{"path": path, "reason": reason} for path, reason in prepared.losses],
            "plan": plan.as_dict(),
        }
    )
    age = seconds_text(max(0, time.time_ns() - chosen.snapshot.time_ns) / 1e9)
    answer.add(f"Plan: restore from snapshot {chosen.short} ({age} ago) into {shown(prepared.place.home)}")
    if prepared.doubt is not None and prepared.doubt.sound is not None:
        answer.add(f"{prepared.doubt.text}. The newest sound one is {prepared.doubt.sound.short}.")
    answer.items("Would be replaced", plan.replaced_for_sure)
    answer.items("Would be compared, and replaced where it differs", plan.compared)
    answer.items("Would be made", plan.create)
    answer.items("Would be removed", plan.remove)
    answer.items("Outside the home", prepared.writes_outside)
    answer.items("Databases in use", [f"{path}: {holder}" for path, holder in plan.held])
    answer.items("Not in the snapshot", [f"{path}: {reason}" for path, reason in prepared.losses])
    answer.items("In the way", plan.obstacles)
    answer.add(f"Already the same: {len(plan.same):,} files")
    return answer


def _restored(done: LandingResult) -> ToolAnswer:
    landed = done.landed
    answer = ToolAnswer(
        data={
            "changed": done.facts.changed,
            **done.facts.document("operation", "home", "undo_point"),
            "landed": done.facts.landed(),
            "complete": done.complete,
            "lost": [{"path": path, "reason": reason} for path, reason in done.lost],
        }
    )
    answer.add(
        f"Restored into {shown(done.place.home)}: {landed.created:,} new, {landed.replaced:,} replaced, "
        f"{landed.removed:,} removed, {landed.same:,} already the same."
    )
    answer.items("Could not be restored", [f"{path}: {reason}" for path, reason in done.lost])
    answer.add("What was there before is kept: the tool `undo` takes this back.")
    return answer


def status(caller: Caller, home: str) -> ToolAnswer:
    """Am I protected?"""
    from safekept.actions.status.status import look

    if home:
        home = caller.home(home, existing=False).home
    found = look(
        caller.context, home, stale_hours=caller.settings.number("status.stale_hours"), isolated=True
    )
    document = found.as_dict()
    mine = [one for one in found.projects.projects if caller.roots.holds(one.project)]
    document["checkpoints"] = {**found.projects.as_dict(), "projects": [one.as_dict() for one in mine]}
    document["roots"] = list(caller.roots.usable)
    answer = ToolAnswer(data=document)
    answer.add(found.verdict.text, *(f"  {reason.text}" for reason in found.verdict.reasons))
    answer.add(*(f"Next: {step_text(step)}" for step in found.verdict.next))
    for one in mine[:10]:
        age = f"last checkpoint {seconds_text(max(0, found.time - one.last))} ago" if one.last else "none yet"
        failing = f"; FAILING: {one.failure}" if one.failing else ""
        answer.add(f"Project {shown(one.project)}: {age}{failing}")
    answer.add(f"Roots of this session: {', '.join(map(shown, caller.roots.usable)) or 'none'}")
    return answer
