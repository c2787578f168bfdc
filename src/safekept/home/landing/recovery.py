"""Recovery: whatever a killed landing left behind is made right before the next one begins.

Not committed: taken back. Committed: its leftovers are removed. A landing whose process lives is
not touched; the lock says so, and it dies with its process.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import field

from safekept.core.errors import BAD_SHAPE
from safekept.core.locks import AlreadyRunning, lock_is_held
from safekept.core.owner import foreign_owner
from safekept.core.records import dataclass

from ..owner import worker_for
from .area import INTENT, LANDED, TAKEN_BACK, Area, LandingDirectory, existing_areas, not_permitted, real_home
from .record import LandingRecord, read_header
from .swap.takeback import LandingNotTakenBack, take_back

#: Seconds after which an index is no longer filled.
_FILLED_BY_THEN = 14 * 86400.0

# What a killed landing left behind, seen without touching it: for a caller that reports and does not mend.


@dataclass(frozen=True, slots=True)
class Leftover:
    """A landing that was cut off; the next command that changes this home makes it right."""

    operation: str
    half_way: bool  # the home is neither as it was nor as it was to be; else only litter is left
    place: str

    def as_dict(self) -> dict[str, object]:
        return {"operation": self.operation, "half_way": self.half_way, "place": self.place}


def leftovers(home: str) -> list[Leftover]:
    """Landings of this home that were begun and not ended, by processes that are gone."""
    if (worker := worker_for(home)) is not None:
        return [Leftover(**one) for one in worker.do("leftovers", home)]
    found = []
    for area in existing_areas(home):
        begun = [one for one in area.all() if one.state in ("", INTENT)]
        if begun and not lock_is_held(os.path.join(area.path, "lock")):
            found += [Leftover(one.operation, one.state == INTENT, one.path) for one in begun]
    return found


@dataclass(frozen=True, slots=True)
class RecoveredLanding:
    """What was made right."""

    operation: str
    outcome: str  # "taken-back", "finished" or "swept"
    set_aside: list[str] = field(default_factory=list)  # changed since; kept, not deleted
    place: str = ""  # where those are

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "outcome": self.outcome,
            "set_aside": self.set_aside,
            "place": self.place,
        }


@dataclass(frozen=True, slots=True)
class PastLanding:
    """A committed landing whose replaced things may still be there."""

    operation: str
    verb: str  # "land" or "undo"
    undoes: str
    undone_by: str
    time: float
    replaced: str  # where what it replaced is kept; empty once that is gone
    directory: LandingDirectory

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "verb": self.verb,
            "undoes": self.undoes,
            "undone_by": self.undone_by,
            "time": self.time,
            "replaced": self.replaced,
        }


def recover(home: str, wait: float = 30.0) -> list[RecoveredLanding]:
    """Make right what an interrupted landing left; call it before anything that touches a home.

    A landing whose process lives is waited for, since a home in the middle of one is neither the old
    nor the new. Raises AlreadyRunning after `wait` seconds, LandingNotTakenBack where something
    stands in the way, and LandingNotPermitted where the place cannot be written and must be.
    """
    if (worker := worker_for(home)) is not None:
        return [RecoveredLanding(**one) for one in worker.do("recover", home, wait)]
    recovered: list[RecoveredLanding] = []
    for area in existing_areas(home):
        open_ones = _unsettled(area)
        if not open_ones:
            continue  # nothing to write, so a home that can only be read is fine
        try:
            with area.lock("recover", wait):
                recovered.extend(settle(area, home))
        except OSError as error:
            _pass_over(error, open_ones, home)
    return recovered


def _unsettled(area: Area) -> list[LandingDirectory]:
    """Landings that left something to do."""
    directories = area.all()
    undone = {past.operation for past in _past(directories) if past.undone_by and past.replaced}
    return [
        directory
        for directory in directories
        if directory.state in ("", INTENT) or os.path.isdir(directory.staged) or directory.operation in undone
    ]


def _pass_over(error: OSError, open_ones: list[LandingDirectory], home: str) -> None:
    """Go on where nothing may be written and only litter is left; refuse where the home is half way."""
    begun = [directory for directory in open_ones if directory.state == INTENT]
    replaced = begun[0].replaced if begun else ""
    refused = not_permitted(
        error, home, f"Nothing was changed; what that landing replaced is in `{replaced}`"
    )
    if refused is None:
        raise error
    if begun:
        raise refused from error


def settle(area: Area, home: str) -> list[RecoveredLanding]:
    """The same, for callers that hold the lock already. Newest first: the way back."""
    recovered = []
    directories = area.all()
    for directory in reversed(directories):
        found = _settle_one(directory, home)
        if found is not None:
            recovered.append(found)
    for past in _past(directories):
        if past.undone_by and past.replaced:
            past.directory.sweep("replaced")
    return recovered


def clear_away(directory: LandingDirectory) -> None:
    """Remove a landing that came to nothing; what was set aside stays.

    On FUSE and NFS a file that a program has open keeps a name: then the next command removes the rest.
    """
    try:
        if os.path.isdir(directory.set_aside):
            directory.sweep("staged", "replaced")
        else:
            directory.sweep()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def landings(home: str) -> list[PastLanding]:
    """Every committed landing that is still known, oldest first."""
    if (worker := worker_for(home)) is not None:
        return [
            PastLanding(**{**one, "directory": LandingDirectory(str(one["directory"]))})
            for one in worker.do("landings", home)
        ]
    found = [past for area in existing_areas(home) for past in _past(area.all())]
    return sorted(found, key=lambda past: (past.time, past.operation))


def expire(home: str, days: float = 14) -> list[str]:
    """Forget landings, and what they replaced, that are older than `days`; returns their ids."""
    if (worker := worker_for(home)) is not None:
        return [str(one) for one in worker.do("expire", home, days)]
    now = time.time()
    before = now - days * 86400
    gone = []
    for area in existing_areas(home):
        old = [past for past in _past(area.all()) if past.time < before and not _is_needed(past, now)]
        stale = [one for one in area.all() if one.state == TAKEN_BACK and _age(one) < before]
        if not old and not stale:
            continue
        try:
            with area.lock("expire"):
                for directory in [*(past.directory for past in old), *stale]:
                    directory.sweep()
                    gone.append(directory.operation)
        except AlreadyRunning:
            continue
        except OSError as error:
            if not_permitted(error, home, "") is None:
                raise
    return sorted(gone)


def _is_needed(past: PastLanding, now: float) -> bool:
    """Whether it says which search indexes are still to be filled: then it stays, however soon it may go."""
    return os.path.lexists(past.directory.search_note) and past.time > now - _FILLED_BY_THEN


def _settle_one(directory: LandingDirectory, home: str) -> RecoveredLanding | None:
    state = directory.state
    if state == "":
        directory.sweep()  # killed while staging: the home was not touched
        return RecoveredLanding(directory.operation, "swept")
    if state == LANDED:
        if not os.path.isdir(directory.staged):
            return None
        directory.sweep("staged")
        return RecoveredLanding(directory.operation, "finished")
    aside: list[str] = []
    if state == INTENT:
        try:
            _check_trust(directory, home)
            aside = take_back(directory)
        except BAD_SHAPE as error:
            raise _unreadable(directory) from error
    elif not os.path.isdir(directory.staged):
        return None  # taken back long ago; only what was set aside is still here
    place = directory.set_aside if os.path.isdir(directory.set_aside) else ""
    clear_away(directory)
    return RecoveredLanding(directory.operation, "taken-back", aside, place)


def _unreadable(directory: LandingDirectory) -> LandingNotTakenBack:
    return LandingNotTakenBack(
        f"The record of an interrupted landing, `{directory.record}`, cannot be read",
        kept=f"Nothing was changed; everything that landing replaced is kept in `{directory.replaced}`",
        next_steps=(
            "If a newer safekept made it, run that one",
            "Or put the files back by hand from there, then move the record away",
        ),
        landing=directory.path,
    )


def _check_trust(directory: LandingDirectory, home: str) -> None:
    """Refuse a record that does not belong to this home.

    Its area is ours, so no other wrote it; but a home can be moved or copied with its area. What it
    names outside the home may, as root, belong to no other user.
    """
    header = read_header(directory.record)
    if not trusted(header, home):
        raise LandingNotTakenBack(
            f"The record in `{directory.path}` was made for other places than this home",
            kept=f"Nothing was changed; what it replaced is in `{directory.replaced}`",
            next_steps=("If the home was moved, move it back to where it was and run the command again",),
            landing=directory.path,
        )


def trusted(record: LandingRecord, home: str) -> bool:
    first = record.roots[0]
    if os.path.join(first.base, first.name) != real_home(home):
        return False
    return all(foreign_owner(os.path.join(root.base, root.name)) is None for root in record.roots[1:])


def _past(directories: list[LandingDirectory]) -> list[PastLanding]:
    headers: list[tuple[LandingDirectory, LandingRecord]] = []
    for directory in directories:
        if directory.state == LANDED:
            try:
                headers.append((directory, read_header(directory.record)))
            except (OSError, ValueError, KeyError, TypeError):
                continue
    undone = {header.undoes: header.operation for _, header in headers if header.undoes}
    return [
        PastLanding(
            operation=header.operation,
            verb=header.verb,
            undoes=header.undoes,
            undone_by=undone.get(header.operation, ""),
            time=header.time,
            replaced=directory.replaced if os.path.isdir(directory.replaced) else "",
            directory=directory,
        )
        for directory, header in headers
    ]


def _age(directory: LandingDirectory) -> float:
    return os.stat(directory.record).st_mtime
