"""`safekept undo`: the tree and every row of every table before and after are equal, both ways."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import time

import pytest

from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import database_rows, differences, make_hermes_home, tree_facts
from support.projects.checkpoints import put
from support.projects.rollbacks import tree_of
from support.restoring.landings import holding, killed_at
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A user with a home that was stored, and then changed by hand in every way.

    Every test leaves it as it was: that is what they are about.
    """
    here = throwaway(tmp_path_factory.mktemp("undo"))
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    archive = os.path.join(here.places.user_home, "stored.zip")
    with pytest.MonkeyPatch.context() as patch:
        assert spoken(patch, here.places.user_home)("backup", "-o", archive).code == 0
    take(here, home)
    change_by_hand(home)
    return here, home, archive


@pytest.fixture
def user(made, monkeypatch):
    here, home, archive = made
    before = everything(home)
    yield home, spoken(monkeypatch, here.places.user_home), archive
    same(before, everything(home))


def change_by_hand(home):
    def full(path):
        return os.path.join(home, path)

    with open(full("SOUL.md"), "w") as file:
        file.write("changed by hand")
    os.chmod(full("config.yaml"), 0o640)
    os.utime(full("config.yaml"), ns=(5, 7_000_000_123))
    os.unlink(full("auth.json"))
    shutil.rmtree(full("hooks"))
    put(full("skills/mine/SKILL.md"), "made by hand")
    os.mkdir(full("skills/empty"), 0o711)
    os.symlink("../SOUL.md", full("skills/soul"))
    with contextlib.closing(sqlite3.connect(full("state.db"))) as connection, connection:
        connection.execute("delete from messages where id % 3 = 0")
        connection.execute("insert into sessions(id, source, started_at) values ('by-hand', 'cli', 1)")
    for place in ("skills/mine", "skills/empty", "skills", ""):
        os.utime(full(place), ns=(3, 1_700_000_000_000_000_001))


def everything(home):
    """The tree to the last bit of every file, and the rows of every table of every database."""
    return tree_facts(home, databases="bytes"), tree_facts(home, databases="rows")


def same(before, after):
    assert differences(before[0], after[0]) == []
    assert differences(before[1], after[1]) == []


CHANGES = {
    "import": ("import", "ARCHIVE", "--force"),
    "exact import": ("import", "ARCHIVE", "--exact", "--force"),
    "partial import": ("import", "ARCHIVE", "--only", "SOUL.md", "--only", "state.db", "--force"),
    "restore": ("snapshot", "restore", "latest", "--yes"),
    "exact restore": ("snapshot", "restore", "latest", "--exact", "--yes"),
    "partial restore": ("snapshot", "restore", "latest", "hooks", "state.db", "--yes"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_undo_and_undo_of_undo_bring_every_bit_and_row_back(user, name):
    home, say, archive = user
    before = everything(home)
    done = say(*(word.replace("ARCHIVE", archive) for word in CHANGES[name]))
    assert done.code == 0, done.err
    after = everything(home)
    assert before != after
    document = json.loads(say("undo", "--dry-run", "--json").out)
    same(after, everything(home))
    assert document["dry_run"] is True and document["operation"] is None and document["landed"] is None
    assert document["undoes"]["verb"] == name.split()[-1] and document["plan"]["since"] == []
    undone = say("undo", "--json")
    assert undone.code == 0, undone.out
    same(before, everything(home))
    done = json.loads(undone.out)
    landed = done["landed"]
    assert landed["created"] + landed["replaced"] == len(document["plan"]["returns"])
    assert landed["removed"] == len(document["plan"]["goes"])
    assert say("undo").code == 0
    same(after, everything(home))
    refused = say(*done["undo"].split()[1:])
    assert refused.code == 1 and "it was taken back already, by " in refused.err
    same(after, everything(home))
    assert say("undo").code == 0
    same(before, everything(home))


def test_commands_that_an_import_made_for_profiles_go_and_come_back_with_it(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)
    say, archive = spoken(monkeypatch, here.places.user_home), str(tmp_path / "a.zip")
    assert say("backup", "-o", archive).code == 0
    shutil.rmtree(home)
    coder = os.path.join(here.places.user_home, ".local", "bin", "coder")
    assert say("import", archive).code == 0
    text, mode = read(coder), os.stat(coder).st_mode
    assert say("undo").code == 0
    assert not os.path.exists(home) and not os.path.exists(coder)
    assert say("undo").code == 0
    assert os.path.isdir(home) and read(coder) == text and os.stat(coder).st_mode == mode
    write(coder, text + "# mine")
    assert say("undo").code == 0
    assert read(coder) == text + "# mine", "one that somebody changed stays"


def test_undo_pours_back_into_a_database_that_is_open(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    say, live = spoken(monkeypatch, here.places.user_home), os.path.join(home, "state.db")
    take(here, home)
    with contextlib.closing(sqlite3.connect(live)) as connection, connection:
        connection.execute("create table notes(x)")
        connection.execute("delete from messages where id % 3 = 0")
    before, inode = database_rows(live), os.stat(live).st_ino
    with holding(live):
        assert say("snapshot", "restore", "latest", "state.db", "--yes").code == 0
        restored = database_rows(live)
        assert restored != before
        assert json.loads(say("undo", "--dry-run", "--json").out)["plan"]["since"] == []
        assert say("undo").code == 0
        assert database_rows(live) == before and os.stat(live).st_ino == inode
        assert say("undo").code == 0
        assert database_rows(live) == restored


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A small home that was stored, and a way to talk."""
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    take(here, home)
    return here, home, spoken(monkeypatch, here.places.user_home)


@pytest.fixture
def project(tmp_path):
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "src", "main.py"), "one\n")
    os.chmod(os.path.join(place, "src", "main.py"), 0o750)
    os.symlink("main.py", os.path.join(place, "src", "link"))
    return place


def write(*parts):
    *path, text = parts
    with open(os.path.join(*path), "w") as file:
        file.write(text)


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def broken(project):
    put(os.path.join(project, "src", "main.py"), "broken\n")
    os.chmod(os.path.join(project, "src", "main.py"), 0o600)
    os.unlink(os.path.join(project, "src", "link"))
    put(os.path.join(project, "made.txt"), "made\n")


def rolled_back(say, project):
    """A project that an agent broke and that was rolled back; as it was before that, and after."""
    assert say("checkpoint", project).code == 0
    broken(project)
    before = tree_of(project)
    assert say("rollback", "1", "--dir", project).code == 0
    return before, tree_of(project)


def test_a_rollback_is_undone_from_anywhere_and_again(small, project):
    _, home, say = small
    untouched = everything(home)
    before, after = rolled_back(say, project)
    assert before != after
    plan = say("undo", "--dry-run")
    assert plan.code == 0 and plan.out.startswith("Would take back the rollback of ")
    assert "  Restores   made.txt\n             src/main.py\n  Removes    src/link\n" in plan.out
    assert plan.out.endswith("Nothing was changed\n")
    assert tree_of(project) == after
    done = json.loads(say("undo", "--json").out)
    assert tree_of(project) == before
    assert done["project"] == project and done["undoes"]["verb"] == "rollback"
    again = say("undo")
    assert again.code == 0 and tree_of(project) == after, again.err
    assert say("undo", "--dir", os.path.join(project, "src")).code == 0 and tree_of(project) == before
    same(untouched, everything(home))


def test_the_last_change_is_taken_back_wherever_it_was_and_an_earlier_one_by_its_id(small, project):
    here, home, say = small
    write(home, "SOUL.md", "mine")
    restore = json.loads(say("snapshot", "restore", "latest", "SOUL.md", "--yes", "--json").out)["operation"]
    restored = read(home, "SOUL.md")
    before, after = rolled_back(say, project)
    rollback = [one.operation for one in here.journal.read() if one.verb == "rollback"][-1]
    assert say("undo", restore[:-2]).code == 0
    assert read(home, "SOUL.md") == "mine" and tree_of(project) == after
    assert say("undo", rollback).code == 0
    assert tree_of(project) == before
    assert say("undo", "--home", home).code == 0
    assert read(home, "SOUL.md") == restored, "with --home only what was done there counts"
    assert tree_of(project) == before
    assert say("undo", "--dir", project).code == 0
    assert tree_of(project) == after


def test_an_import_into_another_directory_is_what_undo_takes_back(small, tmp_path):
    _, home, say = small
    archive, look = str(tmp_path / "a.zip"), str(tmp_path / "look")
    assert say("backup", "-o", archive).code == 0
    untouched = everything(home)
    assert say("import", archive, "--into", look).code == 0
    assert say("undo").code == 0
    assert not os.path.exists(look)
    same(untouched, everything(home))


def test_what_was_changed_since_is_said_and_set_aside(small):
    _, home, say = small
    write(home, "SOUL.md", "mine")
    os.unlink(os.path.join(home, "config.yaml"))
    assert say("snapshot", "restore", "latest", "SOUL.md", "config.yaml", "--yes").code == 0
    write(home, "SOUL.md", "edited after the restore")
    plan = say("undo", "--dry-run").out
    assert "  Returns    SOUL.md\n  Goes       config.yaml\n  Since      SOUL.md\n" in plan
    assert "changed after it; as they were until now they would be set aside, not lost" in plan
    done = json.loads(say("undo", "--json").out)
    assert done["plan"]["since"] == ["SOUL.md"]
    assert read(home, "SOUL.md") == "mine" and not os.path.exists(os.path.join(home, "config.yaml"))
    assert read(done["landed"]["replaced_in"], "home", ".hermes", "SOUL.md") == "edited after the restore"
    said = say("undo").out
    assert read(home, "SOUL.md") == "edited after the restore"
    moments = (time.time() + 14 * 86400, time.time() + 14 * 86400 - 600)  # midnight may have passed since
    days = [time.strftime("%Y-%m-%d", time.localtime(one)) for one in moments]
    assert any(f"until {day}," in said for day in days), said


def test_what_was_changed_since_in_a_project_stays(small, project):
    _, _, say = small
    rolled_back(say, project)
    write(project, "src", "main.py", "worked on after the rollback\n")
    done = say("undo")
    assert read(project, "src", "main.py") == "worked on after the rollback\n"
    assert read(project, "made.txt") == "made\n"
    assert "Kept       src/main.py" in done.out and "changed after the rollback that is undone" in done.out


def test_what_is_no_longer_kept_says_so_and_names_the_snapshot_before_it(small):
    _, home, say = small
    write(home, "SOUL.md", "mine")
    first = json.loads(say("snapshot", "restore", "latest", "SOUL.md", "--yes", "--json").out)
    write(home, "config.yaml", "mine: 1")
    second = json.loads(say("snapshot", "restore", "latest", "config.yaml", "--yes", "--json").out)
    shutil.rmtree(os.path.dirname(second["landed"]["replaced_in"]))
    now = everything(home)
    done = say("undo")
    same(now, everything(home))
    command = f"safekept snapshot restore {second['undo_point'][:8]}"
    assert done.code == 1 and done.err == (
        f"{second['operation']} cannot be taken back: what it replaced is no longer kept\n"
        "\n"
        "  Kept       Nothing was changed\n"
        f"  Next       A snapshot was taken before it: `{command}`\n"
        f"             To take back what was done before that: `safekept undo {first['operation']}`\n"
        "  Error      undo-not-possible\n"
    )
    assert say("undo", first["operation"]).code == 0 and read(home, "SOUL.md") == "mine"
    assert say(*command.split()[1:], "config.yaml", "--yes").code == 0
    assert read(home, "config.yaml") == "mine: 1"


def test_a_lost_journal_does_not_keep_undo_from_its_work(small, project):
    here, home, say = small
    write(home, "SOUL.md", "mine")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    before, _ = rolled_back(say, project)
    os.unlink(here.journal.path)
    assert say("undo").code == 0 and tree_of(project) == before, "the rollback was the last"
    os.unlink(here.journal.path)
    assert say("undo", "--home", home).code == 0 and read(home, "SOUL.md") == "mine"
    with open(here.journal.path, "ab") as file:
        file.write(b'{"version": 9, "verb": "teleport", "operation": "20990101-000000-ffffff", "state"')
    assert say("undo", "--home", home).code == 0 and read(home, "SOUL.md") != "mine"


def test_what_cannot_be_undone_says_why(small, project, tmp_path):
    here, home, say = small
    backup = json.loads(say("backup", "-o", str(tmp_path / "a.zip"), "--json").out)["operation"]
    assert say("import", str(tmp_path / "nothing.zip")).code == 1
    texts = {
        "20991231-000000-abcdef": "The journal knows no operation `20991231-000000-abcdef`",
        backup: f"{backup} (backup) cannot be taken back: a backup only wrote a file; "
        "your home was not changed",
    }
    snapshot = next(one.operation for one in here.journal.read() if one.verb == "snapshot")
    texts[snapshot] = f"{snapshot} (snapshot) cannot be taken back: a snapshot changed nothing in your home"
    for word, text in texts.items():
        done = say("undo", word)
        assert done.code == 1 and text in done.err and "Kept       Nothing was changed\n" in done.err
    done = say("undo")
    assert done.code == 1 and done.err == (
        "There is no import, restore or rollback to take back\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       See what was done: `safekept log`\n"
        "  Error      nothing-to-undo\n"
    )
    assert "There is no rollback to take back in" in say("undo", "--dir", project).err
    assert say("undo", "--dir", project, "--home", home).code == 2


def test_a_rollback_whose_point_was_dropped_cannot_be_undone_and_says_so(small, project):
    here, _, say = small
    rolled_back(say, project)
    operation = [one.operation for one in here.journal.read() if one.verb == "rollback"][-1]
    assert say("checkpoint", "clear", "--yes").code == 0
    done = say("undo")
    assert done.code == 1
    assert f"{operation} cannot be taken back: the point before that rollback was dropped\n" in done.err


def test_an_undo_that_was_killed_is_made_right_and_the_next_one_takes_the_right_thing_back(small):
    _, home, say = small
    write(home, "SOUL.md", "mine")
    os.unlink(os.path.join(home, "config.yaml"))
    before = everything(home)
    assert say("snapshot", "restore", "latest", "--yes").code == 0
    after = everything(home)
    for step in (6, 14, 22, 30):
        assert killed_at(step, lambda: say("undo")) == -1
        assert say("undo").code == 0
        now = everything(home)
        # Killed before it was committed: this undid the restore. After that: it undid the undo.
        same(before if differences(after[0], now[0]) else after, now)
        if not differences(before[0], now[0]):
            assert say("undo").code == 0
            same(after, everything(home))


def test_what_guard_brought_back_by_itself_is_taken_back_by_the_guards_own_id(small, safekept):
    here, home, say = small
    jobs = os.path.join(home, "cron", "jobs.json")
    emptied = '{"jobs": []}'
    script = f"printf '%s' '{emptied}' > {jobs}"
    done = safekept("guard", "--auto-restore", "--", "sh", "-c", script)
    assert done.returncode == 3, done.stderr
    assert read(jobs) != emptied, "it was brought back"
    guard = [one for one in here.journal.read() if one.verb == "guard"][-1]
    taken = say("undo", guard.operation)
    assert taken.code == 0 and read(jobs) == emptied, taken.err
    assert say("undo").code == 0 and read(jobs) != emptied


def test_a_journal_that_cannot_be_read_does_not_keep_undo_from_its_work(small):
    here, home, say = small
    write(home, "SOUL.md", "mine")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    os.unlink(here.journal.path)
    os.mkdir(here.journal.path)
    done = say("undo")
    assert done.code == 0 and read(home, "SOUL.md") == "mine"
    assert "Note: the journal in" in done.err
    refused = say("undo", "abc")
    assert refused.code == 1 and error_code(refused.err) == "journal-unreadable"
