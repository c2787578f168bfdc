"""A snapshot as a home: what lay outside it, what is damaged, what is found without reading everything."""

from __future__ import annotations

import json
import os
import tempfile

import pytest

from safekept.core.entries import EntryLost, Kind
from safekept.vault.format.blobs import BlobKind
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.format.tree import Node, encode_tree, find_node
from safekept.vault.read.homes import MANIFEST, read_manifest, shallow_paths, snapshot_source
from safekept.vault.read.reader import has_bytes
from safekept.vault.read.trees import tree_changes
from safekept.vault.repo.repository import Repository
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import MTIME, new_vault, save_directory, save_files

HOME = "home/u/.hermes"


@pytest.fixture
def repository():
    with new_vault(MemoryStorage()) as vault:
        yield vault


def stored(repository: Repository, files: dict[str, bytes], **manifest: object) -> Snapshot:
    document = {"format": "safekept-snapshot", "version": 1, "home": "/" + HOME, **manifest}
    everything = {f"{HOME}/{path}": data for path, data in files.items() if not path.startswith("/")}
    everything |= {path[1:]: data for path, data in files.items() if path.startswith("/")}
    everything["/".join(MANIFEST)] = json.dumps(document).encode()
    return save_files(repository, everything)


def contents(source) -> dict[str, bytes]:
    found = {}
    for entry in source:
        if entry.kind is Kind.FILE:
            with entry.open() as content:
                found[entry.path] = b"".join(content.chunks())
                assert content.size == len(found[entry.path])
    return found


def flip(repository: Repository, kind: BlobKind, blob: bytes) -> None:
    place = repository.index.lookup(kind, blob)
    files = repository.storage.files
    key = next(key for key in files if key.endswith(place.pack.hex()))
    data = bytearray(files[key])
    data[place.offset + place.length // 2] ^= 1
    files[key] = bytes(data)
    repository.loader.close()


def test_what_lay_outside_the_home_has_its_own_name_and_the_rest_of_the_tree_is_not_there(repository):
    snapshot = stored(
        repository,
        {"SOUL.md": b"soul", "/home/u/.honcho/config.json": b"{}", "/home/u/other/file": b"not ours"},
        external={"_external/.honcho": "/home/u/.honcho"},
    )
    source, manifest = snapshot_source(repository, snapshot)
    assert manifest["external"] == {"_external/.honcho": "/home/u/.honcho"}
    assert contents(source) == {"SOUL.md": b"soul", "_external/.honcho/config.json": b"{}"}
    kinds = {entry.path: entry.kind for entry in source}
    assert kinds["_external/.honcho"] is Kind.DIRECTORY
    assert source.node("_external/.honcho/config.json").size == 2
    assert source.without_external() == ["/home/u/.honcho"]
    assert contents(source) == {"SOUL.md": b"soul"}


def test_a_home_without_a_manifest_is_found_where_it_is_said_to_be(repository):
    snapshot = save_files(repository, {".hermes/SOUL.md": b"soul", "elsewhere": b"x"})
    assert snapshot_source(repository, snapshot)[1] is None
    assert contents(snapshot_source(repository, snapshot)[0]) == {}
    assert contents(snapshot_source(repository, snapshot, ".hermes")[0]) == {"SOUL.md": b"soul"}
    assert sorted(shallow_paths(repository, snapshot, 1)) == [".hermes/", "elsewhere"]
    assert ".hermes/SOUL.md" in set(shallow_paths(repository, snapshot, 2))


def test_a_damaged_manifest_is_a_remark_and_the_home_is_still_there(repository):
    snapshot = stored(repository, {"SOUL.md": b"soul"})
    tree = repository.find_node(snapshot.tree, MANIFEST[0]).subtree
    flip(repository, BlobKind.DATA, repository.find_node(tree, MANIFEST[1]).content)
    source, manifest = snapshot_source(repository, snapshot)
    assert manifest is None and contents(source) == {"SOUL.md": b"soul"}
    [remark] = source.remarks
    assert remark.incomplete and remark.reason.startswith(
        "the account of this snapshot is damaged in the vault"
    )


@pytest.mark.parametrize("text", [b"{}", b"[1]", b"not json", b'{"format": "something-else"}'])
def test_a_file_that_is_no_manifest_of_ours_is_not_taken_for_one(repository, text):
    snapshot = save_files(repository, {"/".join(MANIFEST): text, f"{HOME}/SOUL.md": b"soul"})
    assert read_manifest(repository, snapshot) is None


def test_what_the_snapshot_knows_of_a_database_comes_with_its_content(repository):
    snapshot = stored(
        repository,
        {"state.db": b"SQLite format 3\0" + bytes(2000)},
        databases={"state.db": {"state": "damaged", "method": "pages", "detail": "torn", "page_size": 512}},
    )
    source, _ = snapshot_source(repository, snapshot)
    [entry] = [entry for entry in source if entry.kind is Kind.FILE]
    assert entry.database
    with entry.open() as content:
        assert (content.database.state, content.database.detail) == ("damaged", "torn")


def test_small_files_read_in_a_row_are_right_and_damage_among_them_costs_one(repository):
    files = {f"{number:04}.md": f"file {number} ".encode() * (number % 40 + 1) for number in range(300)}
    files["0100.md"] = os.urandom(3000)
    snapshot = stored(repository, files)
    source, _ = snapshot_source(repository, snapshot)
    assert contents(source) == files
    assert contents(source) == files, "the second time as well"
    flip(repository, BlobKind.DATA, source.node("0100.md").content)
    source, _ = snapshot_source(repository, snapshot)
    lost, found = [], {}
    for entry in source:
        if entry.kind is Kind.FILE:
            try:
                with entry.open() as content:
                    found[entry.path] = b"".join(content.chunks())
            except EntryLost as error:
                lost.append(error.remark.path)
    assert lost == ["0100.md"]
    del files["0100.md"]
    assert found == files


def test_files_picked_here_and_there_are_right_too(repository):
    import random

    files = {f"{number:04}.md": f"file {number}".encode() for number in range(200)}
    source, _ = snapshot_source(repository, stored(repository, files))
    entries = [entry for entry in source if entry.kind is Kind.FILE]
    random.Random(1).shuffle(entries)
    for entry in entries:
        with entry.open() as content:
            assert b"".join(content.chunks()) == files[entry.path]


def test_bytes_on_disk_are_compared_without_loading_what_is_stored(repository):
    data = os.urandom(100_000)
    source, _ = snapshot_source(repository, stored(repository, {"a": data, "empty": b""}))
    content = source.node("a").content
    assert len(content) > 32
    for there, same in (
        (data, True),
        (data[:-1], False),
        (data + b"x", False),
        (b"x" + data[1:], False),
        (b"", False),
    ):
        with tempfile.TemporaryFile() as file:
            file.write(there)
            file.flush()
            assert has_bytes(repository, content, file.fileno()) is same
            assert has_bytes(repository, b"", file.fileno()) is (there == b"")
    with tempfile.TemporaryFile() as file:
        assert has_bytes(repository, bytes(32), file.fileno()) is None, "a blob that nobody has"


def test_one_node_is_found_as_it_would_be_in_the_whole_tree():
    nodes = [
        Node('tricky","type":"file', "file", 0o600, MTIME, size=3, content=b"\1" * 32),
        Node("name", "dir", 0o700, MTIME, subtree=b"\2" * 32),
        Node("ünï\ncode", "symlink", 0o777, MTIME, target='{"name":"SOUL.md","type":"file"}'),
        Node("SOUL.md", "file", 0o644, MTIME, size=1, content=b"\3" * 32, extended=(("SOUL.md", b"x"),)),
        Node(os.fsdecode(b"raw-\xff"), "file", 0o644, MTIME, size=0, content=b""),
    ]
    text = encode_tree(nodes)
    for node in nodes:
        found = find_node(text, node.name)
        assert (found.name, found.type, found.content, found.target) == (
            node.name,
            node.type,
            node.content,
            node.target,
        )
    assert find_node(text, "nobody") is None
    other = json.dumps({"nodes": [{"type": "file", "name": "SOUL.md", "content": None}]}).encode()
    assert find_node(other, "SOUL.md").type == "file", "another order of fields, as rustic may write it"


def test_equal_directories_are_not_looked_into(repository, monkeypatch):
    same = {f"big/{number}": b"x" * number for number in range(50)}
    with repository.saver(None) as saver:
        first = save_directory(saver, {**same, "a/one": b"1", "gone": b"g"})
        second = save_directory(saver, {**same, "a/one": b"2", "a/new": b"n"})
        saver.flush()
    loaded = []
    load = Repository.load_tree
    monkeypatch.setattr(Repository, "load_tree", lambda self, blob: loaded.append(blob) or load(self, blob))
    remarks: list = []
    found = {
        path: (before is not None, after is not None)
        for path, before, after in tree_changes(repository, first, second, remarks)
    }
    assert found == {"a/one": (True, True), "a/new": (False, True), "gone": (True, False)}
    assert len(loaded) == 4 and not remarks
