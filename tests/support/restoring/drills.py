"""Drills of throwaway homes: one built once, copies to damage, and what a drill said of them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace

from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.base.context import UserContext
from safekept.actions.drill.drill import DrillRequest, drill
from safekept.actions.drill.drill_report import Drilled
from safekept.actions.drill.receipts import Receipt, read_receipts
from safekept.vault.format.blobs import BlobKind, Location
from safekept.vault.repo.repository import Repository
from safekept.vault.storage.base import FileKind
from support.home.homes import make_hermes_home
from support.platforms.needs import where_the_disk_can
from support.users.contexts import throwaway
from support.vault.snapshots import opened, take


@dataclass(frozen=True)
class Built:
    """A home with two snapshots and two archives of it."""

    here: UserContext
    home: str
    zip: str
    tar: str


def build(directory: str, hermes_python: str = "") -> Built:
    here = throwaway(directory)
    home = os.path.join(here.places.user_home, ".hermes")
    make_hermes_home(home, awkward=False, hermes_python=hermes_python)
    os.chmod(home, 0o755)
    os.makedirs(os.path.join(home, "workspace", "empty"))
    with where_the_disk_can():
        os.symlink("SOUL.md", os.path.join(home, "persona.md"))
    take(here, home)
    put(home, "images/picture.bin", random.Random(5).randbytes(200_000))
    take(here, home)
    place = here.locate(home)
    made = [
        backup(
            here, BackupRequest(place, output=os.path.join(here.places.user_home, name), form=form)
        ).written.path
        for name, form in (("b.zip", "zip"), ("b.tar.zst", "tar.zst"))
    ]
    return Built(here, home, *made)


def with_copied_vault(built: Built, directory: str) -> UserContext:
    """The same user with a vault of his own to damage; records go below `directory`, too."""
    vault = os.path.join(directory, "vault")
    shutil.copytree(built.here.places.vault, vault)
    return built.here.changed(
        vault=vault,
        data_directory=os.path.join(directory, "data"),
        cache_directory=os.path.join(directory, "cache"),
    )


def with_copied_home(built: Built, directory: str) -> tuple[UserContext, str]:
    """Another user with a copy of the home, and no vault yet."""
    here = throwaway(directory)
    home = os.path.join(here.places.user_home, ".hermes")
    shutil.copytree(built.home, home, symlinks=True)
    os.chmod(home, 0o755)
    return here, home


def drilled(here: UserContext, word: str = "latest", home: str = "", **options: object) -> Drilled:
    return drill(here, DrillRequest(word, home, **options))  # type: ignore[arg-type]


def failed(receipt: Receipt) -> set[str]:
    return {row.check for row in receipt.failed}


def states(receipt: Receipt) -> dict[str, str]:
    return {row.check: row.state for row in receipt.rows}


def signed_off(here: UserContext, done: Drilled) -> None:
    """The receipt on disk and the journal say what the drill said, and scratch is empty again."""
    (receipt,) = read_receipts(here)
    assert receipt == replace(done.receipt, seconds=receipt.seconds)
    assert os.stat(done.path).st_mode & 0o777 == 0o600
    lines = [entry for entry in here.journal.read() if entry.verb == "drill"]
    assert lines[-1].operation == receipt.operation
    assert lines[-1].facts["failed"] == [row.check for row in receipt.failed]
    assert lines[-1].facts["receipt"] == done.path
    left_behind(here)


def left_behind(here: UserContext) -> None:
    scratch = os.path.join(here.places.data_directory, "scratch")
    assert not os.path.isdir(scratch) or os.listdir(scratch) == []


# Damage of a vault


def packs(here: UserContext) -> Iterator[str]:
    for directory, _, names in sorted(os.walk(os.path.join(here.places.vault, "data"))):
        yield from (os.path.join(directory, name) for name in sorted(names))


def files_of(here: UserContext, kind: str) -> list[str]:
    """Whole paths of the files of one kind: `index`, `snapshots`, `keys`."""
    place = os.path.join(here.places.vault, kind)
    return [os.path.join(place, name) for name in sorted(os.listdir(place))]


def place_of_file(here: UserContext, path: str, home: str) -> tuple[str, Location]:
    """The pack and the place in it of the first piece of a stored file of the newest snapshot."""
    with opened(here) as repository:
        node = newest_node(repository, home, path)
        blob = (node.content or b"")[:32]
        found = repository.locations(BlobKind.DATA, blob)[0]
        return pack_path(here, repository, found.pack), found


def place_of_directory(here: UserContext, path: str, home: str) -> tuple[str, Location]:
    with opened(here) as repository:
        node = newest_node(repository, home, path)
        assert node.subtree is not None
        found = repository.locations(BlobKind.TREE, node.subtree)[0]
        return pack_path(here, repository, found.pack), found


def newest_node(repository: Repository, home: str, path: str):  # type: ignore[no-untyped-def]
    from safekept.vault.format.tree import Node
    from safekept.vault.snapshots import list_snapshots

    snapshot = list_snapshots(repository)[0][-1]
    node = Node("root", "dir", 0o755, subtree=snapshot.tree)
    start = "" if path.startswith(".safekept") else home.strip("/") + "/"
    for part in filter(None, (start + path).split("/")):
        found = repository.find_node(node.subtree, part)
        assert found is not None, part
        node = found
    return node


def pack_path(here: UserContext, repository: Repository, pack: bytes) -> str:
    name = pack.hex()
    assert any(found == name for found, _ in repository.storage.list(FileKind.PACK))
    return os.path.join(here.places.vault, "data", name[:2], name)


def flip(path: str, at: int) -> None:
    rewrite(path, lambda data: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])


def rewrite(path: str, change) -> None:  # type: ignore[no-untyped-def]
    with open(path, "rb") as file:
        data = file.read()
    os.chmod(path, 0o600)
    with open(path, "wb") as file:
        file.write(change(data))


# Damage of a home


def put(home: str, path: str, data: bytes | str) -> None:
    full = os.path.join(home, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def change_database(home: str, *statements: str, path: str = "state.db") -> None:
    full = os.path.join(home, path)
    with contextlib.closing(sqlite3.connect(full, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("pragma wal_checkpoint(truncate)")
