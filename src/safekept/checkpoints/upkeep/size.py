"""How large the checkpoints are, without walking them again and again.

Two measures. The *running total* is one number that every take adds what it wrote to: a few
microseconds, near enough to know when a limit is passed. The *exact* one looks at the directory of
packs and at those directories of loose objects that changed since the last look, which it keeps in
a tally. A directory that changed in the last seconds is not trusted to the tally: another file may
come into it within the same tick of the clock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable

from safekept.core.files import durable_write
from safekept.core.files.small import read_document
from safekept.core.records import dataclass

_TALLY, _RUNNING = "size.json", "size"
_UNSURE_NS = 2_000_000_000
_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Running:
    """The running total, and how many takes there were since maintenance last came by."""

    total: int
    takes: int


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Bytes on disk, by kind."""

    packs: int
    pack_bytes: int
    loose: int
    loose_bytes: int
    other_bytes: int  # stat caches, refs, records
    temporary_bytes: int  # left over from packing that was cut off

    @property
    def total(self) -> int:
        return self.pack_bytes + self.loose_bytes + self.other_bytes + self.temporary_bytes

    def as_dict(self) -> dict[str, object]:
        return {
            "total": self.total,
            "packs": self.packs,
            "pack_bytes": self.pack_bytes,
            "loose": self.loose,
            "loose_bytes": self.loose_bytes,
            "other_bytes": self.other_bytes,
            "temporary_bytes": self.temporary_bytes,
        }


def measure(directory: str, repository: str) -> StoreSize:
    """The exact size; only what changed since the last measurement is listed again."""
    objects = os.path.join(repository, "objects")
    known = _read_tally(directory)
    tally: dict[str, list[int]] = {}
    packs = pack_bytes = temporary = loose = loose_bytes = 0
    for name, size in _files(os.path.join(objects, "pack")):
        if name.startswith("tmp_"):
            temporary += size
        else:
            pack_bytes += size
            packs += name.endswith(".pack")
    for fan_out in fan_outs(objects):
        place = os.path.join(objects, fan_out)
        try:
            changed_ns = os.stat(place).st_mtime_ns
        except OSError:
            continue
        entry = known.get(fan_out)
        if entry is None or entry[0] != changed_ns:
            now_ns = time.time_ns()
            sizes = [size for _, size in _files(place)]
            entry = [changed_ns, len(sizes), sum(sizes)]
            if now_ns - changed_ns > _UNSURE_NS:
                tally[fan_out] = entry
        else:
            tally[fan_out] = entry
        loose, loose_bytes = loose + entry[1], loose_bytes + entry[2]
    if tally != known:
        with contextlib.suppress(OSError):
            durable_write(os.path.join(directory, _TALLY), json.dumps(tally).encode())
    return StoreSize(packs, pack_bytes, loose, loose_bytes, _other_bytes(directory, repository), temporary)


def add_written(directory: str, count: int) -> Running:
    """Add what one take wrote to the running total."""
    return _update(directory, lambda now: Running(now.total + count, now.takes + 1))


def set_running_total(directory: str, total: int) -> None:
    """Put the running total right after an exact measurement, and begin to count takes again."""
    _update(directory, lambda now: Running(total, 0))


def _update(directory: str, change: Callable[[Running], Running]) -> Running:
    descriptor = os.open(os.path.join(directory, _RUNNING), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            total, takes = (int(part) for part in os.pread(descriptor, 64, 0).split())
        except ValueError:
            total = takes = 0
        changed = change(Running(total, takes))
        # Of fixed width, so that it is replaced whole by one small write.
        os.pwrite(descriptor, b"%20d %20d\n" % (changed.total, changed.takes), 0)
        return changed
    finally:
        os.close(descriptor)


def _read_tally(directory: str) -> dict[str, list[int]]:
    return read_document(
        os.path.join(directory, _TALLY),
        lambda found: {str(name): [int(part) for part in entry[:3]] for name, entry in found.items()},
        {},
    )


def disk_bytes(facts: os.stat_result) -> int:
    """What a file takes on disk. A loose object of 300 bytes takes a block: a cap must count that."""
    return facts.st_blocks * 512


def fan_outs(objects: str) -> list[str]:
    """The directories of loose objects."""
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(objects) if len(name) == 2 and set(name) <= _HEXADECIMAL]
    return []


def _files(place: str) -> list[tuple[str, int]]:
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                if item.is_file(follow_symlinks=False):
                    found.append((item.name, disk_bytes(item.stat(follow_symlinks=False))))
    return found


def _other_bytes(directory: str, repository: str) -> int:
    total = sum(size for _, size in _files(directory)) + sum(size for _, size in _files(repository))
    projects = os.path.join(directory, "projects")
    with contextlib.suppress(OSError), os.scandir(projects) as listing:
        total += sum(size for item in listing for _, size in _files(item.path))
    return total
