"""Lock files: who works on a vault, in restic's form, and when they no longer count."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from safekept.core.files import process_alive

from ..errors import VaultDamaged, VaultLocked
from ..format.crypto import Key
from ..format.quoting import json_text
from ..format.times import format_time, parse_time
from ..storage.base import FileKind, NotStored, Storage
from .identity import Identity
from .sealed_files import load_file

STALE = 30 * 60.0  # seconds without a refresh, as restic counts


@dataclass(frozen=True, slots=True)
class LockFile:
    """One lock as somebody wrote it. `reason` is set where it cannot be read."""

    id: str
    time_ns: int = 0
    exclusive: bool = False
    hostname: str = ""
    username: str = ""
    pid: int = 0
    uid: int = 0
    gid: int = 0
    reason: str = ""

    @classmethod
    def of_this_process(cls, exclusive: bool) -> LockFile:
        person = Identity.of_this_process()
        return cls(
            "",
            time.time_ns(),
            exclusive,
            person.hostname,
            person.username,
            os.getpid(),
            person.uid,
            person.gid,
        )

    def to_json(self) -> bytes:
        text = (
            f'{{"time":"{format_time(self.time_ns)}","exclusive":{"true" if self.exclusive else "false"},'
            f'"hostname":{json_text(self.hostname)},"username":{json_text(self.username)},"pid":{self.pid}'
        )
        for name in ("uid", "gid"):
            if number := getattr(self, name):
                text += f',"{name}":{number}'
        return (text + "}").encode()

    @classmethod
    def from_json(cls, name: str, text: bytes) -> LockFile:
        try:
            fields: dict[str, Any] = json.loads(text)
            return cls(
                name,
                parse_time(fields["time"])[0],
                bool(fields.get("exclusive")),
                str(fields.get("hostname") or ""),
                str(fields.get("username") or ""),
                int(fields.get("pid") or 0),
                int(fields.get("uid") or 0),
                int(fields.get("gid") or 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return cls(name, reason=f"not a lock: {error}")

    @property
    def stale(self) -> bool:
        """Left behind: its process on this machine is gone, or it was not refreshed for half an hour."""
        if self.reason:
            return False
        if self.hostname == os.uname().nodename and self.pid and not process_alive(self.pid):
            return True
        return (time.time_ns() - self.time_ns) / 1e9 > STALE

    @property
    def holder(self) -> str:
        if self.reason:
            return f"a lock that cannot be read ({self.id[:8]}: {self.reason})"
        since = time.strftime("%H:%M", time.localtime(self.time_ns / 1e9))
        return f"pid {self.pid} on `{self.hostname}` since {since}"


def read_locks(storage: Storage, key: Key) -> list[LockFile]:
    """Every lock. A refresh replaces one file by another, so a file that went is looked for again."""
    for _ in range(5):
        found, again = [], False
        for name, size in storage.list(FileKind.LOCK):
            if size == 0:
                continue  # restic passes over empty ones too: a torn write that nobody holds
            try:
                found.append(LockFile.from_json(name, load_file(storage, key, FileKind.LOCK, name)))
            except VaultDamaged as error:
                found.append(LockFile(name, reason=str(error.facts.get("reason", error.what))))
            except NotStored:
                again = True
        if not again:
            break
    return found


def locked_by(place: str, lock: LockFile) -> VaultLocked:
    steps = ["Wait until it is done, then run the command again"]
    if lock.reason:
        steps = ["If nobody works on this vault, run `safekept vault unlock`"]
    elif lock.hostname == os.uname().nodename:
        steps.append(f"If pid {lock.pid} is not at work on it, run `safekept vault unlock --all`")
    else:
        steps.append(f"If `{lock.hostname}` is not at work on it, run `safekept vault unlock --all`")
    return VaultLocked(
        f"The vault at `{place}` is locked {'for everybody else ' if lock.exclusive else ''}by {lock.holder}",
        kept="Nothing was written; all snapshots are as they were",
        next_steps=tuple(steps),
        place=place,
        pid=lock.pid,
        hostname=lock.hostname,
        exclusive=lock.exclusive,
    )
