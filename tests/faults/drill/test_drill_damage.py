"""Every planted damage fails a drill in the row that is about it, and the home stays as it is."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from safekept.actions.alarms.alarms import open_alarms
from safekept.actions.drill.checkpoints import drill_checkpoints
from safekept.actions.projects.rollback import checkpoint_store
from safekept.checkpoints.take.taking import take as take_checkpoint
from safekept.home.scan.scanning import Scan
from support.home.homes import differences, tree_facts
from support.restoring import drills
from support.restoring.drills import (
    build,
    change_database,
    drilled,
    failed,
    files_of,
    flip,
    packs,
    place_of_directory,
    place_of_file,
    put,
    rewrite,
    signed_off,
    states,
    with_copied_home,
    with_copied_vault,
)
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("built")))


@pytest.fixture(scope="module")
def before(built):
    return tree_facts(built.home, databases="bytes")


@pytest.fixture(autouse=True)
def the_live_home_is_untouched(built, before):
    beside = set(os.listdir(built.here.places.user_home))
    yield
    assert differences(before, tree_facts(built.home, databases="bytes")) == []
    assert set(os.listdir(built.here.places.user_home)) == beside


# ── damage of the vault ────────────────────────────────────────────────────────────────────────────


def flip_a_file(here, home, path="logs/agent.log"):
    pack, place = place_of_file(here, path, home)
    flip(pack, place.offset + place.length // 2)


def flip_a_directory(here, home, path):
    pack, place = place_of_directory(here, path, home)
    flip(pack, place.offset + place.length // 2)


def lose_the_picture(here, home, change):
    """The pack that only the second snapshot has: it holds the picture and nothing else."""
    pack, _ = place_of_file(here, "images/picture.bin", home)
    change(pack)


def swap_packs(here, home):
    first, _ = place_of_file(here, "images/picture.bin", home)
    second, _ = place_of_file(here, "logs/agent.log", home)
    with open(first, "rb") as one, open(second, "rb") as two:
        contents = one.read(), two.read()
    for path, data in zip((second, first), contents, strict=True):
        rewrite(path, lambda _, data=data: data)


def swap_blobs(here, home):
    """Two sealed pieces of one pack exchange their places: each one opens, and is not what was asked for."""
    pack, one = place_of_file(here, "logs/agent.log", home)
    other_pack, two = place_of_file(here, "sessions/session-000.jsonl", home)
    assert pack == other_pack

    def swapped(data):
        length = min(one.length, two.length)
        first, second = data[one.offset :][:length], data[two.offset :][:length]
        data = data[: one.offset] + second + data[one.offset + length :]
        return data[: two.offset] + first + data[two.offset + length :]

    rewrite(pack, swapped)


def newest_snapshot_file(here, home):
    with drills.opened(here) as repository:
        from safekept.vault.snapshots import list_snapshots

        return os.path.join(here.places.vault, "snapshots", list_snapshots(repository)[0][-1].id)


IN_THE_VAULT = {
    "a flipped byte of one file": (flip_a_file, {"files"}),
    "a flipped byte of the persona": (
        lambda here, home: flip_a_file(here, home, "SOUL.md"),
        {"files", "persona"},
    ),
    "a flipped byte of the sessions": (
        lambda here, home: flip_a_file(here, home, "state.db"),
        {"files"},
    ),
    "two pieces exchanged": (swap_blobs, {"files"}),
    "a missing pack": (lambda here, home: lose_the_picture(here, home, os.unlink), {"files"}),
    "a pack cut in half": (
        lambda here, home: lose_the_picture(
            here, home, lambda pack: rewrite(pack, lambda data: data[: len(data) // 2])
        ),
        {"files"},
    ),
    "an emptied pack": (
        lambda here, home: lose_the_picture(here, home, lambda pack: rewrite(pack, lambda data: b"")),
        {"files"},
    ),
    "a pack of zeros": (
        lambda here, home: lose_the_picture(
            here, home, lambda pack: rewrite(pack, lambda data: bytes(len(data)))
        ),
        {"files"},
    ),
    "two packs exchanged": (swap_packs, {"store", "files", "persona", "memories", "settings"}),
    "a flipped byte of a directory": (
        lambda here, home: flip_a_directory(here, home, "skills"),
        {"store"},
    ),
    "a flipped byte of the home directory": (
        lambda here, home: flip_a_directory(here, home, ""),
        {"store"},
    ),
    "the account of the snapshot is damaged": (
        lambda here, home: flip_a_file(here, home, ".safekept/manifest.json"),
        {"store"},
    ),
    "no index": (lambda here, home: [os.unlink(path) for path in files_of(here, "index")], {"store"}),
    "one index file missing": (lambda here, home: os.unlink(files_of(here, "index")[0]), {"store"}),
    "a flipped byte of an index": (lambda here, home: flip(files_of(here, "index")[0], 40), {"store"}),
    "a cut index": (
        lambda here, home: rewrite(files_of(here, "index")[0], lambda data: data[:30]),
        {"store"},
    ),
    "a flipped byte of the newest snapshot": (
        lambda here, home: flip(newest_snapshot_file(here, home), 40),
        {"store"},
    ),
    "an emptied snapshot file": (
        lambda here, home: rewrite(newest_snapshot_file(here, home), lambda data: b""),
        {"store"},
    ),
    "every snapshot file damaged": (
        lambda here, home: [flip(path, 40) for path in files_of(here, "snapshots")],
        {"store"},
    ),
    "no config": (lambda here, home: os.unlink(os.path.join(here.places.vault, "config")), {"store"}),
    "a flipped byte of the config": (
        lambda here, home: flip(os.path.join(here.places.vault, "config"), 40),
        {"store"},
    ),
    "a cut key file": (
        lambda here, home: [rewrite(path, lambda data: data[:40]) for path in files_of(here, "keys")],
        {"store"},
    ),
    "no keys": (lambda here, home: shutil.rmtree(os.path.join(here.places.vault, "keys")), {"store"}),
    "every pack gone": (
        lambda here, home: [os.unlink(path) for path in list(packs(here))],
        {"store"},
    ),
}


@pytest.mark.parametrize("name", IN_THE_VAULT)
def test_damage_of_the_vault_fails_in_its_row(built, tmp_path, name):
    damage, expected = IN_THE_VAULT[name]
    here = with_copied_vault(built, str(tmp_path))
    damage(here, built.home)
    done = drilled(here, home=built.home)
    assert failed(done.receipt) == expected, [(row.check, row.state, row.text) for row in done.receipt.rows]
    assert not done.receipt.ok
    assert done.next_steps
    signed_off(here, done)
    (alarm,) = open_alarms(here)
    assert alarm.kind == "drill"
    first, *others = (row.check for row in done.receipt.failed)
    also = f"; also {', '.join(others)}" if others else ""
    assert " failed: " in alarm.text and alarm.text.endswith(f" ({first}){also}"), "the cause, then its check"


def test_a_good_snapshot_passes_in_every_row(built, tmp_path):
    here = with_copied_vault(built, str(tmp_path))
    done = drilled(here, home=built.home)
    told = states(done.receipt)
    assert told.pop("agent") == "left out"  # no Hermes on this PATH; tests/compat has one
    assert set(told.values()) == {"passed"}, done.receipt.rows
    assert done.receipt.ok
    assert open_alarms(here) == ()
    signed_off(here, done)


# ── damage of archives ─────────────────────────────────────────────────────────────────────────────


def cut(data):
    return data[: len(data) * 2 // 3]


def flip_stored(data):
    """A byte of the picture, which no packing made smaller."""
    at = data.find(random.Random(5).randbytes(200_000)[1000:1064])
    assert at > 0
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def flip_list(data):
    """A byte of the list of entries, in its packed form."""
    at = data.find(b".safekept/entries.jsonl") + 500
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


IN_AN_ARCHIVE = {
    "zip: a flipped byte": ("zip", flip_stored, {"files"}),
    "zip: cut short": ("zip", cut, {"store"}),
    "zip: its own account damaged": ("zip", flip_list, {"store"}),
    "zip: emptied": ("zip", lambda data: b"", {"store"}),
    "zip: zeros": ("zip", lambda data: bytes(len(data)), {"store"}),
    # One frame holds all the small files of a home this small, so all of them go with it.
    "tar.zst: a flipped byte": ("tar", flip_stored, {"files", "persona", "memories", "settings"}),
    "tar.zst: cut short": ("tar", cut, {"store"}),
    "tar.zst: text": ("tar", lambda data: b"Not Found\n", {"store"}),
}


@pytest.mark.parametrize("name", IN_AN_ARCHIVE)
def test_damage_of_an_archive_fails_in_its_row(built, tmp_path, name):
    form, damage, expected = IN_AN_ARCHIVE[name]
    here = with_copied_vault(built, str(tmp_path))
    path = str(tmp_path / os.path.basename(getattr(built, form)))
    shutil.copy(getattr(built, form), path)
    rewrite(path, damage)
    done = drilled(here, path)
    assert failed(done.receipt) == expected, [(row.check, row.state, row.text) for row in done.receipt.rows]
    assert done.receipt.subject == "archive"
    signed_off(here, done)


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_good_archive_passes_in_every_row(built, tmp_path, form):
    here = with_copied_vault(built, str(tmp_path))
    done = drilled(here, getattr(built, form))
    told = states(done.receipt)
    assert told.pop("agent") == "left out"
    assert set(told.values()) == {"passed"}, done.receipt.rows
    assert done.receipt.home == built.home
    signed_off(here, done)


# ── damage of what was stored ──────────────────────────────────────────────────────────────────────


def tear_a_page(home):
    def torn(data):
        page = 4096
        number = len(data) // page // 2
        return data[: number * page] + os.urandom(page) + data[(number + 1) * page :]

    rewrite(os.path.join(home, "state.db"), torn)


def another_index(home):
    """An index that has not what its table has: the quick check does not see it, the full one does."""
    change_database(
        home,
        "pragma writable_schema = 1",
        "update sqlite_master set sql = replace(sql, 'session_id, timestamp', 'session_id, role')"
        " where name = 'idx_messages_session'",
    )


def lie_about(monkeypatch, name, more):
    honest = Scan.census

    def census(self):
        found = honest(self)
        found["default"][name] += more
        return found

    monkeypatch.setattr(Scan, "census", census)


IN_THE_HOME = {
    "a torn page": (tear_a_page, {"databases"}),
    "an index that misses rows": (another_index, {"databases"}),
    "an emptied database": (lambda home: put(home, "state.db", b""), {"databases"}),
    "a database of zeros": (lambda home: put(home, "state.db", bytes(65536)), {"databases"}),
    "a text where a database belongs": (lambda home: put(home, "state.db", "oops\n" * 999), {"databases"}),
    "a damaged database of a profile": (
        lambda home: tear_a_page(os.path.join(home, "profiles", "coder")),
        {"databases"},
    ),
    "messages that belong to nobody": (
        lambda home: change_database(
            home, "insert into messages(session_id, role, timestamp) values ('nobody', 'user', 1)"
        ),
        {"foreign keys"},
    ),
    "a full-text index out of step": (
        lambda home: change_database(home, "delete from messages_fts_content where id = 3"),
        {"full-text"},
    ),
    "a full-text index without its text": (
        lambda home: change_database(home, "delete from messages_fts_trigram_data where id > 10"),
        {"full-text"},
    ),
    "a table that the agent needs": (
        lambda home: change_database(home, "drop table messages"),
        {"tables"},
    ),
    "no persona": (lambda home: os.unlink(os.path.join(home, "SOUL.md")), {"persona"}),
    "an emptied persona": (lambda home: put(home, "SOUL.md", b""), {"persona"}),
    "a persona of zeros": (lambda home: put(home, "SOUL.md", bytes(500)), {"persona"}),
    "memories of zeros": (lambda home: put(home, "memories/MEMORY.md", bytes(500)), {"memories"}),
    "memories that are no text": (
        lambda home: put(home, "memories/USER.md", b"\xff\xfe\x00 half a page"),
        {"memories"},
    ),
    "settings that do not parse": (
        lambda home: put(home, "config.yaml", "model:\n  - a\n b: [unclosed\n"),
        {"settings"},
    ),
    "scheduled jobs cut short": (
        lambda home: rewrite(os.path.join(home, "cron", "jobs.json"), cut),
        {"settings"},
    ),
    "a secret that others can read": (lambda home: os.chmod(os.path.join(home, ".env"), 0o644), {"secrets"}),
}


@pytest.mark.parametrize("name", IN_THE_HOME)
def test_damage_of_what_was_stored_fails_in_its_row(built, tmp_path, name):
    damage, expected = IN_THE_HOME[name]
    here, home = with_copied_home(built, str(tmp_path))
    damage(home)
    at_first = tree_facts(home, databases="bytes")
    take(here, home)
    done = drilled(here, home=home)
    assert failed(done.receipt) == expected, [(row.check, row.state, row.text) for row in done.receipt.rows]
    signed_off(here, done)
    assert differences(at_first, tree_facts(home, databases="bytes")) == []


def test_a_profile_that_never_had_a_persona_is_proven_and_said(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    os.unlink(os.path.join(home, "profiles", "coder", "SOUL.md"))
    take(here, home)
    done = drilled(here, home=home)
    assert failed(done.receipt) == set()
    (row,) = [row for row in done.receipt.rows if row.check == "persona"]
    assert row.state == "passed" and row.text.endswith("; never stored: profiles/coder/SOUL.md")


@pytest.mark.parametrize(
    ("name", "more"), [("messages", 3), ("sessions", -1), ("memories", 2), ("skills", 1)]
)
def test_a_count_that_differs_from_the_recorded_one_fails_in_the_census(
    built, tmp_path, monkeypatch, name, more
):
    here, home = with_copied_home(built, str(tmp_path))
    lie_about(monkeypatch, name, more)
    take(here, home)
    done = drilled(here, home=home)
    assert failed(done.receipt) == {"census"}
    (row,) = done.receipt.failed
    assert f"`{name}`: " in row.text
    assert " were stored, " in row.text
    signed_off(here, done)


def test_more_than_thirty_damages_are_planted():
    assert len(IN_THE_VAULT) + len(IN_AN_ARCHIVE) + len(IN_THE_HOME) + 4 >= 50


# ── damage of checkpoints ──────────────────────────────────────────────────────────────────────────


def packs_of(here):
    place = os.path.join(here.places.data_directory, "checkpoints", "store", "objects", "pack")
    return [os.path.join(place, name) for name in sorted(os.listdir(place)) if name.endswith(".pack")]


IN_THE_CHECKPOINTS = {
    "a flipped byte of a file": (lambda here: flip(packs_of(here)[0], 400), {"git fsck", "rollback"}),
    "a missing pack": (
        lambda here: [os.unlink(path) for path in packs_of(here)],
        {"git fsck", "checkpoints", "rollback"},
    ),
    "a cut pack": (
        lambda here: rewrite(packs_of(here)[0], lambda data: data[: len(data) // 2]),
        {"git fsck", "checkpoints", "rollback"},
    ),
}


@pytest.fixture(scope="module")
def with_checkpoints(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoints")
    here = throwaway(directory)
    project = os.path.join(here.places.user_home, "work")
    put(project, "pyproject.toml", "[project]\n")
    put(project, "noise.bin", random.Random(3).randbytes(4000))
    with checkpoint_store(here) as store:
        assert take_checkpoint(store, project, full=True).checkpoint is not None
    return directory, project


@pytest.mark.parametrize("name", ["nothing", *IN_THE_CHECKPOINTS])
def test_damage_of_checkpoints_fails_in_its_row(with_checkpoints, tmp_path, name):
    damage, expected = IN_THE_CHECKPOINTS.get(name, (lambda here: None, set()))
    directory, project = with_checkpoints
    shutil.copytree(directory, tmp_path / "copy")
    here = throwaway(tmp_path / "copy")
    damage(here)
    before = tree_facts(project)
    done = drill_checkpoints(here)
    assert failed(done.receipt) == expected, done.receipt.rows
    assert done.receipt.ok is (name == "nothing")
    signed_off(here, done)
    assert differences(before, tree_facts(project)) == []
