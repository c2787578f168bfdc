"""The repository's part of a checkpoint: looked at before the files, stored with them.

A call pays for a few looks while nothing moved. When something did, refs and index are read at once, so that
they are those of this moment, and git packs the new objects; what takes longer than a call may wait goes on
in a process of its own. Whatever is wrong with a repository, the checkpoint of the files is taken.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from safekept.core.files.small import read_regular

from ...project import project_id
from ..objects import FILE, encode_tree, object_id
from ..pack_writer import PackWriter
from ..store import Store
from .locating import Located, Look, all_settled, locate_all, look
from .state import ESSENCE, STATE, RepositoryState, encode, essence_of

if TYPE_CHECKING:
    from ...take.taken import TakeSettings
    from .keeping import Kept, WantedObjects
    from .reading import RepositoryReading

#: Seconds for the objects: of a mark, which is made in the background; of a point that a rollback needs.
_MARK_WAIT, _UNDO_WAIT = 20.0, 600.0
#: Of what HEAD stood at, so much is kept beside the refs.
_MOST_LOGGED = 200
#: Not started again within so many seconds.
_AGAIN = 30.0


class RepositoryLook:
    """One look, for one take. `facts` is what is remembered until the next."""

    def __init__(
        self, store: Store, project: str, facts: tuple[Any, ...], settings: TakeSettings, kind: str
    ) -> None:
        self._store, self._project, self._settings, self._kind = store, project, settings, kind
        known: tuple[Any, ...] = facts if len(facts) == 7 else (b"", (), b"", (), (), False, ())
        self._tree, self._objects, self._essence, self._looks, self._nested, self._pending, self._tips = known
        self._held: dict[str, bytes] = {}  # blobs of this reading
        self._new: list[tuple[bytes, bytes]] = []  # names and bytes of what is to be stored
        self._behind = False  # the last call did not wait for all of it
        self.changed = False
        self.remarks: list[str] = []

    @property
    def facts(self) -> tuple[Any, ...]:
        known = (
            self._tree,
            self._objects,
            self._essence,
            self._looks,
            self._nested,
            self._pending,
            self._tips,
        )
        return known if self._tree else ()

    def look(self, nested: Sequence[str] | None) -> None:
        """`nested`: `.git` names inside the project, where a pass saw them; else those of the last pass."""
        names = tuple(nested) if nested is not None else self._nested
        same = bool(self._tree) and names == self._nested and _looks_the_same(self._looks)
        if same and (not self._pending or self._settings.repository_wait < 0):
            return
        try:
            self._read(names)
        except Exception as error:  # a repository of any shape must not cost a checkpoint
            self._looks = ()
            self.remarks.append(f"the git repository could not be read: {type(error).__name__}: {error}")

    def store(self, writer: PackWriter) -> bytes:
        """The tree that goes into the checkpoint; new objects are written."""
        if self.changed:
            entries = [(FILE, name, writer.add(b"blob", data)) for name, data in self._new]
            stored = {writer.add(b"blob", data) for data in self._held.values()}
            entries += [(FILE, oid.hex().encode(), oid) for oid in stored]
            tree = writer.add(b"tree", encode_tree(entries))
            self._tree, self._objects = tree, tuple(sorted(oid for _, _, oid in entries))
            self._essence = dict(self._new)[ESSENCE]
        return bytes(self._tree)

    def _read(self, names: tuple[str, ...]) -> None:
        from .reading import RepositoryReading  # most calls find that nothing moved, and do not pay for it

        places = locate_all(self._project, names)
        readings = [RepositoryReading(place, self._ours(place), self._put) for place in places]
        self._held = {}
        states = [reading.read() for reading in readings]
        looks = [one for reading in readings for one in reading.looks]
        looks += [look(os.path.join(self._project, ".git"))]
        essence = essence_of(states)
        staged = essence != self._essence
        self._behind, self._pending = self._pending, False
        if self._settings.repository_wait >= 0:
            for place, state, reading in zip(places, states, readings, strict=True):
                self._hold(place, state, reading, staged)
        self.changed = staged or not self._tree
        self._new = [(STATE, encode(states)), (ESSENCE, essence)]
        self._nested, self._looks = names, tuple(looks) if all_settled(looks) else ()
        self._tips = tuple(oid for state in states for oid in state.objects()[:500])

    def _put(self, data: bytes) -> str:
        name = object_id(b"blob", data).hex()
        self._held[name] = data
        return name

    def _ours(self, place: Located) -> str:
        """A repository of ours with names of the same length, to ask git about an index in."""
        if place.format == "sha1":
            return self._store.repository
        from .keeping import Kept

        kept = Kept(self._store.directory, place.common, place.format)
        with contextlib.suppress(OSError):
            kept.prepare()
        return kept.directory

    def _hold(self, place: Located, state: RepositoryState, reading: RepositoryReading, staged: bool) -> None:
        from .keeping import Kept

        kept = Kept(self._store.directory, place.common, place.format)
        wanted = wanted_of(place, state, reading, self._tips)
        wait = {"after": _MARK_WAIT, "manual": _MARK_WAIT, "undo": _UNDO_WAIT}.get(self._kind, 0.0)
        if self._behind and not wait:  # a process has begun with it; no call tries again beside that
            held, kept.trouble = not kept.lacks_tips(wanted), "it is large, and is kept behind the call"
        else:
            held = kept.hold(wanted, max(wait, self._settings.repository_wait), staged=staged)
        try:
            kept.used_by(project_id(self._project))
        except (
            OSError
        ) as error:  # another user of it could take it away: it is not held until that is written
            held, kept.trouble = False, kept.trouble or error.strerror or str(error)
        if held and not kept.lacks(wanted) and not kept.crowded:
            return
        self._pending = self._pending or not held
        if not held and self._kind == "manual":  # an agent is not told of what goes on behind it
            where = f" of {place.path}" if place.path else ""
            self.remarks.append(f"the git history{where} is not kept whole yet: {kept.trouble}")
        with contextlib.suppress(OSError):
            start_behind(kept, self._store.directory, self._project, place.path)


def wanted_of(
    place: Located, state: RepositoryState, reading: RepositoryReading, stops: Sequence[str] = ()
) -> WantedObjects:
    """What has to be held of a repository as it was just read."""
    from .keeping import WantedObjects

    remote = state.remote_objects()
    elsewhere = set(remote)
    tips = [oid for oid in (*state.objects(), *reading.stash_objects()) if oid not in elsewhere]
    logged = [oid for oid in reading.logged_objects(_MOST_LOGGED) if oid.strip("0")]
    shallow = b""
    with contextlib.suppress(OSError):
        shallow = read_regular(os.path.join(place.common, "shallow"), follow=False)
    return WantedObjects(
        place.objects,
        list(dict.fromkeys(tips)),
        remote,
        logged,
        list(stops),
        reading.index,
        shallow,
    )


def _looks_the_same(looks: Sequence[Look]) -> bool:
    return bool(looks) and all(look(one[0]) == tuple(one) for one in looks)


# What a call does not wait for: a large history the first time, and what a remote has as well.


def start_behind(kept: Kept, directory: str, project: str, path: str) -> None:
    """Go on in a process of its own, once in a while. Raises OSError."""
    stamp = os.path.join(kept.directory, "started")
    with contextlib.suppress(FileNotFoundError):
        if 0 <= time.time() - os.stat(stamp).st_mtime < _AGAIN:
            return
    with kept.opened(), open(stamp, "wb"):
        pass
    from safekept.core.processes.process import run_detached

    run_detached("safekept.checkpoints.store.repositories.taking", directory, project, path)


def main() -> None:
    """The detached process: `python -c … ROOT DIRECTORY PROJECT PATH`."""
    os.nice(19)
    os.umask(0o077)
    keep_whole(sys.argv[2], sys.argv[3], sys.argv[4])


def keep_whole(directory: str, project: str, path: str, wait: float = 1800.0) -> bool:
    """Hold everything of a repository as it stands now, what a remote has, too."""
    from .keeping import Kept
    from .reading import RepositoryReading

    found = [place for place in locate_all(project, [os.path.join(path, ".git")]) if place.path == path]
    if not found:
        return False
    place = found[0]
    kept = Kept(directory, place.common, place.format)
    reading = RepositoryReading(place, kept.directory, lambda data: "")
    kept.prepare()
    state = reading.read()
    return kept.hold(wanted_of(place, state, reading), wait, pushed=True, staged=True)
