"""The store: the checkpoints of every project, in one bare git repository and a little beside it.

    store/                     the repository; plain git can open it
    projects/<project id>/     project (its path), state.json, cache, ledger, lock, temporary files
    locks/                     maintenance

The repository is the truth; everything beside it can be lost and costs time. A project's trouble (a bad
cache, a broken ref, a missing object) stays that project's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from safekept.core.events import Event, Listener, silent
from safekept.core.files import durable_write, private_directory, sweep_temporaries
from safekept.core.journal import Journal
from safekept.core.next_step import NextStep, Step

from ..checkpoint import (
    SHORTEST_PREFIX,
    Checkpoint,
    CheckpointDamaged,
    FileState,
    NoSuchCheckpoint,
    Skipped,
    is_checkpoint_id,
)
from ..project import is_remembered, project_id, remember_place
from .damage import note_damage, read_damage
from .metadata import from_facts, from_message
from .object_store import ObjectStore
from .objects import BadObject, decode_commit
from .pack_reader import BadGitPack
from .quarantine import mend_quarantine
from .refs import PREFIX, Refs
from .repository import IDENTITY, belt_of, prepare_repository, repositories_belt
from .tree_state import Change, TreeReader, TreeState

_LEDGER = "ledger"
_PATH = "project"
#: Lines of a ledger that a list reads ahead, in all, for what is not noted in its turn. Beyond that it asks
#: the store, which looks at the packs of every project first.
_AHEAD = 128


class Store:
    """Opened with `Store.open`; a context manager. For one thread at a time."""

    def __init__(self, directory: str, listener: Listener) -> None:
        self.directory = directory
        self.repository = os.path.join(directory, "store")
        self.listener = listener
        self.objects = ObjectStore(os.path.join(self.repository, "objects"))
        self.refs = Refs(self.repository)
        self.belt = belt_of(self.repository)
        self._trees = TreeReader(self.objects)

    @classmethod
    def open(cls, directory: str, *, listener: Listener = silent) -> Self:
        """Make it or look it over, and mend what is missing. Raises StoreUnusable."""
        store = cls(os.path.abspath(directory), listener)
        try:
            mended = prepare_repository(store.repository, store.belt)
            if mend_quarantine(store.directory, store.repository, store.belt):
                mended.append("what maintenance had set aside")
        finally:
            store.belt.let_go()
        if mended:
            text = f"the checkpoint store was mended: {', '.join(mended)}"
            listener(Event("store", text=text, path=store.repository))
        store.objects.doubted.update(read_damage(store.directory).packs)
        return store

    def close(self) -> None:
        """Let go of mapped files; may be called twice."""
        self.objects.close()
        self.let_go()

    def let_go(self) -> None:
        """Nothing more is written: close what the user wants closed, the projects' repositories too.

        Those of the first checkpoint of all were held before this store knew that it is wanted.
        """
        self.belt.let_go()
        if self.belt.wanted:
            repositories_belt(self.directory, True).let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def identity(self) -> str:
        """Tells this store from another that was at the same place before."""
        with open(os.path.join(self.repository, IDENTITY), encoding="ascii", errors="replace") as file:
            return file.read()

    def project_directory(self, project: str) -> str:
        """The directory of ours for one project, made on first use."""
        directory = os.path.join(self.directory, "projects", project_id(project))
        path = os.path.join(directory, _PATH)
        if not os.path.isfile(path):
            private_directory(directory)
            durable_write(path, os.fsencode(project))
        if not is_remembered(directory):
            remember_place(directory, project)
        return directory

    def projects(self) -> list[str]:
        """The paths of all projects that have checkpoints."""
        found = []
        for identity in sorted(self.refs.projects()):
            path = self.project_path(identity)
            if path is not None:
                found.append(path)
        return found

    def project_path(self, identity: str) -> str | None:
        """The path of a project by its id; from its newest checkpoint where our note is gone."""
        with contextlib.suppress(OSError):
            with open(os.path.join(self.directory, "projects", identity, _PATH), "rb") as file:
                path = os.fsdecode(file.read())
            if path and project_id(path) == identity:
                return path
        for _, commit in sorted(self.refs.of(identity).items(), reverse=True):
            with contextlib.suppress(BadObject):
                return self._checkpoint(commit).project
        return None

    def checkpoints(self, project: str) -> list[Checkpoint]:
        """Every readable checkpoint of a project, newest first."""
        identity = project_id(project)
        refs = self.refs.of(identity)
        if not refs:
            return []
        known = self._read_ledger(identity)
        found, learned = [], []
        for name, commit in refs.items():
            checkpoint = known.get((name, commit))
            if checkpoint is None:
                checkpoint = self._read_named(project, name, commit)
                if checkpoint is None:
                    continue
                learned.append(checkpoint)
            if checkpoint.project == project and checkpoint.id == name:
                found.append(checkpoint)
        if learned:
            with contextlib.suppress(OSError):
                self.note(learned)
        return sorted(found, key=lambda checkpoint: (checkpoint.time_ns, checkpoint.id), reverse=True)

    def newest_first(self, project: str) -> Iterator[Checkpoint]:
        """The same, one at a time: the first few cost the same whatever there is behind them."""
        identity = project_id(project)
        ledger = self._ledger_backwards(identity)
        known: dict[tuple[str, str], Checkpoint] = {}
        ahead = 0
        for name, commit in self.refs.newest_first(identity):
            while (name, commit) not in known and (noted := next(ledger, None)) is not None:
                known.setdefault((noted.id, noted.commit), noted)
                if noted.id < name:  # it is not noted where it should be
                    ahead += 1
                    if ahead > _AHEAD:
                        break
            checkpoint = known.pop((name, commit), None) or self._read_named(project, name, commit)
            if checkpoint is not None and checkpoint.project == project and checkpoint.id == name:
                yield checkpoint

    def called(self, project: str, name: str) -> Checkpoint | None:
        """The checkpoint with this very id; no list is read for it. None where there is none."""
        commit = self.refs.get(project_id(project), name)
        found = self._read_named(project, name, commit) if commit else None
        return found if found is not None and (found.project, found.id) == (project, name) else None

    def _read_named(self, project: str, name: str, commit: str) -> Checkpoint | None:
        try:
            return self._checkpoint(commit)
        except BadObject as error:
            self.listener(Event("list", path=project, text=f"checkpoint {name} is damaged: {error}"))
            self._note(f"checkpoint {name} cannot be read: {error}")
            return None

    def find(self, project: str, prefix: str) -> Checkpoint:
        """The checkpoint of this project whose id begins like that. Raises NoSuchCheckpoint."""
        if is_checkpoint_id(prefix) and (one := self.called(project, prefix)) is not None:
            return one  # a whole id: no list is needed
        found = []
        if is_checkpoint_id(prefix, SHORTEST_PREFIX):
            found = [point for point in self.checkpoints(project) if point.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if found:
            what = f"`{prefix}` is the beginning of {len(found)} checkpoints of `{project}`"
            step: Step = f"Give more of the id: {', '.join(sorted(point.id for point in found)[:5])}"
        else:
            what = f"`{project}` has no checkpoint `{prefix}`"
            step = NextStep("rollback", before="List what there is:")
        raise NoSuchCheckpoint(
            what, kept="Nothing was changed", next_steps=(step,), project=project, wanted=prefix
        )

    def state(self, checkpoint: Checkpoint, paths: Collection[str] | None = None) -> TreeState:
        """The whole tree: path -> FileState; see TreeState for what it knows beside.

        With `paths` only what lies on the way to these is read, and only of these may be asked.
        """
        with self._reading(checkpoint):
            return self._trees.state(self._root(checkpoint), paths)

    def skipped(self, checkpoint: Checkpoint) -> list[Skipped]:
        """What was in the project and is not in the checkpoint, with reasons."""
        return sorted(self.state(checkpoint).skipped.values(), key=lambda item: item.path)

    def about(self, checkpoint: Checkpoint) -> Mapping[str, object]:
        """The content of `about.json`."""
        with self._reading(checkpoint):
            oid = self._trees.roots(self._root(checkpoint)).get(b"about.json")
            facts = json.loads(self.objects.read_as(b"blob", oid)) if oid else {}
            return facts if isinstance(facts, dict) else {}

    def root_entries(self, checkpoint: Checkpoint) -> dict[bytes, bytes]:
        """Name -> object of a checkpoint's own tree: `files`, `meta`, `repository`. Raises BadObject."""
        return self._trees.roots(self._root(checkpoint))

    def difference(self, older: Checkpoint, newer: Checkpoint) -> list[Change]:
        """(path, state in the older, state in the newer) of every path that differs, times included."""
        with self._reading(older):
            return list(self._trees.difference(self._root(older), self._root(newer)))

    def read(self, oid: str) -> bytes:
        """The bytes of a blob. Raises CheckpointDamaged."""
        return b"".join(self.stream(oid))

    def stream(self, oid: str) -> Iterator[bytes]:
        """The bytes of a blob in pieces. Raises CheckpointDamaged."""
        try:
            yield from self.objects.stream(bytes.fromhex(oid))
        except (BadObject, BadGitPack, OSError) as error:
            raise self._damaged(str(error)) from error

    def size_of(self, oid: str) -> int:
        """The length of a blob. Raises CheckpointDamaged."""
        try:
            return self.objects.size(bytes.fromhex(oid))
        except (BadObject, BadGitPack, OSError) as error:
            raise self._damaged(str(error)) from error

    def missing(self, oids: Iterable[str]) -> set[str]:
        """Those of many objects that are not in the store."""
        return {oid.hex() for oid in self.objects.missing({bytes.fromhex(oid) for oid in oids})}

    def drop(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Forget checkpoints: their refs go, their objects go with maintenance."""
        by_project: dict[str, list[str]] = {}
        for checkpoint in checkpoints:
            by_project.setdefault(project_id(checkpoint.project), []).append(checkpoint.id)
        for identity, names in by_project.items():
            self.belt.open(os.path.join(self.repository, PREFIX))
            self.open_refs(identity)
            self.refs.drop(identity, names)

    def open_refs(self, identity: str) -> None:
        """See that a project's refs can be written, whatever the seat belt."""
        self.belt.open(os.path.join(self.repository, PREFIX, identity))

    def note(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Remember what checkpoints say of themselves, so that a list need not read them."""
        lines: dict[str, list[bytes]] = {}
        for checkpoint in checkpoints:
            lines.setdefault(project_id(checkpoint.project), []).append(
                json.dumps(checkpoint.as_dict()).encode() + b"\n"
            )
        for identity, texts in lines.items():
            path = os.path.join(self.directory, "projects", identity, _LEDGER)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                # A line that a killed process left torn is ended by the line feed in front.
                os.write(descriptor, b"\n" + b"".join(texts))
            finally:
                os.close(descriptor)

    def sweep(self, project: str) -> None:
        """Remove temporary files that dead processes left behind in a project's directory."""
        sweep_temporaries(os.path.join(self.directory, "projects", project_id(project)))

    def _read_ledger(self, identity: str) -> dict[tuple[str, str], Checkpoint]:
        known: dict[tuple[str, str], Checkpoint] = {}
        for one in self._ledger_backwards(identity):
            known.setdefault((one.id, one.commit), one)
        return known

    def _ledger_backwards(self, identity: str) -> Iterator[Checkpoint]:
        ledger = Journal(os.path.join(self.directory, "projects", identity, _LEDGER))
        with contextlib.suppress(OSError):
            for line in ledger.lines_backwards():
                try:
                    facts = json.loads(line)
                    noted = from_facts(facts, str(facts["commit"]))
                except (ValueError, KeyError, TypeError):
                    continue  # torn, or of another version
                yield noted

    def _checkpoint(self, commit: str) -> Checkpoint:
        return from_message(decode_commit(self._commit(commit), commit)[1], commit)

    def _commit(self, commit: str) -> bytes:
        try:
            return self.objects.read_as(b"commit", bytes.fromhex(commit))
        except (BadGitPack, OSError) as error:
            raise BadObject(commit, str(error)) from error

    def _root(self, checkpoint: Checkpoint) -> bytes:
        return decode_commit(self._commit(checkpoint.commit), checkpoint.commit)[0]

    @contextlib.contextmanager
    def _reading(self, checkpoint: Checkpoint) -> Iterator[None]:
        try:
            yield
        except (BadObject, BadGitPack, OSError, ValueError) as error:
            raise self._damaged(f"checkpoint {checkpoint.id} cannot be read: {error}") from error

    def _damaged(self, what: str) -> CheckpointDamaged:
        self._note(what)
        return damaged(what)

    def _note(self, what: str) -> None:
        """See that the next take does not build on what cannot be read."""
        note_damage(self.directory, self.objects.failed, what)


def damaged(what: str) -> CheckpointDamaged:
    return CheckpointDamaged(
        what,
        kept="The project was not touched; other checkpoints are not affected",
        next_steps=(NextStep("rollback", before="Choose another checkpoint:"),),
    )


__all__ = ["FileState", "Store", "damaged"]
