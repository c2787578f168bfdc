"""A bare repository of ours for each of a project's: `repositories/<id>` beside the checkpoint store.

A name in `packed-refs` is a promise: `refs/held/X` says that everything behind X is here but for what remote
refs had, `refs/whole/X` that all of it is. It is written when the pack is there and synced, so a kill at any
instant leaves a pack too many, never a promise too many.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator

from safekept.core.files import durable_write, private_directory, write_all
from safekept.core.files.small import read_regular
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.platform.syncing import sync_file

from ..repository import belt_of, repositories_belt
from .reading import OBJECT_NAME

NAME = "repositories"
_DIRECTORIES = ("objects", "objects/pack", "objects/info", "refs", "info")
INCOMPLETE = "incomplete"
LOCK = "safekept.lock"
USERS = "users"  # ids of the projects whose points need it
HELD, WHOLE = "refs/held/", "refs/whole/"
#: So many packs are joined.
MOST_PACKS = 30


class OwnRepository:
    """The repository of ours for one of the project's."""

    def __init__(self, directory: str, common: str, format: str = "sha1") -> None:
        identity = hashlib.sha256(os.fsencode(common) + format.encode()).hexdigest()[:24]
        self.directory = os.path.join(directory, NAME, identity)
        self.format, self._common = format, common
        self.trouble = ""  # why the last try did not hold everything
        # Closed where the checkpoint store is.
        worn = belt_of(os.path.join(directory, "store")).state
        self._belt = repositories_belt(directory, {"on": True, "off": False}.get(worn))
        self._opened = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """It can be written meanwhile."""
        for name in ("", *_DIRECTORIES):
            self._belt.open(os.path.join(self.directory, name) if name else self.directory)
        self._opened += 1
        try:
            yield
        finally:
            self._opened -= 1
            if not self._opened:
                self._belt.let_go()

    @property
    def exists(self) -> bool:
        return os.path.isfile(os.path.join(self.directory, "HEAD"))

    @property
    def incomplete(self) -> bool:
        """Whether the project itself lacked objects: a partial clone, or damage."""
        return os.path.exists(os.path.join(self.directory, INCOMPLETE))

    def promised(self) -> dict[str, set[str]]:
        """The names that are held, and those that are held whole."""
        found: dict[str, set[str]] = {HELD: set(), WHOLE: set()}
        with contextlib.suppress(OSError), open(self._refs, encoding="ascii", errors="replace") as file:
            for line in file:
                oid, _, name = line.rstrip("\n").partition(" ")
                for kind, known in found.items():
                    if name == kind + oid:
                        known.add(oid)
        found[HELD] |= found[WHOLE]
        return found

    @property
    def crowded(self) -> bool:
        """Whether there are so many packs that joining them is worth a process."""
        with contextlib.suppress(OSError):
            return sum(name.endswith(".pack") for name in os.listdir(self.packs)) > 2 * MOST_PACKS
        return False

    def used_by(self, project: str) -> None:
        """Remember the id of a project that needs it. Raises OSError."""
        path = os.path.join(self.directory, USERS)
        with contextlib.suppress(FileNotFoundError):
            if project in read_regular(path).decode("ascii", "replace").split():
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with self.opened():
            descriptor = os.open(path, flags, 0o600)
            try:
                write_all(descriptor, f"\n{project}\n".encode())
                sync_file(descriptor)
            finally:
                os.close(descriptor)

    def promise(self, more: dict[str, set[str]]) -> None:
        """Everything that is promised, written again: whole, synced, under its final name."""
        known = {**self.promised(), **more}
        known[HELD] = known[HELD] - known[WHOLE]
        lines = sorted(f"{oid} {kind}{oid}\n" for kind, names in known.items() for oid in names)
        lines.sort(key=lambda line: line.split(" ")[1])
        durable_write(self._refs, b"# pack-refs with: sorted \n" + "".join(lines).encode())

    def prepare(self) -> None:
        """Make the repository of ours, where there is none yet. Raises OSError."""
        if self.exists:
            return
        private_directory(os.path.dirname(self.directory))
        with self.opened():
            self._make()

    def _make(self) -> None:
        for name in _DIRECTORIES[1:]:
            private_directory(os.path.join(self.directory, name))
        extension = "[extensions]\n\tobjectformat = sha256\n" if self.format == "sha256" else ""
        version = 1 if extension else 0
        text = f"[core]\n\trepositoryformatversion = {version}\n\tbare = true\n[gc]\n\tauto = 0\n{extension}"
        durable_write(os.path.join(self.directory, "config"), text.encode())
        durable_write(os.path.join(self.directory, "safekept"), os.fsencode(self._common))
        durable_write(os.path.join(self.directory, "HEAD"), b"ref: refs/heads/main\n")

    def note_shallow(self, shallow: bytes) -> None:
        """Where a shallow clone ends, git stops without looking for parents."""
        names = {line for line in shallow.decode("ascii", "replace").split() if OBJECT_NAME.fullmatch(line)}
        if not names:
            return
        path = os.path.join(self.directory, "shallow")
        with contextlib.suppress(OSError):
            known = set(read_regular(path).decode("ascii", "replace").split())
            if names <= known:
                return
            names |= known
        durable_write(path, "".join(f"{name}\n" for name in sorted(names)).encode())

    def sweep(self) -> None:
        """What a git that was ended left; the lock says that no other is at work."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.packs):
                if name.startswith("tmp_"):
                    os.unlink(os.path.join(self.packs, name))

    @property
    def packs(self) -> str:
        return os.path.join(self.directory, "objects", "pack")

    @property
    def _refs(self) -> str:
        return os.path.join(self.directory, "packed-refs")


def drop_unused(directory: str, in_use: Callable[[str], bool]) -> int:
    """Remove the repositories that no project's points need any more; returns how many. Never raises.

    One without a record of who needs it stays.
    """
    import shutil

    place, gone, belt = os.path.join(directory, NAME), 0, repositories_belt(directory)
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(place)):
            with contextlib.suppress(OSError, AlreadyRunning):
                path = os.path.join(place, name)
                users = read_regular(os.path.join(path, USERS)).decode("ascii", "replace").split()
                if not users or any(map(in_use, users)):
                    continue
                with process_lock(os.path.join(path, LOCK), "dropping a repository", 0.0):
                    for one in ("", *_DIRECTORIES):
                        belt.open(os.path.join(path, one) if one else path)
                    shutil.rmtree(path)
                    gone += 1
        belt.let_go()
    return gone
