"""`/rollback`, `/snapshot`, `/checkpoint` and `/safekept` in a chat: one grammar on every surface.

    /rollback                     list the checkpoints of the project
    /rollback N|ID [FILE ...]     go back to one, wholly or some files
    /rollback N|ID --git          the same, and the git repository of the project, too
    /rollback turn [ID]           take back what one turn changed, in every project and the home
    /rollback diff [N|ID] [FILE]  what changed since
    /rollback undo [ID]           take the last rollback back, or the one with that id
    /snapshot                     list the snapshots of the home (also: list)
    /snapshot create [LABEL]      take one
    /snapshot restore ID|N PATH   bring one path of it back
    /snapshot restore ID yes      bring all of it back; without `yes`, see what that would do
    /snapshot prune [N]           keep the N newest quick ones (20)
    /checkpoint [WORDS]           keep the project as it is now
    /safekept [status|on|off]     whether checkpoints are taken in this session

Some front ends reserve some of these names, so `/rewind` is `/rollback`, `/snap` is `/snapshot` and
`/restore` is `/snapshot restore`.
Words are split as a shell would, quotes included; a quote that is never closed is an ordinary character.
The dispatcher never raises and never prints: it returns text for a person and the same as data. Which
directory is meant is the caller's to say.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import field

from safekept.actions.base.context import UserContext
from safekept.actions.projects.checkpoint import CheckpointPolicy
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

COMMANDS = ("rollback", "rewind", "snapshot", "snap", "restore", "checkpoint", "safekept")


@dataclass(frozen=True, slots=True)
class Reply:
    """What to show, and the same for a program."""

    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """Who asks, from where."""

    context: UserContext
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
            f"Unknown command: {command or '(nothing)'}. "
            "There are /rollback, /snapshot, /checkpoint and /safekept.",
            ok=False,
        )
    try:
        if command in ("rollback", "rewind"):
            return _rollback(conversation, words[1:])
        if command in ("checkpoint", "safekept"):
            return _switch(conversation, command, words[1:])
        if command == "restore":
            bare = words[1:] in ([], ["help"])
            return _usage() if bare else _snapshot(conversation, ["restore", *words[1:]])
        return _snapshot(conversation, words[1:])
    except SafekeptError as error:
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


def error_text(error: SafekeptError) -> str:
    """What happened, what was kept, what to do next, in a few lines."""
    steps = [f"→ {step}" for step in error.advice()]
    return "\n".join([f"❌ {error.what}", error.kept, *steps])


# ── /rollback ──────────────────────────────────────────────────────────────────────────────────────


def _rollback(conversation: Conversation, words: list[str]) -> Reply:
    from .rollback import diff, go_back, list_, take_turn_back, undo

    flags = {word for word in words if word.startswith("--")}
    words = [word for word in words if word not in flags]
    unknown = flags - {"--all", "--overwrite-mine", "--dry-run", "--git"}
    if unknown:
        return _usage(f"I do not know {', '.join(sorted(unknown))}.")
    verb = words[0].lower() if words else "list"
    if verb == "list":
        return Reply(*list_(conversation, "--all" in flags))
    if verb == "help":
        return _usage()
    if any(not word.strip() for word in words):
        return _usage("An empty name means no file.")
    if verb == "diff":
        return Reply(*diff(conversation, words[1:]))
    if verb == "turn" and (len(words) > 2 or flags & {"--git", "--all"}):
        return _usage("`turn` takes one turn back as a whole; it goes with its id and nothing less.")
    if verb == "turn":
        return Reply(*take_turn_back(conversation, words[1] if len(words) > 1 else "", flags))
    if verb == "undo" and len(words) > 2:
        return _usage("`undo` takes one rollback back as a whole; it goes with its id and nothing else.")
    if verb == "undo":
        return Reply(*undo(conversation, words[1] if len(words) > 1 else "", flags))
    return Reply(*go_back(conversation, words[0], tuple(words[1:]), flags))


def _usage(problem: str = "") -> Reply:
    lines = [line.strip() for line in str(__doc__).split("\n") if line.startswith("    /")]
    return Reply("\n".join([*([problem] if problem else []), *lines]), ok=not problem)


# ── /checkpoint, /safekept ─────────────────────────────────────────────────────────────────────────


def _switch(conversation: Conversation, command: str, words: list[str]) -> Reply:
    from . import switch as chat_switch

    if command == "checkpoint":
        return _usage() if words == ["help"] else Reply(*chat_switch.take(conversation, words))
    verb = words[0].lower() if words else "status"
    verbs = {"status": chat_switch.status, "on": chat_switch.turn_on, "off": chat_switch.turn_off}
    if verb == "help":
        return _usage()
    if verb not in verbs or len(words) > 1:
        return _usage(f"I do not know `{' '.join(words)}`.")
    return Reply(*verbs[verb](conversation))


# ── /snapshot ──────────────────────────────────────────────────────────────────────────────────────


def _snapshot(conversation: Conversation, words: list[str]) -> Reply:
    from . import snapshots as chat_snapshots

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
