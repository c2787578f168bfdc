"""Operations that cannot be taken back: which one is meant, why not, and what can be done instead."""

from __future__ import annotations

from dataclasses import replace

from safekept.core.errors import SafekeptError
from safekept.core.journal import Record
from safekept.core.next_step import NextStep, Step
from safekept.home.landing import UndoNotPossible

from ..base.context import UserContext
from ..base.operations.homes import MarkFacts, SessionFacts, SnapshotFacts
from ..base.operations.stores import DestinationAddFacts
from .changes import Change, journal_mentioning
from .log import require_journal

_KEPT = "Nothing was changed"


class NoSuchOperation(SafekeptError):
    code = "no-such-operation"


def find_entry(context: UserContext, word: str) -> Record:
    """The last line of the operation that is meant: by its id, the start of one, or its last six letters."""
    lines = [
        one
        for one in journal_mentioning(context, word)
        if one.operation.startswith(word) or one.operation.endswith("-" + word)
    ]
    found = [one for one in lines if one.operation == word] or lines
    names = list(dict.fromkeys(one.operation for one in found))
    if not names:
        require_journal(context)
        raise NoSuchOperation(
            f"The journal knows no operation `{word}`",
            kept=_KEPT,
            next_steps=(NextStep("log", before="See what was done:"),),
            operation=word,
        )
    if len(names) > 1:
        raise several(word, names)
    return found[-1]


def several(word: str, names: list[str]) -> UndoNotPossible:
    """The word means more than one."""
    return UndoNotPossible(
        f"{len(names):,} operations are called or start with `{word}`",
        kept=_KEPT,
        next_steps=tuple(NextStep("undo", (name,), before="Take one back:") for name in names[:5]),
        operations=names,
    )


def already_back(entry: Record, by: str) -> UndoNotPossible:
    """What it dropped was brought back before."""
    return UndoNotPossible(
        f"{entry.operation} ({entry.verb}) cannot be taken back: "
        f"what it dropped was brought back already, by {by}",
        kept=_KEPT,
        next_steps=(_SEE,),
        operation=entry.operation,
    )


_SEE = NextStep("log", before="See what was done:")
#: Why an operation of this verb cannot be taken back, and what can be done instead.
_REASONS: dict[str, tuple[str, Step]] = {
    "backup": (
        "a backup only wrote a file; your home was not changed",
        "Delete the archive yourself if it shall go",
    ),
    "snapshot": (
        "a snapshot changed nothing in your home",
        NextStep("snapshot forget", ("ID",), before="Let it go if it shall:"),
    ),
    "checkpoint": (
        "a checkpoint changed nothing in your project",
        NextStep("checkpoint status", before="See what there is:"),
    ),
    "checkpoints-prune": ("it dropped nothing", _SEE),
    "checkpoints-clear": ("it dropped nothing", _SEE),
    "checkpoints-clear-legacy": ("it removed nothing", _SEE),
    "prune": (
        "it forgot nothing, and what a prune deletes is gone for good",
        NextStep("snapshot list", ("--all",), before="See what is left:"),
    ),
    "vault-prune": (
        "what a prune deletes was forgotten days before, and is gone for good",
        NextStep("snapshot list", ("--all",), before="See what is left:"),
    ),
    "doctor": (
        "it only removed locks of dead processes, or made right what was cut off",
        _SEE,
    ),
    "pin": (
        "it only keeps snapshots",
        NextStep("snapshot pin", ("--off", "ID"), before="Take the pin away:"),
    ),
    "unpin": ("it only let pins go", NextStep("snapshot pin", ("ID",), before="Pin it again:")),
    "unforget": (
        "it only brought snapshots back",
        NextStep("snapshot forget", ("ID",), before="Forget them again:"),
    ),
    "rebuild": (
        "it put a whole home in its place; the one before it lies beside it under another name",
        NextStep("log", ("--verb", "rebuild", "--json"), before="See where:"),
    ),
    "setup": (
        "it set up this machine, and changed no home",
        NextStep("uninstall", before="Take all of it away again:"),
    ),
    "destination-add": (
        "it only changed the settings",
        NextStep("destinations remove", ("NAME",), before="Take it out again:"),
    ),
    "destination-remove": (
        "it only changed the settings; the copies there are untouched",
        NextStep("destinations add", ("PLACE", "--name", "NAME"), before="Set it up again:"),
    ),
    "destination-test": (
        "it only tried what may be done there",
        NextStep("destinations test", before="Try it again:"),
    ),
    "bring-back": ("it only brought back what was dropped", "Drop it again as it was dropped before"),
    "guard": (
        "the command that was guarded did the changing",
        NextStep("snapshot list", before="Go back to the snapshot before it:"),
    ),
    "run": (
        "the agent that ran did the changing",
        NextStep("rollback", before="Go back to a checkpoint before or within it, in its project:"),
    ),
}
_OUTCOMES = {
    "begun": "has not come to an end",
    "failed": "failed, and what it had begun was taken back",
    "interrupted": "was interrupted, and what it had begun was taken back",
    "recovered": "was interrupted, and has been made right already",
}


def undo_refusal(entry: Record) -> UndoNotPossible:
    """The refusal, with the reason."""
    if entry.state in _OUTCOMES:
        why = f"it {_OUTCOMES[entry.state]}"
        step: Step = NextStep("log", before="See how it went:")
    else:
        why, step = _REASONS.get(entry.verb, ("it changed no home and no project", _SEE))
        told = DestinationAddFacts.read(entry)
        if isinstance(step, NextStep) and told.destination and told.place:
            step = step.filled(NAME=told.destination, PLACE=told.place)
        step = _of_these(step, entry)
    return UndoNotPossible(
        f"{entry.operation} ({entry.verb}) cannot be taken back: {why}",
        kept=_KEPT,
        next_steps=(step,),
        operation=entry.operation,
        verb=entry.verb,
    )


def _of_these(step: Step, entry: Record) -> Step:
    """The same with the snapshots that the operation was about, so that it runs as printed."""
    one, several = SnapshotFacts.read(entry).snapshot, MarkFacts.read(entry).snapshots
    names = [name[:8] for name in several or ([one] if one else [])]
    if isinstance(step, str) or "ID" not in step.arguments or not names:
        return step
    words = [word for word in step.arguments if word != "ID"]
    return replace(step, arguments=(*words, *names))


def taken_back(change: Change, by: str) -> UndoNotPossible:
    """An undo has the last word on it."""
    return UndoNotPossible(
        f"{change.operation} cannot be taken back: it was taken back already, by {by}",
        kept=_KEPT,
        next_steps=(NextStep("undo", (by,), before="To have it again:"),),
        operation=change.operation,
    )


def instead(context: UserContext, change: Change, known: list[Change]) -> tuple[NextStep, ...]:
    """What can be done where a change itself cannot be taken back."""
    steps = []
    done = SessionFacts.read(*change.lines)
    if point := done.undo_point or "":
        database = done.database or ""
        words = [point[:8], *([database] if database else [])]
        words += ["--home", change.home] if change.home != _default(context) else []
        before = "To have the whole database as it was before, later messages lost:"
        if not database:
            before = "A snapshot was taken before it:"
        steps.append(NextStep("snapshot restore", tuple(words), before))
    older = [one for one in known[: known.index(change)] if one.open and not one.lost]
    if older:
        steps.append(
            NextStep("undo", (older[-1].operation,), before="To take back what was done before that:")
        )
    return tuple(steps)


def _default(context: UserContext) -> str:
    try:
        return context.locate(existing=False).home
    except SafekeptError:
        return ""
