"""What is known from the last checkpoint, as far as it can be trusted.

The cache says that a file which still looks the same is in the store. That holds while the checkpoint it
describes is there, and every pack it counts on is there and is what was written. Otherwise the objects
are looked up, and where one is missing, or only in a damaged pack, everything is read and stored again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import field

from safekept.core.events import Event, Listener
from safekept.core.files import quick_write
from safekept.core.records import dataclass

from ..project import project_id
from ..store.damage import Damage, note_damage, pack_is_sound, read_damage
from ..store.objects import NOTHING
from ..store.store import Store
from .cache import Cache

# Which packs a project's cache counts on, and what they looked like. Objects vanish only with the pack
# that holds them. As long as every pack named here is there and looks as it did, nothing of what the
# cache describes can be missing; once one is gone or was written to, the objects are looked up one by
# one, and the record begins again. Names are added before the cache is written, so there may be one too
# many, never one too few.

NAME = "packs"
GONE = "missing"
_MARK = "damage="


@dataclass(slots=True)
class PackRecord:
    """`packs`: name -> its looks; empty where they were not recorded. `mark`: the last damage known."""

    packs: dict[str, str] = field(default_factory=dict)
    mark: str = ""


def size_and_time(place: str, pack: str) -> str:
    """Size and time of both files, as one word. A pack is never written to once it has its name."""
    words = []
    for suffix in (".pack", ".idx"):
        try:
            facts = os.stat(os.path.join(place, pack + suffix))
        except OSError:
            return GONE
        words.append(f"{facts.st_size}:{facts.st_mtime_ns}")
    return ":".join(words)


def read_record(directory: str) -> PackRecord | None:
    """The record; None where there is none, and nothing can be said."""
    record = PackRecord()
    with contextlib.suppress(OSError), open(os.path.join(directory, NAME), "rb") as file:
        for line in os.fsdecode(file.read()).split("\n"):
            if line.startswith(_MARK):
                record.mark = line[len(_MARK) :]
            elif line:
                name, _, looks = line.partition(" ")
                record.packs[name] = looks
        return record
    return None


def add_to_record(directory: str, place: str, pack: str) -> None:
    """One more pack, of those in `place`. In front of it a line feed, lest a torn name swallow it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(os.path.join(directory, NAME), flags, 0o600)
    try:
        os.write(descriptor, os.fsencode(f"\n{pack} {size_and_time(place, pack)}\n"))
    finally:
        os.close(descriptor)


def write_record(directory: str, place: str, packs: Collection[str], mark: str) -> None:
    """Begin again with these."""
    lines = [f"{name} {size_and_time(place, name)}\n" for name in sorted(packs)]
    quick_write(os.path.join(directory, NAME), os.fsencode("".join([f"{_MARK}{mark}\n", *lines])))


class Trust:
    """One project's, for one take. `packs`: those that may be built upon."""

    def __init__(self, store: Store, project: str, directory: str, listener: Listener) -> None:
        self._store, self._project, self._directory = store, project, directory
        self._place = store.objects.pack_directory
        self._listener = listener
        self._damage = Damage()
        self.packs: set[str] = set()
        self.remarks: list[str] = []

    def cache(self) -> Cache:
        """The cache; an empty one where it cannot be trusted."""
        cache = Cache.read(self._directory)
        facts = cache.facts
        self.packs = self._store.objects.pack_names()
        recorded = read_record(self._directory)
        looked = self._look_at_packs(recorded)
        if not facts.base:
            cache.clear()
            self.record(())
            return cache
        ref = self._store.refs.get(project_id(self._project), facts.base)
        sound = (
            facts.store == self._store.identity
            and facts.project == os.fsencode(self._project)
            and ref is not None
            and ref == facts.latest.get("commit")
        )
        if sound and (
            recorded is None or recorded.mark != self._damage.mark or not recorded.packs.keys() <= self.packs
        ):
            # Packs went: by maintenance, or lost. Whether anything is missing is looked up once.
            sound = self._nothing_missing(cache, str(ref))
            looked = True
        if not sound:
            cache.clear()
            self.record(())
        elif looked:
            self.record(self.packs)
        return cache

    def record(self, packs: Collection[str]) -> None:
        """Count on these from now on."""
        write_record(self._directory, self._place, packs, self._damage.mark)

    def add(self, pack: str) -> None:
        """Count on one more, just written."""
        add_to_record(self._directory, self._place, pack)
        self.packs.add(pack)

    def _look_at_packs(self, recorded: PackRecord | None) -> bool:
        """Leave out of `packs` what is damaged; True where a pack that was written to is sound after all."""
        changed, bad = 0, []
        for name, known in recorded.packs.items() if recorded else ():
            if name not in self.packs or not known:
                continue
            looks = size_and_time(self._place, name)
            if looks == known:
                continue
            changed += 1
            if looks != GONE and pack_is_sound(os.path.join(self._place, name)):
                continue
            if size_and_time(self._place, name) == GONE:
                self.packs.discard(name)  # by maintenance, since it was listed
            else:
                bad.append(name)
        self._damage = read_damage(self._store.directory)
        if bad:
            what = f"{len(bad)} packs are not what was written" if len(bad) > 1 else f"{bad[0]} is damaged"
            self._damage = note_damage(self._store.directory, bad, what)
        doubtful = self.packs & self._damage.packs.keys()
        if doubtful:
            self._store.objects.doubt(doubtful)
            self.packs -= doubtful
        return changed > len(bad)

    def _nothing_missing(self, cache: Cache, commit: str) -> bool:
        facts = cache.facts
        wanted = {bytes.fromhex(commit), facts.meta} | ({facts.tree} - {NOTHING})
        wanted |= {facts.repository[0], *facts.repository[1]} if facts.repository else set()
        for path in cache.paths():
            folder = cache.get(path)
            if folder is not None:
                wanted |= folder.objects()
        self._store.objects.refresh()
        missing = self._store.objects.missing(wanted)
        if missing:
            text = f"{len(missing)} objects of the last checkpoint are missing: everything is read again"
            self._listener(Event("store", path=self._project, text=text))
            self.remarks.append(text)
        return not missing
