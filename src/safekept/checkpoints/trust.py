"""What is known from the last checkpoint, as far as it can be trusted.

The cache says that a file which still looks the same is in the store. That holds while the checkpoint it
describes is there, and every pack it counts on is there and is what was written. Otherwise the objects
are looked up, and where one is missing, or only in a damaged pack, everything is read and stored anew.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from safekept.core.events import Event, Listener

from .cache import Cache
from .damage import Damage, note_damage, pack_is_sound, read_damage
from .objects import NOTHING
from .pack_record import GONE, PackRecord, add_to_record, looks_of, read_record, write_record
from .project import project_id
from .store import Store


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
            looks = looks_of(self._place, name)
            if looks == known:
                continue
            changed += 1
            if looks != GONE and pack_is_sound(os.path.join(self._place, name)):
                continue
            if looks_of(self._place, name) == GONE:
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
        for path in cache.paths():
            folder = cache.get(path)
            if folder is not None:
                wanted |= folder.objects()
        self._store.objects.refresh()
        missing = self._store.objects.missing(wanted)
        if missing:
            text = f"{len(missing)} objects of the last checkpoint are missing: everything is read anew"
            self._listener(Event("store", path=self._project, text=text))
            self.remarks.append(text)
        return not missing
