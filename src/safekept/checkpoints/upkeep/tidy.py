"""Keeping the object store small: many packs become one, and what no point holds goes away.

Why nothing that is needed can be lost. New packs are whole, durable and checked before anything that
they replace is touched. What is to be deleted is set aside first; then an instant is waited for at
which nothing is written; then the refs are read again. A writer that began before that instant has made
its ref by then, and whatever that ref needs is put back. A writer that began after it never saw what
was set aside, and has written its own. So what is deleted is held by no ref and by no writer.
Writers do not wait for any of this. A kill at any point leaves files more, never fewer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
import zlib
from collections.abc import Callable, Collection
from dataclasses import field

from safekept.core.files import free_bytes, fsync_directory, sweep_temporaries
from safekept.core.records import dataclass

from ..store.git import run_git
from ..store.object_store import ObjectStore
from ..store.objects import BadObject
from ..store.quarantine import Quarantine
from ..store.repository import no_writer_now
from .inventory import (
    Inventory,
    PackContents,
    Reach,
    RepackPlan,
    plan_repack,
    read_pack_index,
    take_inventory,
    whole_files_only,
)
from .size import fan_outs

#: What `git` left behind is swept when it is older than this, and no writer was seen since it was.
_LEFTOVER_SECONDS = 600.0
#: How long an instant without writers is waited for; what was set aside is out of sight meanwhile.
_PATIENCE = 2.0
_SETTINGS = (
    "pack.threads=1",
    "pack.windowMemory=64m",
    "core.bigFileThreshold=16m",
    "core.sharedRepository=0600",
    "core.fsync=all",
)


#: How git says that the disk is full.
_FULL = ("Out of diskspace", "No space left on device", "Disk quota exceeded")


class OutOfTime(Exception):
    """The run has used up its time; what is left is for the next one."""


class PackingFailed(Exception):
    """Git could not write a pack; nothing was changed."""


@dataclass(slots=True)
class Tidied:
    """What was done."""

    packed: int = 0  # objects in the new pack
    freed: int = 0
    swept: int = 0
    put_back: int = 0
    no_room: bool = False  # for a new pack
    busy: bool = False  # writers never paused, so nothing was deleted this time
    missing: dict[str, str] = field(default_factory=dict)  # object -> a commit that needs it
    damage: list[str] = field(default_factory=list)  # packs and trees that cannot be read
    remarks: list[str] = field(default_factory=list)


class Tidy:
    """One run over one store. The caller holds the maintenance lock."""

    def __init__(self, directory: str, repository: str, git: str, until: float) -> None:
        self.directory, self.repository, self.git = directory, repository, git
        self.until = until  # on the monotonic clock
        self.quarantine = Quarantine(directory, repository)
        self.result = Tidied()
        self._packs = os.path.join(repository, "objects", "pack")

    def mend(self) -> None:
        """Undo what a killed run left half done, and sweep what killed writers left."""
        if self.quarantine.occupied:
            self.result.put_back += self.quarantine.put_all_back()
        self._sweep()

    def join(self) -> None:
        """Make one pack of many small ones. Deletes no object, so it needs to know nothing of refs."""
        inventory = take_inventory(self.repository)
        everything = set(inventory.loose).union(*(pack.objects for pack in inventory.packs))
        if plan_repack(inventory, everything, 0).names:
            plan, stem = self._packed(inventory, everything, 0, False, {})
            self._remove_replaced(plan, stem)

    def expire(
        self,
        roots: Callable[[], set[str]],
        older_than_ns: int,
        thorough: bool = False,
        known_damage: Collection[str] = (),
    ) -> None:
        """Pack what is held and delete what no point holds and is older than its grace.

        Behind a tree or a pack that cannot be read there may be objects that a point holds, and a disk
        may only be failing for a moment: around damage that is not known for long, nothing is deleted.
        """
        inventory = take_inventory(self.repository)
        reach = self._reach(inventory, roots())
        self.result.missing = {name.hex(): commit for name, commit in reach.missing.items()}
        self.result.damage = sorted(
            [os.path.basename(path) for path in inventory.unreadable] + [name.hex() for name in reach.opaque]
        )
        if set(self.result.damage) - set(known_damage):
            self.result.remarks.append("damage was found that is new, so nothing was deleted this time")
            self.join()
            return
        plan, stem = self._packed(inventory, reach.objects, older_than_ns, thorough, reach.names)
        if plan.empty:
            return
        doomed = _content(plan, inventory)
        for path in plan.collected:  # the new pack has them: these are not missed
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._set_aside(plan, stem)
        if not self._no_writer_within():
            self.result.put_back += self.quarantine.put_all_back()
            self.result.busy = True
            # Packs that the new one holds whole may go all the same: no object goes with them.
            held = set(plan.names)
            for pack in plan.packs:
                if stem and pack.stem != stem and held.issuperset(pack.objects):
                    remove_pack(pack)
            return
        self._rescue(reach, roots(), doomed)
        self.quarantine.delete()
        self.result.freed += plan.garbage_bytes

    # -- steps -----------------------------------------------------------------------------

    def _reach(self, inventory: Inventory, commits: set[str]) -> Reach:
        objects = ObjectStore(os.path.join(self.repository, "objects"))
        reach = Reach(_reader(objects), inventory.sizes().get)
        try:
            for number, commit in enumerate(sorted(commits)):
                if number % 16 == 0:
                    self._check_time()
                reach.add(commit)
        finally:
            objects.close()
        return reach

    def _packed(
        self,
        inventory: Inventory,
        held: Collection[bytes],
        older_than_ns: int,
        thorough: bool,
        labels: dict[bytes, bytes],
    ) -> tuple[RepackPlan, str]:
        """Plan and write the new pack. Files that turn out to be damaged are left where they are."""
        plan = plan_repack(inventory, held, older_than_ns, thorough=thorough)
        try:
            return plan, self._write_pack(plan, labels) if plan.names else ""
        except PackingFailed as failure:
            text = str(failure)
            full = any(words in text for words in _FULL) or free_bytes(self.directory) < _spare(plan)
            broken = set() if full else self._broken(plan)
            if full:
                self.result.no_room = True
                return whole_files_only(plan, held, older_than_ns), ""
            if not broken:
                raise
        self.result.damage = sorted({*self.result.damage, *map(os.path.basename, broken)})
        inventory.packs = [pack for pack in inventory.packs if pack.path not in broken]
        inventory.loose = {name: loose for name, loose in inventory.loose.items() if loose.path not in broken}
        plan = plan_repack(inventory, held, older_than_ns, thorough=thorough)
        return plan, self._write_pack(plan, labels) if plan.names else ""

    def _broken(self, plan: RepackPlan) -> set[str]:
        """Which of the files that a plan reads are not sound."""
        found = set()
        for pack in plan.packs:
            self._check_time()
            done = run_git(self.git, self.repository, "verify-pack", pack.path, timeout=300)
            if done.returncode != 0:
                found.add(pack.path)
        for path in plan.collected:
            try:
                with open(path, "rb") as file:
                    content = zlib.decompress(file.read())
                name = os.path.basename(os.path.dirname(path)) + os.path.basename(path)
                if hashlib.sha1(content, usedforsecurity=False).hexdigest() != name:
                    found.add(path)
            except (OSError, zlib.error):
                found.add(path)
        return found

    def _write_pack(self, plan: RepackPlan, labels: dict[bytes, bytes]) -> str:
        """One new pack with everything of the plan; returns its path without suffix."""
        self._check_time()
        begun = set(os.listdir(self._packs))
        lines = [
            name.hex().encode() + b" " + labels.get(name, b"").replace(b"\n", b"?") + b"\n"
            for name in plan.names
        ]
        try:
            done = run_git(
                self.git,
                self.repository,
                "pack-objects",
                "--quiet",
                "--delta-base-offset",
                os.path.join(self._packs, "pack"),
                data=b"".join(lines),
                settings=_SETTINGS,
                timeout=max(1.0, self.until - time.monotonic()),
            )
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        if done.returncode != 0:
            self._sweep_failed(begun)
            raise PackingFailed(done.stderr.decode(errors="replace").strip()[-300:])
        stem = os.path.join(self._packs, f"pack-{done.stdout.decode().strip()}")
        held = read_pack_index(stem + ".idx", os.path.getsize(stem + ".pack"))
        if not held.keys() >= set(plan.names):
            raise PackingFailed("the new pack does not hold everything")
        fsync_directory(self._packs)
        self.result.packed += len(plan.names)
        return stem

    def _sweep_failed(self, before: set[str]) -> None:
        """What git began and could not finish: on a full disk that is room."""
        for name in set(os.listdir(self._packs)) - before:
            if name.startswith("tmp_"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._packs, name))

    def _remove_replaced(self, plan: RepackPlan, stem: str) -> None:
        for path in plan.collected:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        for pack in plan.packs:
            if pack.stem != stem:
                remove_pack(pack)

    def _set_aside(self, plan: RepackPlan, stem: str) -> None:
        self.quarantine.hold_loose(plan.condemned)
        for pack in plan.packs:
            if pack.stem != stem:
                self.quarantine.hold_pack(pack.path)

    def _no_writer_within(self) -> bool:
        """Wait for an instant without writers, so long as patience and time last."""
        until = min(self.until, time.monotonic() + _PATIENCE)
        while not no_writer_now(self.directory):
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def _rescue(self, reach: Reach, commits: set[str], doomed: dict[bytes, str]) -> None:
        """Put back whatever a checkpoint that is new since the first look needs."""
        known = reach.objects
        new = [commit for commit in commits if bytes.fromhex(commit) not in known]
        while new:
            fresh = self._reach(take_inventory(self.repository), set(new))
            lost = {doomed[name] for name in fresh.missing if name in doomed}
            if not lost:
                return
            for path in lost:
                self.quarantine.put_back(path)
                self.result.put_back += 1
            doomed = {name: path for name, path in doomed.items() if path not in lost}

    def _sweep(self) -> None:
        found = []
        objects = os.path.join(self.repository, "objects")
        horizon = time.time() - _LEFTOVER_SECONDS
        for place in (self._packs, *(os.path.join(objects, name) for name in fan_outs(objects))):
            with contextlib.suppress(OSError), os.scandir(place) as listing:
                for item in listing:
                    if item.name.startswith(("tmp_", ".tmp-")) and item.stat().st_mtime < horizon:
                        found.append(item.path)
        # Those seen before an instant without writers belong to no living writer.
        if found and no_writer_now(self.directory):
            for path in found:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    self.result.swept += 1
        for place in (self.directory, self.repository, self._packs, os.path.join(self.directory, "scratch")):
            self.result.swept += len(sweep_temporaries(place))

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime


def remove_pack(pack: PackContents) -> None:
    """Unlink a pack; the index first, because that is what makes it visible."""
    for suffix in (".idx", ".rev", ".bitmap", ".mtimes", ".pack"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pack.stem + suffix)


def _spare(plan: RepackPlan) -> int:
    """What a new pack may need: as much as the old ones, and its index."""
    return sum(pack.size for pack in plan.packs) + 64 * len(plan.names)


def _reader(objects: ObjectStore) -> Callable[[bytes], bytes | None]:
    def read(name: bytes) -> bytes | None:
        try:
            return objects.read(name)[1]
        except (BadObject, OSError):
            return None

    return read


def _content(plan: RepackPlan, inventory: Inventory) -> dict[bytes, str]:
    """Object -> the file to put back if it is needed after all, for everything that is set aside."""
    condemned = set(plan.condemned)
    found = {name: loose.path for name, loose in inventory.loose.items() if loose.path in condemned}
    for pack in plan.packs:
        found.update(dict.fromkeys(pack.objects, pack.path))
    return found
