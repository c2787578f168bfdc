"""Bring copies back from a destination: a whole vault, what a damaged one here has lost, or archives.

Every file is proven by its name (a vault's) or its checksum (an archive's) before it counts. A fetched
vault is none before its last file is here, so a pull that was cut short is simply run again. Nothing that
is here is ever replaced, but for files of a vault that are certainly damaged (`mend`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import NoRoom
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.vault.errors import NoSuchVault, VaultDamaged, WrongKey
from safekept.vault.mirror import (
    CONFIG_LAST,
    File,
    Mirrored,
    MirrorPlan,
    Problem,
    carry_out,
    lost_packs,
    plan_mirror,
)
from safekept.vault.repo import Repository
from safekept.vault.storage import (
    DIRECTORIES,
    RESERVE,
    FileKind,
    LocalStorage,
    NotStored,
    Storage,
    stored_name,
)

from ..base.context import UserContext
from ..base.operations.stores import PullFacts
from ..base.record import record, recording
from ..vault.opening import open_vault, refuse_inside_home
from ..vault.place import is_remote, known_vault, storage_of
from .archives_there import StoredArchive, choose, fetch, list_archives
from .place import find_destination, open_destination

# What a damaged vault has lost and its copy still has: named by an index here, and missing or changed.
# Every file here is read and held against its name, so what is fetched is exactly what is damaged.
# Nothing that was pruned or forgotten here comes back.


def missing_here(
    repository: Repository, copy: Storage, listener: Listener = silent
) -> tuple[MirrorPlan, list[str]]:
    """The files to fetch, of those that the vault here needs; and those that the copy has not either."""
    here = repository.storage
    # Index files first: one that comes back may name packs that are missing.
    wanted = {
        FileKind.INDEX: [name for name, _ in here.list(FileKind.INDEX)],
        FileKind.SNAPSHOT: [name for name, _ in here.list(FileKind.SNAPSHOT)],
        FileKind.MARK: [name for name, _ in here.list(FileKind.MARK)],
        FileKind.KEY: [name for name, _ in here.list(FileKind.KEY)],
        FileKind.PACK: sorted(pack.hex() for pack in repository.index.packs),
    }
    total, done, present = sum(map(len, wanted.values())), 0, 0
    files: dict[FileKind, tuple[File, ...]] = {FileKind.CONFIG: ()}
    lost: list[str] = []
    for kind, names in wanted.items():
        there = None
        found = []
        for name in names:
            listener(Event("read", done, total, "files"))
            done += 1
            state = _state(here, kind, name)
            if state == "sound":
                present += 1
                continue
            there = dict(copy.list(kind)) if there is None else there
            if name in there:
                found.append(File(kind, name, there[name], replace=state == "damaged"))
            else:
                lost.append(stored_name(kind, name))
        files[kind] = tuple(found)
    config = here.read(FileKind.CONFIG)
    return MirrorPlan(files, present, {kind: {} for kind in files}, config, config), lost


def _state(storage: Storage, kind: FileKind, name: str) -> str:
    try:
        data = storage.read(kind, name)
    except NotStored:
        return "missing"
    except VaultDamaged:
        return "damaged"
    return "sound" if hashlib.sha256(data).hexdigest() == name else "damaged"


_LANES = 4


class PullTargetTaken(SafekeptError):
    code = "pull-target-taken"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What to fetch, and to where."""

    destination: str  # its name, or a URL; also that of one vault in it
    into: str = ""  # a directory: for a vault, its place; for archives, where they go
    archive: str = ""  # a name, or `latest`; empty: the vault
    host: str = ""  # whose archive
    mend: bool = False  # only what the vault here has lost
    dry_run: bool = False


@dataclass(slots=True)
class PullResult:
    """What was fetched."""

    operation: str
    destination: str
    place: str
    path: str = ""  # where it is now
    archive: StoredArchive | None = None
    plan: MirrorPlan | None = None
    fetched: Mirrored | None = None
    opens: bool | None = None  # whether the key here opens the fetched vault
    seconds: float = 0.0
    dry_run: bool = False
    notes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # of `mend`: damaged here, and not in the copy either

    @property
    def complete(self) -> bool:
        return not self.lost and (self.fetched is None or not self.fetched.problems)

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "destination": self.destination,
            "place": self.place,
            "path": self.path,
            "archive": self.archive.as_dict() if self.archive else None,
            "plan": self.plan.as_dict() if self.plan else None,
            "fetched": self.fetched.as_dict() if self.fetched else None,
            "opens": self.opens,
            "lost": list(self.lost),
            "complete": self.complete,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
            "dry_run": self.dry_run,
        }


def pull(context: UserContext, request: PullRequest, listener: Listener = silent) -> PullResult:
    """Fetch a vault, or one archive; a dry run only says what would be fetched."""
    setting = find_destination(context, request.destination)
    operation, began = new_id(), time.monotonic()
    result = PullResult(operation, setting.name, setting.url, dry_run=request.dry_run)
    fetch_it = _pull_archive if request.archive else _pull_mend if request.mend else _pull_vault
    if request.dry_run:
        fetch_it(context, request, result, listener)
        return result
    work = PullFacts(destination=setting.name, place=setting.url)
    with recording(context, operation, work, listener):
        fetch_it(context, request, result, listener)
    result.seconds = time.monotonic() - began
    work.path, work.seconds, work.mend = result.path, round(result.seconds, 3), request.mend
    if result.fetched is not None:
        work.files, work.bytes = result.fetched.files, result.fetched.bytes
        work.problems = tuple(problem.as_dict() for problem in result.fetched.problems[:100])
    if result.archive is not None:
        work.archive, work.bytes, work.files = result.archive.name, result.archive.size, 1
    record(context, work.line(operation, "done" if result.complete else "incomplete"), listener)
    return result


def _pull_archive(context: UserContext, request: PullRequest, result: PullResult, listener: Listener) -> None:
    setting = find_destination(context, request.destination)
    directory = os.path.abspath(request.into or ".")
    with contextlib.closing(open_destination(context, setting)) as objects:
        result.place = objects.location
        chosen = result.archive = choose(list_archives(objects, request.host), request.archive, request.host)
        result.path = os.path.join(directory, chosen.name)
        if request.dry_run:
            return
        if not chosen.checked:
            result.notes.append("no checksum lies beside it, so only its size was proven")
        try:
            os.makedirs(directory, exist_ok=True)
            result.path = fetch(objects, chosen, directory, listener)
        except OSError as error:
            raise _no_room(directory, error) from error


def _pull_vault(context: UserContext, request: PullRequest, result: PullResult, listener: Listener) -> None:
    target = _target(context, request)
    result.path = target.path
    known = known_vault(context)
    there = storage_of(context, request.destination, known=known)
    with contextlib.closing(target), contextlib.closing(there) as source:
        result.place = source.location
        if not source.exists(FileKind.CONFIG):
            raise NoSuchVault.at(source.location)
        listener(Event("compare"))
        plan = result.plan = plan_mirror(source, target)
        if any(plan.surplus[kind] for kind in (FileKind.PACK, FileKind.INDEX, FileKind.SNAPSHOT)):
            raise _taken(target.path, "it holds parts of another vault")
        if request.dry_run:
            return
        target.create()
        result.fetched = carry_out(
            plan,
            source,
            target,
            order=CONFIG_LAST,
            lanes=_lanes(source),
            phase="pull",
            listener=listener,
        )
        target.keep_reserve()
    result.opens, lost = _opens(context, target.path)
    result.fetched.problems += lost


def _pull_mend(context: UserContext, request: PullRequest, result: PullResult, listener: Listener) -> None:
    """What is missing or damaged in the vault here, from its copy."""
    with contextlib.ExitStack() as held:
        repository = held.enter_context(open_vault(context.changed(source_vault=""), listener=listener))
        source = storage_of(context, request.destination, known=repository.id)
        held.callback(source.close)
        lock = held.enter_context(repository.lock(wait=60.0))
        result.path, result.place = repository.storage.location, source.location
        result.fetched = None if request.dry_run else Mirrored()
        # An index file that comes back may name packs that are missing too: a second look.
        for _ in range(2):
            result.plan, result.lost = missing_here(repository, source, listener)
            if result.fetched is None or not result.plan.count:
                return
            fetched = carry_out(
                result.plan,
                source,
                repository.storage,
                lanes=_lanes(source),
                check=lock.check,
                phase="pull",
                listener=listener,
            )
            result.fetched.files += fetched.files
            result.fetched.bytes += fetched.bytes
            result.fetched.problems = fetched.problems
            repository.reload_index(without_cache=True)


def _lanes(source: Storage) -> int:
    objects = getattr(source, "objects", None)
    return int(objects.lanes) if objects is not None else _LANES


def _target(context: UserContext, request: PullRequest) -> LocalStorage:
    """The directory that the vault is to live in: new, empty, or left by a pull that was cut short."""
    path = request.into or context.places.vault
    if is_remote(context, path):
        raise _taken(path, "the vault of this machine is not in a directory; name one")
    refuse_inside_home(context.changed(vault=os.path.abspath(path)))
    target = LocalStorage(path, context.choices.seat_belt if path == context.places.vault else None)
    if target.exists(FileKind.CONFIG):
        raise PullTargetTaken(
            f"There is a vault at `{target.path}` already",
            kept="It was not touched",
            next_steps=(
                NextStep("pull", (request.destination, "--mend"), before="Fetch what it has lost:"),
                NextStep(
                    "pull",
                    (request.destination, "--into", "DIR"),
                    before="Or fetch the copy to another place:",
                ),
            ),
            place=target.path,
        )
    known = {kind.value.partition("/")[0] for kind in DIRECTORIES} | {RESERVE}
    with contextlib.suppress(FileNotFoundError):
        try:
            others = set(os.listdir(target.path)) - known
        except NotADirectoryError:
            others = {target.path}
        if others:
            raise _taken(target.path, f"it holds something else (`{min(others)}`)")
    return target


def _opens(context: UserContext, path: str) -> tuple[bool, list[Problem]]:
    """Whether the key here opens what was fetched; if it does, what the copy itself had lost."""
    unattended = context.changed(source_vault=path, vault_secret=None)
    try:
        with open_vault(unattended) as repository:
            return True, lost_packs(repository)
    except (WrongKey, SafekeptError):
        return False, []


def _taken(path: str, why: str) -> PullTargetTaken:
    return PullTargetTaken(
        f"No vault is fetched to `{path}`: {why}",
        kept="Nothing there was touched",
        next_steps=("Name a new or an empty directory with `--into DIR`",),
        place=path,
    )


def _no_room(directory: str, error: OSError) -> NoRoom:
    return NoRoom(
        f"The archive cannot be written to `{directory}`: {error.strerror}",
        kept="Nothing was kept of it here",
        next_steps=("Make room, or name another directory with `--into DIR`",),
    )
