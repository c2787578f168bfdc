"""What each user's stores consisted of, manifest after manifest, by the keeper's clock; and what may go.

A manifest is taken only where every object that it names is there. One that names less than half of the
largest, in bytes or in points, is taken too, and is an alarm: the largest one is pinned until root
acknowledges. Manifests are numbered, so that a clock that was set changes no order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from safekept.core.files import durable_write, remove_quietly
from safekept.core.files.small import read_document
from safekept.core.records import dataclass

from .pages import MAX_ENTRIES, MAX_PAGE, BadManifest, Entry, read_page, read_root
from .room import Refused, Room, counted
from .wire import NAMES_AT_ONCE, is_name

#: So many of the newest manifests stay whatever the clock says.
NEVER_FEWER = 3
DAY = 86400.0
#: An object that no manifest names yet may be on its way into one.
_GRACE = DAY
_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was there at one moment, added up."""

    number: int
    time: float  # by the keeper's clock
    root: str
    files: int
    bytes: int  # of different objects
    points: int  # snapshots and checkpoints
    shrunk: bool = False  # less than half of the largest one


def read_manifest(fields: Mapping[str, Any]) -> Manifest:
    """One as the other side says it. Raises one of BAD_SHAPE."""
    numbers = [int(fields[name]) for name in ("number", "files", "bytes", "points")]
    root, time = fields["root"], float(fields["time"])
    if min(numbers) < 0 or max(numbers) >= 1 << 62 or not is_name(root) or not 0 <= time < 1e11:
        raise ValueError("no manifest")
    number, files, size, points = numbers
    return Manifest(number, time, root, files, size, points, fields.get("shrunk") is True)


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a person has to look at. `pinned`: the manifest that stays until then, 0 for none."""

    pinned: int = 0
    since: float = 0.0
    acknowledged: int = 0  # up to this manifest everything was looked at
    full: float = 0.0  # since when nothing new fits


class MissingObjects(Exception):
    """A manifest names objects that are not there; `names` are some of them."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("objects are missing")
        self.names = names


class ManifestHistory:
    """The manifests of one room."""

    def __init__(self, room: Room, clock: Callable[[], float] = time.time) -> None:
        self.room, self._clock = room, clock

    def numbers(self) -> list[int]:
        """All of them, oldest first."""
        return sorted(int(name) for name in os.listdir(self.room.manifests) if name.isdecimal())

    def manifests(self) -> Iterator[Manifest]:
        """Newest first. One that cannot be read is passed over; what it named stays for its grace only."""
        for number in reversed(self.numbers()):
            if (found := self.get(number)) is not None:
                yield found

    def get(self, number: int) -> Manifest | None:
        return read_document(self._place(number), lambda fields: Manifest(**fields), None)

    @property
    def alarm(self) -> Alarm:
        return read_document(self._state, lambda fields: Alarm(**fields), Alarm())

    def commit(self, root: str) -> Manifest:
        """Take a manifest by the name of its list of pages. MissingObjects, Refused, BadManifest."""
        room = self.room
        with room.locked():
            last = next(self.manifests(), None)
            if last is not None and last.root == root:
                os.utime(self._place(last.number), follow_symlinks=False)  # still so
                return last
            known = set(self.pages(last)) if last is not None else set()
            files, size, points = self._added_up(root, known)
            # Whatever was ever taken is compared with, as long as it is held: a wrong clock hides nothing.
            alarm = self.alarm
            earlier = [one for one in self.manifests() if one.number > alarm.acknowledged]
            largest = max(earlier, key=lambda one: (one.bytes, one.points), default=None)
            most = max((one.points for one in earlier), default=0)
            shrunk = largest is not None and (2 * size < largest.bytes or 2 * points < most)
            number = (last.number if last is not None else 0) + 1
            made = Manifest(number, self._clock(), root, files, size, points, shrunk)
            room.make_durable()
            durable_write(self._place(number), _json(asdict(made)), 0o400)
            room.count(room.used + counted(0))
            if shrunk and not alarm.pinned:
                by_points = largest is not None and 2 * size >= largest.bytes
                kept = max(earlier, key=lambda one: one.points) if by_points else largest
                assert kept is not None
                self._write(Alarm(kept.number, made.time, alarm.acknowledged, alarm.full))
            return made

    def confirmed(self, number: int) -> float:
        """When this was last said to be so."""
        return os.stat(self._place(number)).st_mtime

    def note_full(self, full: bool) -> None:
        """Remember that something did not fit, or that it fits again."""
        with self.room.locked():
            alarm = self.alarm
            if bool(alarm.full) != full:
                since = self._clock() if full else 0.0
                self._write(Alarm(alarm.pinned, alarm.since, alarm.acknowledged, since))

    def acknowledge(self) -> Alarm:
        """A person looked: what is pinned may go by its age from now on. What it was."""
        with self.room.locked():
            alarm, numbers = self.alarm, self.numbers()
            self._write(Alarm(acknowledged=numbers[-1] if numbers else 0))
            return alarm

    def give_back(self, keep_days: float) -> int:
        """Remove what no manifest names that still counts; bytes that were given back.

        By the keeper's clock and by nothing else. The newest three and what is pinned always count. A month
        of turns is many manifests: they are read before the lock is taken, so that no caller waits for that.
        """
        room, now = self.room, self._clock()
        named: set[str] = set()
        read: set[int] = set()

        def over(number: int, kept: set[int], found: Manifest | None) -> bool:
            return number not in kept and (found is None or now - found.time > keep_days * DAY)

        kept = self._always_kept()
        for number in self.numbers():
            found = self.get(number)
            if found is not None and not over(number, kept, found):
                self._add_names(found, named)
                read.add(number)
        with room.locked():
            kept = self._always_kept()
            for number in self.numbers():
                found = self.get(number)
                if over(number, kept, found):
                    remove_quietly(self._place(number))
                elif found is not None and number not in read:  # it came, or was pinned, meanwhile
                    self._add_names(found, named)
            freed = 0
            for name, size, came in sorted(room.each(), key=lambda one: one[2]):
                if name not in named and abs(now - came) > _GRACE:
                    os.unlink(room.place(name))
                    freed += size
            for item in os.scandir(room.incoming):
                if abs(now - item.stat().st_mtime) > _GRACE:
                    remove_quietly(item.path)
            room.count(room.counted_again())
            return freed

    def pages(self, manifest: Manifest) -> list[str]:
        return read_root(self.room.read(manifest.root, MAX_PAGE))

    def entries(self, pages: list[str]) -> Iterator[Entry]:
        count = 0
        for name in pages:
            for entry in read_page(self.room.read(name, MAX_PAGE)):
                count += 1
                if count > MAX_ENTRIES:
                    raise BadManifest("it names too many files")
                yield entry

    def _added_up(self, root: str, known: set[str]) -> tuple[int, int, int]:
        """Files, bytes and points; of pages that are new, every object is looked for."""
        missing = self.room.missing([root])
        if missing:
            raise MissingObjects(missing)
        pages = read_root(self.room.read(root, MAX_PAGE))
        if missing := self.room.missing(pages):
            raise MissingObjects(missing[:NAMES_AT_ONCE])
        files = points = 0
        sizes: dict[str, int] = {}
        for page in pages:
            for entry in self.entries([page]):
                files += 1
                points += entry.is_point
                if files > MAX_ENTRIES:
                    raise BadManifest("it names too many files")
                for name, size in entry.parts:
                    if name in sizes:
                        continue
                    sizes[name] = size
                    there = size if page in known else self.room.size(name)
                    if there < 0:
                        missing.append(name)
                    elif there != size:
                        raise Refused("bad-size", f"the object {name} has {there:,} bytes, not {size:,}")
            if len(missing) >= NAMES_AT_ONCE:
                break
        if missing:
            raise MissingObjects(missing[:NAMES_AT_ONCE])
        return files, sum(sizes.values()), points

    def _always_kept(self) -> set[int]:
        return {*self.numbers()[-NEVER_FEWER:], self.alarm.pinned}

    def _add_names(self, manifest: Manifest, named: set[str]) -> None:
        """Every object that a manifest stands on; a page that an earlier one shares is read once."""
        pages = [page for page in self.pages(manifest) if page not in named]
        named.update((manifest.root, *pages))
        named.update(name for one in self.entries(pages) for name, _ in one.parts)

    @property
    def _state(self) -> str:
        return os.path.join(self.room.directory, _STATE)

    def _place(self, number: int) -> str:
        return os.path.join(self.room.manifests, f"{number:010d}")

    def _write(self, alarm: Alarm) -> None:
        durable_write(self._state, _json(asdict(alarm)))


def _json(fields: dict[str, object]) -> bytes:
    import json

    return json.dumps(fields).encode() + b"\n"
