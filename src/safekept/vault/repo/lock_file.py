"""Lock files: who works on a vault, in restic's form, and when they no longer count.

A process number says nothing in another PID namespace, and a clock may be wrong by hours. So a lock of ours
also says in which boot, in which space of process numbers and at which uptime it was written: restic passes
over that. A lock of this boot is judged by those alone; any other by our clock and, where it can
tell, by the clock of the place that holds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import time
from dataclasses import replace
from typing import Any

from safekept.core.errors import BAD_SHAPE
from safekept.core.next_step import NextStep, Step
from safekept.core.platform.processes import uptime
from safekept.core.processes.process import boot, process_space, surely_gone
from safekept.core.records import dataclass

from ..errors import VaultDamaged, VaultLocked
from ..format.crypto import Key
from ..format.go_text import format_time, json_text, parse_time
from ..storage.base import FileKind, NotStored, Storage
from .sealed_files import load_file

# Who works on a vault: written into keys, locks and snapshots.


@dataclass(frozen=True, slots=True)
class LockIdentity:
    hostname: str
    username: str
    uid: int
    gid: int

    @classmethod
    def of_this_process(cls) -> LockIdentity:
        uid = os.getuid()
        try:
            username = pwd.getpwuid(uid).pw_name
        except KeyError:
            username = ""
        return cls(os.uname().nodename, username, uid, os.getgid())


STALE = 30 * 60.0  # seconds without a refresh, as restic counts


@dataclass(frozen=True, slots=True)
class LockFile:
    """One lock as it was written. `reason` is set where it cannot be read."""

    id: str
    time_ns: int = 0
    exclusive: bool = False
    hostname: str = ""
    username: str = ""
    pid: int = 0
    uid: int = 0
    gid: int = 0
    reason: str = ""
    boot: str = ""  # these three are empty in a lock of restic
    space: str = ""
    uptime: float = 0.0
    #: How it was found. Seconds since it was written by the clock of the place; None: it does not tell.
    age: float | None = None
    #: Only this machine can have written it: it lies on a disk of its own.
    only_here: bool = False

    @classmethod
    def of_this_process(cls, exclusive: bool) -> LockFile:
        person = LockIdentity.of_this_process()
        return cls(
            "",
            time.time_ns(),
            exclusive,
            person.hostname,
            person.username,
            os.getpid(),
            person.uid,
            person.gid,
            boot=boot(),
            space=process_space(),
            uptime=round(uptime(), 3),
        )

    def to_json(self) -> bytes:
        text = (
            f'{{"time":"{format_time(self.time_ns)}","exclusive":{"true" if self.exclusive else "false"},'
            f'"hostname":{json_text(self.hostname)},"username":{json_text(self.username)},"pid":{self.pid}'
        )
        for name in ("uid", "gid"):
            if number := getattr(self, name):
                text += f',"{name}":{number}'
        if self.boot:
            own = {"boot": self.boot, "space": self.space, "uptime": self.uptime}
            text += f',"safekept":{json.dumps(own)}'
        return (text + "}").encode()

    @classmethod
    def from_json(cls, name: str, text: bytes) -> LockFile:
        try:
            fields: dict[str, Any] = json.loads(text)
            own = fields.get("safekept") or {}
            return cls(
                name,
                parse_time(fields["time"])[0],
                bool(fields.get("exclusive")),
                str(fields.get("hostname") or ""),
                str(fields.get("username") or ""),
                int(fields.get("pid") or 0),
                int(fields.get("uid") or 0),
                int(fields.get("gid") or 0),
                boot=str(own.get("boot") or ""),
                space=str(own.get("space") or ""),
                uptime=float(own.get("uptime") or 0.0),
            )
        except BAD_SHAPE as error:
            return cls(name, reason=f"not a lock: {error}")

    @property
    def stale(self) -> bool:
        """Left behind: its process is surely gone, or it was not refreshed for half an hour."""
        if self.reason:
            return False
        if self.boot == boot():
            # Whatever the clocks were set to meanwhile, this one only ever went forward.
            return self.abandoned or uptime() - self.uptime > STALE
        if self.abandoned:
            return True
        by_our_clock = (time.time_ns() - self.time_ns) / 1e9 > STALE
        return by_our_clock and (self.age is None or self.age > STALE)

    @property
    def abandoned(self) -> bool:
        """Whether the process that wrote it is provably gone."""
        if self.reason or not self.boot:
            return False
        if self.boot != boot():  # of this machine, on a disk of its own: that boot is over
            return self.only_here and self.hostname == os.uname().nodename
        return surely_gone(self.pid, self.space)

    @property
    def holder(self) -> str:
        if self.reason:
            return f"a lock that cannot be read ({self.id[:8]}: {self.reason})"
        since = time.strftime("%H:%M", time.localtime(self.time_ns / 1e9))
        return f"pid {self.pid} on `{self.hostname}` since {since}"


def read_locks(storage: Storage, key: Key, now: float | None = None) -> list[LockFile]:
    """Every lock. A refresh replaces one file by another, so a file that went is looked for again.

    `now` is the time by the clock of the place; None where it is unknown.
    """
    for _ in range(5):
        found, again = [], False
        for name, size in storage.list(FileKind.LOCK):
            if size == 0:
                continue  # restic passes over empty ones too: a torn write that no process holds
            try:
                lock = LockFile.from_json(name, load_file(storage, key, FileKind.LOCK, name))
                written = storage.written(FileKind.LOCK, name) if now is not None else None
                age = now - written if now is not None and written is not None else None
                found.append(replace(lock, age=age, only_here=storage.only_here))
            except VaultDamaged as error:
                if _only_zeros(storage, name):
                    continue  # as a power cut leaves one that no process holds any more
                found.append(LockFile(name, reason=str(error.facts.get("reason", error.what))))
            except NotStored:
                again = True
        if not again:
            break
    return found


def _only_zeros(storage: Storage, name: str) -> bool:
    with contextlib.suppress(NotStored, VaultDamaged):
        return not any(storage.read(FileKind.LOCK, name))
    return False


def locked_by(place: str, lock: LockFile) -> VaultLocked:
    steps: list[Step] = ["Wait until it is done, then run the command again"]
    if lock.reason:
        steps = [NextStep("vault unlock", before="If no other program is using this vault, run")]
    elif lock.hostname == os.uname().nodename:
        steps.append(
            NextStep("vault unlock", ("--all",), before=f"If pid {lock.pid} is not at work on it, run")
        )
    else:
        steps.append(
            NextStep("vault unlock", ("--all",), before=f"If `{lock.hostname}` is not at work on it, run")
        )
    return VaultLocked(
        f"The vault at `{place}` is locked {'for everybody else ' if lock.exclusive else ''}by {lock.holder}",
        kept="Nothing was written; all snapshots are as they were",
        next_steps=tuple(steps),
        place=place,
        pid=lock.pid,
        hostname=lock.hostname,
        exclusive=lock.exclusive,
    )
