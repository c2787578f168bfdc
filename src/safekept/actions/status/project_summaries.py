"""The projects that have checkpoints, at a glance: what their own small records say, no store opened.

`safekept checkpoint status` looks into the store itself; this is for a question every minute.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from safekept.core.ages import iso_time
from safekept.core.locks import lock_is_held
from safekept.core.records import dataclass

from ..base.context import UserContext

if TYPE_CHECKING:
    from safekept.checkpoints.scan import LeftRecord

_TAIL = 8 << 10  # bytes of a ledger: its last few dozen checkpoints


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    """One project: when it was last taken, and what went wrong since."""

    project: str
    presence: str  # live, orphan, unreachable
    last: float  # the last checkpoint, in seconds since 1970; 0: none
    failed: float  # the last attempt that failed; 0: none
    failure: str  # what it printed
    limited: str  # why only named files are taken
    unprotected: str  # what no checkpoint protects here
    cut_off: bool = False  # a rollback was killed half way; the next one makes it right
    left_out: LeftRecord | None = None  # hidden, not kept, and that was not chosen: it would be lost
    hidden_trouble: str = ""  # why nothing hidden is kept, where that is no matter of moments

    @property
    def here(self) -> bool:
        from safekept.checkpoints.project import LIVE

        return self.presence == LIVE

    @property
    def gone(self) -> bool:
        """Whether it was deleted, meant or not: the directory that held it is there, and it is not."""
        from safekept.checkpoints.project import ORPHAN

        return self.presence == ORPHAN

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed, in a project that is still there."""
        return self.failed > self.last and self.here

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.project,
            "presence": self.presence,
            "last_checkpoint": iso_time(self.last),
            "last_failure": iso_time(self.failed),
            "failure": self.failure or None,
            "failing": self.failing,
            "limited": self.limited or None,
            "unprotected": self.unprotected or None,
            "rollback_cut_off": self.cut_off,
            "left_out": self.left_out.as_dict() if self.left_out else None,
            "hidden_trouble": self.hidden_trouble or None,
        }


@dataclass(frozen=True, slots=True)
class ProjectSummaries:
    """All of them, the one taken last first, and the store that they share."""

    place: str
    projects: tuple[ProjectSummary, ...] = ()
    bytes: int = 0
    problems: tuple[str, ...] = ()  # of the store itself: damage, maintenance that fails

    @property
    def last(self) -> float:
        return max((one.last for one in self.projects), default=0.0)

    @property
    def failing(self) -> list[ProjectSummary]:
        return [one for one in self.projects if one.failing]

    def as_dict(self) -> dict[str, object]:
        return {
            "place": self.place,
            "bytes": self.bytes,
            "problems": list(self.problems),
            "projects": [one.as_dict() for one in self.projects],
        }


def project_summaries(context: UserContext) -> ProjectSummaries:
    """Every project that has checkpoints, or was tried and has none. Makes no store.

    What reads them is loaded only where there is anything to read.
    """
    place = os.path.join(context.places.data_directory, "checkpoints")
    base = os.path.join(place, "projects")
    names, stored = _listed(base), _listed(os.path.join(place, "store", "refs", "safekept"))
    if not names and not stored:
        return ProjectSummaries(place)
    from safekept.checkpoints.upkeep import measure

    found = [one for name in names if (one := _project(os.path.join(base, name))) is not None]
    if lost := sorted(set(stored) - set(names)):
        found += _without_records(place, lost)
    found.sort(key=lambda one: (-one.last, one.project))
    size = measure(place, os.path.join(place, "store")).total
    return ProjectSummaries(place, tuple(found), size, tuple(_problems(place)))


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _without_records(place: str, identities: list[str]) -> list[ProjectSummary]:
    """Projects whose records an `rm` took while a seat belt held the store: that knows them, too."""
    from safekept.checkpoints.project import presence
    from safekept.checkpoints.store import Store
    from safekept.core.events import silent

    found = []
    store = Store(place, silent)
    with contextlib.closing(store):
        for identity in identities:
            path = store.project_path(identity)
            if path is not None and (points := store.checkpoints(path)):
                state = presence(os.path.join(place, "projects", identity), path).state
                found.append(ProjectSummary(path, state, points[0].time_ns / 1e9, 0.0, "", "", ""))
    return found


def _project(directory: str) -> ProjectSummary | None:
    from safekept.checkpoints.project import presence
    from safekept.checkpoints.state import read_state

    state = read_state(directory)
    path = state.project or _named(directory)
    if not path:
        return None
    return ProjectSummary(
        path,
        presence(directory, path).state,
        max(_time(state.last_success), _last_written(directory)),
        _time(state.last_failure),
        _what(state.last_failure),
        _what(state.limited),
        _what(state.unprotected),
        _cut_off(directory),
        *_hidden(directory),
    )


def _hidden(directory: str) -> tuple[LeftRecord | None, str]:
    """What of the hidden half is not kept, by its own small records."""
    from safekept.checkpoints.scan import read_left

    from ..projects.hidden.trouble import read_trouble

    left, trouble = read_left(directory), read_trouble(directory)
    return left if left.count else None, trouble.what if trouble.lasting(directory) else ""


def _last_written(directory: str) -> float:
    """When the last checkpoint of all was written, by the end of the project's ledger; 0: none."""
    newest = 0.0
    with contextlib.suppress(OSError), open(os.path.join(directory, "ledger"), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        for line in file:
            with contextlib.suppress(ValueError, AttributeError):
                newest = max(newest, _time(json.loads(line)))
    return newest


def _cut_off(directory: str) -> bool:
    """Whether a rollback was begun here and its process is gone: its lock went with it."""
    from safekept.checkpoints.points import RollbackJournal

    try:
        if not RollbackJournal(directory).pending():
            return False
    except OSError:
        return False
    return not lock_is_held(os.path.join(directory, "rollback.lock"))


def _named(directory: str) -> str:
    with contextlib.suppress(OSError), open(os.path.join(directory, "project"), "rb") as file:
        return os.fsdecode(file.read())
    return ""


def _problems(place: str) -> list[str]:
    from safekept.checkpoints.store import current_damage
    from safekept.checkpoints.upkeep import read_upkeep

    found = []
    upkeep, damage = read_upkeep(place), current_damage(place)
    if upkeep.failures:
        found.append(f"maintenance failed {upkeep.failures:,} times in a row: {upkeep.error}")
    if damage.packs:
        found.append(f"{len(damage.packs):,} packs cannot be trusted: {damage.what}")
    elif upkeep.damage:
        found.append(f"{len(upkeep.damage):,} objects cannot be read")
    return found


def _time(entry: Mapping[str, object]) -> float:
    value = entry.get("time_ns")
    return value / 1e9 if isinstance(value, int) else 0.0


def _what(entry: Mapping[str, object]) -> str:
    return str(entry.get("what") or "")
