"""Adopting takes what Hermes kept into the vault: with its times, once, and nothing of it is touched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import zipfile

import pytest

from safekept.actions.archives.adopt import FAILED, NEW, PRESENT, SKIPPED, TAKEN, adopt, plan_adoption
from safekept.actions.vault.opening import open_vault
from safekept.core.entries import Kind
from safekept.vault.format.go_text import parse_time
from safekept.vault.read.homes import snapshot_source
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import is_incomplete, kind_of, label_of, state_of
from support.home.homes import make_hermes_home, tree_facts


@pytest.fixture
def place(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    for name in ("backups", "state-snapshots"):
        shutil.rmtree(os.path.join(home, name), ignore_errors=True)
    return here.locate(home)


def quick(home: str, name: str, label: str | None, below: str = "", **files: bytes) -> str:
    """A quick snapshot as Hermes writes it."""
    directory = os.path.join(home, below, "state-snapshots", name)
    os.makedirs(directory)
    shutil.copy(os.path.join(home, "config.yaml"), directory)
    os.makedirs(os.path.join(directory, "cron"))
    with open(os.path.join(directory, "cron", "jobs.json"), "w") as file:
        file.write('{"jobs": []}')
    connection = sqlite3.connect(os.path.join(directory, "state.db"))
    connection.execute("create table messages (id integer primary key, content text)")
    connection.executemany("insert into messages (content) values (?)", [(name,)] * 100)
    connection.commit()
    connection.close()
    sizes = {
        path: os.path.getsize(os.path.join(directory, path))
        for path in ("config.yaml", "cron/jobs.json", "state.db")
    }
    manifest = {
        "id": name,
        "timestamp": name[:15],
        "label": label,
        "file_count": len(sizes),
        "total_size": sum(sizes.values()),
        "files": sizes,
    }
    with open(os.path.join(directory, "manifest.json"), "w") as file:
        json.dump(manifest, file)
    return directory


def zipped(home: str, name: str, **members: str) -> str:
    os.makedirs(os.path.join(home, "backups"), exist_ok=True)
    path = os.path.join(home, "backups", name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in {"config.yaml": "model: x\n", "SOUL.md": "be kind\n", **members}.items():
            archive.writestr(member, text)
    return path


def snapshots(here):
    with open_vault(here) as repository:
        return list_snapshots(repository)[0]


def content(here, snapshot) -> dict[str, bytes]:
    with open_vault(here) as repository:
        source, _ = snapshot_source(repository, snapshot)
        found = {}
        for entry in source:
            if entry.kind is Kind.FILE:
                with entry.open() as opened:
                    found[entry.path] = b"".join(opened.chunks())
        return found


def test_copies_come_with_their_times_labels_and_bytes(here, place):
    directory = quick(place.home, "20260102-030405-two words", "two words")
    path = zipped(place.home, "pre-update-2026-02-03-040506.zip")
    before = tree_facts(os.path.join(place.home, "state-snapshots"))
    with open(path, "rb") as file:
        archive = file.read()
    adoption = adopt(here, place)
    assert [one.state for one in adoption.copies] == [TAKEN, TAKEN] and adoption.complete
    old, zip_snapshot = snapshots(here)
    assert [kind_of(one) for one in (old, zip_snapshot)] == ["adopted", "adopted"]
    assert old.time_ns == parse_time("2026-01-02T03:04:05Z")[0]
    assert (label_of(old), label_of(zip_snapshot)) == ("two words", "pre-update-2026-02-03-040506")
    assert (state_of(old), state_of(zip_snapshot)) == ("sound", "")
    assert old.paths == (place.home,)
    held = content(here, old)
    assert sorted(held) == ["config.yaml", "cron/jobs.json", "state.db"], "and no manifest of Hermes's"
    with open(os.path.join(directory, "state.db"), "rb") as file:
        assert held["state.db"] == file.read()
    assert content(here, zip_snapshot) == {"config.yaml": b"model: x\n", "SOUL.md": b"be kind\n"}
    assert tree_facts(os.path.join(place.home, "state-snapshots")) == before, "nothing of theirs was touched"
    with open(path, "rb") as file:
        assert file.read() == archive


def test_a_second_run_adds_nothing_and_a_third_only_what_is_new(here, place):
    quick(place.home, "20260102-030405", None)
    zipped(place.home, "pre-update-2026-02-03-040506.zip")
    first = adopt(here, place)
    again = adopt(here, place)
    assert [one.state for one in again.copies] == [PRESENT, PRESENT]
    assert [one.snapshot for one in again.copies] == [one.snapshot for one in first.copies]
    assert again.freed_bytes == first.freed_bytes > 0
    quick(place.home, "20260405-060708", "new")
    assert [one.state for one in adopt(here, place).copies] == [PRESENT, PRESENT, TAKEN]
    assert len(snapshots(here)) == 3


def test_a_dry_run_makes_no_vault(here, place):
    quick(place.home, "20260102-030405", None)
    plan = plan_adoption(here, place)
    assert [one.state for one in plan.copies] == [NEW]
    assert not os.path.exists(here.places.vault) and not os.path.exists(here.places.vault_key_file)
    adopt(here, place)
    assert [one.state for one in plan_adoption(here, place).copies] == [PRESENT]


def test_a_home_without_copies_needs_no_vault(here, place):
    assert adopt(here, place).copies == []
    assert not os.path.exists(here.places.vault)


def test_an_interrupted_or_damaged_copy_is_named_and_stops_no_other(here, place):
    quick(place.home, "20260102-030405", None)
    broken = quick(place.home, "20260103-030405", None)
    with open(os.path.join(broken, "manifest.json"), "w") as file:
        file.write('{"id": "2026')
    bare = quick(place.home, "20260104-030405", None)
    os.unlink(os.path.join(bare, "manifest.json"))
    lacking = quick(place.home, "20260105-030405", None)
    os.unlink(os.path.join(lacking, "cron", "jobs.json"))
    path = zipped(place.home, "pre-update-2026-02-03-040506.zip")
    with open(path, "r+b") as file:
        file.truncate(60)
    adoption = adopt(here, place)
    found = {os.path.basename(one.copy.name): one for one in adoption.copies}
    assert found["20260102-030405"].state == TAKEN
    for name in ("20260103-030405", "20260104-030405"):
        assert found[name].state == TAKEN and not found[name].complete
        assert "interrupted" in found[name].remarks[0].reason
    assert found["20260105-030405"].state == TAKEN and not found["20260105-030405"].complete
    assert [remark.path for remark in found["20260105-030405"].remarks] == ["cron/jobs.json"]
    assert found["pre-update-2026-02-03-040506.zip"].state == FAILED
    assert not adoption.complete
    assert [is_incomplete(one) for one in snapshots(here)] == [False, True, True, True]
    whole = found["20260102-030405"].copy.disk_bytes
    assert adoption.freed_bytes == whole, "only what is whole in the vault may be called superfluous"


def test_a_manifest_cannot_name_anything_outside(here, place):
    directory = quick(place.home, "20260102-030405", "x/../../../leaked")
    with open(os.path.join(directory, "manifest.json")) as file:
        manifest = json.load(file)
    manifest["files"]["../../../../etc/passwd"] = 10
    with open(os.path.join(directory, "manifest.json"), "w") as file:
        json.dump(manifest, file)
    os.symlink("/etc/hostname", os.path.join(directory, "link"))
    adopt(here, place)
    (one,) = snapshots(here)
    assert sorted(content(here, one)) == ["config.yaml", "cron/jobs.json", "state.db"]
    assert label_of(one) == "x/../../../leaked"
    assert not os.path.exists(os.path.join(here.places.user_home, "leaked"))


def test_sidecars_of_a_copied_database_are_not_taken_as_files(here, place):
    directory = quick(place.home, "20260102-030405", None)
    for suffix in ("-wal", "-shm"):
        with open(os.path.join(directory, "state.db" + suffix), "wb"):
            pass
    adopt(here, place)
    (one,) = snapshots(here)
    assert not [path for path in content(here, one) if path.endswith(("-wal", "-shm"))]


def test_copies_of_a_profile_come_back_into_that_profile(here, place):
    quick(place.home, "20260102-030405", None, below="profiles/coder")
    adoption = adopt(here, place)
    assert adoption.copies[0].copy.name == "profiles/coder/state-snapshots/20260102-030405"
    (one,) = snapshots(here)
    assert "profiles/coder/state.db" in content(here, one)


def test_a_wrapped_zip_and_files_outside_the_home_go_to_their_places(here, place):
    path = os.path.join(place.home, "backups", "by-hand.zip")
    os.makedirs(os.path.dirname(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.yaml", "model: x\n")
        archive.writestr("state.db", b"not a database")
        archive.writestr("_external/.honcho/config.json", "{}")
    os.utime(path, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    adopt(here, place)
    (one,) = snapshots(here)
    assert one.time_ns == 1_700_000_000_000_000_000
    held = content(here, one)
    assert held["_external/.honcho/config.json"] == b"{}"
    assert sorted(held) == ["_external/.honcho/config.json", "config.yaml", "state.db"]


def test_an_adopted_copy_speaks_only_for_what_it_holds(here, place):
    """An exact restore of Hermes's quick set must not remove the memories that it never had."""
    from safekept.actions.base.scope import spared

    quick(place.home, "20260102-030405", None)
    adopt(here, place)
    (one,) = snapshots(here)
    with open_vault(here) as repository:
        _, manifest = snapshot_source(repository, one)
    assert spared(manifest, place.layout)("memories/MEMORY.md")


def test_what_hermes_itself_wrote_is_adopted(here, place, hermes):
    import subprocess

    for name in ("pipe", "gateway.sock"):
        os.unlink(os.path.join(place.home, name))
    environment = {**os.environ, "HOME": here.places.user_home, "HERMES_HOME": place.home}
    for words in (
        ["--quick", "--label", "two words"],
        ["-o", os.path.join(place.home, "backups", "mine.zip")],
    ):
        done = subprocess.run([hermes, "backup", *words], env=environment, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stdout
    adoption = adopt(here, place)
    assert [one.state for one in adoption.copies] == [TAKEN, TAKEN], adoption.copies
    labels = {label_of(one) for one in snapshots(here)}
    assert labels == {"two words", "mine"}
    newest = content(here, snapshots(here)[-1])
    with open(os.path.join(place.home, "SOUL.md"), "rb") as file:
        assert newest["SOUL.md"] == file.read()


def test_an_interrupted_quick_snapshot_is_taken_with_what_it_holds(here, place):
    bare = quick(place.home, "20260104-030405", None)
    os.unlink(os.path.join(bare, "manifest.json"))
    os.makedirs(os.path.join(place.home, "state-snapshots", "20260105-030405", "cron"))
    planned = plan_adoption(here, place)
    assert [one.state for one in planned.copies] == [NEW, SKIPPED]
    assert "it holds no files" in planned.copies[1].reason
    taken, empty = adopt(here, place).copies
    assert (taken.state, taken.complete, empty.state) == (TAKEN, False, SKIPPED)
    (snapshot,) = snapshots(here)
    assert (kind_of(snapshot), label_of(snapshot)) == ("adopted", "20260104-030405")
    assert set(content(here, snapshot)) == {"config.yaml", "cron/jobs.json", "state.db"}
    assert [one.state for one in adopt(here, place).copies] == [PRESENT, SKIPPED]


def test_a_dry_run_says_which_zips_cannot_be_taken(here, place):
    zipped(place.home, "sound-2026-02-03-040501.zip")
    zipped(place.home, "evil-2026-02-03-040502.zip", **{"../../leaked": "x"})
    torn = zipped(place.home, "torn-2026-02-03-040503.zip")
    with open(torn, "r+b") as file:
        file.truncate(60)
    with zipfile.ZipFile(os.path.join(place.home, "backups", "none-2026-02-03-040504.zip"), "w"):
        pass
    open(os.path.join(place.home, "backups", "empty-2026-02-03-040505.zip"), "w").close()
    planned = plan_adoption(here, place)
    assert [one.state for one in planned.copies] == [NEW, FAILED, FAILED, FAILED, FAILED]
    assert all(one.reason for one in planned.copies[1:])
    assert "holds nothing" in planned.copies[3].reason
    assert not planned.complete
    assert [one.state for one in adopt(here, place).copies] == [TAKEN, FAILED, FAILED, FAILED, FAILED]


@pytest.mark.parametrize("victim", ["SOUL.md", "notes.db"])
def test_a_zip_with_one_damaged_entry_gives_all_the_others(here, place, victim):
    notes = {"notes.db": "".join(map(str, range(20_000)))}
    path = zipped(place.home, "pre-update-2026-02-03-040506.zip", **notes)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(victim)
    with open(path, "r+b") as file:
        file.seek(info.header_offset + 30 + len(victim) + info.compress_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0x55]))
    (taken,) = adopt(here, place).copies
    assert (taken.state, taken.complete) == (TAKEN, False)
    assert [remark.path for remark in taken.remarks if remark.incomplete] == [victim]
    assert "damaged in the zip" in taken.remarks[0].reason
    (snapshot,) = snapshots(here)
    assert is_incomplete(snapshot)
    assert set(content(here, snapshot)) == {"config.yaml", "SOUL.md", "notes.db"} - {victim}
