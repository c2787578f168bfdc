"""The kit names what is true now: a kit that was overtaken is written again, or is not counted on."""

from __future__ import annotations

import errno
import glob
import json
import os
import shutil

import pytest

from safekept.actions.vault.opening import open_vault
from support.commands.in_process import spoken
from support.projects.checkpoints import put


@pytest.fixture(autouse=True)
def another_disk(monkeypatch):
    for room in ("place", "elsewhere"):
        monkeypatch.setattr(f"safekept.actions.offsite.{room}.on_a_disk_of_this_machine", lambda *_: "")


@pytest.fixture
def say(state, monkeypatch):
    return spoken(monkeypatch, state.user)


def kit(state) -> str:
    (path,) = glob.glob(os.path.join(state.user, "safekept-kit-*.txt"))
    return path


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def outdated(say) -> list[dict]:
    found = json.loads(say("doctor", "--json").out)["findings"]
    return [one for one in found if one["code"] == "kit-outdated"]


def level(say) -> str:
    return json.loads(say("status", "--json").out)["verdict"]["level"]


def test_a_new_destination_stands_on_the_kit_that_lies_where_it_was_written(state, say, tmp_path):
    assert say("vault", "kit").code == 0
    usb = str(tmp_path / "usb")
    said = say("destinations", "add", usb)
    assert said.code == 0
    assert "Kit " in said.out and "written again" in said.out and os.path.basename(kit(state)) in said.out
    for path in (kit(state), kit(state).replace(".txt", ".html")):
        assert f"{usb}/" in read(path)
        assert os.stat(path).st_mode & 0o777 == 0o600
    assert say("push", "usb").code == 0
    assert say("destinations", "remove", "usb").code == 0
    assert usb not in read(kit(state))


@pytest.mark.parametrize("ending", [".html", "kits.json"])
def test_a_kit_that_is_not_whole_leaves_no_file_with_the_key(state, say, monkeypatch, ending):
    """A full disk took the page and not the one to print: the first lay there with the key, unknown."""
    from safekept.core.files import durable_write

    def full(path, data, *more):
        if path.endswith(ending):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        durable_write(path, data, *more)

    def no_room(path, document):
        full(path, b"")

    with monkeypatch.context() as disk:
        disk.setattr("safekept.actions.vault.keys.kit_files.durable_write", full)
        disk.setattr("safekept.actions.vault.keys.kit_record.write_document", no_room)
        said = say("vault", "kit")
    assert said.code != 0 and ".html` cannot be written: No space left on device" in said.err
    assert glob.glob(os.path.join(state.user, "safekept-kit-*")) == []
    assert say("vault", "kit").code == 0
    before = read(kit(state))
    with monkeypatch.context() as disk:
        disk.setattr("safekept.actions.vault.keys.kit_files.durable_write", full)
        disk.setattr("safekept.actions.vault.keys.kit_record.write_document", no_room)
        assert say("vault", "kit").code != 0
    assert len(read(kit(state))) == len(before), "the one of before is never taken away"


def test_a_dry_run_writes_no_kit(state, say, tmp_path):
    assert say("vault", "kit").code == 0
    before = read(kit(state))
    assert say("destinations", "add", str(tmp_path / "usb"), "--dry-run").code == 0
    assert read(kit(state)) == before


def test_a_kit_that_was_moved_away_is_known_to_be_overtaken_until_it_is_written_again(state, say, tmp_path):
    assert say("vault", "kit").code == 0
    for path in glob.glob(f"{state.user}/safekept-kit-*"):
        shutil.move(path, tmp_path)
    said = say("destinations", "add", str(tmp_path / "usb"))
    assert "Your kit does not name usb" in said.out and "`safekept vault kit`" in said.out
    assert say("push", "usb").code == 0
    assert level(say) == "this-machine"
    (one,) = outdated(say)
    assert one["text"] == "your kit does not name usb"
    assert one["fix"] == ["Write it again: `safekept vault kit`"]
    refused = say("vault", "kit", "--stored")
    assert refused.code == 1
    assert "kit-outdated" in refused.err and "does not name usb" in refused.err
    assert "`safekept vault kit`" in refused.err
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    assert outdated(say) == []


def test_a_stored_kit_is_overtaken_although_the_one_here_was_written_again(state, say, tmp_path):
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    assert outdated(say) == []
    said = say("destinations", "add", str(tmp_path / "usb"))
    assert "written again" in said.out and "`safekept vault kit --stored`" in said.out
    (one,) = outdated(say)
    assert one["text"] == "the kit that you stored elsewhere does not name usb"
    (fix,) = one["fix"]
    assert kit(state) in fix and "`safekept vault kit --stored`" in fix
    assert say("vault", "kit", "--stored").code == 0
    assert outdated(say) == []


def test_status_says_whether_a_stored_kit_still_opens_the_vault(state, say):
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    opens = "also a kit that is stored elsewhere and still opens the vault "
    assert opens in " ".join(say("status").out.split())
    assert say("vault", "key", "renew", "--yes").code == 0
    shown = " ".join(say("status").out.split())
    assert "the kit that you stored elsewhere is of no use: its key opens the vault no more" in shown
    assert "a kit that is stored elsewhere, a kit written " in shown and "still opens" not in shown


def test_a_destination_that_was_written_into_the_settings_by_hand_counts(state, say, tmp_path):
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    table = f'[[destination]]\nname = "usb"\nurl = "{tmp_path}/usb"\n'
    put(os.path.join(state.user, ".config", "safekept", "config.toml"), table)
    (one,) = outdated(say)
    assert one["fix"] == ["Write it again: `safekept vault kit`"]
    said = say("push", "usb")
    assert said.code == 0 and "written again" in said.out
    assert f"{tmp_path}/usb/" in read(kit(state))


def test_a_place_that_was_removed_is_named_as_such(state, say, tmp_path):
    assert say("destinations", "add", str(tmp_path / "nas")).code == 0
    assert say("vault", "kit", "-o", str(tmp_path / "kit")).code == 0
    os.rename(tmp_path / "kit.txt", tmp_path / "moved.txt")
    assert say("destinations", "remove", "nas").code == 0
    (one,) = outdated(say)
    assert one["text"] == f"your kit names file:{tmp_path}/nas, which is no destination any more"


def test_a_stored_kit_that_also_names_a_removed_place_still_counts(state, say, tmp_path):
    for name in ("usb", "second"):
        assert say("destinations", "add", str(tmp_path / name)).code == say("push", name).code == 0
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    assert level(say) == "machine-lost"
    said = " ".join(say("destinations", "remove", "second").out.split())
    gone = f"file:{tmp_path}/second, which is no destination any more"
    told = f"he kit that you stored elsewhere also names {gone}"
    assert f"T{told}; it still opens the others" in said and "written again" in said
    assert level(say) == "machine-lost", "it names usb, and opens it"
    (one,) = outdated(say)
    assert one["level"] == "note" and one["text"] == f"t{told}"
    assert "instead of the old one" in one["fix"][0]
    assert say("destinations", "remove", "usb").code == 0
    (one,) = outdated(say)
    assert one["level"] == "this-machine"


def test_the_screen_says_why_the_stored_kit_is_not_counted_on(state, say, tmp_path):
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    assert say("destinations", "add", str(tmp_path / "usb")).code == say("push", "usb").code == 0
    shown = " ".join(say().out.split())
    assert "kit that you stored elsewhere does not name usb" in shown and "in its place" not in shown, shown


def test_a_kit_whose_key_was_taken_away_opens_nothing(state, say, tmp_path):
    secret = put(str(tmp_path / "secret"), "four words are enough\n", 0o600)
    assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
    assert say("vault", "key", "add", "--recovery", "--passphrase-file", secret).code == 0
    keys = json.loads(say("vault", "key", "list", "--json").out)["keys"]
    (key,) = [one["id"] for one in keys if one["kind"] == "generated key"]
    os.unlink(state.context.places.vault_key_file)
    os.environ["SAFEKEPT_VAULT_PASSPHRASE_COMMAND"] = f"cat {secret}"
    try:
        assert say("vault", "key", "remove", key, "--yes").code == 0
        (one,) = outdated(say)
        assert "its key opens the vault no more" in one["text"]
        assert say("vault", "kit").code == say("vault", "kit", "--stored").code == 0
        assert outdated(say) == []
    finally:
        del os.environ["SAFEKEPT_VAULT_PASSPHRASE_COMMAND"]


def test_a_kit_of_an_earlier_safekept_is_read_where_it_lies_and_else_doubted(state, say, tmp_path):
    assert say("vault", "kit").code == 0
    assert say("destinations", "add", str(tmp_path / "usb")).code == 0
    record = os.path.join(state.context.places.data_directory, "kits.json")
    with open(record, encoding="utf-8") as file:
        document = json.load(file)
    with open(record, "w", encoding="utf-8") as file:
        json.dump({"version": 1, "vaults": {id: {"acknowledged": 1.0} for id in document["vaults"]}}, file)
    assert outdated(say) == []
    for path in glob.glob(f"{state.user}/safekept-kit-*"):
        os.unlink(path)
    (one,) = outdated(say)
    assert one["text"] == "your kit is not where it was written: which places it names is not known"


def test_status_stops_asking_once_the_kit_is_stored_and_names_both_files(state, say, tmp_path):
    secret = put(str(tmp_path / "secret"), "four words are enough\n", 0o600)
    assert say("vault", "key", "add", "--recovery", "--passphrase-file", secret).code == 0
    os.unlink(os.path.join(state.context.places.data_directory, "kits.json"))
    assert say("vault", "kit").code == 0
    asked = " ".join(say("status").out.split())
    text = f"~/{os.path.basename(kit(state))}"
    assert f" ago ({text} and .html). Stored elsewhere? `safekept vault kit --stored`" in asked
    kept = glob.glob(f"{state.user}/safekept-kit-*")
    for path in kept:
        os.rename(path, path + ".aside")
    gone = " ".join(say("status").out.split())
    assert "is gone: `safekept vault kit`. Stored elsewhere? `safekept vault kit --stored`" in gone, gone
    assert "also a kit" not in gone, "what is gone opens nothing"
    for path in kept:
        os.rename(path + ".aside", path)
    assert say("vault", "kit", "--stored").code == 0
    told = " ".join(say("status").out.split())
    assert "Stored elsewhere?" not in told and "a kit that is stored elsewhere" in told


def test_a_kit_of_this_machine_is_replaced_also_after_one_was_written_elsewhere(state, say, tmp_path):
    assert say("vault", "kit").code == 0
    assert say("vault", "kit", "-o", str(tmp_path / "other")).code == 0
    assert say("vault", "kit").code == 0
    assert kit(state)  # one, and no second beside it


def test_a_kit_that_this_machine_did_not_write_is_kept_beside_the_new_one(state, say, tmp_path):
    assert say("vault", "kit", "-o", str(tmp_path / "other")).code == 0
    with open_vault(state.context) as repository:
        usual = os.path.join(state.user, f"safekept-kit-{repository.id[:8]}")
    for suffix in (".txt", ".html"):
        shutil.copy(tmp_path / f"other{suffix}", usual + suffix)
        before = read(usual + suffix)
        said = say("vault", "kit")
        assert said.code == 0, said.err
        assert read(usual + suffix) == before
        assert f"{usual}-2.txt" in said.out and "was not written by this machine" in said.out
        os.remove(usual + suffix)
