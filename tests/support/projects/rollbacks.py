"""A small project with a store, edited by an agent, a user and a shell, for the tests of going back."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.rollback.rollback import RolledBack, plan_rollback, roll_back, undo_rollback
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import TakeSettings, take

Tree = dict[str, tuple[object, ...]]


class Project:
    """A directory, its store, and short words for what happens to it."""

    def __init__(self, base: str, name: str = "project", store: Store | None = None) -> None:
        self.path = os.path.realpath(os.path.join(base, name))
        os.makedirs(self.path, exist_ok=True)
        self.store = store or Store.open(os.path.join(base, "data", "checkpoints"))
        self.settings = TakeSettings(max_file_size=1 << 20)
        self._turn = 0

    def full(self, path: str) -> str:
        return os.path.join(self.path, path)

    def write(self, path: str, data: bytes | str = b"", mode: int | None = None) -> None:
        full = self.full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            os.chmod(full, mode)

    def read(self, path: str) -> bytes:
        with open(self.full(path), "rb") as file:
            return file.read()

    def delete(self, path: str) -> None:
        full = self.full(path)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.full(path))

    def take(self, kind: str, named: Iterable[str] | None = None, **options: object) -> Checkpoint:
        taken = take(
            self.store,
            self.path,
            kind=kind,
            reason=f"{kind} something",
            session="session",
            turn=f"turn-{self._turn}",
            named=None if named is None else [self.full(path) for path in named],
            settings=self.settings,
            always=True,
            **options,  # type: ignore[arg-type]
        )
        assert taken.checkpoint is not None, taken.remarks
        return taken.checkpoint

    def before(self, *named: str) -> Checkpoint:
        """An agent is about to act; with names, a call that names its files."""
        self._turn += not named
        return self.take("before", named or None)

    def after(self) -> Checkpoint:
        return self.take("after")

    def back(self, to: Checkpoint | str, *files: str, **options: object) -> RolledBack:
        plan = plan_rollback(self.store, self.path, to, files, settings=self.settings, **options)  # type: ignore[arg-type]
        return roll_back(self.store, plan, settings=self.settings)

    def undo(self, id: str = "", **options: object) -> RolledBack:
        return undo_rollback(self.store, self.path, id, settings=self.settings, **options)  # type: ignore[arg-type]

    def tree(self) -> Tree:
        return tree_of(self.path)

    def leftovers(self) -> list[str]:
        return [path for path in tree_of(self.path) if ".safekept-tmp-" in path]

    def fsck(self) -> None:
        """Plain git finds nothing wrong with the store."""
        done = subprocess.run(
            ["git", "--git-dir", self.store.repository, "fsck", "--strict", "--full", "--no-dangling"],
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        )
        said = [
            line
            for line in (done.stdout + done.stderr).splitlines()
            if not line.startswith("notice: HEAD points")
        ]
        assert done.returncode == 0 and not said, said


def tree_of(place: str, times: bool = True) -> Tree:
    """Everything below a directory, byte for byte: kind, mode, time, content."""
    found: Tree = {}
    for directory, directories, files in os.walk(place):
        for name in [*directories, *files]:
            full = os.path.join(directory, name)
            facts = os.lstat(full)
            path = os.path.relpath(full, place)
            when = facts.st_mtime_ns if times else 0
            if stat.S_ISLNK(facts.st_mode):
                found[path] = ("symlink", os.readlink(full))
            elif stat.S_ISDIR(facts.st_mode):
                found[path] = ("directory", stat.S_IMODE(facts.st_mode))
            elif stat.S_ISREG(facts.st_mode):
                with open(full, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
                found[path] = ("file", stat.S_IMODE(facts.st_mode), when, digest)
            else:
                found[path] = ("special", facts.st_mode)
    return found
