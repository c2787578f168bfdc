"""The real restic judges what we write, works on it, and we go on with what it leaves."""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import signal
import subprocess
import time

import pytest

from holdfast.core.entries import Kind
from holdfast.vault.blobs import BlobKind
from holdfast.vault.check import check
from holdfast.vault.errors import VaultLocked
from holdfast.vault.keys import Cost, Secret, generate_secret
from holdfast.vault.locks import unlock
from holdfast.vault.reader import SnapshotSource
from holdfast.vault.repo import Repository
from holdfast.vault.snapshot import Snapshot
from holdfast.vault.snapshots import find_snapshot, list_snapshots
from holdfast.vault.storage import LocalStorage
from holdfast.vault.tree import Node
from vaults import read_all, read_files, save_files, some_files

pytestmark = pytest.mark.real

AWKWARD = [
    b"plain.md", b'quote".md', b"back\\slash", b"new\nline", b"tab\t", b"bell\x07", b"esc\x1b", b"del\x7f",
    b"\xff\xfe bytes", "ümläut 😀".encode(), "nbsp\u00a0".encode(), "line\u2028sep".encode(), b"<html>&",
    b"it's", b"-dash", b" lead", b"caf\xe9", "bom\ufeff".encode(), "zwj\u200d".encode(), b"\xed\xa0\x80",
]  # fmt: skip


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "vault")


@pytest.fixture
def secret():
    return generate_secret()


def make_home(root):
    """A directory with everything that a tree must be able to say."""
    root = os.fsencode(root)
    os.makedirs(root + b"/sub/empty")
    for number, name in enumerate(AWKWARD):
        with open(root + b"/sub/" + name, "wb") as file:
            file.write(name * (number * 400))
        os.utime(root + b"/sub/" + name, ns=(5, 1_600_000_000_000_000_000 + number * 123_456_789_000))
    os.chmod(root + b"/sub/plain.md", 0o4751)
    os.chmod(root + b"/sub/empty", 0o1770)
    os.symlink(b"sub/plain.md", root + b"/link")
    os.symlink(b"caf\xe9<&>", root + b"/odd-link")
    with open(root + b"/empty-file", "wb"):
        pass
    with open(root + b"/noise", "wb") as file:
        file.write(os.urandom(400_000))
    os.utime(root, ns=(1, 1_600_000_000_000_000_001))


def as_restic_would(saver, directory):
    """Store a directory node for node as restic does: each small file is one blob."""
    nodes = []
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        facts = os.lstat(path)
        node = Node(
            os.fsdecode(name),
            "file",
            facts.st_mode & 0o7777,
            facts.st_mtime_ns,
            ctime_ns=facts.st_ctime_ns,
            uid=facts.st_uid,
            gid=facts.st_gid,
            user=pwd.getpwuid(facts.st_uid).pw_name,
            group=grp.getgrgid(facts.st_gid).gr_name,
            inode=facts.st_ino,
            device_id=facts.st_dev,
        )
        if os.path.islink(path):
            node.type, node.target, node.links = "symlink", os.fsdecode(os.readlink(path)), facts.st_nlink
        elif os.path.isdir(path):
            node.type, node.subtree = "dir", as_restic_would(saver, path)
        else:
            with open(path, "rb") as file:
                data = file.read()
            node.size, node.links = len(data), facts.st_nlink
            node.content = saver.save(BlobKind.DATA, data) if data else b""
        nodes.append(node)
    return saver.save_tree(nodes)


def put(root, snapshot_files):
    for path, data in snapshot_files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "wb") as file:
            file.write(data)


def test_restic_accepts_lists_restores_and_compares_what_we_wrote(restic, place, secret, tmp_path):
    first, second = some_files(1), some_files(2) | {"big.db": os.urandom(2_000_000) + b"page" * 300_000}
    with Repository.init(LocalStorage(place), secret) as vault:
        with vault.lock() as lock:
            one = save_files(vault, first, lock=lock, tags=("quick", "label:with spaces"))
            two = save_files(vault, second, lock=lock)
    run = restic(place, secret.text)
    assert "no errors were found" in run("check", "--read-data")
    assert [item["id"] for item in json.loads(run("snapshots", "--json"))] == [one.id, two.id]
    listed = [json.loads(line) for line in run("ls", "--json", two.id).splitlines()][1:]
    assert {item["path"].lstrip("/") for item in listed if item["type"] == "file"} == set(second)
    for snapshot, files in ((one, first), (two, second)):
        target = str(tmp_path / snapshot.short_id)
        run("restore", snapshot.id, "--target", target)
        for path, data in files.items():
            with open(os.path.join(target, path), "rb") as file:
                assert file.read() == data, path
    difference = run("diff", one.id, two.id)
    assert "big.db" in difference
    assert "noise-1" in difference
    dumped = subprocess.run(
        [run.program, "dump", two.id, "/big.db"],
        env={
            **os.environ,
            "RESTIC_REPOSITORY": place,
            "RESTIC_PASSWORD": secret.text,
            "RESTIC_CACHE_DIR": run.cache,
        },
        capture_output=True,
        check=True,
    )
    assert hashlib.sha256(dumped.stdout).digest() == hashlib.sha256(second["big.db"]).digest()
    # restic leaves nothing that we mind.
    with Repository.open(LocalStorage(place), secret) as vault:
        assert check(vault, read_data=1.0).findings == []


def test_we_go_on_after_restic_tagged_forgot_pruned_and_backed_up(restic, place, secret, tmp_path):
    contents = [some_files(number) for number in range(4)]
    with Repository.init(LocalStorage(place), secret) as vault:
        made = [save_files(vault, files, time_ns=10**18 + number) for number, files in enumerate(contents)]
    run = restic(place, secret.text)
    run("tag", "--add", "pinned", made[1].id)
    run("forget", "--prune", made[0].id, made[2].id)
    home = str(tmp_path / "home")
    put(home, contents[3] | {"extra": b"by restic"})
    run("backup", ".", cwd=home)
    assert "no errors were found" in run("check", "--read-data")
    with Repository.open(LocalStorage(place), secret) as vault:
        snapshots, damaged = list_snapshots(vault)
        assert not damaged
        assert [snapshot.tags for snapshot in snapshots] == [("pinned",), (), ()]
        assert snapshots[0].original == made[1].id
        assert read_all(vault) == [contents[1], contents[3], contents[3] | {"extra": b"by restic"}]
        with vault.lock() as lock:
            save_files(vault, contents[0], lock=lock)
        assert check(vault, read_data=1.0).damage == []
    assert "no errors were found" in run("check", "--read-data")


def test_restic_copies_from_us_and_to_us(installed_restic, place, secret, tmp_path):
    files = some_files(5)
    with Repository.init(LocalStorage(place), secret) as vault:
        save_files(vault, files)
    other = str(tmp_path / "other")
    theirs = installed_restic(other, "their password")
    theirs("init", "--repository-version", "2")
    password = str(tmp_path / "password")
    with open(password, "w") as file:
        file.write(secret.text + "\n")
    source = ("--from-repo", place, "--from-password-file", password)
    theirs("copy", *source)
    assert "no errors were found" in theirs("check", "--read-data")
    with Repository.open(LocalStorage(other), Secret("their password")) as vault:
        assert read_all(vault) == [files]
        more = save_files(vault, some_files(6))
    own = str(tmp_path / "their-password")
    with open(own, "w") as file:
        file.write("their password")
    back = installed_restic(place, secret.text)
    back("copy", "--from-repo", other, "--from-password-file", own, more.id)
    with Repository.open(LocalStorage(place), secret) as vault:
        assert some_files(6) in read_all(vault)
    assert "no errors were found" in back("check", "--read-data")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_trees_are_byte_for_byte_those_of_restic(restic, place, secret, tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    home = str(tmp_path / "home")
    make_home(home)
    run = restic(place, secret.text)
    try:
        with Repository.init(LocalStorage(place), secret) as vault:
            with vault.saver(None) as saver:
                tree = as_restic_would(saver, os.fsencode(home))
                ours = saver.finish(Snapshot(time.time_ns(), tree, (home,)))
        run("backup", ".", cwd=home)
        with Repository.open(LocalStorage(place), secret) as vault:
            theirs = find_snapshot(vault, "latest")
            assert theirs.id != ours.id
            assert _strip_odd_link(vault, theirs.tree) == _strip_odd_link(vault, ours.tree)
            names = {os.fsencode(entry.path) for entry in SnapshotSource(vault, ours)}
            assert {b"sub/" + name for name in AWKWARD} <= names
    finally:
        monkeypatch.undo()
        time.tzset()


def _strip_odd_link(vault, tree):
    """The root's bytes without `linktarget_raw`, which restic writes since 0.16 only; all below is by id."""
    text = vault.load_blob(BlobKind.TREE, tree)
    start = text.find(b',"linktarget_raw":"')
    return text if start < 0 else text[:start] + text[text.index(b'"', start + 19) + 1 :]


def test_what_restic_backed_up_we_list_restore_and_check(restic, place, tmp_path):
    home = str(tmp_path / "home")
    make_home(home)
    os.mkfifo(os.path.join(home, "pipe"))
    put(home, {"big": os.urandom(3_000_000) * 2})
    run = restic(place, "password of theirs")
    run("init", "--repository-version", "2")
    run("backup", ".", "--tag", "first", cwd=home)
    run("backup", home)
    with Repository.open(LocalStorage(place), Secret("password of theirs")) as vault:
        assert check(vault, read_data=1.0).findings == []
        snapshots, _ = list_snapshots(vault)
        assert snapshots[0].tags == ("first",)
        relative = SnapshotSource(vault, snapshots[0])
        absolute = SnapshotSource(vault, snapshots[1], under=home)
        entries = {entry.path: entry for entry in relative}
        assert {entry.path for entry in absolute} == set(entries)
        assert [remark.path for remark in relative.remarks] == ["pipe"]
        for path, entry in entries.items():
            facts = os.lstat(os.path.join(home, path))
            assert (entry.mode, entry.mtime_ns) == (facts.st_mode & 0o7777, facts.st_mtime_ns), path
            if entry.kind is Kind.FILE:
                with entry.open() as content, open(os.path.join(home, path), "rb") as file:
                    assert b"".join(content.chunks()) == file.read()
            if entry.kind is Kind.SYMLINK and path != "odd-link":  # 0.14 loses the bytes of that one
                assert entry.target == os.readlink(os.path.join(home, path))


def test_a_passphrase_key_of_ours_and_keys_of_restic_open_the_same_vault(
    installed_restic, place, secret, tmp_path
):
    with Repository.init(LocalStorage(place), secret) as vault:
        vault.add_key(Secret("a passphrase with ümläuts"), cost=Cost(32768, 8, 1))
        save_files(vault, {"a": b"x"})
    run = installed_restic(place, "a passphrase with ümläuts")
    new = str(tmp_path / "new")
    with open(new, "w") as file:
        file.write("added by restic")
    run("key", "add", "--new-password-file", new)
    with Repository.open(LocalStorage(place), Secret("added by restic")) as vault:
        assert len(vault.list_keys()) == 3
        assert read_all(vault) == [{"a": b"x"}]
        vault.change_key(Secret("changed", generated=True))
    assert "no errors were found" in installed_restic(place, "changed")("check")


def test_restic_and_we_honour_each_others_locks(restic, place, secret, tmp_path):
    with Repository.init(LocalStorage(place), secret) as vault:
        run = restic(place, secret.text)
        with vault.lock():
            refused = run.run("check")
            assert refused.returncode != 0
            assert f"PID {os.getpid()}" in refused.stdout + refused.stderr
            run("snapshots")
            # restic asks a holder with SIGHUP whether it lives; we do, and the lock stays.
            run("unlock")
            assert (
                len(json.loads("[" + ",".join(f'"{line}"' for line in run("list", "locks").split()) + "]"))
                >= 1
            )
        # A restic that was killed left its lock; nothing is wedged.
        home = str(tmp_path / "home")
        put(home, {"pipe-me": b"x"})
        holder = subprocess.Popen(
            [run.program, "backup", "--stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "RESTIC_REPOSITORY": place,
                "RESTIC_PASSWORD": secret.text,
                "RESTIC_CACHE_DIR": run.cache,
            },
        )
        try:
            deadline = time.monotonic() + 30
            while not os.listdir(os.path.join(place, "locks")) and time.monotonic() < deadline:
                time.sleep(0.02)
            with pytest.raises(VaultLocked) as caught:
                vault.lock(exclusive=True)
            assert caught.value.facts["pid"] == holder.pid
            with vault.lock():
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            holder.stdin.close()
        assert os.listdir(os.path.join(place, "locks"))
        with vault.lock(exclusive=True):
            assert len(os.listdir(os.path.join(place, "locks"))) == 1
        assert unlock(vault.storage, vault.key) == []


def test_an_interrupted_snapshot_of_ours_does_not_disturb_restic(installed_restic, place, secret):
    with Repository.init(LocalStorage(place), secret) as vault:
        snapshot = save_files(vault, some_files(7))
        with pytest.raises(KeyboardInterrupt), vault.saver(None) as saver:
            saver.save(BlobKind.DATA, os.urandom(50_000))
            saver.flush()
            saver.save(BlobKind.DATA, os.urandom(50_000))
            raise KeyboardInterrupt
    run = installed_restic(place, secret.text)
    assert "no errors were found" in run("check", "--read-data")
    run("prune")
    with Repository.open(LocalStorage(place), secret) as vault:
        assert read_files(vault, snapshot) == (some_files(7), [])


def test_rewriting_is_possible_where_restic_can(restic, place, secret):
    run = restic(place, secret.text)
    if "rewrite" not in run.run("help").stdout:
        pytest.skip("this restic has no `rewrite`; 0.15 and newer have")
    with Repository.init(LocalStorage(place), secret) as vault:
        save_files(vault, some_files(8))
    run("rewrite", "--forget", "--exclude", "SOUL.md")
    with Repository.open(LocalStorage(place), secret) as vault:
        expected = some_files(8)
        del expected["SOUL.md"]
        assert read_all(vault) == [expected]
