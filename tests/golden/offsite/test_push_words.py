"""Push, pull and destinations on the command line: what is said, with which exit code."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from safekept.vault.repo import keys as vault_keys
from safekept.vault.repo.repository import Repository
from safekept.vault.storage.local import LocalStorage
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.offsite.pushes import one_more
from support.users.contexts import throwaway
from support.vault.closed import open_below
from support.vault.vaults import save_files, some_files


@pytest.fixture
def user(tmp_path):
    user = tmp_path / "user"
    (user / ".hermes").mkdir(parents=True)
    (user / ".hermes" / "SOUL.md").write_text("be kind\n")
    (user / ".hermes" / "config.yaml").write_text("model: x\n")
    return str(user)


@pytest.fixture
def say(monkeypatch, user):
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return spoken(monkeypatch, user)


@pytest.fixture
def settle(user):
    """Writes config.toml."""

    def write(*tables):
        directory = os.path.join(user, ".config", "safekept")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.toml"), "w") as file:
            for name, url, more in tables:
                file.write(f'[[destination]]\nname = "{name}"\nurl = "{url}"\nsame_disk = true\n{more}\n')

    return write


@pytest.fixture
def pushed(say, settle, tmp_path):
    """One snapshot, pushed to the destination `disk`."""
    settle(("disk", f"{tmp_path}/disk", ""))
    assert say("snapshot").code == 0
    assert say("vault", "kit").code == 0
    assert say("push", "--acknowledge-kit").code == 0
    return tmp_path / "disk"


def test_the_first_push_says_what_to_do_and_then_works(say, settle, tmp_path):
    none = say("push")
    assert none.code == 2
    assert "No destination is set up" in none.err
    assert "`safekept push sftp://user@host/backups`" in none.err
    settle(("disk", f"{tmp_path}/disk", ""))
    nothing = say("push")
    assert nothing.code == 10
    assert "There is no vault" in nothing.err
    say("snapshot")
    refused = say("push")
    assert refused.code == 1
    assert error_code(refused.err) == "no-second-way"
    assert "`safekept vault key add --recovery`" in refused.err
    assert "no-kit-yet" in say("push", "--acknowledge-kit").err
    say("vault", "kit")
    done = say("push", "--acknowledge-kit")
    assert done.code == 0
    assert "Pushed to disk" in done.out
    assert "1 new snapshot; " in done.out
    again = say("push")
    assert "Everything is in disk already" in again.out


def test_a_copy_answers_every_question_that_the_vault_answers(say, pushed, user):
    for source in (("--destination", "disk"), ("--vault", str(pushed)), ("--vault", f"file:{pushed}")):
        listed = say("snapshot", "list", *source)
        assert listed.code == 0
        assert re.search(rf"`safekept snapshot restore [0-9a-f]{{8}} {' '.join(source)}`", listed.out)
        assert json.loads(say("snapshot", "list", "--json", *source).out)["vault"] == source[1]
        assert "SOUL.md" in say("snapshot", "show", "1", *source).out
        assert say("vault", "check", "--read-data", *source).code == 0
        assert say("history", "SOUL.md", *source).code == 0
        assert "generated key" in say("vault", "key", "list", *source).out
    shutil.rmtree(open_below(os.path.join(user, ".local", "share", "safekept", "vault")))
    with open(os.path.join(user, ".hermes", "SOUL.md"), "w") as file:
        file.write("broken")
    restored = say("snapshot", "restore", "latest", "--yes", "--destination", "disk")
    assert restored.code == 0
    with open(os.path.join(user, ".hermes", "SOUL.md")) as file:
        assert file.read() == "be kind\n"
    assert "both" in say("snapshot", "list", "--destination", "disk", "--vault", str(pushed)).err


def test_a_restore_from_a_copy_keeps_what_it_replaces_in_the_vault_here(say, pushed, user):
    with open(os.path.join(user, ".hermes", "SOUL.md"), "w") as file:
        file.write("mine, newer")
    restored = say("snapshot", "restore", "1", "--yes", "--destination", "disk")
    assert "kept as snapshot" in restored.out
    assert "pre-restore" in say("snapshot", "list", "--all").out
    assert "pre-restore" not in say("snapshot", "list", "--all", "--destination", "disk").out


def test_an_absent_disk_is_a_note_unless_it_was_named(say, pushed, settle, tmp_path):
    settle(("disk", f"{tmp_path}/disk", ""), ("other", f"{tmp_path}/other", ""))
    shutil.move(pushed, tmp_path / "unplugged")
    both = say("push")
    assert both.code == 0
    note, _, rest = both.out.partition("  Next ")
    assert "Not there now: disk: The destination `disk` is not there: its disk is not plugged in" in note
    assert rest.split("\n")[0].strip() == "Plug the disk in or mount it, then run the command again"
    assert "Pushed to other" in both.out
    named = say("push", "disk")
    assert named.code == 10
    assert error_code(named.err) == "destination-absent"
    assert "`--anew`" in named.err
    assert say("push", "disk", "other").code == 3
    assert not os.path.exists(pushed)
    listed = say("destinations", "list")
    assert "it was not there; the last good one" in listed.out
    tested = say("destinations", "test", "disk")
    assert tested.code == 1
    assert "disk: not there now" in tested.out


def test_one_that_fails_does_not_stop_the_others(say, pushed, settle, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    settle(("broken", f"{tmp_path}/file/x", ""), ("disk", f"{tmp_path}/disk", ""))
    said = say("push")
    assert said.code != 0
    assert error_code(said.err)
    assert "Everything is in disk already" in said.out
    document = json.loads(say("push", "--json").out)
    assert [one["destination"] for one in document["failed"]] == ["broken"]
    assert [one["state"] for one in document["pushes"]] == ["done"]


def test_a_prune_shows_what_goes_and_needs_consent(say, pushed, user):
    one_more(throwaway(os.path.dirname(user)), 5)
    say("push")
    say("snapshot", "forget", "1", "--yes")
    assert say("vault", "prune", "--now", "--yes").code == 0
    plain = say("push")
    assert plain.code == 0
    before = sorted(name for _, _, names in os.walk(pushed) for name in names)
    refused = say("push", "disk", "--prune")
    assert refused.code == 1
    assert "`safekept push disk --prune --yes`" in refused.err
    dry = say("push", "disk", "--prune", "--dry-run")
    assert "Only there" in dry.out
    assert "Would go   snapshot " in dry.out
    assert sorted(name for _, _, names in os.walk(pushed) for name in names) == before
    done = say("push", "disk", "--prune", "--yes")
    assert done.code == 0, done.err
    assert "Deleted" in done.out
    assert say("vault", "check", "--read-data", "--destination", "disk").code == 0


def test_keys_that_were_removed_here_are_named(say, pushed, tmp_path, monkeypatch):
    (tmp_path / "word").write_text("correct horse battery staple\n")
    added = json.loads(say("vault", "key", "add", "--passphrase-file", str(tmp_path / "word"), "--json").out)
    say("push")
    assert say("vault", "key", "remove", added["key"][:8], "--yes").code == 0
    said = say("push")
    assert f"1 key that was removed here still opens the copy there ({added['key'][:8]})" in said.out
    assert "`safekept push disk --prune`" in said.out
    pruned = say("push", "--prune", "--yes")
    assert "Deleted    1 in `keys`" in pruned.out
    assert "still open" not in pruned.out


def test_what_a_rebuilt_machine_sent_to_the_copy_is_called_so_and_stays(say, pushed, user):
    """The old machine came back: the copy is that of both, and what it never had is not its to delete."""
    one_more(throwaway(os.path.dirname(user)), 5)
    say("push")
    say("snapshot", "forget", "1", "--yes")
    assert say("vault", "prune", "--now", "--yes").code == 0
    key_file = os.path.join(user, ".config", "safekept", "vault.key")
    with open(key_file) as file:
        secret = vault_keys.Secret(file.read().strip())
    (copy,) = (one for one in pushed.iterdir() if one.is_dir())
    with Repository.open(LocalStorage(str(copy)), secret) as rebuilt:
        theirs = save_files(rebuilt, some_files(9))
        key = rebuilt.add_key(vault_keys.Secret("of the rebuilt machine"), cost=vault_keys.Cost(16384, 8, 1))
    said = say("push")
    assert "removed here still" not in said.out
    assert "--prune" not in said.out
    flat = " ".join(said.out.split())
    assert f"1 key there is not of the vault here and not removed here ({key[:8]})" in flat
    assert "a machine that was rebuilt from this copy has its own" in flat
    assert "`safekept vault key list --destination disk`" in flat
    listed = say("vault", "key", "list", "--destination", "disk")
    assert listed.code == 0 and key[:8] in listed.out
    dry = say("push", "disk", "--prune", "--dry-run")
    assert dry.out.count("Would go ") == 1
    assert f"Stays      snapshot {theirs.id[:8]} of " in dry.out
    assert "made by host, not here" in " ".join(dry.out.split())
    done = say("push", "disk", "--prune", "--yes")
    assert "Deleted    1 in `snapshots`" in done.out
    assert f"Stays      snapshot {theirs.id[:8]} of " in done.out
    assert "snapshots that were never in the vault here stay" in " ".join(done.out.split())
    assert (copy / "snapshots" / theirs.id).exists() and (copy / "keys" / key).exists()
    assert say("vault", "check", "--read-data", "--destination", "disk").code == 0
    # Nothing is left that this machine may delete: nobody is asked for consent.
    again = say("push", "disk", "--prune")
    assert again.code == 0, again.err
    assert "Deleted" not in again.out


def test_a_pull_brings_the_vault_back(say, pushed, user):
    vault = os.path.join(user, ".local", "share", "safekept", "vault")
    refused = say("pull", "disk")
    assert error_code(refused.err) == "pull-target-taken"
    shutil.rmtree(open_below(vault))
    dry = say("pull", "disk", "--dry-run")
    assert "Nothing was written" in dry.out
    assert not os.path.exists(vault)
    done = say("pull", "disk")
    assert done.code == 0
    assert f"Fetched the vault to {vault}" in done.out
    assert "`safekept snapshot list --all`" in done.out
    assert say("snapshot", "list").code == 0
    whole = say("pull", "disk", "--mend")
    assert "Nothing is damaged here" in whole.out
    assert say("pull", "disk", "--mend", "--into", "x").code == 2


def test_archives_there_and_back(say, pushed, tmp_path):
    path = tmp_path / "hermes-backup-2026-11-15-033000.zip.age"
    path.write_bytes(b"age-encryption.org/v1\n" + b"x" * 1000)
    sent = say("push", "disk", "--no-vault", "--archive", str(path))
    assert sent.code == 0
    assert f"Archive    {path.name}" in sent.out
    shown = say("destinations", "show", "disk")
    assert path.name in shown.out
    assert "1 snapshot" in shown.out
    back = say("pull", "disk", "--archive", "latest", "--into", str(tmp_path / "back"))
    assert back.code == 0
    assert f"`safekept import {tmp_path}/back/{path.name} --identity KEYFILE`" in back.out
    plain = tmp_path / "plain.zip"
    plain.write_bytes(b"PK\x03\x04")
    assert error_code(say("push", "disk", "--archive", str(plain)).err) == "archive-unsealed"


def test_a_test_says_what_may_be_done(say, pushed):
    said = say("destinations", "test")
    assert said.code == 0
    assert "disk: usable" in said.out
    assert "Delete     yes" in said.out
    assert "Versioning off" in said.out
    assert "Safe       no: an intruder on this host could delete the copies too" in said.out
    listed = say("destinations", "list")
    assert "Safe       no: an intruder on this host could delete the copies too, as it was tried " in (
        listed.out
    )
    document = json.loads(say("destinations", "test", "--json").out)["destinations"][0]
    assert (document["state"], document["delete"], document["read"]) == ("usable", True, True)
    assert document["write_speed"] > 0


def test_the_document_of_a_push(say, pushed):
    document = json.loads(say("push", "--json").out)
    (one,) = document["pushes"]
    assert document["failed"] == []
    assert one["destination"] == "disk"
    assert one["place"] == str(pushed)
    assert one["mirrored"]["files"] == 0
    assert one["plan"]["surplus"] == {"snapshots": 0, "marks": 0, "index": 0, "data": 0, "keys": 0}
