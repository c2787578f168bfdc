"""The health check: what a home has lost since a snapshot of it, with what brings each of it back.

Cost follows change: what has its old status is not opened, only databases that changed are checked, and
of the snapshot only documents that changed are read. Unknown is never lost: what cannot be read,
counted or understood is reported as a note. Nothing is written, and no live database is disturbed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import field

from safekept.core.events import Listener, silent
from safekept.core.records import dataclass
from safekept.core.spelling import shell_word
from safekept.core.sqlite.capture import CaptureOptions

from ..layout.layout import Layout
from .loss_rules import Examination, HomeLoss, Shrinkage, StoredState
from .recorded import Recorded, owner_of, since

__all__ = ["Health", "HomeLoss", "StoredState", "examine"]

#: The home counts as wiped where so much of what was recorded is gone.
_WIPED = 0.9


@dataclass(slots=True)
class Health:
    """What the check found."""

    findings: list[HomeLoss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0  # looked at
    changed: int = 0
    gone: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        return {
            "files": self.files,
            "changed": self.changed,
            "gone": self.gone,
            "seconds": round(self.seconds, 3),
            "findings": [one.as_dict() for one in self.findings],
            "notes": list(self.notes),
        }


def examine(
    layout: Layout,
    recorded: Recorded,
    stored: StoredState,
    options: CaptureOptions,
    listener: Listener = silent,
) -> Health:
    """Compare a home with what a snapshot saw of it."""
    began = time.monotonic()
    seen = since(recorded)
    examination = Examination(layout, recorded, seen, stored, options, listener)
    if not _whole_home(examination):
        _profiles(examination)
        _owner(examination)
        _closed(examination)
        if seen.changed or seen.gone or seen.databases:
            _look_closer(examination)
    return Health(
        examination.findings,
        examination.notes,
        seen.files,
        len(seen.changed),
        len(seen.gone),
        time.monotonic() - began,
    )


def _look_closer(examination: Examination) -> None:
    """Into what changed. Loaded only now: mostly nothing did, or nothing that matters."""
    from .databases import look_at_databases
    from .documents import look_at_documents
    from .files import look_at_files

    look_at_databases(examination)
    look_at_documents(examination)
    look_at_files(examination)


def _whole_home(examination: Examination) -> bool:
    """A home that is gone or wiped is one finding: whatever else could be said follows from it."""
    seen, home = examination.since, examination.recorded.home
    if not seen.files or len(seen.gone) < _WIPED * seen.files:
        return False
    text = f"the home {home} was wiped: {len(seen.gone):,} of {seen.files:,} files are gone"
    if not os.path.lexists(home):
        text = f"the home {home} is gone, with {seen.files:,} files"
    examination.found(HomeLoss("wiped", "", text, whole=True))
    return True


def _profiles(examination: Examination) -> None:
    """A profile that is gone as a whole is one finding, too."""
    profile_of, seen = examination.layout.profile_of, examination.since
    gone = Counter(profile_of(path) for path in seen.gone)
    del gone["default"]
    if not gone:
        return
    recorded = Counter[str]()
    for path, marks, _ in examination.recorded.directories():
        recorded[profile_of(path + "/" if path else path)] += len(marks)
    for profile, number in sorted(gone.items()):
        if number < recorded[profile]:
            continue
        counts = examination.recorded.census.get(profile, {})
        losses = tuple(Shrinkage(profile, name, count, 0) for name, count in counts.items() if count)
        text = f"the profile {profile.rpartition('/')[2]} is gone, with {number:,} files"
        examination.found(
            HomeLoss("gone", profile, text, restore_paths=(profile,), losses=losses),
            *(path for path in seen.gone if profile_of(path) == profile),
        )


def _owner(examination: Examination) -> None:
    """The home, or files in it, belong to another user: the agent cannot write them any more."""
    recorded, seen = examination.recorded, examination.since
    fix = f"chown -hR {recorded.owner[0]}:{recorded.owner[1]} {shell_word(recorded.home)}"
    fix = fix if os.geteuid() == 0 else f"sudo {fix}"
    try:
        now = owner_of(recorded.home)
    except OSError:
        return
    if now != recorded.owner:
        before, after = (f"{user}:{group}" for user, group in (recorded.owner, now))
        text = f"the home {recorded.home} belongs to {after}; it belonged to {before}"
        examination.found(HomeLoss("owner", "", text, fix=fix))
        return
    others = [
        path
        for path, status in seen.changed.items()
        if status.st_uid != recorded.owner[0] and examination.stored.owner(path) == recorded.owner
    ]
    if others:
        files = "1 file does" if len(others) == 1 else f"{len(others):,} files do"
        text = f"{files} not belong to the home's owner any more, such as {sorted(others)[0]}"
        examination.found(HomeLoss("owner", "", text, fix=fix))


def _closed(examination: Examination) -> None:
    """Directories that cannot be entered: the outermost of each; what lies in them is unknown, not gone."""
    recorded, closed = examination.recorded, dict(examination.since.closed)
    if closed and not os.access(recorded.home, os.X_OK):
        closed = {"": "Permission denied"}
    for path, reason in sorted(closed.items()):
        if path and any(path.startswith(above + "/") or not above for above in closed if above != path):
            continue
        full = recorded.full(path) if path else recorded.home
        text = f"{path or full} cannot be entered any more: {reason}"
        fix = f"chmod u+rwx {shell_word(full)}"
        mine = os.geteuid() in (0, recorded.owner[0])
        examination.found(HomeLoss("closed", path, text, fix=fix if mine else f"sudo {fix}"))
