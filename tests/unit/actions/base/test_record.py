"""The journal of actions: who acted, how it ended, and that it never decides the outcome."""

from __future__ import annotations

import os

import pytest

from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.base.context import UserContext
from safekept.actions.base.operations.homes import RestoreFacts
from safekept.actions.base.record import record, recording
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, silent
from safekept.core.journal import Record
from safekept.home.layout.places import HomeEmpty
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway


def lines(here: UserContext) -> list[Record]:
    return list(here.journal.read())


def test_every_line_says_who_acted_and_a_begun_one_in_which_process(tmp_path):
    here = throwaway(tmp_path, actor="agent:hermes")
    record(here, Record("a", "restore", "begun"), silent)
    record(here, Record("a", "restore", "done", facts={"home": "/x"}), silent)
    begun, done = lines(here)
    assert begun.facts == {"actor": "agent:hermes", "process": os.getpid()}
    assert done.facts == {"actor": "agent:hermes", "home": "/x"}


@pytest.mark.parametrize(
    ("said", "actor"),
    [
        ("", "person"),
        ("schedule", "schedule"),
        ("agent:hermes", "agent:hermes"),
        ("a\x1bb" * 99, "a\\x1bb" * 10),
    ],
)
def test_whoever_starts_safekept_may_say_who_it_is(tmp_path, monkeypatch, said, actor):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"), profiles=(), awkward=False)
    monkeypatch.setenv("SAFEKEPT_ACTOR", said)
    assert spoken(monkeypatch, os.path.dirname(home))("backup").code == 0
    (line,) = lines(throwaway(tmp_path))
    assert str(line.facts["actor"])[:60] == actor[:60]


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (KeyboardInterrupt(), "interrupted", "interrupted"),
        (SystemExit(143), "interrupted", "interrupted"),
        (ZeroDivisionError("x"), "failed", "unexpected"),
        (HomeEmpty("empty", kept="all", next_steps=("mount it",)), "failed", "home-empty"),
    ],
)
def test_whatever_ends_the_work_early_is_in_the_journal_with_what_was_known(tmp_path, error, state, code):
    here = throwaway(tmp_path)
    work = RestoreFacts(home="/x")
    with pytest.raises(type(error)), recording(here, "a", work, silent):
        work.undo_point = "found on the way"
        raise error
    (line,) = lines(here)
    assert (line.operation, line.verb, line.state) == ("a", "restore", state)
    assert line.facts["undo_point"] == "found on the way"
    assert line.facts["error"]["code"] == code  # type: ignore[index]
    assert line.facts["seconds"] >= 0  # type: ignore[operator]


def test_a_backup_that_is_interrupted_leaves_its_line_and_no_file(tmp_path):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)

    def stop(event: Event) -> None:
        if event.phase == "store":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup(here, BackupRequest(here.locate(home)), stop)
    (line,) = lines(here)
    assert (line.verb, line.state, line.facts["home"]) == ("backup", "interrupted", home)
    assert [name for name in os.listdir(here.places.user_home) if "backup" in name] == []


def test_a_journal_that_cannot_be_written_is_said_and_stops_nothing(tmp_path):
    here = throwaway(tmp_path)
    os.makedirs(here.places.data_directory)
    os.mkdir(here.journal.path)
    said: list[str] = []
    record(here, Record("a", "backup", "done"), lambda event: said.append(event.text))
    assert said == [f"Note: the journal in {here.places.data_directory} could not be written: Is a directory"]


def test_every_verb_says_where_how_long_and_how_much(tmp_path, monkeypatch):
    """What `log` shows is there for all of them: nothing in it is guessed."""
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    say = spoken(monkeypatch, here.places.user_home)
    project = os.path.join(here.places.user_home, "project")
    os.makedirs(os.path.join(project, ".git"))

    def write(path: str, text: str) -> None:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    write(os.path.join(project, "a"), "1")
    archive = os.path.join(here.places.user_home, "home.zip")
    for words in (
        ("snapshot",),
        ("backup", "-o", archive),
        ("checkpoint", project),
        ("snapshot", "pin", "1"),
        ("vault", "check"),
    ):
        assert say(*words).code == 0, words
    write(os.path.join(home, "SOUL.md"), "changed")
    write(os.path.join(project, "a"), "2")
    for words in (
        ("snapshot", "restore", "latest", "--yes"),
        ("undo",),
        ("import", archive, "--yes"),
        ("rollback", "1", "--dir", project),
        ("snapshot", "--label", "second"),
        ("snapshot", "forget", "1", "--yes"),
        ("vault", "prune", "--yes"),
    ):
        assert say(*words).code == 0, words
    ended = [one for one in lines(here) if one.state != "begun"]
    verbs = {one.verb for one in ended}
    assert verbs >= {
        "snapshot",
        "backup",
        "checkpoint",
        "vault-check",
        "restore",
        "undo",
        "import",
        "rollback",
    }
    for one in ended:
        assert one.facts["actor"] == "person", one
        assert any(one.facts.get(name) for name in ("home", "project", "vault")), one
        assert isinstance(one.facts.get("seconds"), float | int), one
    for one in ended:
        if one.verb in ("snapshot", "backup", "restore", "import"):
            assert isinstance(one.facts.get("bytes"), int), one


def test_the_error_shape_is_the_one_that_json_has(tmp_path):
    here = throwaway(tmp_path)
    with pytest.raises(SafekeptError) as caught:
        backup(here, BackupRequest(here.locate(os.path.join(here.places.user_home, "none"), existing=False)))
    (line,) = lines(here)
    assert line.facts["error"] == caught.value.as_dict()
