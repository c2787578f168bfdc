"""A rebuild in words: what would be brought back, and what was."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.ages import seconds_text
from safekept.core.next_step import NextStep, Step

from ..console import Console, count_text, path_argument, path_text, size_text, time_text
from .landing_plan import SHOWN, not_made, show_paths, show_rows, show_wrappers
from .remarks import show_census
from .snapshots import incomplete_text

if TYPE_CHECKING:
    from safekept.actions.restoring.kit_places import KitPlace
    from safekept.actions.restoring.rebuild import PreparedRebuild, Rebuilt


def rebuild_document(prepared: PreparedRebuild) -> dict[str, object]:
    ground = prepared.ground
    return {
        "from": prepared.origin.as_dict(),
        "home": ground.home,
        "layout": prepared.place.layout.name,
        "aside": ground.aside or None,
        "bring_back": ground.bring_back or None,
        "owner": {"uid": ground.owner[0], "gid": ground.owner[1]},
        "needed_bytes": prepared.needed,
        "free_bytes": prepared.free,
        "outside": list(prepared.outside.values()),
        "left_out": prepared.left_out,
        "wrappers": [wrapper.as_dict() for wrapper in prepared.wrappers],
        "missing": [{"path": path, "reason": reason} for path, reason in prepared.losses],
        "needs_consent": prepared.questions,
    }


#: Seconds after which what comes back is called old: a schedule takes a snapshot every night.
_OLD = 86_400.0


def show_rebuild_plan(
    console: Console, prepared: PreparedRebuild, places: Sequence[KitPlace] = (), written: str = ""
) -> None:
    """`places`: those that a kit names, where one was given; `written`: when that was."""
    origin, subject, ground = prepared.origin, prepared.subject, prepared.ground
    console.heading(f"Rebuild {path_text(ground.home)}")
    console.fact("From", path_text(origin.place))
    if places:
        console.fact("Kit", f"of {written or 'an unknown day'}; it names these places")
    for one in places:
        newest = f"newest whole snapshot {seconds_text(max(0.0, time.time() - one.taken))} old"
        console.fact("Looked at", path_text(f"{one.place}: {newest if one.taken else one.reason}"))
    if subject.taken and time.time() - subject.taken > _OLD:
        old = seconds_text(time.time() - subject.taken)
        console.fact("Beware", f"what comes back is {old} old; what was done after it is not in it")
    for one in places:
        if one.error is not None:
            text = f"{one.place} did not answer or did not open: it may hold something newer"
            console.fact("Beware", path_text(text))
    age = f", {seconds_text(max(0.0, time.time() - subject.taken))} old" if subject.taken else ""
    if origin.chosen is not None:
        known = f"{origin.chosen.short} ({origin.chosen.kind}{age})"
        sound = ", the newest sound one" if origin.passed_over is not None else ""
        console.fact("Snapshot", known + incomplete_text(origin.chosen, ", ") + sound)
        if origin.chosen.forgotten_ns is not None:
            console.fact("Beware", "every snapshot of this home was forgotten; this is the newest of them")
    whose = f" on {path_text(origin.host)}" if origin.host else ""
    if origin.home:
        old = age if origin.chosen is None else ""
        console.fact("Made of", f"{path_text(origin.home)}{whose} ({prepared.place.layout.title}{old})")
    show_census(console, subject.manifest.get("census") if subject.manifest else None)
    if origin.chosen is not None and origin.chosen.kind == "quick":
        console.fact("Holds", "the quick set only: what the agent knows and is, not the whole home")
    for path, reason in prepared.losses[:SHOWN]:
        console.fact("Missing", f"{path_text(path)}: {reason}" if path else reason)
    console.fact("Room", f"{size_text(prepared.needed)} needed, {size_text(prepared.free)} free")
    if ground.aside:
        named = ", ".join(map(path_text, ground.there[:SHOWN])) or "what is there now"
        more = f" and {len(ground.there) - SHOWN:,} more" if len(ground.there) > SHOWN else ""
        console.fact("Puts aside", f"{named}{more}, as {path_text(ground.aside)}")
        if ground.stays:
            title = prepared.place.layout.title
            console.fact("Stays", f"{', '.join(map(path_text, ground.stays))}: the program {title} itself")
    for path in prepared.outside.values():
        console.fact("Outside", path_text(path))
    show_wrappers(console, prepared.wrappers)
    show_paths(console, "Left out", prepared.left_out, "bound to the machine that is gone")


def rebuilt_document(prepared: PreparedRebuild, rebuilt: Rebuilt) -> dict[str, object]:
    return {
        "operation": rebuilt.operation,
        **rebuild_document(prepared),
        "complete": rebuilt.complete,
        **rebuilt.facts.document("files", "bytes", "outside_files", "outside_operation", "proven", "seconds"),
        "lost": [{"path": path, "reason": reason} for path, reason in rebuilt.lost],
        "rows": [row.as_dict() for row in rebuilt.receipt.rows],
        "receipt": rebuilt.facts.receipt or None,
        "wrappers": [wrapper.as_dict() for wrapper in rebuilt.wrappers],
        "start": _start(prepared) or None,
        "hints": rebuilt.hints,
    }


def show_rebuilt(
    console: Console, prepared: PreparedRebuild, rebuilt: Rebuilt, connected: Sequence[str], *, last: bool
) -> None:
    """What was rebuilt; `last`: nothing follows, so protecting the machine is left to the reader.

    `connected`: agents in it that call the safekept of this machine now.
    """
    receipt, ground = rebuilt.receipt, rebuilt.ground
    start_it = _start(prepared)
    what = f"Rebuilt and proven: {path_text(ground.home)}"
    if not rebuilt.complete:
        what = f"Rebuilt what could be had: {path_text(ground.home)}"
    console.heading(what, rebuilt.complete)
    show_rows(console, receipt.rows)
    done = rebuilt.facts
    console.fact("Files", f"{count_text(done.files or 0, 'file')}, {size_text(done.bytes or 0)}")
    if done.outside:
        console.fact(
            "Outside",
            NextStep(
                "undo",
                (done.outside_operation or "",),
                before=f"{count_text(done.outside, 'file')} (take back:",
                after=")",
            ),
        )
    console.fact("Time", time_text(done.seconds or 0.0))
    for path, reason in rebuilt.lost[:SHOWN]:
        console.fact("Missing", f"{path_text(path)}: {reason}" if path else reason)
    show_wrappers(console, not_made(rebuilt.wrappers))
    if ground.aside:
        console.fact("Put aside", path_text(ground.aside))
        console.fact("Back again", f"`{ground.bring_back}`")
    _show_newer(console, prepared)
    if connected:
        console.fact("Connected", path_text(", ".join(connected)))
    console.fact("Not in it", "projects and their checkpoints: a second copy holds the homes of agents only")
    if last and prepared.origin.kind == "snapshot" and not prepared.in_usual_place:
        more = "the vault with its history, the destinations and the schedule"
        console.fact("Not here", f"{more}: with `--home` only the home comes")
    steps: list[Step] = [*rebuilt.hints, *([f"Start it: `{start_it}`"] if start_it else ())]
    home = () if prepared.in_usual_place else ("--home", ground.home)
    console.next([*steps, *([NextStep("setup", home, before="Protect this machine:")] if last else ())])


def _show_newer(console: Console, prepared: PreparedRebuild) -> None:
    """A quick snapshot is laid over what was rebuilt; it is not a home by itself."""
    newer = prepared.origin.newer
    if newer is None:
        return
    words = ["snapshot", "restore", newer.short, "--vault", prepared.origin.place]
    again = console.command(*words, "--home", prepared.ground.home)
    key = prepared.own.places.vault_key_file
    if key and os.path.isfile(key):
        again = f"SAFEKEPT_VAULT_KEY_FILE={path_argument(key)} {again}"
    console.fact("Newer", f"state files are in the quick snapshot {newer.short}: `{again}`")


def _start(prepared: PreparedRebuild) -> str:
    from safekept.actions.restoring.starting import start_command

    return start_command(prepared.place, prepared.context)
