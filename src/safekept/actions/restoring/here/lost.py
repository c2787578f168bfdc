"""What is gone on this machine, and what has it. Nothing is changed by looking.

Something is gone where what safekept knows of it says that it was there: a copy of a file that is missing, a
home with snapshots, a project with checkpoints. What is there is left as it is; a home of which little is
left (its agent may have begun a new one) is asked about.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass
from safekept.vault.read import read_manifest, snapshot_source
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ...base.kept_copies import gone_originals
from ...offsite.homes_in_vault import HomeInVault, homes_in_vault
from ...setup.machine_record import MachineRecord, read_machine_record
from ...vault.opening import open_vault
from .projects import LostProject, lost_projects
from .small_files import lost_lines, lost_receipts


@dataclass(frozen=True, slots=True)
class LostHome:
    """A home that is not there, or of which little is."""

    home: str
    layout: str
    snapshot: str  # the newest of the whole home, as it is shown
    taken: float
    there: bool = False  # something is: it stays, unless a person agrees
    forgotten: float = 0.0  # when that snapshot was forgotten; 0: it is not

    def as_dict(self) -> dict[str, object]:
        return {
            "home": self.home,
            "layout": self.layout,
            "snapshot": self.snapshot,
            "taken": self.taken,
            "there": self.there,
            "forgotten": self.forgotten or None,
        }


@dataclass(frozen=True, slots=True)
class Lost:
    """Everything that is gone."""

    files: dict[str, str] = field(default_factory=dict)  # path, and the path of its copy
    lines: int = 0  # of the journal
    receipts: tuple[str, ...] = ()  # names
    homes: tuple[LostHome, ...] = ()
    projects: tuple[LostProject, ...] = ()
    record: MachineRecord = field(default_factory=MachineRecord)  # how the machine was set up
    vault: str = ""  # why nothing can be said of homes; "": the vault could be read

    def __bool__(self) -> bool:
        return bool(self.files or self.lines or self.receipts or self.homes or self.projects)

    def as_dict(self) -> dict[str, object]:
        return {
            "files": sorted(self.files),
            "journal_lines": self.lines,
            "receipts": len(self.receipts),
            "homes": [one.as_dict() for one in self.homes],
            "projects": [one.as_dict() for one in self.projects],
            "then": self.record.as_dict(),
            "vault_problem": self.vault or None,
        }


def find_lost(context: UserContext, listener: Listener = silent) -> Lost:
    """What is gone, and what has it."""
    homes: tuple[LostHome, ...] = ()
    record, problem = MachineRecord(), ""
    try:
        with open_vault(context, listener=listener) as repository:
            kept = _of_this_machine(repository, context)
            homes = tuple(_lost_homes(repository, kept))
            record = _record(repository, kept)
    except SafekeptError as error:
        problem = error.what
    return Lost(
        gone_originals(context),
        lost_lines(context),
        lost_receipts(context),
        homes,
        lost_projects(context),
        record,
        problem,
    )


def _of_this_machine(repository: Repository, context: UserContext) -> list[HomeInVault]:
    host = os.uname().nodename
    # Those who empty a machine may forget its snapshots first: what is gone comes back as it was last.
    found, _ = homes_in_vault(repository, context.places.vault, every=True)
    return [
        one for one in found if one.host in ("", host) and one.layout and not one.continued and one.snapshots
    ]


def _lost_homes(repository: Repository, kept: Sequence[HomeInVault]) -> Iterator[LostHome]:
    for one in kept:
        newest = one.newest_whole
        there = _names(one.home)
        if there:
            source, _ = snapshot_source(repository, newest.snapshot)
            held = {node.name for node in source.children("")}
            if 2 * len(held & there) >= len(held):
                continue
        taken = newest.snapshot.time_ns / 1e9
        forgotten = (newest.forgotten_ns or 0) / 1e9
        yield LostHome(one.home, one.layout, newest.short, taken, bool(there), forgotten)


def _names(directory: str) -> set[str]:
    with contextlib.suppress(OSError):
        return set(os.listdir(directory))
    return set()


def _record(repository: Repository, kept: Sequence[HomeInVault]) -> MachineRecord:
    """How the machine was set up when the newest snapshot of all was taken."""
    newest = max((one.newest_whole for one in kept), key=lambda one: one.snapshot.time_ns, default=None)
    with contextlib.suppress(SafekeptError):
        if newest is not None:
            return read_machine_record(read_manifest(repository, newest.snapshot))
    return MachineRecord()
