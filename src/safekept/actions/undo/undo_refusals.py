"""Operations that cannot be taken back: which one is meant, why not, and what can be done instead."""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.journal import Record
from safekept.core.spelling import shell_line
from safekept.home.landing import UndoNotPossible

from ..base.context import UserContext
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
            f"the journal knows no operation `{word}`",
            kept=_KEPT,
            next_steps=("See what was done: `safekept log`",),
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
        next_steps=tuple(f"Take one back: `safekept undo {name}`" for name in names[:5]),
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


_SEE = "See what was done: `safekept log`"
#: Why an operation of this verb cannot be taken back, and what can be done instead.
_REASONS: dict[str, tuple[str, str]] = {
    "backup": (
        "a backup only wrote a file; your home was not changed",
        "Delete the archive yourself if it shall go",
    ),
    "snapshot": (
        "a snapshot changed nothing in your home",
        "Let it go if it shall: `safekept snapshot forget ID`",
    ),
    "checkpoint": (
        "a checkpoint changed nothing in your project",
        "See what there is: `safekept checkpoints status`",
    ),
    "checkpoints-prune": ("it dropped nothing", _SEE),
    "checkpoints-clear": ("it dropped nothing", _SEE),
    "checkpoints-clear-legacy": ("it removed nothing", _SEE),
    "prune": (
        "it forgot nothing, and what a prune deletes is gone for good",
        "See what is left: `safekept snapshot list --all`",
    ),
    "vault-prune": (
        "what a prune deletes was forgotten days before, and is gone for good",
        "See what is left: `safekept snapshot list --all`",
    ),
    "doctor": (
        "it only removed locks of dead processes, or made right what was cut off",
        _SEE,
    ),
    "pin": ("it only keeps snapshots", "Take the pin away: `safekept snapshot pin --off ID`"),
    "unpin": ("it only let pins go", "Pin it again: `safekept snapshot pin ID`"),
    "unforget": ("it only brought snapshots back", "Forget them again: `safekept snapshot forget ID`"),
    "rebuild": (
        "it put a whole home in its place; the one before it lies beside it under another name",
        "See where: `safekept log --verb rebuild --json`",
    ),
    "bring-back": ("it only brought back what was dropped", "Drop it again as it was dropped before"),
    "guard": (
        "the command that was guarded did the changing",
        "Go back to the snapshot before it: `safekept snapshot list`",
    ),
    "run": (
        "the agent that ran did the changing",
        "Go back to a checkpoint before or within it, in its project: `safekept rollback`",
    ),
}
_OUTCOMES = {
    "begun": "has not come to an end",
    "failed": "failed, and what it had begun was taken back",
    "interrupted": "was interrupted, and what it had begun was taken back",
    "recovered": "was interrupted, and has been made right already",
}


def not_undoable(entry: Record) -> UndoNotPossible:
    """The refusal, with the reason."""
    if entry.state in _OUTCOMES:
        why, step = f"it {_OUTCOMES[entry.state]}", "See how it went: `safekept log`"
    else:
        why, step = _REASONS.get(entry.verb, ("it changed no home and no project", _SEE))
    return UndoNotPossible(
        f"{entry.operation} ({entry.verb}) cannot be taken back: {why}",
        kept=_KEPT,
        next_steps=(step,),
        operation=entry.operation,
        verb=entry.verb,
    )


def taken_back(change: Change, by: str) -> UndoNotPossible:
    """An undo has the last word on it."""
    return UndoNotPossible(
        f"{change.operation} cannot be taken back: it was taken back already, by {by}",
        kept=_KEPT,
        next_steps=(f"To have it again: `safekept undo {by}`",),
        operation=change.operation,
    )


def instead(context: UserContext, change: Change, known: list[Change]) -> tuple[str, ...]:
    """What can be done where a change itself cannot be taken back."""
    steps = []
    if point := str(change.facts.get("undo_point") or ""):
        database = str(change.facts.get("database") or "")
        words = ["safekept", "snapshot", "restore", point[:8], *([database] if database else [])]
        words += ["--home", change.home] if change.home != _default(context) else []
        before = "To have the whole database as it was before, later messages lost"
        steps.append(f"{before if database else 'A snapshot was taken before it'}: `{shell_line(words)}`")
    older = [one for one in known[: known.index(change)] if one.open and not one.lost]
    if older:
        steps.append(f"To take back what was done before that: `safekept undo {older[-1].operation}`")
    return tuple(steps)


def _default(context: UserContext) -> str:
    try:
        return context.locate(existing=False).home
    except SafekeptError:
        return ""
