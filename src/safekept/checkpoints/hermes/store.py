"""Reading Hermes's own checkpoint stores, without running anything in them and without writing a byte.

Version 2 is one bare repository `checkpoints/store` with a chain of commits per project under
`refs/hermes/<project>` and the project's directory in `projects/<project>.json`. Older versions kept
one repository per directory beside it, `checkpoints/<project>`, or set aside in `legacy-*`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from safekept.core.files.small import read_document, read_start
from safekept.core.records import dataclass

from ..store.object_store import ObjectStore
from ..store.objects import BadObject

_HEX = frozenset("0123456789abcdef")
#: A chain longer than this is no history but a loop or an attack.
_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """One commit of Hermes's."""

    oid: bytes
    tree: bytes
    parent: bytes | None
    seconds: int
    reason: str


@dataclass(frozen=True, slots=True)
class ForeignProject:
    """One project of a version 2 store; `workdir` is empty where nothing says which directory it was."""

    name: str
    workdir: str
    tip: str


class Foreign:
    """One repository of Hermes's, open for reading."""

    def __init__(self, repository: str) -> None:
        self.repository = repository
        self.objects = ObjectStore(os.path.join(repository, "objects"))

    def close(self) -> None:
        self.objects.close()

    def chain(self, tip: str) -> Iterator[ForeignCommit]:
        """From the newest back; ends quietly where a commit is missing or damaged."""
        oid: bytes | None = bytes.fromhex(tip)
        seen: set[bytes] = set()
        while oid is not None and oid not in seen and len(seen) < _LONGEST:
            seen.add(oid)
            try:
                commit = parse_commit(oid, self.objects.read_as(b"commit", oid))
            except (BadObject, OSError):
                return
            yield commit
            oid = commit.parent

    def head(self) -> str:
        """The commit that HEAD stands for; empty where there is none."""
        text = _line(os.path.join(self.repository, "HEAD"))
        if text.startswith("ref: "):
            return self.refs().get(text[5:].strip(), "")
        return text if _is_commit(text) else ""

    def refs(self) -> dict[str, str]:
        """Every ref there is, loose ones over packed ones."""
        found: dict[str, str] = {}
        with contextlib.suppress(OSError):
            packed = read_start(os.path.join(self.repository, "packed-refs"), 1 << 24, follow=False)
            for line in packed.decode("utf-8", "replace").splitlines():
                commit, _, name = line.partition(" ")
                if _is_commit(commit) and name:
                    found[name] = commit
        base = os.path.join(self.repository, "refs")
        for directory, _, names in os.walk(base):
            for name in names:
                path = os.path.join(directory, name)
                commit = _line(path)
                if _is_commit(commit):
                    found[os.path.relpath(path, self.repository)] = commit
        return found


def is_repository(path: str) -> bool:
    """Whether a directory looks like one of Hermes's repositories. Links are not followed."""
    return (
        os.path.isdir(path)
        and not os.path.islink(path)
        and os.path.isfile(os.path.join(path, "HEAD"))
        and os.path.isdir(os.path.join(path, "objects"))
    )


def projects_of(foreign: Foreign) -> list[ForeignProject]:
    """The projects of a version 2 store."""
    found = []
    for ref, commit in sorted(foreign.refs().items()):
        if ref.startswith("refs/hermes/"):
            name = ref.removeprefix("refs/hermes/")
            record = os.path.join(foreign.repository, "projects", f"{name}.json")
            found.append(ForeignProject(name, _workdir(record), commit))
    return found


def older_repositories(base: str) -> list[str]:
    """Repositories of the older layout: directly in `checkpoints/`, and in what Hermes set aside."""
    found = []
    for name in sorted(_names(base)):
        path = os.path.join(base, name)
        if name != "store" and is_repository(path):
            found.append(path)
        elif name.startswith("legacy-") and os.path.isdir(path) and not os.path.islink(path):
            inner = [os.path.join(path, entry) for entry in sorted(_names(path))]
            found += [entry for entry in inner if is_repository(entry)]
    return found


def older_workdir(repository: str) -> str:
    """The directory that an older repository was kept for."""
    return _line(os.path.join(repository, "HERMES_WORKDIR"))


def parse_commit(oid: bytes, data: bytes) -> ForeignCommit:
    """The parts of a commit that matter. Raises BadObject for what is none."""
    head, _, message = data.partition(b"\n\n")
    tree: bytes = b""
    parent: bytes | None = None
    seconds = 0
    try:
        for line in head.split(b"\n"):
            word, _, rest = line.partition(b" ")
            if word == b"tree":
                tree = bytes.fromhex(rest.decode("ascii"))
            elif word == b"parent" and parent is None:
                parent = bytes.fromhex(rest.decode("ascii"))
            elif word == b"author":
                # A strange time must not cost the checkpoint; it is then one of 1970.
                with contextlib.suppress(ValueError, IndexError):
                    seconds = max(0, min(int(rest.rsplit(b" ", 2)[1]), 1 << 40))
    except ValueError:
        raise BadObject(oid.hex(), "is not a commit") from None
    if len(tree) != 20:
        raise BadObject(oid.hex(), "is not a commit")
    return ForeignCommit(oid, tree, parent, seconds, message.decode("utf-8", "replace").strip())


def _workdir(record: str) -> str:
    workdir = read_document(record, lambda found: found.get("workdir"), None)
    return workdir if isinstance(workdir, str) and os.path.isabs(workdir) and "\0" not in workdir else ""


def _line(path: str) -> str:
    try:
        text = read_start(path, 4096, follow=False).decode("utf-8", "surrogateescape")
        return text.split("\n", 1)[0].strip()
    except OSError:
        return ""


def _is_commit(text: str) -> bool:
    return len(text) == 40 and _HEX.issuperset(text)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
