"""What a point knows of a project's repositories: small things by name, with values that can be compared.

An *item* is one thing that git can move: `HEAD`, `ref:refs/heads/main`, `index`, `stash`, `log:HEAD`,
`file:config`. Its value says what it is; where bytes belong to it, the value ends with the blob in the
checkpoint store that holds them. Two points are alike where their items are, whatever the times of files say.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

from ...checkpoint import Checkpoint
from ..objects import BadObject, decode_tree
from ..pack_reader import BadGitPack
from ..store import Store

VERSION = 1
#: The names in a checkpoint's tree, and in the tree of that name.
TREE, STATE, ESSENCE = b"repository", b"state.json", b"essence"
HEAD, INDEX, STASH = "HEAD", "index", "stash"
#: The file that leads from a work tree to its data; and what stands for objects that are missing.
DOT_GIT, OBJECTS = "dot-git", "objects"
REF, LOG, FILE = "ref:", "log:", "file:"
REMOTE = "ref:refs/remotes/"
#: Items that a person would not call a change: they follow from the rest, or tell of the past.
_ASIDE = (LOG, DOT_GIT, FILE + "worktrees/")


@dataclass(slots=True)
class RepositoryState:
    """One repository at one time."""

    path: str  # its work tree in the project
    git: str
    common: str
    format: str = "sha1"
    items: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # what is not kept of it, and why

    @property
    def linked(self) -> bool:
        return self.git != self.common

    def refs(self) -> dict[str, str]:
        """Ref -> what it stands for: an object's name, or `ref: ` and another ref."""
        return {name[len(REF) :]: value for name, value in self.items.items() if name.startswith(REF)}

    def objects(self) -> list[str]:
        """What the refs and a detached HEAD name, each once."""
        found = dict.fromkeys(value for value in self.refs().values() if not value.startswith("ref:"))
        head = self.items.get(HEAD, "")
        if head and not head.startswith("ref:"):
            found[head] = None
        return list(found)

    def remote_objects(self) -> list[str]:
        """What remote-tracking refs name: the remote has it, too."""
        return list(
            dict.fromkeys(
                value
                for name, value in self.items.items()
                if name.startswith(REMOTE) and not value.startswith("ref:")
            )
        )

    def essence(self) -> str:
        """The same for two states that a person would call the same."""
        seen = {
            name: value
            for name, value in self.items.items()
            if not name.startswith(_ASIDE) or name.endswith("/gitdir")
        }
        # Of the index the entries count, not what git remembers of times beside them.
        if INDEX in seen:
            seen[INDEX] = seen[INDEX].split(" ")[0]
        return hashlib.sha256(json.dumps([self.path, seen], sort_keys=True).encode()).hexdigest()

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def blob_of(value: str) -> str:
    """The blob that holds the bytes of an item."""
    return value.rpartition(" ")[2]


def encode(states: Iterable[RepositoryState]) -> bytes:
    listed = [state.as_dict() for state in states]
    return json.dumps({"version": VERSION, "repositories": listed}, indent=0).encode() + b"\n"


def essence_of(states: Iterable[RepositoryState]) -> bytes:
    return "".join(["safekept 1\n", *(f"{state.essence()}\n" for state in states)]).encode()


def read_states(store: Store, point: Checkpoint) -> dict[str, RepositoryState]:
    """The repositories of a point, by the path of their work trees. Raises CheckpointDamaged."""
    found = _entries(store, point)
    if STATE not in found:
        return {}
    with contextlib.suppress(*BAD_SHAPE):
        listed = json.loads(store.read(found[STATE].hex()))["repositories"]
        return {one["path"]: _state(one) for one in listed}
    return {}


def _state(fields: Mapping[str, object]) -> RepositoryState:
    known = {name: fields[name] for name in RepositoryState.__slots__ if name in fields}
    state = RepositoryState(**known)  # type: ignore[arg-type]
    if not all(isinstance(text, str) for pair in state.items.items() for text in pair):
        raise ValueError("items are texts")
    return state


def same_repositories(store: Store, one: Checkpoint, other: Checkpoint) -> bool:
    """Whether nothing moved between two points. One that never looked, or cannot be read, proves nothing."""
    first, second = _entries(store, one).get(ESSENCE), _entries(store, other).get(ESSENCE)
    return first is None or second is None or first == second


def _entries(store: Store, point: Checkpoint) -> dict[bytes, bytes]:
    try:
        tree = store.root_entries(point).get(TREE)
        if tree is None:
            return {}
        return {name: oid for _, name, oid in decode_tree(store.objects.read_as(b"tree", tree), tree.hex())}
    except (BadObject, BadGitPack, OSError):
        return {}
