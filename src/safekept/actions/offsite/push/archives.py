"""Sending archives to a destination, and letting the oldest of this machine's go there.

Which archives of a home were sent from here is known from the journal; nothing else is ever removed. A
credential that may not delete is no failure: then they stay, which is reported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.objects.base import ObjectStore
from safekept.core.records import dataclass

from ...base.context import UserContext
from ...base.operations.stores import BackupFacts, PushFacts
from ..destination import DestinationSetting


@dataclass(slots=True)
class ArchivesPushed:
    """What became of the archives."""

    sent: list[str] = field(default_factory=list)  # paths here; in a dry run, what would be sent
    already: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # names there
    homes: dict[str, str] = field(default_factory=dict)  # name -> the home it was made of, or ""
    bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def ledger(self) -> list[dict[str, str]]:
        """For the journal: which archives this machine sent, and of which home."""
        names = [os.path.basename(path) for path in (*self.sent, *self.already)]
        return [{"name": name, "home": self.homes.get(name, "")} for name in names]

    def as_dict(self) -> dict[str, object]:
        return {
            "sent": list(self.sent),
            "already": list(self.already),
            "removed": list(self.removed),
            "bytes": self.bytes,
        }


def push_archives(
    context: UserContext,
    setting: DestinationSetting,
    objects: ObjectStore,
    pushed: ArchivesPushed,
    named: Sequence[str],
    directory: str,
    *,
    unsealed: bool,
    dry_run: bool = False,
    listener: Listener = silent,
) -> None:
    """Send the named archives, and those of a directory that are missing there; then keep the last few.

    What was done is counted in `pushed`, also where this ends with an error.
    """
    if not named and not directory:
        return
    from ..archive_fitness import pending, refuse_unfit
    from ..archives_there import host_directory, list_archives, send

    for path in named:
        refuse_unfit(path, unsealed=unsealed)
    host = host_directory()
    there = list_archives(objects, host)
    waiting = [os.path.abspath(path) for path in named]
    if directory:
        known = {(one.name, one.size) for one in there if one.checked}
        missing, passed = pending(directory, known, setting.keep, unsealed=unsealed)
        waiting += [path for path in missing if path not in waiting]
        if passed:
            pushed.notes.append(f"{len(passed)} archives in `{directory}` are not sealed, and stay here")
    homes = _homes(context)
    for path in waiting:
        if dry_run:
            pushed.sent.append(path)
            continue
        new = send(objects, path, host, listener)
        (pushed.sent if new else pushed.already).append(path)
        pushed.homes[os.path.basename(path)] = homes.get(path, "")
        pushed.bytes += os.path.getsize(path) if new else 0
    _keep_the_last(context, setting, objects, pushed, host, dry_run)


def _keep_the_last(
    context: UserContext,
    setting: DestinationSetting,
    objects: ObjectStore,
    pushed: ArchivesPushed,
    host: str,
    dry_run: bool,
) -> None:
    """Home by home: one agent's archives never push another's out."""
    if not setting.keep or dry_run or not pushed.sent:
        return
    from ..archives_there import StoredArchive, list_archives, remove, to_remove

    ledger = _sent_before(context, setting) | pushed.homes
    there = list_archives(objects, host)
    going: list[StoredArchive] = []
    for home in sorted(set(pushed.homes.values())):
        ours = {name for name, of in ledger.items() if of == home}
        going += to_remove(there, ours - pushed.homes.keys(), setting.keep, coming=_count(pushed, home))
    for number, archive in enumerate(going):
        try:
            remove(objects, archive)
        except SafekeptError as error:
            # What was to be sent is there; the room of old ones is no reason to call that a failure.
            left = len(going) - number
            pushed.notes.append(f"{left} older archives stay there beyond `keep`: {error.clause}")
            return
        pushed.removed.append(archive.name)


def _count(pushed: ArchivesPushed, home: str) -> int:
    return sum(1 for of in pushed.homes.values() if of == home)


def _homes(context: UserContext) -> dict[str, str]:
    """Which home each archive was made of, by its path, as the journal remembers."""
    made = (
        BackupFacts.read(entry)
        for entry in context.journal.read()
        if entry.verb == BackupFacts.verb and entry.state in ("done", "incomplete")
    )
    return {one.archive: one.home or "" for one in made if one.archive}


def _sent_before(context: UserContext, setting: DestinationSetting) -> dict[str, str]:
    """The archives that this machine sent to a destination: name and home."""
    found: dict[str, str] = {}
    for entry in context.journal.read():
        if entry.verb != PushFacts.verb or (pushed := PushFacts.read(entry)).destination != setting.name:
            continue
        for one in pushed.archives or ():
            found[str(one.get("name", ""))] = str(one.get("home", ""))
    return found
