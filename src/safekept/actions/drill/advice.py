"""What to do about a drill that failed: commands that run as printed, and that end its alarm."""

from __future__ import annotations

import os

from safekept.core.entries import Kind
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step, read_step, reworded

from ..base.context import UserContext
from ..offsite.destination import VAULT
from .checks.census import CENSUS
from .checks.databases import DATABASES, FULL_TEXT, KEYS, TABLES
from .checks.essentials import MEMORIES, PERSONA, SETTINGS
from .checks.files import FILES, METADATA, SECRETS
from .checks.restored import Findings
from .drill_report import RESTORE, STORE
from .receipts import ARCHIVE, DESTINATION, SNAPSHOT, Receipt
from .subject import Subject

#: Rows about the store, in which the bytes are not what was stored.
_OF_THE_STORE = frozenset({STORE, RESTORE, FILES, METADATA})
#: Rows about what was stored, which may have been bad from the start.
_OF_THE_CONTENT = (DATABASES, KEYS, FULL_TEXT, TABLES, PERSONA, MEMORIES, SETTINGS)
#: Commands that mean the usual home where none is named.
_OF_A_HOME = ("snapshot", "snapshot list", "drill", "history", "doctor")


def advice(
    context: UserContext, receipt: Receipt, findings: Findings, subject: Subject | None
) -> tuple[Step, ...]:
    """Next steps, the most useful first; where nothing failed, only what it lacks since an earlier loss."""
    if not receipt.failed:
        lost = subject.lost if subject is not None else ()
        before = "It lacks what was lost before it was taken"
        return tuple(
            read_step(f"{before}, {alarm.text}. Bring that back: `{command}`")
            for alarm in lost
            for command in alarm.restore
        )
    if receipt.subject != SNAPSHOT:
        return _elsewhere(receipt, findings)
    steps = _for_a_snapshot(context, receipt, findings, subject)
    named = _named(context, receipt.home)
    if not named:
        return steps

    def of_this_home(step: NextStep) -> NextStep:
        words = (*step.arguments, *named) if step.verb in _OF_A_HOME else step.arguments
        return NextStep(step.verb, words, step.before, step.after)

    return reworded(steps, of_this_home)


def _for_a_snapshot(
    context: UserContext, receipt: Receipt, findings: Findings, subject: Subject | None
) -> tuple[Step, ...]:
    failed = {row.check for row in receipt.failed}
    steps: list[Step] = []
    if failed & _OF_THE_STORE:
        steps += _FOR_THE_VAULT
    for check in _OF_THE_CONTENT:
        found = findings.problems.get(check)
        if check in failed and found:
            path = found[0][0].partition(": ")[0]
            steps.append(NextStep("history", (path,), before="Look for an older version of it:"))
            break
    if CENSUS in failed:
        steps.append(NextStep("snapshot list", before="See what was counted in every one of them:"))
    if SECRETS in failed:
        steps += [_close(findings), _anew(context, "Then store it so:")]
    elif not failed & _OF_THE_STORE:
        before = "Make a new one:"
        if subject is not None and is_still_so(subject):
            same = f"{receipt.home} had not changed by the drill, so it had the same problem."
            before = f"{same} Mend it there, then make a new one:"
        steps.append(_anew(context, before))
    if subject is not None and subject.older:
        steps.append(NextStep("drill", (subject.older,), before="Prove the one before it:"))
    return tuple(steps)


def _elsewhere(receipt: Receipt, findings: Findings) -> tuple[Step, ...]:
    """An archive, or what lies at a destination: a new one of the same kind, to the same place."""
    failed = {row.check for row in receipt.failed}
    archive = receipt.subject == ARCHIVE or "." in receipt.name
    steps = list(_FOR_THE_STORE[receipt.subject]) if failed & _OF_THE_STORE else []
    if SECRETS in failed and archive:
        close = f"Close {_open_secret(findings)} to others in the home (`chmod 600`), then:"
        steps.append(NextStep("backup", before=close))
    elif SECRETS in failed:
        steps += [_close(findings), _anew_there(receipt.store, "Then store it so:")]
    if not steps and archive:
        steps.append(NextStep("backup", before="Make a new one and drill that:"))
    return tuple(steps) or (_anew_there(receipt.store, "Make a new one:"),)


def _close(findings: Findings) -> NextStep:
    return NextStep(
        "doctor", ("--fix",), before=f"Others can read {_open_secret(findings)}. Close it to them:"
    )


def _anew_there(place: str, before: str) -> NextStep:
    """A new snapshot, sent to the place where the bad one lies, and proven there."""
    prove = NextStep("drill", ("--destination", place), before="and prove it:")
    send = NextStep("push", (place,), before="send it:", after=",", then=prove)
    return NextStep("snapshot", before=before, after=",", then=send)


def _open_secret(findings: Findings) -> str:
    """Nothing is lost; a key was stored as a file that others on that machine can read."""
    found = findings.problems.get(SECRETS)
    return found[0][0].partition(": ")[0] if found else "a file with keys"


def _anew(context: UserContext, before: str) -> NextStep:
    """A new snapshot and its drill, which ends the alarm; then the copies, which have the bad one."""
    copied = any(VAULT in one.takes for one in context.choices.destinations)
    send = NextStep("push", before="then send it:") if copied else None
    prove = NextStep("drill", before="and prove it:", after="," if send else "", then=send)
    return NextStep("snapshot", before=before, after=",", then=prove)


def _named(context: UserContext, home: str) -> tuple[str, ...]:
    """The words that a printed command needs to mean this home."""
    try:
        usual = context.home_and_layout_name()[0]
    except SafekeptError:
        usual = ""
    return () if not home or home == usual else ("--home", home)


def is_still_so(subject: Subject) -> bool:
    """Whether all that was stored lies in the home as it was then, by names, sizes and times alone."""
    if not os.path.isdir(subject.home):
        return False
    outside = tuple(f"{name}/" for name in subject.external)
    for entry in subject.entries:
        if entry.kind is not Kind.FILE or entry.path.startswith(outside):
            continue
        path = os.path.join(subject.home, entry.path)
        try:
            facts = os.lstat(path)
        except OSError:
            return False
        if entry.database:  # it is stored as one file, whatever lay beside it
            if facts.st_mtime > subject.taken or _later(f"{path}-wal", subject.taken):
                return False
        elif (facts.st_mtime_ns, facts.st_size) != (entry.mtime_ns, entry.size):
            return False
    return True


def _later(path: str, seconds: float) -> bool:
    try:
        return os.lstat(path).st_mtime > seconds
    except OSError:
        return False


_FOR_THE_VAULT: tuple[Step, ...] = (
    NextStep("vault check", ("--read-data",), before="See what else is damaged:"),
    NextStep(
        "vault repair",
        before="Keep what is sound:",
        after=",",
        then=NextStep(
            "snapshot",
            before="then store the rest again:",
            after=",",
            then=NextStep("drill", before="and prove it:"),
        ),
    ),
)
_FOR_THE_STORE: dict[str, tuple[Step, ...]] = {
    ARCHIVE: ("Copy the archive again from where it came from, and drill that copy",),
    DESTINATION: (NextStep("drill", before="Prove the vault on this machine, then send it again:"),),
}
