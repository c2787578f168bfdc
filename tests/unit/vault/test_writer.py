"""A Source becomes a snapshot: the tree mirrors the disk, and every byte comes back."""

from __future__ import annotations

import hashlib
import os
import queue
import random
import re
from collections.abc import Callable

import pytest

from safekept.core.entries import BytesContent, Entry, EntryLost, Kind, Outcome, Remark
from safekept.vault.format.tree import Node, encode_node
from safekept.vault.repo import packer
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind, LocalStorage
from safekept.vault.write.chunks import WHOLE, cut
from safekept.vault.write.databases import SEGMENT, BlockStore, block_size, pieces
from safekept.vault.write.memory import KnownDatabase
from safekept.vault.write.trees import NodeTexts
from safekept.vault.write.writer import Description, write_snapshot
from support.commands.waiting import wait_until
from support.home.entry_list import EntryList
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import new_vault, read_files


def entry(path: str, data: bytes, **options: object) -> Entry:
    return Entry(
        path,
        Kind.FILE,
        0o640,
        1_700_000_000_000_000_001,
        len(data),
        open=lambda: BytesContent(data, 5),
        **options,
    )  # type: ignore[arg-type]


def lost(path: str) -> Entry:
    def fail() -> BytesContent:
        raise EntryLost(Remark(path, Outcome.UNREADABLE, "the disk cannot read it"))

    return Entry(path, Kind.FILE, 0o600, 0, 3, open=fail)


def store(repository, entries, roots=None, **options):
    return write_snapshot(
        repository,
        EntryList(entries),
        lock=None,
        roots=roots or {"": "/nonexistent/u/.hermes"},
        describe=lambda account: Description({"format": "safekept-snapshot", "files": account.files}),
        **options,
    )


def test_files_of_every_size_and_order_come_back_exactly():
    source = random.Random(5)
    sizes = [0, 1, WHOLE - 1, WHOLE, WHOLE + 1, 3 << 20, 40 << 20]
    contents = {f"d{number % 3}/file-{number}": source.randbytes(size) for number, size in enumerate(sizes)}
    contents["zeros"] = bytes(30 << 20)
    with new_vault(MemoryStorage()) as repository:
        stored = store(repository, [entry(path, data) for path, data in contents.items()])
        found, missing = read_files(repository, stored.snapshot)
    assert not missing
    manifest = found.pop(".safekept/manifest.json")
    assert b'"files": 8' in manifest
    assert {path.removeprefix("nonexistent/u/.hermes/"): data for path, data in found.items()} == contents
    assert stored.account.files == 8
    assert stored.account.bytes == sum(map(len, contents.values()))


def test_what_lies_outside_the_home_goes_to_its_real_place():
    roots = {
        "": "/home/u/.hermes",
        "_external/.honcho": "/home/u/.honcho",
        "_external/a/b.conf": "/opt/x/b.conf",
    }
    entries = [
        entry("SOUL.md", b"soul"),
        entry("_external/.honcho/config.json", b"{}"),
        entry("_external/a/b.conf", b"c"),
    ]
    with new_vault(MemoryStorage()) as repository:
        stored = store(repository, entries, roots)
        found, _ = read_files(repository, stored.snapshot)
    assert sorted(found) == [
        ".safekept/manifest.json",
        "home/u/.hermes/SOUL.md",
        "home/u/.honcho/config.json",
        "opt/x/b.conf",
    ]
    assert stored.snapshot.paths == ("/home/u/.hermes",)


def test_an_unreadable_file_stops_nothing_and_is_said():
    with new_vault(MemoryStorage()) as repository:
        stored = store(repository, [entry("a", b"1"), lost("b"), entry("c", b"2")])
        found, _ = read_files(repository, stored.snapshot)
        assert [path[-1] for path in found if "hermes" in path] == ["a", "c"]
    assert [remark.path for remark in stored.account.remarks] == ["b"]
    assert not stored.account.complete


def test_a_failure_writes_no_snapshot_and_the_next_try_builds_on_what_arrived():
    data = random.Random(1).randbytes(20 << 20)
    storage = MemoryStorage()

    def explode() -> BytesContent:
        # A pack travels in a thread of its own: on a busy machine none may have arrived yet.
        wait_until(lambda: list(storage.list(FileKind.PACK)), "a pack")
        raise RuntimeError("power")

    with new_vault(storage) as repository:
        bomb = Entry("z", Kind.FILE, 0o600, 0, 1, open=explode)
        with pytest.raises(RuntimeError, match="power"):
            store(repository, [entry("a", data), bomb])
        assert list_snapshots(repository)[0] == []
        stored = store(repository, [entry("a", data)])
        assert stored.added < len(data) // 2
        assert read_files(repository, stored.snapshot)[0]["nonexistent/u/.hermes/a"] == data


@pytest.mark.parametrize("arrives", [True, False])
def test_a_signal_at_the_handing_over_of_a_pack_ends_the_snapshot_and_never_hangs(monkeypatch, arrives):
    """It may come before the pack is in the queue, or just after: nobody can know, so nobody may wait."""

    class Interrupted(queue.Queue):
        def put(self, item, *arguments, **options):
            if item is None:
                return super().put(item, *arguments, **options)
            if arrives:
                super().put(item, *arguments, **options)
            raise KeyboardInterrupt

    data = random.Random(2).randbytes(20 << 20)
    with new_vault(MemoryStorage()) as repository:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(packer.queue, "Queue", Interrupted)
            store(repository, [entry("a", data)])
        assert list_snapshots(repository)[0] == []
        stored = store(repository, [entry("a", data)])
        assert read_files(repository, stored.snapshot)[0]["nonexistent/u/.hermes/a"] == data


@pytest.mark.parametrize("seed", range(20))
def test_quick_node_texts_are_what_the_encoder_writes(seed):
    source = random.Random(seed)
    texts = NodeTexts()
    name = (
        "".join(source.choice('abc "\\<>&é\n\t\udcff\u2028漢\U0001f600') for _ in range(12)).replace("/", "")
        + "x"
    )
    whole = [source.choice([0o100644, 0o104755, 0o100000, 0o101777]), source.randrange(1, 1 << 60), 65024]
    whole += [source.randrange(1, 5), 0, 0, source.randrange(1 << 40), 0, 0, 0]
    status = os.stat_result((*whole, 0.0, 0.0, 0.0, 0, source.randrange(1 << 61), source.randrange(1 << 61)))
    mode, mtime = status.st_mode & 0o7777, status.st_mtime_ns
    content = source.randbytes(32 * source.randrange(4))
    node = Node(
        name,
        "file",
        mode,
        mtime,
        None,
        status.st_ctime_ns,
        0,
        0,
        "root",
        "root",
        status.st_ino,
        65024,
        status.st_size,
        status.st_nlink,
        content=content,
    )
    assert texts.file(name, mode, mtime, status.st_size, content, status) == encode_node(node)
    tree = source.randbytes(32)
    node = Node(
        name,
        "dir",
        mode,
        mtime,
        None,
        status.st_ctime_ns,
        0,
        0,
        "root",
        "root",
        status.st_ino,
        65024,
        subtree=tree,
    )
    assert texts.directory(name, mode, mtime, tree, status) == encode_node(node)


def test_cutting_does_not_depend_on_how_the_bytes_arrive():
    data = random.Random(3).randbytes(37 << 20)
    whole = [bytes(piece) for piece in cut(iter([data]))]
    arrivals = [data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    assert [bytes(piece) for piece in cut(iter(arrivals))] == whole
    assert b"".join(whole) == data
    assert max(map(len, whole)) <= 8 << 20
    moved = [bytes(piece) for piece in cut(iter([b"in front" + data]))]
    assert len(set(moved) - set(whole)) <= 2, "what follows an insertion is cut where it was cut before"


def test_blocks_follow_the_size_and_cover_whole_pages():
    assert block_size(1) == 16 << 10
    assert block_size(700 << 20) == 32 << 10
    assert block_size(5 << 30) == 64 << 10
    for size in (1, 1 << 28, 1 << 31, 1 << 40):
        assert SEGMENT % block_size(size) == 0
    odd = [b"a" * 3, b"b" * (1 << 20), b"c" * (2 << 20), b"d"]
    assert b"".join(pieces(iter(odd))) == b"".join(odd)
    assert {len(piece) for piece in list(pieces(iter(odd)))[:-1]} == {1 << 20}


@pytest.mark.parametrize("indexed", [True, False])
def test_only_changed_blocks_are_stored_whatever_happens_to_the_database(indexed):
    source = random.Random(9)
    before = bytearray(source.randbytes((3 << 20) + 4096))
    with new_vault(MemoryStorage()) as repository, repository.saver(None) as saver:
        blocks = BlockStore(saver, b"k" * 32)

        def save(data: bytes, known: KnownDatabase | None) -> tuple[KnownDatabase, int]:
            added = saver.saved.bytes_added
            done = blocks.store(BytesContent(bytes(data)), known, indexed)
            saver.flush()
            expected = [
                hashlib.sha256(data[at : at + done.block]).digest() for at in range(0, len(data), done.block)
            ]
            assert done.ids == b"".join(expected), "the ids are those of the bytes, whatever was known"
            assert done.size == len(data)
            return (
                KnownDatabase(
                    block=done.block, size=done.size, ids=done.ids, prints=done.prints, segments=done.segments
                ),
                saver.saved.bytes_added - added,
            )

        known, added = save(bytes(before), None)
        assert added == len(before)
        known, added = save(bytes(before), known)
        assert added == 0
        after = bytearray(before)
        after[100_000:100_010] = b"0123456789"
        known, added = save(bytes(after), known)
        assert added == known.block
        for changed in (
            after[: 1 << 20],
            after + source.randbytes(4096),
            after[:-1],
            after[:5000],
            bytes(1 << 20),
            b"",
        ):
            known, _ = save(bytes(changed), known)
        known, added = save(bytes(after), known)
        assert added == 0, "all of it was stored before"
        blocks.close()


class PowerCut:
    """What of a directory tree would outlive a power cut, by what was synced before what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes, self.unsynced, self.syncs = set[int](), dict[str, set[str]](), 0
        self.seen: dict[str, set[str]] = {}  # a file that got its name -> files whose names were durable then
        self.durable = set[str]()
        for name in ("fsync", "rename"):
            monkeypatch.setattr(os, name, getattr(self, name)(getattr(os, name)))

    def fsync(self, real: Callable[..., None]) -> Callable[..., None]:
        def fsync(descriptor: int) -> None:
            real(descriptor)
            self.syncs += 1
            self.bytes.add(os.fstat(descriptor).st_ino)
            self.durable |= self.unsynced.pop(os.readlink(f"/proc/self/fd/{descriptor}"), set())

        return fsync

    def rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(source: str, target: str, **options: int) -> None:
            if re.search(r"/(data/..|index|snapshots)/[0-9a-f]{64}$", target):
                assert os.stat(source).st_ino in self.bytes, f"{target} has its name before its bytes"
                self.seen[target] = set(self.durable)
                self.unsynced.setdefault(os.path.dirname(target), set()).add(target)
            real(source, target, **options)

        return rename


def test_a_snapshot_has_its_name_when_all_that_it_needs_would_outlive_a_power_cut(tmp_path, monkeypatch):
    with new_vault(LocalStorage(str(tmp_path / "vault"))) as repository:
        disk = PowerCut(monkeypatch)
        stored = store(repository, [entry("a", b"one"), entry("b/c", b"two")])
        monkeypatch.undo()
    kinds = {
        kind: {path for path in disk.seen if f"/{kind}/" in path} for kind in ("data", "index", "snapshots")
    }
    assert [len(kinds[kind]) for kind in kinds] == [2, 1, 1]
    for path in kinds["index"]:
        assert kinds["data"] <= disk.seen[path]
    for path in kinds["snapshots"]:
        assert kinds["data"] | kinds["index"] <= disk.seen[path] and path.endswith(stored.snapshot.id)
    assert disk.durable == set(disk.seen), "and all of it before it is called stored"
    assert disk.syncs <= 9, "four for the bytes of all files, five for names"
