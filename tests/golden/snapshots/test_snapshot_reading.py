"""Looking into the vault: lists, one snapshot, differences, the history of a file, in words and in JSON."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from contextlib import closing

import pytest

from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.home.scan.scanning import Selection
from safekept.vault.repo.loader import BlobLoader
from safekept.vault.repo.repository import Repository
from support.home.homes import make_hermes_home
from support.vault.snapshots import opened, take

DAY = 86_400


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=())


def put(home, name, text):
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


# list


def test_a_list_has_number_id_time_age_kind_files_size_added_verified_and_label(here, home, say):
    whole = take(here, home, label="before the move").id[:8]
    quick = take(here, home, kind="quick", selection=Selection(quick=True), check="never").id[:8]
    say("snapshot", "pin", "2", "--days", "5")
    done = say("snapshot", "list")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == "# ID TAKEN AGE KIND FILES SIZE ADDED VERIFIED LABEL".split()
    age = r"  [^ ].*?:\d\d +\d+ (s|min) +"  # the clock, and as wide as the widest: 9 s beside 10 s
    assert re.fullmatch(rf"1  {quick}{age}quick   +\d+ +[\d.]+ [KM]B +[\d.]+ K?B  \S.*", lines[1]), lines[1]
    assert re.fullmatch(
        rf"2  [0-9a-f]{{8}}{age}manual +\d+ +[\d.]+ MB +[\d.]+ [KM]B  yes +"
        r"before the move \(pinned until \d{4}-\d\d-\d\d\)",
        lines[2],
    ), lines[2]
    newest_whole = f"Restore one with its id: `safekept snapshot restore {whole}`"
    assert lines[3] == newest_whole, "what `latest` means: the newest sound one of the whole home"
    only = json.loads(say("snapshot", "list", "--kind", "quick", "--json").out)["snapshots"]
    assert [(one["number"], one["kind"]) for one in only] == [(1, "quick")]


def test_a_list_ends_with_the_one_that_a_restore_takes_also_before_it_is_checked_again(here, home, say):
    take(here, home, check="always")
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
        database.execute("update sessions set source = 'telegram'")
        database.commit()
    newest = take(here, home, check="never").id[:8]
    lines = say("snapshot", "list").out.splitlines()
    assert "not yet" in lines[1] and " yes" in lines[2], lines
    assert lines[3] == f"Restore one with its id: `safekept snapshot restore {newest}`"


def test_a_list_without_snapshots_says_how_to_take_one(here, home, say, tmp_path):
    take(here, make_hermes_home(str(tmp_path / "other"), profiles=(), awkward=False))
    done = say("snapshot", "list")
    assert done.code == 0
    assert done.out == (
        f"No snapshots of {home} yet\n"
        "Take one: `safekept snapshot`\n"
        "Not shown: 1 of other homes (`safekept snapshot list --all`)\n"
    )
    assert str(tmp_path / "other") in say("snapshot", "list", "--all").out


def test_a_list_opens_only_what_is_new_and_no_index(here, home, say, monkeypatch):
    for _ in range(3):
        take(here, home, check="never")
    say("snapshot", "list")
    read, indexes = [], []
    load, index = Repository.load_snapshot, Repository.load_index_file
    monkeypatch.setattr(Repository, "load_snapshot", lambda self, name: read.append(name) or load(self, name))
    monkeypatch.setattr(
        Repository, "load_index_file", lambda self, name: indexes.append(name) or index(self, name)
    )
    assert len(json.loads(say("snapshot", "list", "--json").out)["snapshots"]) == 3
    assert (read, indexes) == ([], [])
    monkeypatch.undo()
    newest = take(here, home, check="never").snapshot.id
    with opened(here) as repository:
        from safekept.vault.snapshots import list_snapshots

        monkeypatch.setattr(
            Repository, "load_snapshot", lambda self, name: read.append(name) or load(self, name)
        )
        found, damaged = list_snapshots(repository)
    assert len(found) == 4 and not damaged and set(read) <= {newest}


def test_a_cache_of_the_list_that_was_tampered_with_is_not_believed(here, home, say):
    take(here, home, label="true")
    first = say("snapshot", "list", "--json").out
    [path] = [
        os.path.join(here.places.cache_directory, name)
        for name in os.listdir(here.places.cache_directory)
        if name.startswith("snapshots-")
    ]
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"
    with open(path, "rb") as file:
        data = bytearray(file.read())
    assert b"true" not in data and home.encode() not in data, "the cache is sealed like the vault"
    data[len(data) // 2] ^= 1
    with open(path, "wb") as file:
        file.write(data)
    assert say("snapshot", "list", "--json").out == first


# show


def test_a_snapshot_shows_its_counts_its_databases_and_what_it_could_not_take(here, home, say):
    short = take(here, home, label="monday").id[:8]
    done = say("snapshot", "show", "1")
    assert done.code == 0
    assert done.out.startswith(f"Snapshot {short}\n  Taken      ")
    assert f"  Home       {home} on " in done.out
    assert "  Kind       manual, monday\n" in done.out
    assert "  Holds      4 sessions, 40 messages, " in done.out
    assert "  Database   state.db: checked and sound; 4 sessions, 40 messages\n" in done.out
    assert done.out.endswith(f"Restore with: `safekept snapshot restore {short}`\n")
    document = json.loads(say("snapshot", "show", "latest", "--json").out)
    assert document["databases"]["state.db"]["state"] == "sound"
    assert {"name": "SOUL.md", "kind": "file"}.items() <= document["entries"][1].items() or document[
        "entries"
    ]


def test_a_directory_and_a_text_can_be_looked_at(here, home, say):
    take(here, home)
    put(home, "SOUL.md", "changed since")
    lines = say("snapshot", "show", "latest", "memories").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["MEMORY.md", "USER.md"]
    assert all(line.startswith("- 0644  2026-") for line in lines)
    assert say("snapshot", "show", "latest", "SOUL.md").out.startswith("# Soul\n\nCalm and exact.")
    done = say("snapshot", "show", "latest", "state.db")
    assert "  Database   checked and sound; 4 sessions, 40 messages\n" in done.out
    assert "SQLite format" not in done.out
    done = say("snapshot", "show", "latest", "nowhere/at all.md")
    assert done.code == 1
    assert "There is no `nowhere/at all.md` in snapshot" in done.err
    assert "history" not in done.err, "no snapshot has it"
    os.rename(os.path.join(home, "SOUL.md"), os.path.join(home, "my soul.md"))
    take(here, home, check="never")
    os.unlink(os.path.join(home, "my soul.md"))
    take(here, home, check="never")
    assert "`safekept history 'my soul.md'`" in say("snapshot", "show", "latest", "my soul.md").err


# diff


def change_everything(home):
    put(home, "SOUL.md", "# Soul\n\nLoud and vague.\n")
    put(home, "memories/NEW.md", "remembered\n")
    os.unlink(os.path.join(home, "cron/jobs.json"))
    os.utime(os.path.join(home, "config.yaml"), ns=(1, 1))
    put(home, ".env", "TOKEN=very-secret\n")
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        connection.execute("delete from messages where id <= 7")
        connection.execute("insert into state_meta values ('a', 'b')")
        connection.commit()


@pytest.mark.parametrize("against", ["snapshot", "live"])
def test_a_difference_names_files_with_sizes_and_counts_rows(here, home, say, against):
    first = take(here, home).id[:8]
    change_everything(home)
    words, other = [first], home
    if against == "snapshot":
        other = "snapshot " + take(here, home).id[:8]
        words.append("latest")
    done = say("snapshot", "diff", *words, "--patch")
    assert done.code == 0, done.err
    out = done.out
    assert out.startswith(f"From snapshot {first} to {other}\n")
    assert re.search(r"^M SOUL\.md  \d+ B -> 24 B$", out, re.MULTILINE), out
    assert re.search(r"^\+ memories/NEW\.md  11 B$", out, re.MULTILINE)
    assert re.search(r"^- cron/jobs\.json  [\d.]+ K?B$", out, re.MULTILINE)
    assert "    +Loud and vague.\n" in out and "    -Calm and exact." in out
    assert "        messages: 40 -> 33 rows (-7)\n" in out
    assert "        state_meta: 0 -> 1 rows (+1)\n" in out
    assert "sessions:" not in out, "a table that did not change has no line"
    assert "very-secret" not in out and "    (a secret: its text is not shown)\n" in out
    assert "1 added, 1 removed, 3 changed; " in out
    assert "1 file with the same content and another time or mode\n" in out
    document = json.loads(say("snapshot", "diff", *words, "--json").out)
    assert {one["path"]: one["how"] for one in document["changes"]} == {
        ".env": "changed",
        "SOUL.md": "changed",
        "cron/jobs.json": "removed",
        "memories/NEW.md": "added",
        "state.db": "changed",
    }
    assert document["databases"]["state.db"]["messages"] == {"before": 40, "after": 33}


def test_no_difference_is_said_and_costs_no_database(here, home, say, monkeypatch):
    take(here, home)
    take(here, home)
    import safekept.actions.snapshots.difference

    monkeypatch.setattr(safekept.actions.snapshots.difference, "stored_copy", None)
    done = say("snapshot", "diff", "2", "1")
    assert done.code == 0 and done.out.endswith("\nNo file differs\n"), done.out
    assert say("snapshot", "diff", "1").out.endswith("\nNo file differs\n")


def test_a_database_whose_changes_are_still_in_its_log_differs(here, home, say):
    take(here, home)
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        connection.execute("pragma wal_autocheckpoint=0")
        connection.execute("delete from messages where id = 1")
        connection.commit()
        done = say("snapshot", "diff", "latest")
    assert "        messages: 40 -> 39 rows (-1)\n" in done.out, done.out


def test_only_directories_that_differ_are_loaded_for_a_difference(here, home, say, monkeypatch):
    take(here, home)
    put(home, "SOUL.md", "changed")
    take(here, home)
    loaded = []
    load = Repository.load_tree
    monkeypatch.setattr(Repository, "load_tree", lambda self, blob: loaded.append(blob) or load(self, blob))
    assert "M SOUL.md" in say("snapshot", "diff", "2", "1").out
    assert len(loaded) <= 4, "the two trees of the home itself, and nothing below"


def test_the_clock_of_a_list_names_that_snapshot(here, home, say, monkeypatch):
    now = int(time.mktime((2026, 11, 16, 16, 40, 0, 0, 0, -1)))
    for seconds in (now - 20 * 60 + 5, now - 400 * DAY, now - 2 * DAY):
        take(here, home, check="never", now_ns=seconds * 10**9)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: float(now))
    monkeypatch.setattr(time, "time_ns", lambda: now * 10**9)
    rows = say("snapshot", "list").out.splitlines()[1:4]
    today, before, long_ago = (row.split()[2:] for row in rows)
    assert (today[0], before[:3], long_ago[0]) == ("16:20", ["Nov", "14", "16:40"], "2025-10-12")
    chosen = json.loads(say("restore", "16:20", "--dry-run", "--json").out)["snapshot"]["id"]
    assert chosen.startswith(rows[0].split()[1]), "taken five seconds later, in the minute that was said"
    error = say("restore", "2025-10-11").err
    assert "is as old as `2025-10-11`; the oldest is of 2025-10-12 16:40:00" in error, error
    monkeypatch.setattr(time, "time", real)


# history


def test_a_version_that_came_back_is_told_as_the_same(here, home, say):
    for text in ("first\n", "second\n", "first\n"):
        put(home, "SOUL.md", text)
        newest = take(here, home, check="never").id[:8]
    lines = say("history", "SOUL.md").out.splitlines()[2:5]
    assert [f"the same as {newest}" in line for line in lines] == [False, False, True], lines


def test_the_history_of_a_file_has_its_distinct_versions_and_how_to_get_them(here, home, say):
    for text in ("first\n", "first\n", "second\n"):
        put(home, "memories/MEMORY.md", text)
        os.utime(os.path.join(home, "memories/MEMORY.md"), ns=(10**18, 10**18))
        take(here, home, check="never")
        time.sleep(0.01)
    put(home, "config.yaml", "something else")
    take(here, home, check="never")
    done = say("history", "memories/MEMORY.md", "--diff")
    assert done.code == 0, done.err
    assert done.out.startswith("memories/MEMORY.md: 2 versions in 4 snapshots\n")
    assert done.out.splitlines()[1].split() == "ID WRITTEN SIZE SEEN".split()
    lines = [line for line in done.out.splitlines() if re.match(r"  [0-9a-f]{8}  ", line)]
    assert done.out.splitlines()[1].index("SEEN") == lines[0].index("first seen")
    assert len(lines) == 2 and lines[0].endswith("in 2 snapshots  now"), lines
    assert "      -first\n      +second\n" in done.out
    assert "The file in the home is the version marked `now`\n" in done.out
    command = re.search(r"`safekept (snapshot restore [0-9a-f]{8} memories/MEMORY\.md)`\n$", done.out)
    assert say(*command[1].split(), "--yes").code == 0
    with open(os.path.join(home, "memories/MEMORY.md")) as file:
        assert file.read() == "first\n"
    document = json.loads(say("history", os.path.join(home, "memories/MEMORY.md"), "--json").out)
    assert document["live"] == "same" and [one["now"] for one in document["versions"]].count(True) == 1


def test_a_file_that_is_gone_or_changed_since_is_said(here, home, say):
    take(here, home)
    put(home, "SOUL.md", "changed since")
    assert "none of these: it changed since the last snapshot" in say("history", "SOUL.md").out
    os.unlink(os.path.join(home, "SOUL.md"))
    assert "The file is no longer in the home\n" in say("history", "SOUL.md").out


def test_a_file_that_was_never_stored_is_said(here, home, say):
    taken = take(here, home)
    done = say("history", "never.md")
    assert done.code == 1
    assert done.err == (
        f"The one snapshot of `{home}` holds no file called `never.md`\n"
        "\n"
        "  Kept       Nothing was changed\n"
        f"  Next       See what snapshot {taken.id[:8]} holds: `safekept snapshot show {taken.id[:8]}`\n"
        "  Error      nothing-matches\n"
    )


def test_history_says_that_the_vault_holds_another_home_and_shows_it_when_asked(here, home, say, tmp_path):
    """As after a rebuild under another path: the old versions lie under the old one."""
    old = make_hermes_home(str(tmp_path / "old/.hermes"), profiles=(), awkward=False)
    put(old, "SOUL.md", "of old\n")
    put(old, "memories/OLD.md", "only there\n")
    before = take(here, old, check="never").id[:8]
    put(home, "SOUL.md", "of now\n")
    take(here, home, check="never")
    done = say("history", "SOUL.md")
    assert done.out.startswith("SOUL.md: 1 version in 1 snapshot\n")
    hint = f"Not looked at: 1 snapshot of {old} (`safekept history SOUL.md --all`)\n"
    assert hint in done.out, done.out
    assert json.loads(say("history", "SOUL.md", "--json").out)["elsewhere"] == 1
    everything = say("history", "SOUL.md", "--all")
    assert everything.out.startswith("SOUL.md: 2 versions in 2 snapshots\n"), everything.out
    assert f", of {old}\n" in everything.out and "Not looked at" not in everything.out
    command = re.search(rf"`safekept (snapshot restore {before} SOUL\.md)`\n$", everything.out)
    assert say(*command[1].split(), "--yes").code == 0, "into the home that is here"
    with open(os.path.join(home, "SOUL.md")) as file:
        assert file.read() == "of old\n"
    gone = say("history", "memories/OLD.md")
    assert gone.code == 1
    assert f"Look into 1 snapshot of {old} as well: `safekept history memories/OLD.md --all`" in gone.err
    assert before in say("history", "memories/OLD.md", "--all").out
    assert say("history", "nowhere.md", "--all").code == 1


def test_history_before_the_first_snapshot_of_this_home_says_that_another_is_there(here, home, say, tmp_path):
    old = make_hermes_home(str(tmp_path / "old"), profiles=(), awkward=False)
    take(here, old, check="never")
    done = say("history", "SOUL.md")
    assert done.code == 1 and f"This vault holds no snapshots of `{home}` yet" in done.err
    assert f"Look into 1 snapshot of {old} as well: `safekept history SOUL.md --all`" in done.err


def test_history_does_not_speak_of_the_homes_of_other_agents(here, home, say, tmp_path):
    other = str(tmp_path / "notes")
    put(other, "SOUL.md", "nobody's")
    create_snapshot(here, SnapshotRequest(here.locate(other, "generic"), check="never"))
    take(here, home, check="never")
    done = say("history", "SOUL.md")
    assert done.code == 0 and "Not looked at" not in done.out
    assert "1 version in 1 snapshot" in say("history", "SOUL.md", "--all").out


def test_history_loads_only_the_directories_along_the_path(here, home, say, monkeypatch):
    for text in ("one", "two", "three"):
        put(home, "memories/USER.md", text)
        take(here, home, check="never")
    kinds = []
    load = BlobLoader.load
    monkeypatch.setattr(
        BlobLoader, "load", lambda self, kind, blob: kinds.append(kind) or load(self, kind, blob)
    )
    assert "3 versions in 3 snapshots" in say("history", "memories/USER.md").out
    depth = os.path.join(home, "memories").count("/") + 1
    assert len(kinds) <= 3 * (2 * depth + 2) + 2 * depth


def test_a_secret_is_listed_in_its_history_and_its_text_is_not_shown(here, home, say):
    for text in ("KEY=one\n", "KEY=two\n"):
        put(home, ".env", text)
        take(here, home, check="never")
    out = say("history", ".env", "--diff").out
    assert "2 versions" in out and "KEY=" not in out


def test_an_unreadable_snapshot_is_named_by_history_and_the_others_are_searched(here, home, say):
    take(here, home, check="never")
    put(home, "memories/USER.md", "newer")
    result = take(here, home, check="never")
    with opened(here) as repository:
        from safekept.vault.format.blobs import BlobKind

        place = repository.index.lookup(BlobKind.TREE, result.snapshot.tree)
        name = place.pack.hex()
    path = os.path.join(here.places.vault, "data", name[:2], name)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(place.offset + 17)
        file.write(b"damage")
    done = say("history", "memories/USER.md")
    assert done.code == 3, done.out + done.err
    assert done.out.startswith("memories/USER.md: 1 version in 2 snapshots\n")
    assert f"  Not seen   snapshot {result.id[:8]} is damaged in the vault: " in done.out
