"""What happened lately, by the journal: one look at its end, bounded, for `status` and whoever watches.

The vault says which snapshots there are; the journal says what was tried and did not succeed, and what
was done elsewhere: archives, copies off this host, checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from safekept.core.journal import VERSION, Record, parse_line

from ..base.context import UserContext

#: So much of the journal is looked at; years of daily use.
MOST_BYTES = 8 << 20
STORED = ("done", "incomplete")
ENDED_BADLY = ("failed", "interrupted")
#: Snapshots of these kinds hold what a home was, not what it is.
OF_THE_PAST = frozenset({"pre-import", "pre-restore", "pre-change", "adopted"})
_VERBS = ("snapshot", "backup", "push", "vault-check", "vault-repair", "vault-kit")
_WORDS = tuple(f'"{verb}"'.encode() for verb in _VERBS)


@dataclass(slots=True)
class Recent:
    """The newest line of each kind. Keys are homes, or destinations for `pushes`."""

    snapshots: dict[str, Record] = field(default_factory=dict)  # that were stored
    failures: dict[str, Record] = field(default_factory=dict)  # snapshots that failed after the last stored
    archives: dict[str, Record] = field(default_factory=dict)
    pushes: dict[str, Record] = field(default_factory=dict)  # that arrived
    push_failures: dict[str, Record] = field(default_factory=dict)  # after the last that arrived
    check: Record | None = None  # of this vault: the last check, or the repair after it
    kit: Record | None = None
    newest: float = 0.0  # when anything was last written
    unreadable: int = 0  # lines that are torn or foreign, among those looked at
    newer: bool = False  # a later safekept wrote some of it
    problem: str = ""  # why it cannot be read at all


def recent(context: UserContext) -> Recent:
    """Look at the end of the journal; what cannot be read is said and stops nothing."""
    found, seen = Recent(), 0
    try:
        for line in context.journal.lines_backwards():
            seen += len(line)
            if seen > MOST_BYTES:
                break
            _take(found, line, context.places.vault)
    except OSError as error:
        found.problem = error.strerror or str(error)
    return found


def _take(found: Recent, line: bytes, vault: str) -> None:
    wanted = any(word in line for word in _WORDS)
    if found.newest and not wanted:
        return
    entry = parse_line(line)
    if entry is None:
        found.unreadable += 1
        return
    found.newest = found.newest or entry.time
    found.newer = found.newer or entry.version > VERSION
    home = str(entry.facts.get("home") or "")
    if entry.verb == "snapshot":
        if entry.facts.get("kind") not in OF_THE_PAST:
            _last(entry, home, found.snapshots, found.failures)
    elif entry.verb == "backup" and entry.state in STORED:
        found.archives.setdefault(home, entry)
    elif entry.verb == "push":
        _pushed(found, entry)
    elif entry.verb in ("vault-check", "vault-repair") and entry.facts.get("vault") == vault:
        if found.check is None and not _broken_off(entry):
            found.check = entry
    elif entry.verb == "vault-kit" and entry.facts.get("vault") == vault:
        found.kit = found.kit or entry


def _pushed(found: Recent, entry: Record) -> None:
    """Only what arrived whole counts; a disk that was not plugged in is no failure."""
    name = str(entry.facts.get("destination") or "")
    if entry.facts.get("absent"):
        return
    if entry.state == "done":
        found.pushes.setdefault(name, entry)
    elif entry.state in (*ENDED_BADLY, "incomplete") and name not in found.pushes:
        found.push_failures.setdefault(name, entry)


def _broken_off(entry: Record) -> bool:
    """A check that failed to run found nothing, good or bad."""
    return "error" in entry.facts


def _last(entry: Record, key: str, stored: dict[str, Record], failed: dict[str, Record]) -> None:
    if entry.state in STORED:
        stored.setdefault(key, entry)
    elif entry.state in ENDED_BADLY and key not in stored:
        failed.setdefault(key, entry)
