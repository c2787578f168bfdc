"""Defects that a stranger found off this host: each test is named for the promise that was broken.

Copies that lack something are never called whole; what is printed runs as printed, and reads the vault
that was named; what cannot work is said at once, and once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time

import click
import pytest

from safekept.core.objects.errors import PlaceMissing, PlaceRefused
from safekept.core.objects.sftp.connections import Host, explain
from support.commands.error_texts import error_codes
from support.commands.in_process import spoken
from support.vault.closed import lose, open_below


@pytest.fixture
def user(tmp_path):
    user = tmp_path / "user"
    (user / ".hermes").mkdir(parents=True)
    (user / ".hermes" / "SOUL.md").write_text("be kind\n")
    (user / ".hermes" / "config.yaml").write_text("model: x\n")
    return str(user)


@pytest.fixture
def say(monkeypatch, user):
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    return spoken(monkeypatch, user)


@pytest.fixture
def settle(user):
    """Writes config.toml: one destination for each directory."""

    def write(**places):
        directory = os.path.join(user, ".config", "safekept")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.toml"), "w") as file:
            for name, place in places.items():
                file.write(f'[[destination]]\nname = "{name}"\nurl = "{place}"\nsame_disk = true\n')

    return write


@pytest.fixture
def pushed(say, settle, tmp_path):
    """One snapshot, pushed to the destination `disk`."""
    settle(disk=tmp_path / "disk")
    assert say("snapshot").code == 0
    assert say("vault", "kit").code == 0
    assert say("push", "--acknowledge-kit").code == 0
    return tmp_path / "disk"


def packs(vault):
    return sorted(
        os.path.join(directory, name) for directory, _, names in os.walk(f"{vault}/data") for name in names
    )


def printed(text):
    """The commands in backticks of what was said."""
    return re.findall(r"`safekept ([^`]+)`", text)


def test_a_push_of_a_vault_that_lost_a_pack_is_not_called_complete(say, settle, user, tmp_path, pushed):
    settle(disk=pushed, fresh=tmp_path / "fresh")
    here = f"{user}/.local/share/safekept/vault"
    lost = packs(here)[0]
    shutil.copyfile(lost, tmp_path / "kept")
    lose(lost)
    sent = say("push", "fresh")
    assert sent.code == 3, sent.out
    assert "Pushed to fresh, but not everything" in sent.out
    assert f"data/{os.path.relpath(lost, here + '/data')} here: snapshots need it, and it is gone" in sent.out
    again = say("push", "fresh", "--json")
    assert again.code == 3
    assert json.loads(again.out)["pushes"][0]["state"] == "incomplete"
    assert say("push", "disk").code == 0  # there it is already: nothing is missing in that copy
    fetched = say("pull", "fresh", "--into", tmp_path / "fetched")
    assert fetched.code == 3, fetched.out
    assert "snapshots need it, and it is gone" in fetched.out
    assert say("pull", "disk", "--mend").code == 0
    assert say("push", "fresh").code == 0
    assert say("vault", "check", "--read-data", "--destination", "fresh").code == 0


def test_prune_takes_what_interrupted_pushes_left_under_temporary_names(say, pushed):
    below = next(one for one in pushed.iterdir() if one.is_dir()) / "data"
    old, young = below / ".safekept-tmp-1-dead", below / ".safekept-tmp-2-alive"
    for path in (old, young):
        path.write_bytes(b"half a pack")
    os.utime(old, (time.time() - 3 * 86_400,) * 2)
    assert say("push", "disk").code == 0
    assert old.exists()  # nothing is deleted that nobody asked for
    done = say("push", "disk", "--prune", "--yes")
    assert done.code == 0
    assert "Deleted" in done.out
    assert "1 in `temporary`" in done.out
    assert not old.exists()
    assert young.exists()  # somebody may be writing it


def test_what_is_printed_about_a_copy_reads_that_copy(say, tmp_path, pushed):
    other = tmp_path / "nobody"
    for place, option in ((f"file:{pushed}", "--vault"), ("disk", "--destination")):
        for words in (
            ("snapshot", "restore", "latest"),
            ("sessions", "list"),
            ("drill", "latest"),
        ):
            said = say(*words, "--home", other, "--layout", "hermes", option, place)
            assert said.code == 1, said
            assert "but 1 of other homes" in said.err
            assert printed(said.err)[0] == f"snapshot list --all {option} {place}"
    listed = say(*printed(said.err)[0].split())
    assert listed.code == 0
    assert "manual" in listed.out
    empty = say("snapshot", "list", "--home", other, "--layout", "hermes", "--vault", f"file:{pushed}")
    assert "Take one" not in empty.out  # a copy takes none
    for command in printed(empty.out):
        assert say(*command.split()).code == 0


def test_drill_names_a_vault_as_every_other_reading_command_does(say, pushed):
    proven = say("drill", "--vault", f"file:{pushed}")
    assert proven.code == 0, proven
    assert "Proven restorable" in proven.out
    both = say("drill", "--vault", f"file:{pushed}", "--destination", "disk")
    assert both.code == 2


def test_which_of_several_vaults_is_said_in_words_that_fit_every_command(say, pushed):
    mine = next(one for one in pushed.iterdir() if one.is_dir())
    shutil.copytree(mine, pushed / "0000000000000000")
    key = os.path.join(os.environ["HOME"], ".local", "share", "safekept")
    shutil.rmtree(open_below(f"{key}/vault"))
    os.unlink(f"{key}/vaults.json")
    for words in (("pull", f"file:{pushed}"), ("drill", "--destination", f"file:{pushed}")):
        said = say(*words)
        assert said.code == 2
        assert "holds 2 vaults" in said.err
        assert f"by adding its directory: `file:{pushed}/0000000000000000`" in said.err
        assert "--vault" not in said.err


@pytest.mark.parametrize("words", [("pull",), ("push",), ("snapshot", "list", "--vault"), ("fleet",)])
def test_an_address_of_another_kind_is_refused_and_is_no_odd_path(say, pushed, words):
    said = say(*words, "http://place.example/x")
    assert said.code == 2, said
    assert "`http://place.example/x` is no place that safekept knows" in said.err
    assert "mounted" not in said.err


def test_a_sealed_file_that_is_drilled_without_its_key_prints_a_drill(say, tmp_path):
    assert say("backup", "keygen", "-o", tmp_path / "key").code == 0
    public = re.search(r"age1\w+", (tmp_path / "key").read_text())[0]
    assert say("backup", "--seal", public, "-o", tmp_path / "a.zip").code == 0
    sealed = tmp_path / "a.zip.age"
    refused = say("drill", sealed)
    assert refused.code == 12
    assert printed(refused.err) == [f"drill {sealed} --identity KEY"]
    data = bytearray(sealed.read_bytes())
    data[-40] ^= 1  # the last block: what lies in it cannot come back
    sealed.write_bytes(data)
    failed = say("drill", sealed, "--identity", tmp_path / "key", "--json")
    assert failed.code == 1
    assert json.loads(failed.out)["files"] == 0  # not as many as should have come back


def test_the_reason_that_lies_in_the_vault_is_said_once_for_all_places(say, settle, tmp_path):
    settle(one=tmp_path / "one", two=tmp_path / "two")
    assert say("snapshot").code == 0
    said = say("push")
    assert said.code == 1
    assert error_codes(said.err) == ["no-second-way"]
    document = say("push", "--json")
    assert json.loads(document.out)["error"]["code"] == "no-second-way"


def test_every_failed_place_is_named_before_its_error(say, settle, tmp_path, pushed):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory\n")
    settle(disk=pushed, bad=f"{blocked}/below")
    said = say("push")
    assert said.code == 1
    assert "Everything is in disk already" in said.out
    assert said.err.startswith(f"Not pushed to bad\n`{blocked}/below` cannot be")
    assert "every part of the path is a directory" in said.err
    assert "online" not in said.err  # a disk needs no network
    document = json.loads(say("push", "--json").out)
    assert [one["destination"] for one in document["failed"]] == ["bad"]


def test_what_to_do_about_a_copy_is_done_to_the_copy(say, pushed):
    copy = next(one for one in pushed.iterdir() if one.is_dir())
    for name in (copy / "snapshots").iterdir():
        name.unlink()
    for name in (copy / "index").iterdir():
        name.unlink()
    loose = say("vault", "check", "--destination", "disk")
    assert loose.code == 0
    assert "`safekept push disk --prune` gives its room back" in loose.out
    assert "safekept vault prune" not in loose.out
    assert say("push", "disk").code == 0
    damaged = packs(copy)[0]
    os.chmod(damaged, 0o600)
    with open(damaged, "r+b") as file:
        file.seek(10)
        file.write(b"rotten")
    found = say("vault", "check", "--read-data", "--destination", "disk")
    assert found.code == 1
    assert "Delete the damaged files there, then send them again: `safekept push disk`" in found.out
    assert "vault repair" not in found.out
    os.unlink(damaged)
    assert say("push", "disk").code == 0
    assert say("vault", "check", "--read-data", "--destination", "disk").code == 0


def test_a_missing_bucket_is_not_promised_to_be_made(say, settle, monkeypatch):
    from safekept.core.objects.retry import PatientObjects

    def gone(self, name):
        raise PlaceMissing(
            "There is no bucket for `s3://nobody/x`", kept="Nothing was made", next_steps=("Make the bucket",)
        )

    monkeypatch.setattr(PatientObjects, "size", gone)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-must-never-be-seen")
    settle(bucket="s3://nobody/x")
    said = say("destinations", "test", "bucket")
    assert said.code == 1
    assert "bucket: cannot be used" in said.out
    assert "There is no bucket" in said.out
    assert "the first push makes it" not in said.out


def test_a_missing_ssh_configuration_is_said_at_once_and_commands_use_the_one_that_is_set():
    host = Host("nas.example", "backup", 2222, "/etc/my ssh/config")
    words = "Can't open user config file /etc/my ssh/config: No such file or directory"
    error = explain("sftp://nas.example/x", host, "it ended", words)
    assert isinstance(error, PlaceRefused)  # and so not tried again for a minute
    assert "`ssh_config`" in error.advice()[0]
    denied = explain("sftp://nas.example/x", host, "", "backup@nas.example: Permission denied (publickey).")
    assert "`ssh -F '/etc/my ssh/config' -p 2222 backup@nas.example -s sftp`" in denied.advice()[0]


def test_the_archive_just_made_is_never_the_one_that_goes(say, user, tmp_path):
    """Not when two are made in one second, and not after a clock was set back."""
    assert say("backup", "keygen", "-o", tmp_path / "key").code == 0
    public = re.search(r"age1\w+", (tmp_path / "key").read_text())[0]
    made = []
    for _ in range(3):
        done = say("backup", "--seal", public, "--keep", "1", "-o", f"{tmp_path}/archives/", "--json")
        assert done.code == 0, done
        made.append(json.loads(done.out)["path"])
        left = [name for name in os.listdir(tmp_path / "archives") if name.endswith(".age")]
        assert left == [os.path.basename(made[-1])]
        # As if the clock had been wrong then: from here on every archive seems older than this one.
        journal = f"{user}/.local/share/safekept/journal.jsonl"
        with open(journal) as file:
            text = file.read()
        with open(journal, "w") as file:
            file.write(re.sub(r'"created": "20\d\d', '"created": "2099', text))


def test_an_error_fits_a_terminal_of_eighty_columns_and_its_commands_stay_whole(monkeypatch):
    from safekept.cli import console
    from safekept.core.objects.errors import unreachable

    monkeypatch.setattr(console.sys, "stderr", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setenv("COLUMNS", "80")
    command = "`ssh -F /etc/ssh/other -p 2222 backup@nas.example.org -s sftp`"
    error = unreachable("sftp://backup@nas.example.org:2222/srv/backups", "the server closed the connection")
    error.next_steps = (f"See that this works without a question: {command}", "word " * 30)
    text = click.unstyle(console.error_text(error))
    assert command in text
    assert max(map(len, text.split("\n"))) <= 80
    assert "\0" not in text
