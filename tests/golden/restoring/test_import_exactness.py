"""What an import changes, and what it leaves exactly as it was."""

import json
import os

import pytest

from support.commands.error_texts import error_code
from support.home.homes import differences, make_hermes_home, tree_facts

ROOT = (".",)


def backed_up(tmp_path, safekept):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    archive = str(tmp_path / "iris.zip")
    assert safekept("backup", "--home", home, "-o", archive).returncode == 0
    return home, archive


def test_a_directory_in_which_a_file_was_replaced_has_its_recorded_time_again(tmp_path, safekept):
    home, archive = backed_up(tmp_path, safekept)
    before = tree_facts(home, skip=ROOT)
    with open(os.path.join(home, "cron/jobs.json"), "w") as file:
        file.write("{}")
    assert safekept("import", archive, "--home", home, "--force").returncode == 0
    assert differences(before, tree_facts(home, skip=ROOT)) == []


def test_an_import_onto_a_fresh_machine_asks_nothing(tmp_path, safekept):
    """A script that restores onto an empty machine runs through; only foreign programs need consent."""
    _, archive = backed_up(tmp_path, safekept)
    done = safekept("import", archive, "--home", str(tmp_path / "fresh" / ".hermes"))
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("modes", "it looks at modes")
def test_an_import_that_would_replace_something_refuses_without_a_terminal(tmp_path, safekept):
    home, archive = backed_up(tmp_path, safekept)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    before = tree_facts(home, databases="bytes")
    done = safekept("import", archive, "--home", home)
    assert done.returncode == 1
    assert error_code(done.stderr) == "consent-needed", done.stderr
    assert "1 existing file would be replaced" in done.stderr
    assert f"`safekept import {archive} --home {home} --force`" in done.stderr
    assert differences(before, tree_facts(home, databases="bytes")) == []


def test_the_target_that_is_printed_is_the_target_that_is_written(tmp_path, safekept):
    """HERMES_HOME names a profile: the root around it is printed, and written."""
    home, archive = backed_up(tmp_path, safekept)
    os.unlink(os.path.join(home, "SOUL.md"))
    profile = os.path.join(home, "profiles", "coder")
    done = safekept("import", archive, "--force", env={"HERMES_HOME": profile})
    assert done.returncode == 0, done.stderr
    assert f"Import into {home}\n" in done.stdout and f"Import complete: {home}\n" in done.stdout
    assert os.path.exists(os.path.join(home, "SOUL.md"))
    assert not os.path.exists(os.path.join(profile, "profiles"))


def test_one_file_alone_comes_back(tmp_path, safekept):
    home, archive = backed_up(tmp_path, safekept)
    for name in ("SOUL.md", "config.yaml"):
        with open(os.path.join(home, name), "w") as file:
            file.write("changed")
    done = safekept("import", archive, "--home", home, "--force", "--only", "SOUL.md", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["plan"]["replace"] == ["SOUL.md"]
    with open(os.path.join(home, "SOUL.md")) as file:
        assert file.read().startswith("# Soul")
    with open(os.path.join(home, "config.yaml")) as file:
        assert file.read() == "changed"


def test_exact_removes_what_the_archive_does_not_hold_and_undo_brings_it_back(tmp_path, safekept):
    home, archive = backed_up(tmp_path, safekept)
    backed = tree_facts(home, skip=ROOT)
    os.makedirs(os.path.join(home, "notes"))
    with open(os.path.join(home, "notes", "later.md"), "w") as file:
        file.write("written since")
    before = tree_facts(home, skip=ROOT)
    assert safekept("import", archive, "--home", home, "--force", "--exact").returncode == 0
    assert differences(backed, tree_facts(home, skip=ROOT)) == []
    assert os.path.exists(os.path.join(home, "hermes-agent")), "what no backup holds must stay"
    assert safekept("undo", "--home", home).returncode == 0
    assert differences(before, tree_facts(home, skip=ROOT)) == []


def test_undo_of_undo_is_the_import_again(tmp_path, safekept):
    home, archive = backed_up(tmp_path, safekept)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    os.unlink(os.path.join(home, "config.yaml"))
    old = tree_facts(home, skip=ROOT)
    assert safekept("import", archive, "--home", home, "--force").returncode == 0
    new = tree_facts(home, skip=ROOT)
    assert differences(old, new) != []
    for expected in (old, new, old, new):
        done = safekept("undo", "--home", home)
        assert done.returncode == 0, done.stderr
        assert differences(expected, tree_facts(home, skip=ROOT)) == []


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_an_undone_import_onto_a_fresh_machine_can_be_redone(tmp_path, safekept):
    _, archive = backed_up(tmp_path, safekept)
    fresh = str(tmp_path / "fresh" / ".hermes")
    assert safekept("import", archive, "--home", fresh).returncode == 0
    landed = tree_facts(fresh, skip=ROOT)
    assert safekept("undo", "--home", fresh).returncode == 0
    assert not os.path.exists(os.path.join(fresh, "SOUL.md"))
    assert safekept("undo", "--home", fresh).returncode == 0
    assert differences(landed, tree_facts(fresh, skip=ROOT)) == []


def test_nothing_to_undo_says_so(tmp_path, safekept):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    done = safekept("undo", "--home", home)
    assert done.returncode == 1
    assert error_code(done.stderr) == "nothing-to-undo", done.stderr


def test_machine_bound_files_of_the_target_stay(tmp_path, safekept):
    home, archive = backed_up(tmp_path, safekept)
    for name in ("gateway_state.json", "processes.json"):
        with open(os.path.join(home, name), "w") as file:
            file.write("this machine's own")
    assert safekept("import", archive, "--home", home, "--force", "--exact").returncode == 0
    for name in ("gateway_state.json", "processes.json"):
        with open(os.path.join(home, name)) as file:
            assert file.read() == "this machine's own"


def test_profile_commands_are_made_anew_and_never_overwrite(tmp_path, safekept):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"), profiles=("coder", "taken", "ls"))
    archive = str(tmp_path / "iris.zip")
    assert safekept("backup", "--home", home, "-o", archive).returncode == 0
    commands = tmp_path / "user" / ".local" / "bin"
    commands.mkdir(parents=True)
    (commands / "taken").write_text("somebody else's")
    done = safekept("import", archive, "--home", home, "--force", "--json")
    assert done.returncode == 0, done.stderr
    states = {wrapper["profile"]: wrapper["state"] for wrapper in json.loads(done.stdout)["wrappers"]}
    assert states == {"coder": "made", "taken": "skipped", "ls": "skipped"}
    assert (commands / "taken").read_text() == "somebody else's"
    assert (commands / "coder").read_text() == '#!/bin/sh\nexec hermes -p coder "$@"\n'
    assert os.access(commands / "coder", os.X_OK)


def test_tarballs_made_by_hand_of_a_live_home_are_folded_into_sound_databases(
    tmp_path, safekept, live_writer
):
    """`tar -czf … .hermes` takes main file and log apart; what SQLite can join again is joined."""
    import subprocess

    from support.home.homes import database_rows

    home = make_hermes_home(str(tmp_path / "user" / ".hermes"), awkward=False)
    writer = live_writer(os.path.join(home, "state.db"), autocheckpoint=0)
    writer.wait_for(30)
    os.kill(writer.pid, 19)  # SIGSTOP: a moment at which nothing moves, as a lucky tar has it
    try:
        archive = str(tmp_path / "by-hand.tar.gz")
        subprocess.run(["tar", "-C", str(tmp_path / "user"), "-czf", archive, ".hermes"], check=True)
        committed = writer.committed()
    finally:
        os.kill(writer.pid, 18)
    fresh = str(tmp_path / "fresh" / ".hermes")
    done = safekept("import", archive, "--home", fresh, "--force")
    assert done.returncode == 0, done.stderr
    assert not [name for name in os.listdir(fresh) if name.startswith("state.db-")]
    live = [row for row in database_rows(os.path.join(fresh, "state.db"))["messages"] if row[1] == b"live"]
    assert len(live) >= 2 * committed
