"""Where a drill restores to: a private directory on a filesystem with room, gone when the drill is.

The place belongs to a living process by a lock that the kernel lets go of when it dies, so what a killed
drill left behind is known for certain, and the next drill removes it. Never inside a home, the vault or
a checkpoint store; never in memory if a disk will do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.files import NoRoom, free_bytes, private_directory
from safekept.core.next_step import NextStep
from safekept.core.owner import foreign_owner
from safekept.core.platform.filesystems import keeps_modes
from safekept.core.processes.process import left_behind, owner_mark
from safekept.home.landing import discard

from ..base.context import UserContext
from ..base.own_places import known_homes, within

#: How every place of a drill is called, so that sweeping can know its own.
PREFIX = "safekept-drill-"
_LOCK = "lock"
#: Beyond what is restored: directories, logs of databases that are opened, the filesystem's own needs.
SPARE = 32 << 20
_ODD_TIME_NS = 1_700_000_000_123_456_789


class NoScratch(SafekeptError):
    code = "no-scratch"


class DrillPlace:
    """The directory of one drill."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.mkdir(path, 0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._lock = os.open(os.path.join(path, _LOCK), flags, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @property
    def exact_times(self) -> bool:
        """Whether this filesystem keeps nanoseconds."""
        os.utime(self._lock, ns=(_ODD_TIME_NS, _ODD_TIME_NS))
        return os.fstat(self._lock).st_mtime_ns == _ODD_TIME_NS

    @property
    def keeps_modes(self) -> bool:
        """And the rights of a file."""
        return keeps_modes(self._lock)

    def release(self) -> None:
        """Let go of it: from now on any later drill may remove it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove(path: str) -> None:
    """Take a place away, through any number of Ctrl-C and requests to end; the last is raised afterwards."""
    first_error: BaseException | None = None
    while os.path.lexists(path):
        try:
            discard(path)
        except (KeyboardInterrupt, SystemExit) as error:
            first_error = error
        except OSError:
            break  # the next drill tries again
    if first_error is not None:
        raise first_error


@contextlib.contextmanager
def drill_place(
    context: UserContext, needed: int, scratch: str = "", homes: Sequence[str] = ()
) -> Iterator[DrillPlace]:
    """An empty directory, 0700, with room for `needed` bytes, that is gone afterwards.

    `scratch`: in this directory and no other. Raises NoRoom with the numbers of every place that was
    looked at, and NoScratch where a named one cannot be used.
    """
    base = choose_base(context, needed, scratch, homes)
    path = os.path.join(base, f"{PREFIX}{owner_mark()}-{secrets.token_hex(4)}")
    place: DrillPlace | None = None
    try:
        place = DrillPlace(path)
        yield place
    finally:
        remove(path)
        if place is not None:
            place.release()


def bases(context: UserContext) -> list[str]:
    """Where a drill may work, in the order in which they are tried: disks before what may be memory."""
    found = [os.path.join(context.places.data_directory, "scratch")]
    if context.places.cache_directory:
        found.append(context.places.cache_directory)
    found += ["/var/tmp", context.caller.temporary_directory, "/tmp"]  # noqa: S108
    return list(dict.fromkeys(path for path in found if path))


def choose_base(context: UserContext, needed: int, scratch: str, homes: Sequence[str]) -> str:
    """The first directory with room."""
    wanted = needed + SPARE
    looked: list[tuple[str, int]] = []
    for base in [os.path.abspath(scratch)] if scratch else bases(context):
        why = _unusable(context, base, homes, make=not scratch)
        if why and scratch:
            raise NoScratch(
                f"A drill cannot restore into `{base}`: {why}",
                kept="Nothing was changed; nothing was restored",
                next_steps=(NextStep("drill", ("--scratch", "DIR"), before="Name a directory of your own:"),),
                place=base,
            )
        if why:
            continue
        free = free_bytes(base)
        if free >= wanted:
            return base
        looked.append((base, free))
    raise no_room(wanted, looked)


def no_room(needed: int, looked: Sequence[tuple[str, int]]) -> NoRoom:
    """The one text for a drill without room, met before it or while it restores."""
    places = "; ".join(f"`{base}` has {free:,}" for base, free in looked) or "no place has so much"
    return NoRoom(
        f"There is no room to restore into: a drill needs {needed:,} bytes; {places}",
        kept="Nothing was changed; what was restored for the drill has been removed",
        next_steps=(
            NextStep("drill", ("--scratch", "DIR"), before="Name a directory on a disk with room:"),
            NextStep("drill", ("--small",), before="Or restore the state files only:"),
        ),
        needed=needed,
        places=[{"place": base, "free": free} for base, free in looked],
    )


def _unusable(context: UserContext, base: str, homes: Sequence[str], *, make: bool) -> str:
    """Why nothing may be restored there; empty where it may."""
    if make:
        with contextlib.suppress(OSError):
            private_directory(base)
    if not os.path.isdir(base):
        return "there is no such directory"
    if (owner := foreign_owner(base)) is not None:
        return f"it belongs to `{owner.name}`"
    real = os.path.realpath(base)
    for home in (*homes, *known_homes(context)):
        if home and within(real, os.path.realpath(home)):
            return f"it lies in the home `{home}`"
    if context.places.vault.startswith("/") and within(real, os.path.realpath(context.places.vault)):
        return "it lies in the vault"
    if not os.access(base, os.W_OK | os.X_OK):
        return "it cannot be written"
    return ""


def sweep(places: Sequence[str]) -> list[str]:
    """Remove what killed drills left in these directories; the places that went."""
    swept = []
    for base in dict.fromkeys(places):
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(base)):
                path = os.path.join(base, name)
                if name.startswith(PREFIX) and _left_behind(path):
                    discard(path)
                    swept.append(path)
    return swept


def _left_behind(path: str) -> bool:
    """Ours, a real directory, and no process holds its lock any more."""
    try:
        facts = os.lstat(path)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return False
        descriptor = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        # Between making the directory and its lock there is a moment; an old one without is left over.
        return _pid_is_gone(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _pid_is_gone(path: str) -> bool:
    name = os.path.basename(path).removeprefix(PREFIX)
    try:
        return left_behind(name, os.lstat(path).st_mtime)
    except OSError:
        return False
