"""The real restic judges what we write, works on it, and we go on with what it leaves."""

from __future__ import annotations

import dataclasses
import grp
import hashlib
import json
import os
import pwd
import random
import re
import signal
import subprocess
import time

import pytest

from safekept.core.entries import Kind
from safekept.vault.care import repack
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget, pin, unforget
from safekept.vault.care.policy import Policy, Span, apply_policy
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.care.repair import carry_out_repair, plan_repair
from safekept.vault.errors import VaultLocked, VaultReadOnly
from safekept.vault.format.blobs import BlobKind
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.format.tree import Node
from safekept.vault.repo.keys import Cost, Secret, generate_secret
from safekept.vault.repo.locks import unlock
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id, shown
from safekept.vault.storage import LocalStorage
from safekept.vault.tags import is_pinned
from support.commands.waiting import PATIENT, wait_until
from support.vault.vaults import (
    find_snapshot,
    read_all,
    read_files,
    save_files,
    save_tree,
    some_files,
    stored,
)

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
    return save_tree(saver, nodes)


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
            names = {os.fsencode(entry.path) for entry in stored(vault, ours)}
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
        relative = stored(vault, snapshots[0])
        absolute = stored(vault, snapshots[1], under=home)
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
        vault.add_key(Secret("changed", generated=True))
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
        # A restic that was killed left its lock.
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
            # restic writes a lock under a name of its own first; only the final one counts.
            locks = os.path.join(place, "locks")
            wait_until(lambda: any(len(name) == 64 for name in os.listdir(locks)), "the lock of restic")
            with pytest.raises(VaultLocked) as caught:
                vault.lock(exclusive=True)
            assert caught.value.facts["pid"] == holder.pid
            with vault.lock():
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            holder.stdin.close()
        # restic does not say in which PID namespace its number counts, so nobody can know that it is gone:
        # its lock holds for half an hour, or until a person takes it away. Readers go on all the while.
        with pytest.raises(VaultLocked):
            vault.lock(exclusive=True)
        with vault.lock():
            pass
        assert [lock.pid for lock in unlock(vault.storage, vault.key, everything=True)] == [holder.pid]
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


# Forgetting and pruning, by us and by restic in turns


def pruned(vault, **options):
    with vault.lock(exclusive=True) as lock:
        plan = plan_prune(vault, now_ns=time.time_ns() + 10**9, **{"grace": 0, **options})
        return carry_out(vault, plan, lock)


def test_restic_accepts_what_we_pinned_forgot_pruned_and_packed_anew(
    restic, place, secret, tmp_path, monkeypatch
):
    monkeypatch.setattr(repack, "FEW", 10)
    contents = [some_files(number) for number in range(20)]
    with Repository.init(LocalStorage(place), secret) as vault:
        made = [
            save_files(vault, files, tags=("kind:quick",), time_ns=10**18 + number)
            for number, files in enumerate(contents)
        ]
        with vault.lock(exclusive=True) as lock:
            pin(vault, made[3:4], lock, until="2030-01-31")
            forget(vault, made[:3] + made[5:9], lock, now_ns=time.time_ns())
            unforget(vault, made[8:9], lock)
        result = pruned(vault, max_unused=0)
        assert result.packs_repacked > 10
        assert result.snapshots == 6
        kept = [3, 4, *range(8, 20)]
        assert read_all(vault) == [contents[number] for number in kept]
    run = restic(place, secret.text)
    checked = run("check", "--read-data")
    assert "no errors were found" in checked
    assert "not referenced" not in checked  # no pack is left over
    listed = json.loads(run("snapshots", "--json"))
    assert [item["id"] for item in listed] == [made[number].id for number in kept]
    assert {tag for item in listed for tag in item["tags"]} == {"kind:quick"}
    assert sum(len(names) for _, _, names in os.walk(os.path.join(place, "safekept", "marks"))) == 2
    for number in (3, 8, 19):
        target = str(tmp_path / str(number))
        run("restore", listed[kept.index(number)]["id"], "--target", target)
        for path, data in contents[number].items():
            with open(os.path.join(target, path), "rb") as file:
                assert file.read() == data, path
    # restic finds nothing to do after us, and we find nothing after it.
    before = sorted(os.listdir(os.path.join(place, "index")))
    assert re.search(r"to delete: +0 blobs", run("prune"))
    assert sorted(os.listdir(os.path.join(place, "index"))) == before
    with Repository.open(LocalStorage(place), secret) as vault:
        assert plan_prune(vault, now_ns=time.time_ns(), grace=0).empty


def test_we_forget_and_prune_what_restic_backed_up(restic, place, tmp_path):
    home = str(tmp_path / "home")
    run = restic(place, "password of theirs")
    run("init", "--repository-version", "2")
    stays = os.urandom(3_000_000)
    for number in range(12):
        put(home, {"stays": stays, "changes": os.urandom(200_000), f"new-{number}": b"%d" % number * 9000})
        run("backup", ".", "--tag", f"n{number}", cwd=home)
    with Repository.open(LocalStorage(place), Secret("password of theirs")) as vault:
        contents = read_all(vault)
        found, _ = list_snapshots(vault)
        with vault.lock(exclusive=True) as lock:
            forget(vault, found[:6], lock, now_ns=time.time_ns())
        result = pruned(vault, max_unused=0)
        assert result.bytes_freed > 6 * 200_000
        assert read_all(vault) == contents[6:]
        assert check(vault, read_data=1.0).findings == []
    assert "no errors were found" in run("check", "--read-data")
    target = str(tmp_path / "target")
    run("restore", "latest", "--target", target)
    with open(os.path.join(target, "changes"), "rb") as file:
        assert file.read() == contents[-1]["changes"]
    put(home, {"more": b"after the prune"})
    run("backup", ".", cwd=home)
    assert "no errors were found" in run("check", "--read-data")


def test_we_go_on_after_every_way_in_which_restic_rewrites_snapshots(restic, place, secret, tmp_path):
    contents = [some_files(number) for number in range(6)]
    with Repository.init(LocalStorage(place), secret) as vault:
        made = [save_files(vault, files, time_ns=10**18 + n) for n, files in enumerate(contents)]
        with vault.lock(exclusive=True) as lock:
            pin(vault, made[:2], lock)
    run = restic(place, secret.text)
    before = {item["id"] for item in json.loads(run("snapshots", "--json"))}
    assert before == {item.id for item in made}
    run("tag", "--add", "theirs", made[1].id)
    run("forget", "--prune", made[2].id)
    rewrites = "rewrite" in run.run("help").stdout
    if rewrites:
        run("rewrite", "--exclude", "SOUL.md", made[3].id)
    with Repository.open(LocalStorage(place), secret) as vault:
        found, damaged = list_snapshots(vault)
        assert not damaged
        assert (found[0].tags, is_pinned(found[0], time.time_ns())) == ((), True)
        # restic gave it another id; the pin goes on by the one that people saw.
        theirs = find_snapshot(vault, made[1].id)
        assert (theirs.tags, is_pinned(theirs, time.time_ns())) == (("theirs",), True)
        assert theirs.id != made[1].id
        # Beside the original there may be a rewritten one: each has an id that finds it.
        for snapshot in found:
            assert find_snapshot(vault, public_id(snapshot)) == snapshot
        assert len({public_id(snapshot) for snapshot in found}) == 5 + rewrites
        without = dict(contents[3])
        del without["SOUL.md"]
        stored = read_all(vault)
        assert sorted(map(len, stored)) == sorted(
            map(len, [*contents[:2], *contents[3:], *([without] if rewrites else [])])
        )
        with vault.lock(exclusive=True) as lock:
            (away,) = forget(vault, [find_snapshot(vault, made[3].id)], lock, now_ns=time.time_ns())
            assert public_id(away) == made[3].id
        pruned(vault, max_unused=0)
        with vault.lock() as lock:
            save_files(vault, contents[2], lock=lock)
        left = [read_files(vault, one) for one in reversed(shown(list_snapshots(vault)[0]))]
        expected = [contents[0], contents[1], *([without] if rewrites else []), *contents[4:], contents[2]]
        assert left == [(files, []) for files in expected]
        assert check(vault, read_data=1.0).findings == []
    assert "no errors were found" in run("check", "--read-data")


def test_a_prune_of_ours_goes_on_where_one_of_restic_was_killed(installed_restic, place, secret):
    contents = [some_files(number) | {"noise": os.urandom(400_000)} for number in range(12)]
    with Repository.init(LocalStorage(place), secret) as vault:
        made = [save_files(vault, files, time_ns=10**18 + n) for n, files in enumerate(contents)]
    run = installed_restic(place, secret.text)
    run("forget", *(snapshot.id for snapshot in made[:6]))
    settings = {
        **os.environ,
        "RESTIC_REPOSITORY": place,
        "RESTIC_PASSWORD": secret.text,
        "RESTIC_CACHE_DIR": run.cache,
    }
    before = set(os.listdir(os.path.join(place, "index")))
    pruning = subprocess.Popen(
        [run.program, "prune", "--max-unused", "0"],
        env=settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENT
    while set(os.listdir(os.path.join(place, "index"))) == before and pruning.poll() is None:
        assert time.monotonic() < deadline
    pruning.send_signal(signal.SIGKILL)
    pruning.wait()
    with Repository.open(LocalStorage(place), secret) as vault:
        # Whether a restic lives nobody can tell from its lock; a person who knows takes it away.
        unlock(vault.storage, vault.key, everything=True)
        pruned(vault, max_unused=0)
        assert read_all(vault) == contents[6:]
        assert check(vault, read_data=1.0).findings == []
    assert "no errors were found" in run("check", "--read-data")


POLICIES = [
    (("--keep-last", "3"), Policy(last=3)),
    (("--keep-hourly", "7"), Policy(hourly=7)),
    (("--keep-daily", "14", "--keep-weekly", "8", "--keep-monthly", "12"), Policy(0, 0, 14, 8, 12)),
    (("--keep-weekly", "3", "--keep-yearly", "9"), Policy(weekly=3, yearly=9)),
    (("--keep-within", "1m3d5h"), Policy(within=Span(0, 1, 3, 5))),
    (("--keep-within-daily", "40d", "--keep-last", "1"), Policy(last=1, within_daily=Span(days=40))),
    (("--keep-tag", "a,b", "--keep-tag", "c"), Policy(tags=(("a", "b"), ("c",)))),
]


def test_policies_keep_what_those_of_restic_keep(restic, place, secret):
    """The same snapshots, seventy over two years in three offsets; restic says what it would keep."""
    run = restic(place, secret.text)
    version = tuple(map(int, re.search(r"restic (\d+)\.(\d+)", run("version")).groups()))
    source = random.Random(4)
    now = time.time_ns()
    with Repository.init(LocalStorage(place), secret) as vault:
        first = save_files(vault, {"a": b"x"})
        for _ in range(70):
            age = int(86400e9 * 600 ** source.random()) + source.randrange(10**13)
            words = tuple(word for word in "abc" if source.random() < 0.4)
            vault.save_snapshot(
                dataclasses.replace(
                    first,
                    id="",
                    time_ns=now - age,
                    offset=source.choice([0, 19800, -36000]),
                    tags=words,
                )
            )
        vault.delete_snapshot(first.id)
        found, _ = list_snapshots(vault)
        for flags, policy in POLICIES:
            (group,) = json.loads(run("forget", "--dry-run", "--json", "--group-by", "", *flags))
            theirs = {item["id"] for item in group["keep"]}
            decided = apply_policy(found, policy)
            ours = {snapshot.id for snapshot, reasons in decided if reasons}
            if version < (0, 16):  # those do not keep the oldest while counts are left
                oldest = decided[-1]
                if oldest[0].id in ours - theirs:
                    assert all(reason.startswith("oldest") or "within" in reason for reason in oldest[1])
                    ours.discard(oldest[0].id)
            assert ours == theirs, flags


def test_version_one_is_refused_for_every_kind_of_writing(installed_restic, tmp_path):
    path = str(tmp_path / "old")
    run = installed_restic(path, "geheim")
    run("init", "--repository-version", "1")
    run("backup", ".", cwd=str(tmp_path))
    with Repository.open(LocalStorage(path), Secret("geheim")) as vault:
        found, _ = list_snapshots(vault)
        with vault.lock(exclusive=True) as lock:
            for change in (
                lambda: plan_prune(vault, now_ns=time.time_ns()),
                lambda: pin(vault, found, lock),
                lambda: forget(vault, found, lock, now_ns=time.time_ns()),
                lambda: vault.saver(lock),
            ):
                with pytest.raises(VaultReadOnly, match="reads but never writes"):
                    change()


def test_restic_accepts_what_we_mended(installed_restic, place, secret):
    """A flipped bit and a torn index file; after the repair and a new snapshot everything is whole."""
    contents = [some_files(number) for number in range(3)]
    with Repository.init(LocalStorage(place), secret) as vault:
        made = [save_files(vault, files, time_ns=10**18 + n) for n, files in enumerate(contents)]
        blob = vault.load_tree(made[1].tree).find("noise-1").blobs()[0]
        found = vault.index.lookup(BlobKind.DATA, blob)
        names = sorted(os.listdir(os.path.join(place, "index")))
        torn = next(name for name in names if found.pack not in dict(vault.load_index_file(name)))
    pack = os.path.join(place, "data", found.pack.hex()[:2], found.pack.hex())
    for path, at in ((pack, found.offset + 50), (os.path.join(place, "index", torn), 40)):
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 4]))
    with Repository.open(LocalStorage(place), secret) as vault:
        report = check(vault, read_data=1.0)
        assert len(report.damage) >= 2
        with vault.lock(exclusive=True) as lock:
            result = carry_out_repair(vault, plan_repair(vault, report), lock)
            assert (result.index_files, result.lost) == (1, 1)
        with vault.lock() as lock:
            save_files(vault, contents[1], lock=lock)
        assert read_all(vault) == [*contents, contents[1]]
        pruned(vault)
        assert check(vault, read_data=1.0).findings == []
    assert "no errors were found" in installed_restic(place, secret.text)("check", "--read-data")


def test_restic_backs_up_while_we_save_forget_and_prune(restic, place, secret, tmp_path):
    """Each honours the other's locks: whatever was reported stored is there, and nothing else is harmed."""
    home = str(tmp_path / "home")
    put(home, some_files(50) | {"noise": os.urandom(1_000_000)})
    run = restic(place, secret.text)
    stored = {}
    with Repository.init(LocalStorage(place), secret) as vault:
        settings = {
            **os.environ,
            "RESTIC_REPOSITORY": place,
            "RESTIC_PASSWORD": secret.text,
            "RESTIC_CACHE_DIR": run.cache,
        }
        backups = 0
        for number in range(30):
            if number >= 6 and backups >= 2:  # on a loaded machine restic meets our lock more often
                break
            put(home, {"turn": b"%d" % number * 2000})
            child = subprocess.Popen(
                [run.program, "backup", ".", "--json"],
                env=settings,
                cwd=home,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                with vault.lock(wait=60) as lock:
                    snapshot = save_files(vault, some_files(number), lock=lock)
                stored[snapshot.id] = some_files(number)
                if len(stored) > 2:
                    with vault.lock(exclusive=True, wait=60) as lock:
                        away = find_snapshot(vault, next(iter(stored)))
                        forget(vault, [away], lock, now_ns=time.time_ns())
                        del stored[public_id(away)]
                        plan = plan_prune(vault, now_ns=time.time_ns() + 10**9, grace=0)
                        carry_out(vault, plan, lock)
            finally:
                output, _ = child.communicate(timeout=300)
            if child.returncode == 0:  # otherwise it said that we held the lock, and stored nothing
                backups += 1
                summary = json.loads(output.splitlines()[-1])
                stored[_whole_id(vault, summary["snapshot_id"])] = None
        assert backups >= 2
        found = {public_id(snapshot): snapshot for snapshot in list_snapshots(vault)[0]}
        for name, files in stored.items():
            content, lost = read_files(vault, found[name])
            assert not lost
            assert files is None or content == files
        assert check(vault, read_data=1.0).damage == []
    assert "no errors were found" in run("check", "--read-data")


def _whole_id(vault, start):
    return public_id(find_snapshot(vault, start))


def test_restic_reads_behind_a_seat_belt_and_prunes_once_it_is_open(restic, place, secret, tmp_path):
    with Repository.init(LocalStorage(place, belt=True), secret) as vault, vault.lock() as lock:
        one = save_files(vault, some_files(1), lock=lock)
        two = save_files(vault, some_files(2), lock=lock)
    belt = LocalStorage(place, belt=True).belt
    try:
        assert belt.holds()
        run = restic(place, secret.text)
        assert "no errors were found" in run("check", "--read-data")
        run("restore", two.id, "--target", str(tmp_path / "back"))
        refused = run.run("forget", one.id, "--prune")
        assert refused.returncode != 0
        assert [item["id"] for item in json.loads(run("snapshots", "--json"))] == [one.id, two.id]
        belt.lift()
        run("forget", one.id, "--prune")
        assert "no errors were found" in run("check", "--read-data")
        assert belt.fasten()
    finally:
        belt.take_off()
