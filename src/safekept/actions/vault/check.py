"""Check the vault, and say of every finding what to do about it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from safekept.core.events import Listener, silent
from safekept.core.journal import Record, new_id
from safekept.vault.care import Report, check
from safekept.vault.repo import Repository

from ..base.context import UserContext
from ..base.record import record, recording_failure
from ..snapshots.stored_home import reading

_MEND = "Keep what is sound: `safekept vault repair`, then store the rest again: `safekept snapshot`"
_COPY = "If another copy of the vault exists, bring the damaged file back from there"
_INDEX = "Make the index again from the packs: `safekept vault repair`"
_WHICH = "See every byte that is damaged: `safekept vault check --read-data`"
_STEPS = {
    "index-unreadable": (_INDEX,),
    "index-disagrees": (_INDEX,),
    "pack-not-indexed": (_INDEX,),
    "snapshot-unreadable": (_COPY,),
    "key-unreadable": (
        "Other keys still open the vault; remove this one: `safekept vault key list` names it",
        "The kit holds a copy of the key file",
    ),
    "lock-left-behind": ("Remove it: `safekept vault unlock`",),
    "pack-unreferenced": ("Give its room back: `safekept vault prune`",),
    "pack-indexed-twice": ("Tidy it up: `safekept vault prune`",),
    "pack-mixed": ("Tidy it up: `safekept vault prune`",),
}
_DAMAGED_DATA = (_COPY, _MEND)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check found, and what to do."""

    vault: str
    report: Report
    seconds: float
    next_steps: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "vault": self.vault,
            "sound": self.report.sound,
            "snapshots": self.report.snapshots,
            "packs": self.report.packs,
            "blobs": self.report.blobs,
            "packs_read": self.report.packs_read,
            "bytes_read": self.report.bytes_read,
            "seconds": round(self.seconds, 3),
            "findings": [finding.as_dict() for finding in self.report.findings],
            "next": list(self.next_steps),
        }


def check_vault(
    context: UserContext,
    repository: Repository,
    read_data: float | None = None,
    listener: Listener = silent,
) -> Checked:
    """Check under a shared lock, so that no prune takes away what is being looked at."""
    began = time.monotonic()
    known = {"vault": context.places.reads_from, "id": repository.id}
    with (
        recording_failure(context, new_id(), "vault-check", known, listener),
        reading(repository, listener, 60.0),
    ):
        report = check(repository, read_data=read_data, listener=listener)
    seconds, place = time.monotonic() - began, context.places.reads_from
    copied = bool(context.places.source_vault)
    steps = _steps_for_a_copy(context, report) if copied else _next_steps(report, read_data)
    checked = Checked(place, report, seconds, steps)
    facts: dict[str, object] = {
        "vault": place,
        "id": repository.id,
        "read_data": read_data,
        "bytes_read": report.bytes_read,
        "seconds": round(checked.seconds, 3),
        "damage": [finding.what for finding in report.damage][:100],
    }
    state = "done" if report.sound else "failed"
    record(context, Record(new_id(), "vault-check", state, facts=facts), listener)
    return checked


def _steps_for_a_copy(context: UserContext, report: Report) -> tuple[str, ...]:
    """A copy is not mended where it lies: whoever has the vault sends again what is missing in it."""
    name = context.places.source_vault
    known = any(one.name == name for one in context.choices.destinations)
    push = f"`safekept push {name}`" if known else "`safekept push` where the vault itself is"
    if report.damage:
        return (
            f"Delete the damaged files there, then send them again: {push}",
            "If this copy is all there is, keep what is sound: fetch it with `safekept pull`, then mend that",
        )
    room = f"`safekept push {name} --prune`" if known else "`--prune`"
    loose = any(finding.code == "pack-unreferenced" for finding in report.findings)
    return (f"The next push uses it, or {room} gives its room back",) if loose else ()


def _next_steps(report: Report, read_data: float | None) -> tuple[str, ...]:
    steps: dict[str, None] = {}
    for finding in report.findings:
        for step in _STEPS.get(finding.code, _DAMAGED_DATA):
            steps[step] = None
    if report.damage and read_data is None:
        steps[_WHICH] = None
    return tuple(steps)
