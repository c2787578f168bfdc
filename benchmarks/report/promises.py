"""Every promise about speed and size: the one place where they stand.

Each is a ratio to a peer in the same run, or memory. A line of a benchmark's report holds what was
measured against its line here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A bound: at least, or at most."""

    target: float
    at_least: bool = True
    unit: str = "×"


@dataclass(frozen=True)
class Verdict:
    """One promise held against its measurement."""

    what: str
    measured: float
    target: float
    at_least: bool
    unit: str = "×"

    @property
    def passed(self) -> bool:
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def line(self) -> str:
        bound = "at least" if self.at_least else "at most"
        verdict = "PASS" if self.passed else "MISS"
        measured = f"{self.measured:8.2f}{self.unit}"
        return f"  {verdict}  {self.what:<58} {measured}  {bound} {self.target:g}{self.unit}"


def _at_most(target: float, unit: str = "×") -> Promise:
    return Promise(target, at_least=False, unit=unit)


PROMISES: dict[str, dict[str, Promise]] = {
    "archive": {
        "zip: times faster than Hermes's backup": Promise(10),
        "zip: size relative to Hermes's": _at_most(1.06),
        "tar.zst: times faster than tar | zstd -T0 -3, zstd -t": Promise(1.2),
        "tar.zst: size relative to theirs": _at_most(1.06),
        "import: times faster than Hermes's import": Promise(4),
        "peak memory of every safekept command": _at_most(200, " MB"),
    },
    "belt": {
        "a warm snapshot with it, relative to one without": _at_most(1.03),
        "a checkpoint with it: milliseconds more": _at_most(1, " ms"),
    },
    "keeper": {
        "a warm snapshot with it, relative to one without": _at_most(1.05),
        "a warm turn with it, relative to one without": _at_most(1.05),
        "its bytes on disk, relative to vault and checkpoints": _at_most(1.5),
    },
    "checkpoints": {
        "1,000 files: one changed: times faster than Hermes": Promise(5),
        "one changed: times faster than Hermes": Promise(8),
        "none changed: times faster than Hermes": Promise(10),
        "the first checkpoint: times faster than Hermes": Promise(2),
        "turns across a cap, relative to those below": _at_most(1.25),
        "99th percentile with maintenance, relative to the median": _at_most(3),
        "late turns relative to early ones": _at_most(1.5),
        "store after all turns, relative to Hermes's": _at_most(1),
        "metadata's share of the store": _at_most(50, " %"),
        "a named file, relative to git status": _at_most(0.5),
        "among many projects, relative to alone": _at_most(1.5),
    },
    "guard": {
        "guard beyond its command, relative to an unchanged snapshot": _at_most(1.5),
        "the same in processor seconds": _at_most(1.5),
        "peak memory of guard": _at_most(300, " MB"),
    },
    "hidden": {
        "a warm call, relative to the visible half alone": _at_most(1.5),
        "99th percentile of a warm call": _at_most(250, " ms"),
        "peak memory of the first time": _at_most(200, " MB"),
    },
    "hooks": {
        "plugin, times less than Hermes's own": Promise(8),
        "10,000 files: hook program, times less than Hermes's own": Promise(4),
        "hook program, times less than Hermes's own": Promise(8),
        "hook relative to python3 + git status": _at_most(1.5),
        "40,000 files: hook relative to python3 + git status": _at_most(1),
    },
    "lean": {
        "first snapshot: size relative to restic's": _at_most(1 / 3),
        "day with a merge: growth relative to restic's": _at_most(1 / 10),
        "day without: growth relative to restic's": _at_most(1 / 5),
        "capture: processor time relative to full": _at_most(2),
        "restore without its rebuild, relative to full": _at_most(1.1),
        "restore in place until the agent can work, relative to restic": _at_most(1),
    },
    "push": {
        "first: speed relative to the fastest peer": Promise(1.2),
        "a night of 10 MB: speed relative to rclone copy": Promise(1.2),
        "peak memory of every push": _at_most(200, " MB"),
    },
    "scale": {
        "processor time relative to the shortest history": _at_most(1.5),
        "peak memory of every safekept command": _at_most(300, " MB"),
    },
    "seal": {
        "times faster than tar -cz | gpg --encrypt": Promise(5),
        "peak memory of every safekept command": _at_most(200, " MB"),
    },
    # Half of what each took once, in times of `python3 -c pass`.
    "start": {
        "status": _at_most(11.7),
        "rollback": _at_most(10.1),
        "rollback 1 --dry-run": _at_most(11.9),
        "doctor": _at_most(20.3),
        "snapshot list": _at_most(6.4),
    },
    "ui": {
        "complete first view, relative to safekept status": _at_most(2),
        "complete first view: KB in all": _at_most(300, " KB"),
        "memory of the server": _at_most(150, " MB"),
        "bytes of a page of the timeline, relative to a tenth of the history": _at_most(1.1),
        "time of a page of the timeline, relative to a tenth of the history": _at_most(1.5),
        "the same of a project's": _at_most(1.5),
    },
    "vault": {
        "first: times faster than restic": Promise(2),
        "first: times faster than the newer restic": Promise(1.5),
        "a day: times faster than copy + restic": Promise(8),
        "a day: times faster than Hermes's zip": Promise(30),
        "unchanged: times faster than restic": Promise(6),
        "the days' growth relative to restic's": _at_most(1 / 3),
        "vault after the days relative to as many zips": _at_most(0.1),
        "full restore: time relative to restic's": _at_most(1),
        "peak memory of every safekept command": _at_most(300, " MB"),
    },
}


def held(bench: str, what: str, measured: float, *, of: str = "") -> Verdict:
    """What was measured, against its promise; `of` says which of several cases it was.

    A case may have a promise of its own, which then begins with it.
    """
    promises = PROMISES[bench]
    whole = f"{of}: {what}" if of else what
    promise = promises.get(whole) or promises[what]
    return Verdict(whole, measured, promise.target, promise.at_least, promise.unit)
