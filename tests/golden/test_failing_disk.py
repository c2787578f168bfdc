"""A disk that fails for a moment while a command runs: what it says then, and what it leaves behind."""

from __future__ import annotations

import errno
import json
import os

import pytest

from homes import differences, tree_facts
from in_process import spoken


@pytest.fixture
def user(tmp_path):
    home = tmp_path / ".hermes"
    (home / "memories").mkdir(parents=True)
    (home / "SOUL.md").write_text("# Soul\n")
    (home / "config.yaml").write_text("model: x\n")
    (home / "memories" / "MEMORY.md").write_text("bread\n")
    return tmp_path


@pytest.fixture
def say(user, monkeypatch):
    return spoken(monkeypatch, str(user))


def refused(code):
    return OSError(code, os.strerror(code))


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "words"])
def test_a_journal_that_cannot_be_written_is_said_whoever_asks(user, say, as_json):
    (user / ".local" / "share" / "safekept" / "journal.jsonl").mkdir(parents=True)
    said = say("snapshot", *(["--json"] if as_json else []))
    assert said.code == 0
    assert f"Note: the journal in {user}/.local/share/safekept: Is a directory\n" in said.err
    if as_json:
        assert json.loads(said.out)["complete"] is True  # and nothing else is on standard output


def test_a_restore_without_its_second_net_says_so_whoever_asks(user, say, monkeypatch):
    assert say("snapshot").code == 0
    (user / ".hermes" / "SOUL.md").write_text("hijacked\n")
    real = os.rename

    def refuse(source, target, **options):
        if "/vault/snapshots/" in os.fsdecode(target):
            raise refused(errno.EIO)
        real(source, target, **options)

    monkeypatch.setattr(os, "rename", refuse)
    said = say("snapshot", "restore", "1", "--yes", "--json")
    assert said.code == 0, said.out
    assert json.loads(said.out)["undo_point"] == ""
    assert said.err.startswith("Note: no pre-restore snapshot was taken (")
    assert "what is replaced is kept beside the home" in said.err
    monkeypatch.setattr(os, "rename", real)
    assert say("undo").code == 0
    assert (user / ".hermes" / "SOUL.md").read_text() == "hijacked\n"


def test_an_exact_restore_that_cannot_remove_a_directory_is_taken_back(user, say, monkeypatch):
    id = json.loads(say("snapshot", "--json").out)["id"]
    (user / ".hermes" / "skills" / "stone").mkdir(parents=True)
    (user / ".hermes" / "skills" / "stone" / "SKILL.md").write_text("---\n")
    before = tree_facts(str(user / ".hermes"), skip=(".",))
    real = os.rmdir

    def refuse(path, **options):
        if path == "stone":
            raise refused(errno.EIO)
        real(path, **options)

    monkeypatch.setattr(os, "rmdir", refuse)
    said = say("snapshot", "restore", id, "--exact", "--yes")
    assert said.code == 1 and said.err.startswith("error: landing-failed\n"), said.err
    assert "Input/output error" in said.err
    assert differences(before, tree_facts(str(user / ".hermes"), skip=(".",))) == []
    monkeypatch.setattr(os, "rmdir", real)
    assert say("snapshot", "restore", id, "--exact", "--yes").code == 0
    assert not (user / ".hermes" / "skills" / "stone").exists()
