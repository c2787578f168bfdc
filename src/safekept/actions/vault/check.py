"""Check the vault, and say of every finding what to do about it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step, next_document
from safekept.vault.care import Report, check
from safekept.vault.repo import Repository

from ..base.context import UserContext
from ..base.operations.vault import VaultCheckFacts
from ..base.record import record, recording
from ..snapshots.stored_home import reading

_MEND = NextStep(
    "vault repair",
    before="Keep what is sound:",
    after=",",
    then=NextStep("snapshot", before="then store the rest again:"),
)
_COPY = "If another copy of the vault exists, bring the damaged file back from there"
_INDEX = NextStep("vault repair", before="Make the index again from the packs:")
_WHICH = NextStep("vault check", ("--read-data",), before="See every byte that is damaged:")
_STEPS: dict[str, tuple[Step, ...]] = {
    "index-unreadable": (_INDEX,),
    "index-disagrees": (_INDEX,),
    "pack-not-indexed": (_INDEX,),
    "snapshot-unreadable": (_COPY,),
    "mark-unreadable": (_COPY, "If there is none, delete that file, then pin again what was pinned"),
    "key-unreadable": (
        NextStep(
            "vault key list", before="Other keys still open the vault; remove this one:", after=" names it"
        ),
        "The kit holds a copy of the key file",
    ),
    "lock-left-behind": (NextStep("vault unlock", before="Remove it:"),),
    "pack-unreferenced": (NextStep("vault prune", before="Give its room back:"),),
    "pack-indexed-twice": (NextStep("vault prune", before="Tidy it up:"),),
    "pack-mixed": (NextStep("vault prune", before="Tidy it up:"),),
}
_DAMAGED_DATA = (_COPY, _MEND)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check found, and what to do."""

    vault: str
    report: Report
    seconds: float
    next_steps: tuple[Step, ...]

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
            **next_document(self.next_steps),
        }


def check_vault(
    context: UserContext,
    repository: Repository,
    read_data: float | None = None,
    listener: Listener = silent,
) -> Checked:
    """Check under a shared lock, so that no prune takes away what is being looked at."""
    began = time.monotonic()
    work = VaultCheckFacts(vault=context.places.reads_from, id=repository.id)
    with (
        recording(context, new_id(), work, listener),
        reading(repository, listener, 60.0),
    ):
        report = check(repository, read_data=read_data, listener=listener)
    seconds, place = time.monotonic() - began, context.places.reads_from
    copied = bool(context.places.source_vault)
    steps = _steps_for_a_copy(context, report) if copied else _next_steps(report, read_data)
    checked = Checked(place, report, seconds, steps)
    work.read_data, work.bytes_read = read_data, report.bytes_read
    work.seconds = round(checked.seconds, 3)
    work.damage = tuple(finding.what for finding in report.damage)[:100]
    record(context, work.line(new_id(), "done" if report.sound else "failed"), listener)
    return checked


def _steps_for_a_copy(context: UserContext, report: Report) -> tuple[Step, ...]:
    """A copy is not mended where it lies: whoever has the vault sends again what is missing in it."""
    name = context.places.source_vault
    known = any(one.name == name for one in context.choices.destinations)
    if report.damage:
        return (
            NextStep(
                "push",
                (name,) if known else (),
                before="Delete the damaged files there, then send them again:",
                after="" if known else " where the vault itself is",
            ),
            NextStep(
                "pull",
                before="If this copy is all there is, keep what is sound: fetch it with",
                after=", then mend that",
            ),
        )
    if not any(finding.code == "pack-unreferenced" for finding in report.findings):
        return ()
    if not known:
        return ("The next push uses it, or `--prune` gives its room back",)
    return (NextStep("push", (name, "--prune"), "The next push uses it, or", " gives its room back"),)


def _next_steps(report: Report, read_data: float | None) -> tuple[Step, ...]:
    steps: dict[Step, None] = {}
    for finding in report.findings:
        for step in _STEPS.get(finding.code, _DAMAGED_DATA):
            steps[step] = None
    if report.damage and read_data is None:
        steps[_WHICH] = None
    return tuple(steps)
