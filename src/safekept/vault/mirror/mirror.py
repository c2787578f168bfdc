"""A mirror of a vault: the same files in another place, which any tool for restic repositories opens there.

Files are immutable and named by their content, so a mirror is the missing ones, copied in an order in
which the other place is a whole vault at every moment: keys, `config`, packs, index, marks, snapshots. A copy
that was cut short is continued by doing it again. No locks are written, nothing is deleted: a credential
that can only add suffices. What this side does not have any more stays there, and is reported.

Deleting it is another matter: prune.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.records import dataclass
from safekept.core.worker import Worker

from ..format.crypto import Unauthentic
from ..storage.base import FileKind, NotStored, Storage, stored_name
from .transfer import File, Problem, Transfer

if TYPE_CHECKING:
    from ..repo.repository import Repository

#: The order of writing. Keys before `config`: where that file stands, the vault opens.
#: Marks before snapshots: one that is pinned is never there without its pin.
ORDER = (
    FileKind.KEY,
    FileKind.CONFIG,
    FileKind.PACK,
    FileKind.INDEX,
    FileKind.MARK,
    FileKind.SNAPSHOT,
)
#: Where the copy is to become a vault of its own, it is none before everything is there.
CONFIG_LAST = (
    FileKind.PACK,
    FileKind.INDEX,
    FileKind.MARK,
    FileKind.SNAPSHOT,
    FileKind.KEY,
    FileKind.CONFIG,
)
#: Seconds without an answer after which one more thread asks, up to so many.
_PATIENCE, _LOOKERS = 0.2, 4


class MirrorRefused(SafekeptError):
    code = "mirror-refused"


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """What is missing at the target, in the order of copying, and what it has beyond that."""

    files: Mapping[FileKind, tuple[File, ...]]
    present: int  # files that are there already, with the right size
    #: What the target has and the source has not: names and sizes.
    surplus: Mapping[FileKind, Mapping[str, int]]
    config_here: bytes
    config_there: bytes | None
    packs: frozenset[str] = frozenset()  # here or there: what the target can have in the end

    @property
    def count(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def bytes(self) -> int:
        return sum(file.size for files in self.files.values() for file in files)

    @property
    def snapshots(self) -> int:
        return len(self.files[FileKind.SNAPSHOT])

    @property
    def wrong(self) -> tuple[str, ...]:
        """Files that stand at the target and are certainly not what their name says."""
        return tuple(file.place for files in self.files.values() for file in files if file.replace)

    def as_dict(self) -> dict[str, object]:
        return {
            "files": self.count,
            "bytes": self.bytes,
            "snapshots": self.snapshots,
            "packs": len(self.files[FileKind.PACK]),
            "present": self.present,
            "wrong": list(self.wrong),
            "surplus": {kind.plain: len(names) for kind, names in self.surplus.items()},
        }


@dataclass(slots=True)
class Mirrored:
    """What was copied, what could not be, and what was deleted there."""

    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    present: int = 0
    problems: list[Problem] = field(default_factory=list)
    deleted: dict[str, int] = field(default_factory=dict)  # by kind
    #: Keys that open the copy and not the vault here: removed here, or of another machine.
    stray_keys: tuple[str, ...] = ()
    other_keys: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "files": self.files,
            "bytes": self.bytes,
            "snapshots": self.snapshots,
            "present": self.present,
            "problems": [problem.as_dict() for problem in self.problems],
            "deleted": dict(self.deleted),
            "stray_keys": list(self.stray_keys),
            "other_keys": list(self.other_keys),
        }


def plan_mirror(source: Storage, target: Storage) -> MirrorPlan:
    """Compare the two by name and size. Nothing is changed.

    The source is listed snapshots first: whatever a snapshot of that moment needs is then in the lists
    of index files and packs, also while another process adds to the vault.
    """
    looking = _Looking(target)
    named = [kind for kind in reversed(ORDER) if kind is not FileKind.CONFIG]
    listed = {kind: dict(source.list(kind)) for kind in named}
    here = source.read(FileKind.CONFIG)
    found, config = looking.end()
    files: dict[FileKind, tuple[File, ...]] = {}
    surplus: dict[FileKind, dict[str, int]] = {}
    present = 0
    for kind in named:
        there = found[kind]
        wanted = []
        for name, size in sorted(listed[kind].items()):
            if there.get(name) == size:
                present += 1
            else:
                wanted.append(File(kind, name, size, replace=name in there))
        files[kind] = tuple(wanted)
        surplus[kind] = {name: size for name, size in there.items() if name not in listed[kind]}
    # The one file without a name of its own is compared by its bytes.
    missing = (File(FileKind.CONFIG, "", len(here), replace=config is not None),)
    files[FileKind.CONFIG] = () if config == here else missing
    packs = frozenset(listed[FileKind.PACK].keys() | found[FileKind.PACK].keys())
    return MirrorPlan(files, present + (config == here), surplus, here, config, packs)


class _Looking:
    """What the target holds. Where it is slow to answer, several questions are asked at once.

    A place that answers quickly is asked by one thread: another connection may cost more than it saves.
    """

    def __init__(self, target: Storage) -> None:
        self._target = target
        self._found: dict[FileKind, dict[str, int]] = {}
        self._config: bytes | None = None
        # The longest first; `config` beside them.
        self._waiting = [
            FileKind.KEY,
            FileKind.CONFIG,
            FileKind.MARK,
            FileKind.INDEX,
            FileKind.SNAPSHOT,
            FileKind.PACK,
        ]
        self._mutex = threading.Lock()
        self._workers = [Worker(self._look, "vault-look")]

    def _look(self) -> None:
        while True:
            with self._mutex:
                if not self._waiting:
                    return
                kind = self._waiting.pop()
            if kind is FileKind.CONFIG:
                with contextlib.suppress(NotStored):
                    self._config = self._target.read(kind)
            else:
                self._found[kind] = dict(self._target.list(kind))

    def end(self) -> tuple[dict[FileKind, dict[str, int]], bytes | None]:
        """Everything that was found, once everybody is back; the first error where there was one."""
        for worker in self._workers:  # the list may grow on the way
            while not worker.wait(_PATIENCE):
                if self._waiting and len(self._workers) < _LOOKERS:
                    self._workers.append(Worker(self._look, "vault-look"))
        for worker in self._workers:
            if worker.error is not None:
                raise worker.error
        return self._found, self._config


def carry_out(
    plan: MirrorPlan,
    source: Storage,
    target: Storage,
    *,
    order: tuple[FileKind, ...] = ORDER,
    lanes: int = 4,
    check: Callable[[], None] | None = None,
    phase: str = "push",
    listener: Listener = silent,
) -> Mirrored:
    """Copy what the plan names, stage after stage; `check` is called between them (a lock may be lost)."""
    total, done = plan.bytes, 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        listener(Event(phase, done, total))

    transfer = Transfer(source, target, config=plan.config_here, lanes=lanes, moved=moved)
    result = Mirrored(present=plan.present, stray_keys=tuple(sorted(plan.surplus[FileKind.KEY])))
    if plan.count:
        listener(Event(phase, 0, total))
    for kind in order:
        if check is not None:
            check()
        before = transfer.files
        transfer.run(plan.files[kind])
        if kind is FileKind.SNAPSHOT:
            result.snapshots = transfer.files - before
    result.files, result.bytes, result.problems = transfer.files, transfer.bytes, transfer.problems
    return result


def lost_packs(repository: Repository, packs: Collection[str] = ()) -> list[Problem]:
    """Packs that the index names and that are neither among these nor here now.

    A file that is gone is in no list, so a comparison of lists alone would call a copy without it whole.
    """
    gone = [name for pack in repository.index.packs if (name := pack.hex()) not in packs]
    # Another process may have added some after the lists were made.
    found = repository.storage.sizes(FileKind.PACK, gone) if gone else {}
    return [
        Problem(stored_name(FileKind.PACK, name), "snapshots need it, and it is gone", here=True)
        for name in sorted(gone)
        if name not in found
    ]


def refuse_other_vault(repository: Repository, plan: MirrorPlan, target: Storage) -> None:
    """Raise MirrorRefused where the target holds a `config` that is not one of this vault."""
    if plan.config_there is None or plan.config_there == plan.config_here:
        return
    try:
        # Rewritten since (`restic migrate`): sealed with the same key, so it is this vault all the same.
        repository.key.open(plan.config_there)
    except Unauthentic:
        raise MirrorRefused(
            f"`{target.location}` holds a vault with another key, or its file `config` is damaged",
            kept="Nothing was written there; the vault here is as it was",
            next_steps=(
                "If another vault lives there, name another place for this one",
                f"If this vault lives there, delete the damaged `{target.location}/config` and push again",
            ),
            place=target.location,
        ) from None
