"""The ground that a home is rebuilt on: a directory beside it to build in, and what is there now put aside.

Everything is built and proven in `<home>.safekept-rebuild` before the home is touched. Then two renames: what
was there goes to a name of its own beside it and is never deleted, the new one takes its place. A rebuild
that was killed between the two is made right by the next one, which first brings the old home back. A mount
point cannot be renamed: where it is empty, the new home is built in it, and what is in the new home moves up.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, fsync_directory
from safekept.core.files.small import read_fields
from safekept.core.locks import process_lock
from safekept.core.platform.filesystems import keeps_modes
from safekept.core.records import dataclass
from safekept.home.landing import (
    HeldDatabase,
    LandingNotPermitted,
    UnsafeTarget,
    discard,
    existing_areas,
    not_permitted,
    owner_of,
    usage,
    who_holds,
)
from safekept.home.layout import HomeNotDirectory, Layout, Proven

from ..base.context import UserContext
from ..base.own_places import refuse_unsafe_target, within

SUFFIX = ".safekept-rebuild"
_AREA = ".safekept"
_LOCK, _SWAP = "lock", "swap.json"
_UNTOUCHED = "The home is as it was"
_ODD_TIME_NS = 1_700_000_000_123_456_789


class HomeNotMovable(SafekeptError):
    code = "home-not-movable"


@dataclass(frozen=True, slots=True)
class RebuildTarget:
    """Where the home is to be, and what has to happen there."""

    home: str
    aside: str  # where what is there now will go; "" where there is nothing
    beside: bool  # built beside the home and then renamed; else in it, which is empty
    owner: tuple[int, int]  # whom everything is to belong to
    stays: tuple[str, ...] = ()  # the agent's own program, in the home that is there now: it stays in place
    there: tuple[str, ...] = ()  # what else is there now, by name

    @property
    def staging(self) -> str:
        return self.home + SUFFIX if self.beside else os.path.join(self.home, SUFFIX)

    @property
    def built(self) -> str:
        """Where the new home is until it takes its place."""
        return os.path.join(self.staging, "home")

    @property
    def bring_back(self) -> str:
        """The commands that put things back as they were; "" where nothing was there."""
        import shlex

        if not self.aside:
            return ""
        home, aside = shlex.quote(self.home), shlex.quote(self.aside)
        rebuilt = shlex.quote(self.home + ".rebuilt")
        back = [f"mv {rebuilt}/{shlex.quote(name)} {aside}/" for name in self.stays]
        return " && ".join([f"mv {home} {rebuilt}", *back, f"mv {aside} {home}"])


def inspect_target(context: UserContext, home: str, layout: Layout | None = None) -> RebuildTarget:
    """What is at the target, and whether it can be put aside. Changes nothing but what a kill left behind."""
    for what, place in (("your home directory", context.places.user_home), ("`/`", "/")):
        if within(os.path.realpath(place), home) and (home != "/" or place == "/"):
            raise UnsafeTarget(
                f"Nothing is rebuilt in `{home}`: it is {what}, or holds it",
                kept="Nothing was changed",
                next_steps=("Name the directory of the agent itself with `--home DIR`",),
                target=home,
            )
    try:
        refuse_unsafe_target(context, home, into=True, exact=False)
    except UnsafeTarget as error:
        error.next_steps = ("Name a directory of its own, a new one or an empty one, with `--home DIR`",)
        raise
    _put_old_state_back(home)
    owner = owner_of(home)
    movable = _movable(home)
    try:
        there = [name for name in os.listdir(home) if name != SUFFIX]
    except FileNotFoundError:
        return RebuildTarget(home, "", True, owner)
    except NotADirectoryError:
        raise HomeNotDirectory(
            f"`{home}` is not a directory, so no home can be rebuilt there",
            kept="Nothing was changed",
            next_steps=("Move it away, or name another place with `--home DIR`",),
            home=home,
        ) from None
    except OSError as error:
        raise _refused(error, home) from error
    if not there:
        return RebuildTarget(home, "", movable, owner)
    if not movable:
        raise HomeNotMovable(
            f"`{home}` is not empty, and cannot be put aside: it is a mount point, or the directory above it "
            "cannot be written",
            kept=_UNTOUCHED,
            next_steps=(
                "Move what is in it to another place yourself, then run the command again",
                "Or rebuild in another place with `--home DIR`",
            ),
            home=home,
        )
    stays = tuple(sorted(name for name in there if layout is not None and _is_program(layout, home, name)))
    others = tuple(sorted(name for name in there if name not in stays))
    return RebuildTarget(home, _free_name(home), True, owner, stays, others)


def _is_program(layout: Layout, home: str, name: str) -> bool:
    """Whether it is the code of the agent, or an environment that it runs in: no backup holds either."""
    place = os.path.join(home, name)
    if os.path.islink(place) or not os.path.isdir(place) or os.path.ismount(place):
        return False
    try:
        contents = os.listdir(place)
    except OSError:
        return False
    return name == layout.code_path or isinstance(layout.excluded(name, True, (), contents), Proven)


def refuse_held(home: str, layout: Layout) -> None:
    """A running agent would go on writing into the home that is put aside."""
    for directory, names, files in os.walk(home):
        relative = os.path.relpath(directory, home)
        prefix = "" if relative == "." else relative + "/"
        names[:] = [name for name in names if layout.database_below(prefix + name)]
        for name in files:
            if layout.database(prefix + name) and (found := who_holds(os.path.join(directory, name))):
                used, way_on = usage(found)
                raise HeldDatabase(
                    f"`{os.path.join(directory, name)}` {used}, which would go on "
                    "writing into the home that is put aside",
                    kept=_UNTOUCHED,
                    next_steps=(way_on,),
                    path=prefix + name,
                    holders=[{"pid": one.pid, "command": one.command, "how": one.how} for one in found],
                )


@contextlib.contextmanager
def building(ground: RebuildTarget) -> Iterator[RebuildTarget]:
    """The directory to build in: private, the owner's own, one rebuild at a time, gone afterwards."""
    try:
        _make_above(ground)
        _make(ground.staging, ground.owner)
        try:
            with process_lock(os.path.join(ground.staging, _LOCK), "rebuild"):
                _empty(ground.staging)
                try:
                    yield ground
                finally:
                    _empty(ground.staging)
                    _discard_held(ground.staging)
        finally:
            with contextlib.suppress(OSError):
                os.rmdir(ground.staging)
    except OSError as error:
        raise _refused(error, ground.home) from error


def _discard_held(staging: str) -> None:
    """On FUSE and NFS our open lock keeps a name in the directory, which can go only once it is closed."""
    try:
        discard(staging)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def put_in_place(ground: RebuildTarget) -> None:
    """The two renames. Raises with the old home where it was, or returns with the new one there."""
    if not ground.beside:
        _move_up(ground)
        return
    above = os.path.dirname(ground.home)
    areas = [one.path for one in existing_areas(ground.home) if one.path == ground.home + _AREA]
    with contextlib.ExitStack() as held:
        for area in existing_areas(ground.home):
            held.enter_context(area.lock("rebuild"))
        swap = {"home": ground.home, "aside": ground.aside, "areas": areas, "stays": ground.stays}
        durable_write(os.path.join(ground.staging, _SWAP), json.dumps(swap).encode())
        try:
            if ground.aside:
                os.rename(ground.home, ground.aside)
                for area_path in areas:
                    os.rename(area_path, ground.aside + _AREA)
                for name in ground.stays:
                    if not os.path.lexists(os.path.join(ground.built, name)):
                        os.rename(os.path.join(ground.aside, name), os.path.join(ground.built, name))
            os.rename(ground.built, ground.home)
            fsync_directory(above)
        except OSError as error:
            _put_old_state_back(ground.home)
            raise _refused(error, ground.home) from error
        os.unlink(os.path.join(ground.staging, _SWAP))


def _move_up(ground: RebuildTarget) -> None:
    """Into a mount point: what is in the new home moves up, name by name."""
    names = sorted(os.listdir(ground.built))
    facts = os.stat(ground.built)
    durable_write(os.path.join(ground.staging, _SWAP), json.dumps({"names": names}).encode())
    try:
        for name in names:
            os.rename(os.path.join(ground.built, name), os.path.join(ground.home, name))
        os.chmod(ground.home, stat.S_IMODE(facts.st_mode))
        fsync_directory(ground.home)
    except OSError as error:
        _put_old_state_back(ground.home)
        raise _refused(error, ground.home) from error
    os.unlink(os.path.join(ground.staging, _SWAP))


def exact_times(ground: RebuildTarget) -> bool:
    """Whether this filesystem keeps nanoseconds."""
    lock = os.path.join(ground.staging, _LOCK)
    os.utime(lock, ns=(_ODD_TIME_NS, _ODD_TIME_NS))
    return os.stat(lock).st_mtime_ns == _ODD_TIME_NS


def modes_stay(ground: RebuildTarget) -> bool:
    """And the rights of a file."""
    place = os.path.join(ground.staging, _LOCK)
    descriptor = os.open(place, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return keeps_modes(descriptor)
    finally:
        os.close(descriptor)


def _put_old_state_back(home: str) -> None:
    """After a kill in the middle of putting it in place: the old state takes its place again."""
    inside = os.path.join(home, SUFFIX)
    names = _read(inside).get("names")
    for name in names if isinstance(names, list) else ():
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(home, name), os.path.join(inside, "home", name))
    found = _read(home + SUFFIX)
    aside, areas = found.get("aside"), found.get("areas")
    if isinstance(aside, str) and aside and found.get("home") == home and not os.path.lexists(home):
        if os.path.isdir(aside):
            stays = found.get("stays")
            for name in stays if isinstance(stays, list) else ():
                if not os.path.lexists(os.path.join(aside, name)):
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(os.path.join(home + SUFFIX, "home", name), os.path.join(aside, name))
            os.rename(aside, home)
        if areas and os.path.isdir(aside + _AREA) and not os.path.lexists(home + _AREA):
            os.rename(aside + _AREA, home + _AREA)
    for staging, record in ((inside, names), (home + SUFFIX, found)):
        if record:
            os.unlink(os.path.join(staging, _SWAP))


def _read(staging: str) -> dict[str, object]:
    return read_fields(os.path.join(staging, _SWAP)) if _ours(staging) else {}


def _movable(home: str) -> bool:
    above = os.path.dirname(home)
    if not os.path.isdir(home):
        return True
    same = os.stat(above).st_dev == os.stat(home).st_dev and not os.path.ismount(home)
    return same and os.access(above, os.W_OK | os.X_OK)


def _free_name(home: str) -> str:
    stem = f"{home}.before-rebuild-{time.strftime('%Y%m%d-%H%M%S')}"
    name, number = stem, 1
    while os.path.lexists(name) or os.path.lexists(name + _AREA):
        number += 1
        name = f"{stem}-{number}"
    return name


def _make_above(ground: RebuildTarget) -> None:
    """The directories above a home that are missing, in the owner's hands."""
    missing = []
    above = os.path.dirname(ground.home)
    while not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    for directory in reversed(missing):
        os.mkdir(directory)
        _give(directory, ground.owner)


def _make(path: str, owner: tuple[int, int]) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    if not _ours(path):
        raise HomeNotMovable(
            f"`{path}` is in the way: a rebuild works there, and it is not a directory of yours",
            kept=_UNTOUCHED,
            next_steps=("Look at what it is, move it away, then run the command again",),
            place=path,
        )
    os.chmod(path, 0o700)
    _give(path, owner)


def _ours(path: str) -> bool:
    """A real directory of this user, so that no link can lead us elsewhere."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and os.geteuid() in (0, facts.st_uid)


def _empty(staging: str) -> None:
    """Everything but the lock. What lies here was never a home in use: that goes aside, not here."""
    for name in os.listdir(staging):
        if name != _LOCK:
            discard(os.path.join(staging, name))


def _give(path: str, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:
        os.chown(path, *owner, follow_symlinks=False)


def _refused(error: OSError, home: str) -> SafekeptError:
    refused = not_permitted(error, home, _UNTOUCHED)
    if refused is not None:
        return refused
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from safekept.core.files import free_bytes
        from safekept.home.landing import existing

        return no_room(home, 0, free_bytes(existing(home)))
    return LandingNotPermitted(
        f"`{error.filename or home}`: {error.strerror or error}",
        kept=_UNTOUCHED,
        next_steps=("Look at the cause, then run the command again",),
    )


def no_room(home: str, needed: int, free: int) -> SafekeptError:
    """The one text for a rebuild without room, met before it or while it builds."""
    from safekept.core.files import NoRoom

    sizes = f"{needed:,} bytes are needed, {free:,} are free" if needed else f"{free:,} bytes are left"
    return NoRoom(
        f"There is not enough room to rebuild `{home}`: {sizes}",
        kept="Nothing was changed; what was begun has been removed",
        next_steps=(
            "Make room on that disk, then run the command again",
            "Or rebuild on another disk with `--home DIR`",
        ),
        needed=needed,
        free=free,
    )
