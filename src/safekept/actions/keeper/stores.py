"""The files that the stores of a user consist of, in an order in which nothing is named before it is there.

Snapshots are listed before the packs that they stand on, and refs before their objects: whatever is written
meanwhile is in the next transfer. What can be made again (caches, locks, half-written files) is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator

from safekept.checkpoints.store import Refs
from safekept.core.files import TEMPORARY_PREFIX
from safekept.core.records import dataclass
from safekept.keeper.pages import Entry

from ..base.context import UserContext
from ..base.record import KEPT
from ..projects.project import checkpoint_directory
from ..vault.place import is_remote

VAULT, CHECKPOINTS, HIDDEN, PROJECTS, OWN = "vault", "checkpoints", "hidden", "projects", "own"
REPOSITORIES = "repositories"
KEY, SETTINGS, JOURNAL = f"{OWN}/vault.key", f"{OWN}/config.toml", f"{OWN}/journal.jsonl"
REFS = f"{CHECKPOINTS}/refs/"
#: Directories of a vault in the order of who stands on whom; `locks` are of living processes.
_OF_VAULT = ("keys", "snapshots", "index", "safekept", "data")
#: Directories whose files are named by their SHA-256, as restic names them.
NAMED = tuple(f"{top}/{one}/" for top in (VAULT, HIDDEN) for one in ("keys", "snapshots", "index", "data"))
#: What lies in the data directory and is not sent with it: sent by itself, a copy, of this run only.
_NOT_OWN = frozenset(
    {"vault", "checkpoints", KEPT, "keeper", "scratch", "archives", "reports", "unfinished.json"}
)
#: What is known of a project and cannot be found out again: its path, its state, what is in its hidden half.
_OF_PROJECT = ("project", "state", "hidden", "ledger")
_DEEPEST = 3
#: A record of ours is small.
_LARGEST_RECORD = 8 << 20


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the stores of a user are; empty where there is none, or where it is not to be sent."""

    socket: str
    data_directory: str
    cache_directory: str
    vault: str
    checkpoints: str  # the repository
    key_file: str
    settings_file: str

    @classmethod
    def of(cls, context: UserContext) -> Stores:
        places = context.places
        return cls(
            context.choices.keeper_socket,
            places.data_directory,
            places.cache_directory,
            "" if is_remote(context, places.vault) else places.vault,
            os.path.join(checkpoint_directory(context), "store"),
            # A passphrase is what that user wants: then the keeper does not get what opens the vault.
            "" if context.choices.vault_wants_passphrase else places.vault_key_file,
            places.settings_file,
        )

    @property
    def hidden(self) -> str:
        """The other half of the checkpoints, in a repository beside the first."""
        return os.path.join(os.path.dirname(self.checkpoints), HIDDEN)

    @property
    def projects(self) -> str:
        """What is known of each project, beside the repository."""
        return os.path.join(os.path.dirname(self.checkpoints), PROJECTS)

    @property
    def repositories(self) -> str:
        """What is held of the projects' own repositories."""
        return os.path.join(os.path.dirname(self.checkpoints), REPOSITORIES)

    def as_text(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_text(cls, text: str) -> Stores:
        return cls(**json.loads(text))

    def place(self, path: str) -> str:
        """Where a file of a manifest belongs; empty where it is none of ours. The path was checked."""
        top, _, below = path.partition("/")
        if path == KEY:
            return self.key_file
        if path == SETTINGS:
            return self.settings_file
        roots = {
            VAULT: self.vault,
            CHECKPOINTS: self.checkpoints,
            HIDDEN: self.hidden,
            PROJECTS: self.projects,
            REPOSITORIES: self.repositories,
            OWN: self.data_directory,
        }
        root = roots.get(top, "")
        return os.path.join(root, below) if root and below else ""

    def files(self) -> Iterator[tuple[str, str]]:
        """Path in the manifest, and file. Refs are not among them: `refs` has them."""
        for path, place in ((VAULT, self.vault), (HIDDEN, self.hidden)):
            for name in _OF_VAULT if place else ():
                yield from _below(os.path.join(place, name), f"{path}/{name}")
            if place:
                yield from _one(f"{path}/config", os.path.join(place, "config"))
        yield from _below(self.checkpoints, CHECKPOINTS, without=("refs", "packed-refs"))
        yield from _below(self.repositories, REPOSITORIES)
        for path, file in _below(self.projects, PROJECTS, largest=_LARGEST_RECORD):
            if os.path.basename(path).startswith(_OF_PROJECT):
                yield path, file
        for path, file in ((KEY, self.key_file), (SETTINGS, self.settings_file)):
            yield from _one(path, file)
        yield from _below(self.data_directory, OWN, without=_NOT_OWN, largest=_LARGEST_RECORD)

    def refs(self) -> Iterator[Entry]:
        """One for each checkpoint, wherever the repository holds it."""
        refs = Refs(self.checkpoints)
        for project in sorted(refs.projects()):
            for name, commit in sorted(refs.of(project).items()):
                yield Entry(f"{REFS}safekept/{project}/{name}", inline=commit.encode() + b"\n")


def _one(path: str, file: str) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(file).st_mode):
            yield path, file


def _below(
    place: str, path: str, without: tuple[str, ...] | frozenset[str] = (), largest: int = 0, depth: int = 0
) -> Iterator[tuple[str, str]]:
    """The plain files below a directory; links are not followed."""
    try:
        with os.scandir(place) as listing:
            items = sorted(listing, key=lambda one: one.name)
    except OSError:
        return
    for item in items:
        if item.name in without or _passing(item.name):
            continue
        with contextlib.suppress(OSError):
            facts = item.stat(follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode) and depth < _DEEPEST:
                yield from _below(item.path, f"{path}/{item.name}", (), largest, depth + 1)
            elif stat.S_ISREG(facts.st_mode):
                growing = f"{path}/{item.name}" == JOURNAL
                if growing or not largest or facts.st_size <= largest:
                    yield f"{path}/{item.name}", item.path


def _passing(name: str) -> bool:
    """A lock, a cache, a seat belt's mark, or a file that is being written."""
    return (
        name.startswith((TEMPORARY_PREFIX, "tmp_", ".safekept-try-"))
        or name.endswith(".lock")
        or "-tmp-" in name
        or name in ("belt", "safekept-belt", "safekept-reserve", "lock", "gc.pid", "cache")
    )
