"""The stores that ours is held against: the distribution's restic, a newer one that verifies too, and borg.

Each makes a repository of its own, stores paths, and brings the newest point back.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASSWORD = "not-a-secret"


class Peer(ABC):
    """One program with a repository below `place`."""

    def __init__(self, name: str, program: str, place: str) -> None:
        self.name, self.program = name, program
        self.repository = os.path.join(place, name.replace(" ", "-"))

    @abstractmethod
    def environment(self) -> dict[str, str]: ...

    @abstractmethod
    def make(self) -> list[str]:
        """The command that makes the repository."""

    @abstractmethod
    def store(self, paths: list[str], without: str = "") -> list[str]:
        """The command that stores `paths`, less what begins with `without`."""

    @abstractmethod
    def restore(self, target: str) -> list[str]:
        """The command that brings the newest point back into a directory that is there."""


class Restic(Peer):
    def environment(self) -> dict[str, str]:
        return {"RESTIC_REPOSITORY": self.repository, "RESTIC_PASSWORD": PASSWORD}

    def make(self) -> list[str]:
        return [self.program, "init"]

    def store(self, paths: list[str], without: str = "") -> list[str]:
        left_out = ["--exclude", f"{without}*"] if without else []
        return [self.program, "backup", "-q", *left_out, *paths]

    def restore(self, target: str) -> list[str]:
        return [self.program, "restore", "-q", "latest", "--target", target]


class Borg(Peer):
    """With the compression that the others have; its default is quicker and larger."""

    def __init__(self, name: str, program: str, place: str) -> None:
        super().__init__(name, program, place)
        self._stored = 0

    def environment(self) -> dict[str, str]:
        return {"BORG_REPO": self.repository, "BORG_PASSPHRASE": PASSWORD}

    def make(self) -> list[str]:
        return [self.program, "init", "--encryption", "repokey-blake2"]

    def store(self, paths: list[str], without: str = "") -> list[str]:
        self._stored += 1
        left_out = ["--exclude", f"sh:{without}*"] if without else []
        return [self.program, "create", "--compression", "zstd,3", *left_out, f"::{self._stored}", *paths]

    def restore(self, target: str) -> list[str]:
        script = 'cd "$1" && exec "$2" extract "$3"'  # it knows no target but the working directory
        return ["sh", "-c", script, "sh", target, self.program, f"::{self._stored}"]


def peers(place: str) -> list[Peer]:
    """Those that are here; the first is the one that the promises are about."""
    newer = os.path.join(CHECKOUT, ".setup", "restic-newer", "restic")
    found: list[Peer] = [Restic("restic", "restic", place)]
    if os.access(newer, os.X_OK):
        found.append(Restic("newer restic", newer, place))
    if shutil.which("borg"):
        found.append(Borg("borg", "borg", place))
    return found
