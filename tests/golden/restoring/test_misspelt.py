"""A name that is nearly right: what was meant is offered as a command, and each command offered runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
from contextlib import closing

import pytest

from safekept.checkpoints.checkpoints import Checkpoints
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    for name in ("skills/notes/deploy/SKILL.md", "memories/MEMORY.md", "profiles/writer/memories/MEMORY.md"):
        put(os.path.join(home, name), f"{name}\n")
    return home


def put(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def offered(said) -> list[str]:
    """The commands that an error prints, in its order."""
    assert said.code == 1, said
    return re.findall(r"`safekept ([^`]*)`", said.err.replace("\n             ", " "))


def each_runs(say, commands: list[str]) -> None:
    for command in commands:
        done = say(*shlex.split(command), *(("--yes",) if "restore" in command else ()))
        assert done.code == 0, (command, done.err)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("memories/MEMROY.md", ["memories/MEMORY.md", "profiles/writer/memories/MEMORY.md"]),
        ("MEMROY.md", ["memories/MEMORY.md", "profiles/writer/memories/MEMORY.md"]),
        ("skill/notes", ["skills/notes"]),
        ("skills/deploy", ["skills/deploy-0", "skills/notes/deploy"]),
        ("sould.md", ["SOUL.md"]),
        ("profiles/wirter", ["profiles/writer"]),
    ],
)
def test_a_misspelt_path_is_answered_with_what_the_snapshot_holds(here, home, say, typed, meant):
    short = take(here, home, check="never").id[:8]
    said = say("restore", typed)
    commands = offered(said)
    assert commands[:-1] == [f"snapshot restore {short} {path}" for path in meant], said.err
    assert commands[-1] == f"snapshot show {short}"
    each_runs(say, commands)


def test_a_kind_and_a_name_mean_the_one_and_not_all_of_its_kind(here, home, say):
    short = take(here, home, check="never").id[:8]
    said = say("restore", "profile", "writer")
    assert offered(said)[0] == f"snapshot restore {short} profiles/writer", said.err
    each_runs(say, offered(said))


def test_history_of_a_misspelt_file_offers_the_histories_that_there_are(here, home, say):
    short = take(here, home, check="never").id[:8]
    both = ["history memories/MEMORY.md", "history profiles/writer/memories/MEMORY.md"]
    for typed in ("MEMORY.md", "memories/MEMROY.md"):
        said = say("history", typed)
        assert error_code(said.err) == "nothing-matches", said.err
        assert offered(said) == [*both, f"snapshot show {short}"]
        each_runs(say, offered(said))
    said = say("history", "skill/notes")
    assert offered(said) == [f"snapshot show {short} skills/notes", f"snapshot show {short}"]
    each_runs(say, offered(said))


def test_a_file_that_only_older_snapshots_have_is_offered_out_of_the_newest_of_them(here, home, say):
    put(os.path.join(home, "memories/PLANS.md"), "first\n")
    take(here, home, check="never")
    put(os.path.join(home, "memories/PLANS.md"), "second\n")
    older = take(here, home, check="never").id[:8]
    os.unlink(os.path.join(home, "memories/PLANS.md"))
    newest = take(here, home, check="never").id[:8]
    said = say("restore", "memories/PLANS.md")
    assert offered(said) == [
        f"snapshot restore {older} memories/PLANS.md",
        "history memories/PLANS.md",
        f"snapshot show {newest}",
    ]
    each_runs(say, offered(said)[1:])
    misspelt = say("history", "PLANSS.md")
    assert offered(misspelt)[0] == "history memories/PLANS.md"
    each_runs(say, offered(misspelt) + offered(said)[:1])
    with open(os.path.join(home, "memories/PLANS.md"), encoding="utf-8") as file:
        assert file.read() == "second\n"


def test_of_a_directory_that_only_an_older_snapshot_has_no_history_is_offered(here, home, say):
    older = take(here, home, check="never").id[:8]
    shutil.rmtree(os.path.join(home, "skills/notes"))
    newest = take(here, home, check="never").id[:8]
    said = say("restore", "skills/notes", "--home", home)
    assert offered(said) == [
        f"snapshot restore {older} skills/notes --home {home}",
        f"snapshot show {older} skills/notes --home {home}",
        f"snapshot show {newest}",
    ]
    each_runs(say, offered(said)[1:] + offered(said)[:1])
    assert os.path.isfile(os.path.join(home, "skills/notes/deploy/SKILL.md"))


@pytest.mark.parametrize(
    "typed", ["hermes-backup.zip", "hermes-backup", "hermse-backup-2026-11-16-193934.zip"]
)
def test_of_a_misspelt_archive_the_one_beside_it_is_offered(here, home, say, tmp_path, typed):
    there = str(tmp_path / "hermes-backup-2026-11-16-193934.zip")
    assert say("backup", "-o", there).code == 0
    put(str(tmp_path / "hermes-backup.txt"), "a note, and no archive\n")
    said = say("import", str(tmp_path / typed))
    assert offered(said) == [f"import {there}"], said.err
    assert say(*shlex.split(offered(said)[0]), "--dry-run").code == 0


def test_where_no_archive_is_near_no_command_is_offered_that_fails_again(say, tmp_path):
    for path in (tmp_path / "mine.zip", tmp_path / "no" / "such" / "mine.zip", tmp_path):
        assert offered(say("import", str(path))) == []


def test_what_no_snapshot_ever_had_is_answered_with_no_history_of_it(here, home, say):
    short = take(here, home, check="never").id[:8]
    for words in (("restore", "no/such/thing"), ("history", "no/such/thing")):
        assert offered(say(*words)) == [f"snapshot show {short}"]


@pytest.mark.parametrize(
    ("typed", "named"), [("lats", "latest"), ("lastest", "latest"), ("befor-update", "before-update")]
)
def test_a_misspelt_name_of_a_snapshot_is_answered_with_that_snapshot(here, home, say, typed, named):
    short = take(here, home, check="never", label="before-update").id[:8]
    said = say("restore", typed)
    assert f"Did you mean `{named}`:" in said.err, said.err
    assert offered(said)[0] == f"snapshot restore {short}"
    with_path = say("restore", typed, "SOUL.md")
    assert offered(with_path)[0] == f"snapshot restore {short} SOUL.md", with_path.err
    each_runs(say, offered(said) + offered(with_path))
    assert f"Did you mean `{named}`?" in say("snapshot", "show", typed).err


def test_a_misspelt_path_of_a_named_home_is_offered_with_that_home(here, home, say, tmp_path):
    other = make_hermes_home(str(tmp_path / "elsewhere"), profiles=(), awkward=False)
    short = take(here, other, check="never").id[:8]
    for words in (
        ("restore", "sould.md"),
        ("history", "sould.md"),
        ("snapshot", "show", "latest", "sould.md"),
    ):
        said = say(*words, "--home", other)
        assert offered(said)[0].endswith(f" SOUL.md --home {other}"), said
        each_runs(say, offered(said))
    assert f"snapshot restore {short} SOUL.md --home {other}" in offered(
        say("restore", "sould.md", "--home", other)
    )


def test_show_of_a_misspelt_path_offers_what_is_there(here, home, say):
    short = take(here, home, check="never").id[:8]
    said = say("snapshot", "show", short, "memories/MEMROY.md")
    assert error_code(said.err) == "nothing-matches", said.err
    assert offered(said)[0] == f"snapshot show {short} memories/MEMORY.md"
    each_runs(say, offered(said))


def test_a_misspelt_session_or_profile_is_answered_with_those_that_there_are(here, home, say):
    profile = os.path.join(home, "profiles/writer")
    os.makedirs(profile, exist_ok=True)
    with (
        closing(sqlite3.connect(os.path.join(home, "state.db"))) as from_,
        closing(sqlite3.connect(os.path.join(profile, "state.db"))) as to,
    ):
        from_.backup(to)
        name, title = to.execute("select id, title from sessions where title <> '' limit 1").fetchone()
    short = take(here, home, check="never").id[:8]
    for typed in (name[:-2] + name[-1] + name[-2] + "x", title + "s"):
        said = say("sessions", "show", typed)
        assert offered(said)[0] == f"sessions show {name} --from {short}", said.err
        each_runs(say, offered(said))
    said = say("sessions", "list", "--profile", "wirter")
    assert offered(said)[0] == f"sessions list --from {short} --profile writer", said.err
    each_runs(say, offered(said))


@pytest.mark.parametrize(
    ("words", "needs", "example"),
    [
        ("history", "PATH", "history SOUL.md"),
        ("sessions restore", "SESSION", "sessions list"),
    ],
)
def test_a_command_without_its_word_is_answered_with_an_example(say, words, needs, example):
    said = say(*words.split())
    assert said.code == 2
    assert f"`{words}` needs {needs} after it." in said.err and f"`safekept {example}`" in said.err, said.err


def test_rollback_of_a_misspelt_file_offers_what_the_checkpoint_holds(here, say, tmp_path, monkeypatch):
    project = os.path.realpath(tmp_path / "project")
    for name in ("pyproject.toml", "src/main.py", "src/views/index.py"):
        put(os.path.join(project, name), "one\n")
    agent = Checkpoints(os.path.join(here.places.data_directory, "checkpoints"))
    agent.new_turn("session", "turn")
    agent.before([project], "turn", shell=True)
    put(os.path.join(project, "src/main.py"), "two\n")
    agent.after(wait=True)
    monkeypatch.chdir(project)
    for typed, meant in (
        ("src/mian.py", "src/main.py"),
        ("main.py", "src/main.py"),
        ("src/veiws", "src/views"),
    ):
        said = say("rollback", "1", typed)
        first, *rest = offered(said)
        assert re.fullmatch(rf"rollback [0-9a-z]+ {meant}", first), said.err
        each_runs(say, [*rest, f"{first} --dry-run"])
    assert "No checkpoint of this project holds it" in say("rollback", "1", "nothing-like-it.txt").err


def test_a_mere_name_that_only_an_older_snapshot_has_is_offered_first(here, home, say):
    put(os.path.join(home, "profiles/writer/skills/deploy-0/SKILL.md"), "of another profile\n")
    older = take(here, home, check="never").id[:8]
    shutil.rmtree(os.path.join(home, "skills/deploy-0"))
    take(here, home, check="never")
    said = say("restore", "deploy-0")
    assert offered(said)[0] == f"snapshot restore {older} skills/deploy-0", said.err
    each_runs(say, offered(said)[:1])
    assert os.path.isdir(os.path.join(home, "skills/deploy-0"))
