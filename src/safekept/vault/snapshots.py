"""Finding snapshots: all of them, the newest, one by its number or by the start of its id.

Each comes with its marks (marks.py). Earlier versions, and restic, rewrite a snapshot's tags by writing a new
file before they delete the old one, so a rewrite that was killed leaves two files of one snapshot. A listing
shows one of them: the one that keeps more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from safekept.core.files import durable_file, private_directory, write_all
from safekept.core.next_step import NextStep

from .errors import AmbiguousSnapshot, NoSuchSnapshot, VaultDamaged
from .format.compression import BadCompression, pack_unpacked, unpack_unpacked
from .format.crypto import Key, Unauthentic
from .format.snapshot import BadSnapshot, Snapshot
from .marks import read_marks
from .storage.base import FileKind, NotStored
from .tags import forgotten_at, pinned_until

if TYPE_CHECKING:
    from .repo.repository import Repository


# Snapshot files and marks that were read before, so that a list opens only what is new since the last one.
# Such a file never changes under its name, so what was once read under that name stays right. The
# cache is sealed with the vault's own key: one that is torn, of another vault or tampered with is simply
# not used, and nothing of a vault lies about in clear text.


class SnapshotCache:
    """Texts of snapshot files and marks of one vault, by name; the directory may hold those of others."""

    def __init__(self, directory: str, key: Key, vault: str) -> None:
        self.path = os.path.join(directory, f"snapshots-{vault[:16]}")
        self._key, self._vault = key, vault

    def load(self) -> tuple[dict[str, str], dict[str, str]]:
        """The texts of snapshots and of marks by their names; nothing where the cache cannot be used."""
        try:
            with open(self.path, "rb") as file:
                found = json.loads(unpack_unpacked(self._key.open(file.read())))
            if found["vault"] != self._vault:
                return {}, {}
            snapshots, marks = found["snapshots"], found.get("marks", {})
            return (
                {str(name): str(text) for name, text in snapshots.items()},
                {str(name): str(text) for name, text in marks.items()},
            )
        except (OSError, Unauthentic, BadCompression, ValueError, KeyError, TypeError, AttributeError):
            return {}, {}

    def save(self, texts: dict[str, str], marks: dict[str, str]) -> None:
        """Write it again. A cache that cannot be written is no error."""
        document = {"vault": self._vault, "snapshots": texts, "marks": marks}
        sealed = self._key.seal(pack_unpacked(json.dumps(document).encode()))
        with contextlib.suppress(OSError):
            private_directory(os.path.dirname(self.path))
            with durable_file(self.path) as file:
                write_all(file.fileno(), sealed)


def public_id(snapshot: Snapshot) -> str:
    """The id that a person sees and says: it stays when tags are rewritten, the file's name does not."""
    return snapshot.public or snapshot.original or snapshot.id


def list_snapshots(repository: Repository, *, cached: bool = True) -> tuple[list[Snapshot], dict[str, str]]:
    """Every snapshot once, oldest first, and the files that cannot be read: name and reason.

    Those that are forgotten are among them; `shown` leaves them out. Files that were read before come
    from the cache beside the vault; without `cached`, every file is read and proven again.
    """
    names = [name for name, _ in repository.storage.list(FileKind.SNAPSHOT)]
    cache = None
    if cached and repository.cache_directory:
        cache = SnapshotCache(repository.cache_directory, repository.key, repository.id)
    known, known_marks = cache.load() if cache is not None else ({}, {})
    found, texts, damaged = [], {}, {}
    for name in names:
        try:
            if name in known:
                snapshot = Snapshot.from_json(name, known[name].encode())
            else:
                snapshot = repository.load_snapshot(name)
        except (VaultDamaged, BadSnapshot) as error:
            facts = error.facts if isinstance(error, VaultDamaged) else {}
            damaged[name] = str(facts.get("reason", error))
        except NotStored:
            continue  # forgotten meanwhile
        else:
            found.append(snapshot)
            texts[name] = known.get(name) or snapshot.to_json().decode()
    marks = read_marks(repository, known_marks)
    if cache is not None and (texts.keys() != known.keys() or marks.texts.keys() != known_marks.keys()):
        cache.save(texts, marks.texts)
    return marks.on(one_of_each(found)[0]), damaged


def one_of_each(files: Iterable[Snapshot]) -> tuple[list[Snapshot], list[Snapshot]]:
    """Each snapshot once, oldest first, and the files that a killed rewrite left beside it.

    Two files are one snapshot when they say the same of where it came from, of its time and of its
    tree. `restic rewrite` leaves two with one origin and different trees: those are two snapshots,
    and the rewritten one is then known by its own id.
    """
    groups: dict[tuple[str, int, bytes], list[Snapshot]] = {}
    for file in files:
        groups.setdefault((file.original or file.id, file.time_ns, file.tree), []).append(file)
    found, left = [], []
    taken: dict[str, int] = {}
    for (origin, _, _), members in groups.items():
        best = max(members, key=_keeps_more)
        taken[origin] = taken.get(origin, 0) + 1
        found.append(best)
        left += [file for file in members if file is not best]
    for number, snapshot in enumerate(found):
        if snapshot.original and taken[snapshot.original] > 1 and snapshot.original != snapshot.id:
            found[number] = dataclasses.replace(snapshot, public=snapshot.id)
    found.sort(key=lambda snapshot: (snapshot.time_ns, snapshot.id))
    return found, left


def _keeps_more(file: Snapshot) -> tuple[bool, bool, str, bool, str]:
    day = pinned_until(file)
    return forgotten_at(file) is None, day == "", day or "", bool(file.original), file.id


def shown(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Those that a list shows, newest first, so that number 1 is the first: all that are not forgotten."""
    left = [snapshot for snapshot in snapshots if forgotten_at(snapshot) is None]
    return sorted(left, key=lambda snapshot: (snapshot.time_ns, snapshot.id), reverse=True)


def pick(
    snapshots: Sequence[Snapshot], word: str, *, numbered: Sequence[Snapshot] = (), forgotten: bool = False
) -> Snapshot:
    """One of the snapshots by what a person says.

    `numbered` are those of one home as a list shows them (`shown`): `1` is the first of them, and
    `latest` too. A number of more digits than a list is long is taken for the start of an id; a short
    one never is. The start of a public id or of a file's own name will do. A forgotten one is found only
    where it is asked for.
    """
    if word == "latest":
        newest = next(iter(numbered or shown(snapshots)), None)
        if newest is None:
            raise NoSuchSnapshot(
                "This vault holds no snapshots yet",
                kept="Nothing was changed",
                next_steps=(NextStep("snapshot", before="Take one:"),),
            )
        return newest
    if re.fullmatch("[1-9][0-9]{0,4}", word) and int(word) <= len(numbered):
        return numbered[int(word) - 1]
    matches = [snapshot for snapshot in snapshots if not is_number(word) and _called(snapshot, word)]
    left = [snapshot for snapshot in matches if forgotten or forgotten_at(snapshot) is None]
    if len(left) == 1:
        return left[0]
    if left:
        raise _ambiguous(left, word)
    if matches:
        name = public_id(matches[0])[: max(8, len(word))]
        raise NoSuchSnapshot(
            f"Snapshot {name} was forgotten",
            kept="It can still be brought back until the vault is pruned",
            next_steps=(NextStep("snapshot forget", ("--undo", name), before="Bring it back:"),),
            snapshot=public_id(matches[0]),
        )
    starts = "starts with" if re.fullmatch("[0-9a-f]+", word) else "is called"
    what = f"No snapshot {starts} `{word}`"
    if numbered and word.isdigit():
        what = f"There is no snapshot number {word}; the oldest is number {len(numbered)}"
    raise NoSuchSnapshot(
        what, kept="Nothing was changed", next_steps=(NextStep("snapshot list", before="See them all:"),)
    )


def is_number(word: str) -> bool:
    """Whether a word is a number and nothing else: ids are not given in so few characters."""
    return re.fullmatch("[0-9]{1,3}", word) is not None


def _called(snapshot: Snapshot, word: str) -> bool:
    if not re.fullmatch("[0-9a-f]+", word):
        return False
    return public_id(snapshot).startswith(word) or snapshot.id.startswith(word)


def _ambiguous(matches: Sequence[Snapshot], word: str) -> AmbiguousSnapshot:
    newest = sorted(matches, key=lambda snapshot: snapshot.time_ns, reverse=True)
    names = [
        public_id(snapshot) if public_id(snapshot).startswith(word) else snapshot.id for snapshot in newest
    ]
    length = max(8, len(word) + 2)
    while len({name[:length] for name in names}) < len(names) and length < 64:
        length += 2
    return AmbiguousSnapshot(
        f"{len(matches)} snapshots start with `{word}`",
        kept="Nothing was changed",
        next_steps=tuple(
            f"Perhaps `{name[:length]}` of {snapshot.time[:16].replace('T', ' ')}"
            for name, snapshot in list(zip(names, newest, strict=True))[:5]
        ),
        candidates=names,
    )
