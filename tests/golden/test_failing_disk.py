"""A disk that fails for a moment while a command runs: what it says then, and what it leaves behind."""

from __future__ import annotations

import builtins
import errno
import json
import os

import pytest

from safekept.core.journal import Journal
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import differences, tree_facts
from support.vault.closed import open_below


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
    assert (
        f"Note: the journal in {user}/.local/share/safekept could not be written: Is a directory\n"
        in said.err
    )
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
    assert said.code == 1 and error_code(said.err) == "landing-failed", said.err
    assert "Input/output error" in said.err
    assert differences(before, tree_facts(str(user / ".hermes"), skip=(".",))) == []
    monkeypatch.setattr(os, "rmdir", real)
    assert say("snapshot", "restore", id, "--exact", "--yes").code == 0
    assert not (user / ".hermes" / "skills" / "stone").exists()


def unreadable(monkeypatch, name):
    """Opening that file fails, as on a disk with a bad block."""

    def refusing(real):
        def refuse(path, *arguments, **options):
            if isinstance(path, str) and os.path.basename(path) == name:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return real(path, *arguments, **options)

        return refuse

    monkeypatch.setattr(builtins, "open", refusing(builtins.open))
    monkeypatch.setattr(os, "open", refusing(os.open))


def test_a_vault_that_may_be_missing_is_not_made_anew_where_nobody_can_tell(user, say, monkeypatch):
    """A vault on a drive that is not plugged in must never be replaced by an empty one."""
    assert say("snapshot").code == 0
    vault = user / ".local" / "share" / "safekept" / "vault"
    open_below(vault)
    vault.rename(user / "unplugged")
    unreadable(monkeypatch, "vaults.json")
    said = say("snapshot")
    assert said.code == 1 and error_code(said.err) == "system-refused", said.err
    assert "Input/output error" in said.err and "vaults.json" in said.err
    assert not vault.exists()
    monkeypatch.undo()


def test_vaults_that_were_seen_are_not_forgotten_by_a_moment_of_bad_luck(user, say, monkeypatch):
    assert say("snapshot").code == 0
    memory = user / ".local" / "share" / "safekept" / "vaults.json"
    before = memory.read_text()
    monkeypatch.setenv("SAFEKEPT_VAULT_PATH", str(user / "other"))
    unreadable(monkeypatch, "vaults.json")
    assert say("vault", "init").code in (0, 1)
    monkeypatch.undo()
    assert memory.read_text() == before


@pytest.fixture
def pushed(user, say):
    """A user whose vault was pushed to another disk, which is unplugged now."""
    config = user / ".config" / "safekept"
    config.mkdir(parents=True)
    (user / "disk").mkdir()
    (config / "config.toml").write_text(
        f'[[destination]]\nname = "disk"\nurl = "file:{user}/disk"\nsame_disk = true\n'
    )
    assert say("snapshot").code == 0
    assert say("vault", "kit", "-o", str(user)).code == 0
    assert say("push", "disk", "--acknowledge-kit").code == 0
    (user / "disk").rename(user / "unplugged")
    (user / "disk").mkdir()
    return user


def test_a_disk_that_may_be_unplugged_is_not_begun_anew_where_nobody_can_tell(pushed, say, monkeypatch):
    unreadable(monkeypatch, "destinations.json")
    said = say("push", "disk")
    assert said.code == 1, said.out
    assert os.listdir(pushed / "disk") == []
    monkeypatch.undo()


def test_a_kit_that_was_acknowledged_stays_so(pushed, say, monkeypatch):
    kits = pushed / ".local" / "share" / "safekept" / "kits.json"
    before = json.loads(kits.read_text())["vaults"]
    kits.write_text(json.dumps({"version": 1, "vaults": {**before, "another": {"acknowledged": 1.0}}}))
    unreadable(monkeypatch, "kits.json")
    assert say("push", "disk", "--acknowledge-kit").code == 1
    monkeypatch.undo()
    assert set(json.loads(kits.read_text())["vaults"]) == {*before, "another"}


@pytest.mark.parametrize("again", [False, True], ids=["first push", "a push again"])
def test_a_push_whose_names_may_not_survive_a_power_cut_is_not_called_done(pushed, say, monkeypatch, again):
    os.rmdir(pushed / "disk")
    if again:
        (pushed / "unplugged").rename(pushed / "disk")
        (pushed / ".hermes" / "SOUL.md").write_text("# Soul, and more of it\n")
        assert say("snapshot").code == 0
    else:
        (pushed / "disk").mkdir()
    real, failed = os.fsync, []

    def refuse(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/disk/" in path and os.path.basename(os.path.dirname(path)) == "data" and len(failed) < 1:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    said = say("push", "disk", *([] if again else ["--anew"]))
    assert failed and said.code == 1, said.out
    assert "Input/output error" in said.err
    assert os.listdir(failed[0]) == []
    monkeypatch.setattr(os, "fsync", real)
    assert say("push", "disk").code == 0
    assert len(os.listdir(failed[0])) == 1
    assert say("vault", "check", "--read-data", "--destination", "disk").code == 0


def test_a_kit_that_is_acknowledged_without_a_journal_is_said_to_be(pushed, say, monkeypatch):
    (pushed / "disk").rmdir()
    (pushed / "unplugged").rename(pushed / "disk")
    real = Journal.append

    def refuse(self, record):
        if record.verb == "kit-acknowledge":
            raise refused(errno.EIO)
        real(self, record)

    monkeypatch.setattr(Journal, "append", refuse)
    said = say("push", "disk", "--acknowledge-kit", "--json")
    assert said.code == 0 and "Note: the journal in" in said.err
