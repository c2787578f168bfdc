"""The vault's side of the chat commands: `/snapshot list`, `create`, `restore`, `prune`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from safekept.actions.restoring.restore import PreparedRestore, RestoreRequest, prepare_restore
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.snapshots.forgetting import plan_reclaiming, reclaim
from safekept.actions.snapshots.listing import list_home
from safekept.actions.vault.opening import open_vault
from safekept.core.next_step import NextStep
from safekept.home.scan import Selection

if TYPE_CHECKING:
    from .chat import Conversation

Answer = tuple[str, dict[str, object], bool]
_ROWS = 20
_KEPT = 20
_NAMED = 5


def list_(conversation: Conversation, words: list[str]) -> Answer:
    """The snapshots of the home, newest first."""
    place = conversation.context.locate(conversation.home, conversation.layout, existing=False)
    with open_vault(conversation.context, listener=conversation.listener) as repository:
        listing = list_home(repository, place.home)
    data: dict[str, object] = {
        "home": place.home,
        "snapshots": [one.as_dict() for one in listing.shown],
    }
    if not listing.shown:
        return f"No snapshots of {place.home} yet. /snapshot create takes one.", data, True
    lines = [f"📸 Snapshots of {place.home}:", ""]
    for one in listing.shown[:_ROWS]:
        label = f"  {one.label}" if one.label else ""
        state = "" if one.complete else "  (incomplete)"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.snapshot.time_ns / 1e9))
        number = f"{one.number:>2}." if one.number else "   "
        lines.append(f"  {number} {one.short}  {when}  {one.kind}{label}{state}")
    if len(listing.shown) > _ROWS:
        lines.append(f"  … and {len(listing.shown) - _ROWS} older ones")
    return "\n".join([*lines, "", "  /snapshot restore <N>     bring one back"]), data, not listing.damaged


def create(conversation: Conversation, words: list[str]) -> Answer:
    """Take a quick snapshot; everything after the word is its label."""
    place = conversation.context.locate(conversation.home, conversation.layout)
    request = SnapshotRequest(place, "quick", " ".join(words), Selection(quick=True), isolated=True)
    result = create_snapshot(conversation.context, request, conversation.listener)
    data: dict[str, object] = {
        **result.facts.document("id", "label", "files", "bytes"),
        "complete": result.complete,
        "remarks": [remark.as_dict() for remark in result.remarks],
    }
    mark = "✅" if result.complete else "⚠️ Incomplete:"
    text = f"{mark} Snapshot {result.id[:8]} of {result.files} files in {result.seconds:.1f} s"
    return text, data, result.complete


def restore(conversation: Conversation, words: list[str]) -> Answer:
    """Bring a snapshot back, or some paths of it. What was there is kept.

    All of a home is not a thing to do by a slip: the plan is shown first, and the same with `yes` does it.
    """
    if not words:
        return "Which one? /snapshot restore <N or id> [path]", {}, False
    agreed = words[1:] == ["yes"]
    words = words[:1] if agreed else words
    request = RestoreRequest(
        word=words[0],
        paths=tuple(words[1:]),
        home=conversation.home,
        layout=conversation.layout,
        directory=conversation.directory,
        isolated=True,  # another thread of this process may be at the same databases
    )
    with prepare_restore(conversation.context, request, conversation.listener) as prepared:
        if not request.paths and not agreed:
            return _shown(prepared)
        prepared.refuse_doubt()
        done = prepared.carry_out(conversation.listener)
        chosen, newer = prepared.chosen, prepared.newer
    landed, undo = done.landed, NextStep("undo", (done.operation,))
    data: dict[str, object] = {
        **done.facts.document("operation", "snapshot"),
        "landed": done.facts.landed(),
        "lost": [{"path": path, "reason": reason} for path, reason in done.lost],
    }
    lines = [
        f"✅ Restored snapshot {chosen.short}: {landed.created} files made, {landed.replaced} replaced.",
        f"What was there is kept: {undo} brings it back. Restart the agent to use what came back.",
    ]
    lines += done.notes
    if newer is not None:
        lines.append(
            f"Newer state files are in the quick snapshot {newer.short}: /snapshot restore {newer.short}"
        )
    if done.lost:
        names = ", ".join(path for path, _ in done.lost[:5])
        lines.append(f"⚠️ {len(done.lost)} could not be restored: {names}")
    return "\n".join(lines), data, done.complete


def _shown(prepared: PreparedRestore) -> Answer:
    """What a restore of the whole home would do, and the words that do it."""
    plan, chosen = prepared.plan, prepared.chosen
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(chosen.snapshot.time_ns / 1e9))
    lines = [f"Snapshot {chosen.short} of {when} into {prepared.place.home}. Nothing was changed yet."]
    for what, paths in (
        ("made", plan.create),
        ("replaced", plan.replaced_for_sure),
        ("replaced if different", plan.compared),
        ("removed", plan.remove),
    ):
        if paths:
            more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
            lines.append(f"  {len(paths)} {what}: {', '.join(sorted(paths)[:_NAMED])}{more}")
    outside = prepared.writes_outside
    lines += [f"  {len(outside)} written outside the home: {', '.join(outside)}"] if outside else []
    if len(lines) == 1:
        return f"The home is as snapshot {chosen.short} has it: nothing would change.", {}, True
    if prepared.doubt is not None and prepared.doubt.sound is not None:
        sound = prepared.doubt.sound.short
        lines.insert(0, f"⚠️ {prepared.doubt.text}. The newest sound one: /restore {sound}")
    lines.append(f"To do it, say: /restore {chosen.short} yes")
    return "\n".join(lines), {"snapshot": chosen.id, "plan": plan.as_dict()}, True


def prune(conversation: Conversation, words: list[str]) -> Answer:
    """Forget quick snapshots beyond the newest N, then reclaim what is past its grace."""
    keep = _KEPT
    if words:
        if not (words[0].isascii() and words[0].isdigit() and int(words[0]) > 0):
            return "How many should stay? /snapshot prune [N], with N at least 1", {}, False
        keep = int(words[0])
    place = conversation.context.locate(conversation.home, conversation.layout, existing=False)
    with open_vault(conversation.context, listener=conversation.listener) as repository:
        forgetting, _ = plan_reclaiming(repository, place, keep, listener=conversation.listener)
        chosen = [one.snapshot for one, _ in forgetting.go]
        done, pruned = reclaim(
            conversation.context, repository, place, chosen, listener=conversation.listener
        )
    ids = done.forgotten or ()
    data: dict[str, object] = {"kept": keep, **done.document("forgotten"), "pruned": pruned.as_dict()}
    text = f"✅ {len(ids)} quick snapshots forgotten, {pruned.bytes_freed:,} bytes freed."
    return text + (" They can be called back for some days." if ids else ""), data, not pruned.damaged
