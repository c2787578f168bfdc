"""`/rollback`, `/snapshot` and `/snap` for chat front ends: one grammar, the same on every surface.

    /rollback                     list the checkpoints of the project
    /rollback N|ID [FILE ...]     go back to one, wholly or some files
    /rollback diff [N|ID] [FILE]  what changed since
    /rollback undo                take the last rollback back
    /snapshot                     list the snapshots of the home (also: list)
    /snapshot create [LABEL]      take one
    /snapshot restore ID|N [PATH] bring it, or one path of it, back
    /snapshot prune [N]           keep the N newest quick ones (20)

Words are split as a shell would, quotes included; a quote that is never closed is an ordinary character.
The dispatcher never raises and never prints: it returns text for a person and the same as data. Which
directory is meant is the caller's to say.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.actions.checkpoint import CheckpointPolicy
from holdfast.actions.surroundings import Surroundings
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Listener, silent

Result = TypeVar("Result")
COMMANDS = ("rollback", "snapshot", "snap")
_DIFF_LINES = 80
_ROWS = 20


@dataclass(frozen=True, slots=True)
class Reply:
    """What to show, and the same for a program."""

    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """Who asks, from where."""

    surroundings: Surroundings
    directory: str
    policy: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    session: str = ""
    home: str = ""
    layout: str = ""
    listener: Listener = silent


def dispatch(conversation: Conversation, line: str) -> Reply:
    """Answer one line such as `/rollback 2 "my file.txt"`; with or without the slash."""
    words = split(line)
    command = words[0].removeprefix("/").lower() if words else ""
    if command not in COMMANDS:
        return Reply(
            f"Unknown command: {command or '(nothing)'}. There are /rollback and /snapshot.", ok=False
        )
    try:
        if command == "rollback":
            return _rollback(conversation, words[1:])
        return _snapshot(conversation, words[1:])
    except HoldfastError as error:
        return Reply(error_text(error), {"error": error.as_dict()}, ok=False)
    except OSError as error:
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        return Reply(f"❌ {what}", {"error": {"code": "unexpected", "what": what}}, ok=False)


def split(line: str) -> list[str]:
    """The words of a line, quotes understood; where they do not match, the words as they stand."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def error_text(error: HoldfastError) -> str:
    """What happened, what was kept, what to do next, in a few lines."""
    steps = [f"→ {step}" for step in error.next_steps]
    return "\n".join([f"❌ {error.what}", error.kept, *steps])


def is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


# ── /rollback ──────────────────────────────────────────────────────────────────────────────────────


def _rollback(conversation: Conversation, words: list[str]) -> Reply:
    flags = {word for word in words if word.startswith("--")}
    words = [word for word in words if word not in flags]
    unknown = flags - {"--all", "--overwrite-mine", "--dry-run"}
    if unknown:
        return _usage(f"I do not know {', '.join(sorted(unknown))}.")
    verb = words[0].lower() if words else "list"
    if verb == "list":
        return _list(conversation, "--all" in flags)
    if verb == "help":
        return _usage()
    if any(not word.strip() for word in words):
        return _usage("An empty name means no file.")
    if verb == "diff":
        return _diff(conversation, words[1:])
    if verb == "undo" and len(words) > 1:
        return _usage("`undo` takes the last rollback back as a whole; it goes with nothing else.")
    if verb == "undo":
        return _go_back(conversation, "", (), flags, undo=True)
    return _go_back(conversation, words[0], tuple(words[1:]), flags)


def _usage(problem: str = "") -> Reply:
    lines = [line.strip() for line in str(__doc__).split("\n") if line.startswith("    /")]
    return Reply("\n".join([*([problem] if problem else []), *lines]), ok=not problem)


def _list(conversation: Conversation, every: bool) -> Reply:
    from holdfast.actions.rollback import list_timeline

    found = list_timeline(
        conversation.surroundings,
        conversation.directory,
        settings=conversation.policy.take,
        every=every,
        listener=conversation.listener,
    )
    data: dict[str, object] = {
        "directory": found.directory,
        "project": found.project,
        "checkpoints": [row.as_dict() for row in found.rows],
        "below": list(found.near.below),
        "above": list(found.near.above),
    }
    if found.project is None:
        near = [f"  {project}" for project in found.near.all[:_ROWS]]
        text = f"No checkpoints found for {found.directory}"
        return Reply("\n".join([text, *(["There are some in:", *near] if near else [])]), data)
    if not found.rows:
        return Reply(f"Nothing changed in {found.project} that could be undone.", data)
    lines = [f"📸 Checkpoints for {found.project}:", ""]
    for row in found.rows[:_ROWS]:
        point = row.checkpoint
        number = f"{row.number}." if row.number else "!" if row.damaged else "·"
        changed = "  (damaged: cannot be gone back to)" if row.damaged else ""
        if row.changes is not None:
            more = row.changes
            changed = f"  ({more.files} file{'s' * (more.files != 1)}, +{more.added}/-{more.removed})"
        lines.append(f"  {number:<3} {point.id}  {_when(point.time_ns)}  {point.reason}{changed}")
    if len(found.rows) > _ROWS:
        lines.append(f"  … and {len(found.rows) - _ROWS} older ones")
    lines += [
        "",
        "  /rollback <N>             undo everything since checkpoint N",
        "  /rollback diff <N>        see what that would undo",
        "  /rollback <N> <file>      bring one file back",
        "  /rollback undo            take the last rollback back",
    ]
    return Reply("\n".join(lines), data)


def _diff(conversation: Conversation, words: list[str]) -> Reply:
    from holdfast.actions.rollback import show_difference
    from holdfast.checkpoints.checkpoint import SHORTEST_PREFIX, is_checkpoint_id

    if words and not is_number(words[0]) and not is_checkpoint_id(words[0].lower(), SHORTEST_PREFIX):
        words = ["1", *words]
    found = _with_files(
        tuple(words[1:]),
        lambda files: show_difference(
            conversation.surroundings,
            conversation.directory,
            words[0] if words else "1",
            files,
            settings=conversation.policy.take,
            listener=conversation.listener,
        ),
    )
    if not found.pairs:
        return Reply("No changes since this checkpoint.", found.as_dict())
    count = len(found.pairs)
    lines = [f"{count} file{'s' * (count != 1)} changed since checkpoint {found.checkpoint.id}:", ""]
    lines += found.lines[:_DIFF_LINES]
    if len(found.lines) > _DIFF_LINES:
        lines.append(f"... ({len(found.lines) - _DIFF_LINES} more lines, showing first {_DIFF_LINES})")
    return Reply("\n".join(lines), found.as_dict())


def _go_back(
    conversation: Conversation, target: str, files: tuple[str, ...], flags: set[str], undo: bool = False
) -> Reply:
    from holdfast.actions.rollback import RollbackRequest, rollback

    outcome = _with_files(
        files,
        lambda wanted: rollback(
            conversation.surroundings,
            RollbackRequest(
                directory=conversation.directory,
                target=target,
                files=wanted,
                overwrite_mine="--overwrite-mine" in flags,
                undo=undo,
                dry_run="--dry-run" in flags,
                session=conversation.session,
                settings=conversation.policy.take,
            ),
            conversation.listener,
        ),
    )
    plan, done = outcome.plan, outcome.rolled_back
    if done is None:
        steps = [f"  {step.action}: {step.path}" for step in plan.steps[:_ROWS]]
        more = [f"  … and {len(plan.steps) - _ROWS} more"] if len(plan.steps) > _ROWS else []
        return Reply("\n".join(["Would do, and has not:", *steps, *more]), outcome.as_dict())
    point = plan.target
    what = ", ".join(plan.files) + " from" if plan.files else "to"
    lines = [f"✅ Restored {what} checkpoint {point.id}: {point.reason}"]
    if undo:
        lines = ["✅ The last rollback was taken back."]
    if not done.done:
        stays = len(done.left)
        lines = ["Nothing differs: no file had to be changed."]
        if stays:
            lines = [f"The rollback changed nothing: {stays} path{'s' * (stays != 1)} differ and stay."]
    counts = [f"{len(done.restored)} restored", f"{len(done.removed)} removed"]
    if done.done:
        lines.append(f"{', '.join(counts)}. What was there is kept: /rollback undo brings it back.")
    if done.kept:
        names = ", ".join(left.path for left in done.kept[:5]) + (" …" if len(done.kept) > 5 else "")
        why = "they were changed after the rollback" if undo else "you changed them after the agent"
        lines.append(f"Kept because {why}: {names} (--overwrite-mine takes them)")
    others = [left for left in done.left if left not in done.kept]
    lines += [f"Left as it is: {left}" for left in others[:5]]
    lines += [f"… and {len(others) - 5} more"] if len(others) > 5 else []
    if plan.gone:
        names = ", ".join(one.path for one in plan.gone[:5]) + (" …" if len(plan.gone) > 5 else "")
        lines.append(f"Not covered then, and gone now: {names}")
    return Reply("\n".join(lines), outcome.as_dict(), ok=done.complete)


def _with_files(files: tuple[str, ...], work: Callable[[tuple[str, ...]], Result]) -> Result:
    """Do it with the files as given; a name with spaces that was not quoted is tried as one."""
    from holdfast.checkpoints.addressing import FileNotInCheckpoint

    try:
        return work(files)
    except FileNotInCheckpoint:
        if len(files) < 2:
            raise
        try:
            return work((" ".join(files),))
        except FileNotInCheckpoint:
            pass
        raise


def _when(time_ns: int) -> str:
    import time

    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_ns / 1e9))


# ── /snapshot ──────────────────────────────────────────────────────────────────────────────────────


def _snapshot(conversation: Conversation, words: list[str]) -> Reply:
    from holdfast.actions import chat_snapshots

    verb, rest = (words[0].lower(), words[1:]) if words else ("list", [])
    verbs = {
        "list": chat_snapshots.list_,
        "ls": chat_snapshots.list_,
        "create": chat_snapshots.create,
        "save": chat_snapshots.create,
        "restore": chat_snapshots.restore,
        "prune": chat_snapshots.prune,
    }
    if verb == "help":
        return _usage()
    if verb not in verbs:
        return _usage(f"I do not know `{verb}`.")
    text, data, ok = verbs[verb](conversation, rest)
    return Reply(text, data, ok)
