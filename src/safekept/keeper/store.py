"""The keeper's store: a room for each user, and what root set for all of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from safekept.core.files import durable_write, private_directory
from safekept.core.files.small import read_fields, read_start
from safekept.core.records import dataclass

from .history import ManifestHistory
from .room import Room

#: Where the store of a machine lies; only the keeper's user can enter it.
STORE = "/var/lib/safekept-keeper"
KEEP_DAYS = 30.0
#: Of the filesystem, for each user.
_SHARE = 5
_SETTINGS, _IDENTITY = "settings.json", "identity"


@dataclass(frozen=True, slots=True)
class KeeperLimits:
    """What a user may keep, and for how long what no newer manifest names stays."""

    quota: int  # bytes for each user
    keep_days: float = KEEP_DAYS


class KeeperStore:
    """The directory of all rooms."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def make(self) -> None:
        private_directory(os.path.join(self.directory, "rooms"))
        if not os.path.exists(os.path.join(self.directory, _IDENTITY)):
            durable_write(os.path.join(self.directory, _IDENTITY), os.urandom(16).hex().encode())

    @property
    def identity(self) -> str:
        """A random name: by it a client that remembers what is here sees that this is another store."""
        place = os.path.join(self.directory, _IDENTITY)
        return read_start(place, 64, follow=False).decode("ascii", "replace").strip()

    @property
    def limits(self) -> KeeperLimits:
        found = read_fields(os.path.join(self.directory, _SETTINGS))
        quota, days = found.get("quota"), found.get("keep_days")
        return KeeperLimits(
            quota if isinstance(quota, int) and quota > 0 else default_quota(self.directory),
            float(days) if isinstance(days, int | float) and days > 0 else KEEP_DAYS,
        )

    def set_limits(self, limits: KeeperLimits) -> None:
        document = {"quota": limits.quota, "keep_days": limits.keep_days}
        durable_write(os.path.join(self.directory, _SETTINGS), json.dumps(document).encode() + b"\n")

    def room(self, user: int, *, make: bool = True) -> Room:
        """The room of a user, by the number that the kernel gave."""
        room = Room(os.path.join(self.directory, "rooms", str(int(user))), self.limits.quota)
        if make:
            room.make()
        return room

    def users(self) -> list[int]:
        names = os.listdir(os.path.join(self.directory, "rooms"))
        return sorted(int(name) for name in names if name.isdecimal())

    def histories(self) -> Iterator[tuple[int, ManifestHistory]]:
        for user in self.users():
            yield user, ManifestHistory(self.room(user))


def default_quota(directory: str) -> int:
    """A fifth of the filesystem."""
    disk = os.statvfs(directory)
    return disk.f_blocks * disk.f_frsize // _SHARE
