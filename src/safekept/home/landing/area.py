"""The work area of a home: where landings are staged, recorded, and what they replaced is kept.

`<home>.safekept/` beside the home, so that it is on the same filesystem and no scan of the home
meets it; `<home>/.safekept/` where the home is a mount point or its parent cannot be written.
Always 0700. Layout:

    lock                          held by the one process that lands here
    search.lock                   held by the one process that fills search indexes behind a landing
    landings/<operation>/
        plan.jsonl                the intent; made durable before the first change
        landed.jsonl              the same file, renamed: the landing is committed
        taken-back.jsonl          the same file, renamed: it was rolled back
        staged/                   what is about to be put in place
        replaced/                 what was in its place before
        set-aside/                what a roll-back found changed since, kept and not deleted
        search.json               search indexes that are still to be filled

The state of a landing is the name of its record: a rename needs no room and cannot be torn.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.files import fsync_directory, private_directory
from safekept.core.locks import lock_is_held, process_lock
from safekept.core.owner import owned_by_us
from safekept.core.records import dataclass

from ..owner import worker_for
from .swap.moving import discard

SUFFIX = ".safekept"
INTENT, LANDED, TAKEN_BACK = "plan.jsonl", "landed.jsonl", "taken-back.jsonl"

#: Seconds to wait for the one that fills search indexes: it holds the lock for moments.
_MOMENTS = 30.0
_NOT_PERMITTED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class LandingNotPermitted(SafekeptError):
    code = "landing-not-permitted"


class AreaNotOurs(SafekeptError):
    code = "area-not-ours"


def not_permitted(error: OSError, home: str, kept: str) -> LandingNotPermitted | None:
    """The refusal for a place that may not be written; None where the system said something else."""
    if error.errno not in _NOT_PERMITTED:
        return None
    where = place_of(error, home)
    return LandingNotPermitted(
        f"`{where}` cannot be written: {os.strerror(error.errno)}",
        kept=kept,
        next_steps=(
            "Make that filesystem writable, then run the command again"
            if error.errno == errno.EROFS
            else "Run the command as the user that the home belongs to, or mend the permissions",
        ),
        path=where,
    )


def place_of(error: OSError, home: str) -> str:
    """What an error is about: its own path where that is a whole one, else the home.

    A name relative to an open directory (`1`, of something staged) says nothing to a reader.
    """
    named = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return named if os.path.isabs(named) else home


@dataclass(frozen=True, slots=True)
class LandingDirectory:
    """One landing's own directory."""

    path: str

    @property
    def operation(self) -> str:
        return os.path.basename(self.path)

    @property
    def staged(self) -> str:
        return os.path.join(self.path, "staged")

    @property
    def replaced(self) -> str:
        return os.path.join(self.path, "replaced")

    @property
    def set_aside(self) -> str:
        return os.path.join(self.path, "set-aside")

    @property
    def search_note(self) -> str:
        return os.path.join(self.path, "search.json")

    @property
    def state(self) -> str:
        """The record that is there: INTENT, LANDED, TAKEN_BACK, or empty before any of them."""
        for name in (LANDED, TAKEN_BACK, INTENT):
            if os.path.lexists(os.path.join(self.path, name)):
                return name
        return ""

    @property
    def record(self) -> str:
        return os.path.join(self.path, self.state or INTENT)

    def mark(self, state: str) -> None:
        """Commit, or declare taken back: one rename, durable when this returns."""
        os.rename(os.path.join(self.path, INTENT), os.path.join(self.path, state))
        fsync_directory(self.path)

    def sweep(self, *names: str) -> None:
        """Remove parts of it, or all of it where no part is named."""
        if not names:
            discard(self.path)
        for name in names:
            discard(os.path.join(self.path, name))


@dataclass(frozen=True, slots=True)
class Area:
    """The work area of one home."""

    path: str

    @contextlib.contextmanager
    def lock(self, doing: str, wait: float = 0.0) -> Iterator[None]:
        """One landing per home at a time; raises AlreadyRunning, naming the holder."""
        if lock_is_held(self.search_lock):
            wait = max(wait, _MOMENTS)
        with process_lock(os.path.join(self.path, "lock"), doing, wait):
            yield

    @property
    def search_lock(self) -> str:
        return os.path.join(self.path, "search.lock")

    def begin(self, operation: str) -> LandingDirectory:
        """A fresh directory for one landing."""
        landings = os.path.join(self.path, "landings")
        private_directory(landings)
        if not _ours(landings):
            raise _not_ours(landings)
        directory = LandingDirectory(os.path.join(landings, operation))
        os.mkdir(directory.path, 0o700)
        os.mkdir(directory.staged, 0o700)
        os.mkdir(directory.replaced, 0o700)
        return directory

    def all(self) -> list[LandingDirectory]:
        """Every landing, oldest first: operation ids sort by time."""
        landings = os.path.join(self.path, "landings")
        try:
            names = sorted(os.listdir(landings)) if _ours(landings) else []
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = [LandingDirectory(os.path.join(landings, name)) for name in names]
        return [directory for directory in found if _ours(directory.path)]


def real_home(home: str) -> str:
    """The home itself, where the name given is a link to it."""
    return os.path.realpath(home)


def existing_areas(home: str) -> list[Area]:
    """The areas that this home already has: none for one that never saw a landing."""
    if (worker := worker_for(home)) is not None:
        return [Area(str(place)) for place in worker.do("areas", home)]
    home = real_home(home)
    places = (home + SUFFIX, os.path.join(home, SUFFIX))
    return [Area(place) for place in places if _ours(place) and _ours(os.path.join(place, "landings"))]


def open_area(home: str) -> Area:
    """The area for a new landing, made where it is missing; on the home's filesystem."""
    home = real_home(home)
    beside = home + SUFFIX
    if _beside_is_possible(home):
        with contextlib.suppress(PermissionError):
            private_directory(beside)
            if _ours(beside):
                _close(beside)
                return Area(beside)
    inside = os.path.join(home, SUFFIX)
    private_directory(inside)
    if not _ours(inside):
        raise _not_ours(inside)
    _close(inside)
    return Area(inside)


def owner_of(home: str) -> tuple[int, int]:
    """Who a home belongs to; for one that does not exist, who the place belongs to."""
    place = real_home(home)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    facts = os.stat(place)
    return facts.st_uid, facts.st_gid


def is_area(path: str) -> bool:
    """Whether a path relative to a home is in its work area, which is no part of the home."""
    return path == SUFFIX or path.startswith(SUFFIX + "/")


def _beside_is_possible(home: str) -> bool:
    parent = os.path.dirname(home)
    if not os.path.isdir(home):
        return True
    same = os.stat(parent).st_dev == os.stat(home).st_dev
    return same and os.access(parent, os.W_OK | os.X_OK)


def _ours(path: str) -> bool:
    """A real directory of this user: no link that another user put there first leads us elsewhere."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and owned_by_us(facts)


def _not_ours(path: str) -> AreaNotOurs:
    return AreaNotOurs(
        f"`{path}` is a link, or belongs to another user, or others can write it",
        kept="It was not used, and nothing was changed",
        next_steps=("Find out who put it there, move it away, then run the command again",),
        path=path,
    )


def _close(path: str) -> None:
    """Closed to all others."""
    if stat.S_IMODE(os.lstat(path).st_mode) != 0o700:
        os.chmod(path, 0o700)
