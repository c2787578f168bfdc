"""`rebuild KIT`: every place that it names is looked at, and the newest whole snapshot comes back."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import tomllib

import pytest

from safekept.actions.base.unfinished import Unfinished
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.destination_changes import note_change
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.opening import open_vault
from safekept.cli.console import Console
from safekept.vault.repo.keys import Secret, generate_secret
from support.commands.in_process import spoken
from support.users.contexts import throwaway
from support.users.states import DAY, aged, made, write
from support.vault.snapshots import take

PASSPHRASE = "four words are enough"


@pytest.fixture
def lost(tmp_path, monkeypatch):
    """A machine with two copies: the first on its kit got nothing for three days. Then it burnt."""
    state = made("fresh", tmp_path)
    names = ("nas", "usb")
    settings = [DestinationSetting(name, f"file:{tmp_path}/{name}", same_disk=True) for name in names]
    here = state.context.changed(destinations=tuple(settings))
    with open_vault(here) as repository:
        add_passphrase(here, repository, Secret(PASSPHRASE), recovery=True)
    aged(state, 3 * DAY)
    assert push(here, PushRequest("nas")).complete
    write(state, "memories/MEMORY.md", "the newest thing\n", append=True)
    take(here, state.home)
    assert push(here, PushRequest("usb")).complete
    with open_vault(here) as repository:
        text, html = write_kit(here, repository, str(tmp_path / "kit"))
    assert os.path.dirname(html) == str(tmp_path)
    shutil.rmtree(state.user)
    return text


@pytest.fixture
def say(lost, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    bare = tmp_path / "bare"
    bare.mkdir()
    return spoken(monkeypatch, str(bare))


def memory(tmp_path) -> str:
    return (tmp_path / "bare" / ".hermes" / "memories" / "MEMORY.md").read_text()


@pytest.mark.parametrize("typed", ["", "safekpt", "file:"])
def test_who_names_the_disk_is_told_the_directory_on_it_that_holds_the_vault(lost, say, tmp_path, typed):
    disk = tmp_path / "media"
    os.makedirs(disk / "photos")
    os.rename(tmp_path / "usb", disk / "safekept")
    word = f"file:{disk}" if typed == "file:" else str(disk / typed)
    home = str(tmp_path / "bare" / "agents" / "hermes")
    refused = say("rebuild", word, "--key-file", lost, "--home", home)
    assert refused.code == 10, refused
    (line,) = re.findall(r"`safekept ([^`]*)`", " ".join(refused.err.split()))
    assert line == f"rebuild {disk}/safekept --key-file {lost} --home {home}"
    if not typed:
        done = say(*line.split())
        assert done.code == 0, done.err
        with open(os.path.join(home, "memories", "MEMORY.md"), encoding="utf-8") as file:
            assert file.read().endswith("the newest thing\n")


def test_the_newest_of_all_places_comes_back_and_each_is_named_with_its_age(lost, say, tmp_path):
    done = say("rebuild", lost, "--home-only", "--yes")
    assert done.code == 0, done.err
    assert memory(tmp_path).endswith("the newest thing\n")
    assert f"From       file:{tmp_path}/usb" in done.out
    assert f"{tmp_path}/nas" in done.out and "newest whole snapshot 3 days old" in done.out
    assert "Beware" not in done.out


def test_a_place_that_is_away_is_named_and_what_is_old_is_called_old(lost, say, tmp_path):
    shutil.rmtree(tmp_path / "usb")
    (tmp_path / "usb").mkdir()
    shown = say("rebuild", lost, "--dry-run")
    assert shown.code == 0, shown.err
    told = " ".join(shown.out.split())
    assert "/usb/" in told and "nothing is mounted there" in told
    assert "what comes back is 3 days old; what was done after it is not in it" in told
    document = json.loads(say("rebuild", lost, "--dry-run", "--json").out)
    by_place = {one["place"].split("/")[-2]: one for one in document["places"]}
    assert by_place["nas"]["newest"] and by_place["usb"]["newest"] is None


def test_a_place_that_does_not_open_may_hold_something_newer_and_that_is_said(lost, say, tmp_path):
    (vault,) = [one for one in (tmp_path / "usb").iterdir() if one.is_dir()]
    (vault / "config").write_bytes(b"torn")
    shown = say("rebuild", lost, "--dry-run")
    assert shown.code == 0, shown.err
    assert "did not answer or did not open: it may hold something newer" in " ".join(shown.out.split())


def test_where_no_place_answers_the_exact_command_for_another_one_is_printed_and_works(lost, say, tmp_path):
    os.rename(tmp_path / "usb", tmp_path / "moved")
    shutil.rmtree(tmp_path / "nas")
    refused = say("rebuild", lost, "--home-only", "--yes")
    assert refused.code == 10
    told = " ".join(refused.err.split())
    assert "There is no vault at any of the places that the kit names:" in told
    assert f"`safekept rebuild PLACE --key-file {lost}`" in told
    assert "Your kit says" not in told
    done = say("rebuild", str(tmp_path / "moved"), "--key-file", lost, "--home-only", "--yes")
    assert done.code == 0, done.err
    assert memory(tmp_path).endswith("the newest thing\n")


def test_a_kit_without_a_key_asks_for_the_passphrase_once(lost, say, tmp_path):
    with open(lost, encoding="utf-8") as file:
        page = file.read()
    key = page.split("\nKey       ")[1].split("\n")[0]
    with open(lost, "w", encoding="utf-8") as file:
        file.write(page.replace(key, "not on this page: the passphrase that you chose"))
    secret = tmp_path / "secret"
    secret.write_text(PASSPHRASE + "\n")
    done = say("rebuild", lost, "--passphrase-file", str(secret), "--home-only", "--yes")
    assert done.code == 0, done.err
    assert memory(tmp_path).endswith("the newest thing\n")


@pytest.fixture
def settled_anew(lost, tmp_path, monkeypatch):
    """The new machine began a vault of its own, at the path where the old one had its vault."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    state = made("fresh", tmp_path)
    write(state, "memories/MEMORY.md", "of the new machine\n", append=True)
    take(state.context, state.home)
    return state


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_another_vault_at_a_place_of_the_kit_is_named_and_left_alone(lost, settled_anew, monkeypatch):
    say = spoken(monkeypatch, settled_anew.user)
    done = say("rebuild", lost, "--home-only", "--yes")
    assert done.code == 0, done.err
    with open(os.path.join(settled_anew.home, "memories", "MEMORY.md"), encoding="utf-8") as file:
        assert file.read().endswith("the newest thing\n")
    assert "another vault, left alone" in " ".join(done.out.split())
    assert "Beware" not in done.out


def test_where_only_another_vault_is_left_nothing_is_rebuilt(lost, settled_anew, tmp_path, monkeypatch):
    for name in ("nas", "usb"):
        shutil.rmtree(tmp_path / name)
    say = spoken(monkeypatch, settled_anew.user)
    refused = say("rebuild", lost, "--home-only", "--yes")
    assert refused.code == 10
    assert "another vault, left alone" in " ".join(refused.err.split())
    vault = settled_anew.context.places.vault
    refused = say("rebuild", vault, "--key-file", lost, "--home-only", "--yes")
    assert refused.code == 10
    assert "holds another vault than the one of the kit; it was left alone" in " ".join(refused.err.split())


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_of_several_vaults_in_a_place_the_key_decides(lost, settled_anew, tmp_path, monkeypatch):
    usb = DestinationSetting("usb", f"file:{tmp_path}/usb", same_disk=True)
    assert push(settled_anew.context.changed(destinations=(usb,)), PushRequest("usb")).complete
    secret, place = tmp_path / "secret", str(tmp_path / "usb")
    secret.write_text(PASSPHRASE + "\n")
    say = spoken(monkeypatch, settled_anew.user)
    for opening in (("--key-file", lost), ("--passphrase-file", str(secret))):
        done = say("rebuild", place, *opening, "--home-only", "--yes")
        assert done.code == 0, done.err
        with open(os.path.join(settled_anew.home, "memories", "MEMORY.md"), encoding="utf-8") as file:
            assert file.read().endswith("the newest thing\n")
    own = say("rebuild", place, "--dry-run", "--json")
    assert own.code == 0, own.err  # without a key that was named it is the one of this machine


@pytest.fixture
def two_vaults(lost, settled_anew, tmp_path, monkeypatch):
    """The new machine pushed its own vault to the place where a copy of the old one lies; that place."""
    usb = DestinationSetting("usb", f"file:{tmp_path}/usb", same_disk=True)
    assert push(settled_anew.context.changed(destinations=(usb,)), PushRequest("usb")).complete
    return str(tmp_path / "usb")


@pytest.fixture
def typing(monkeypatch):
    """A person at a terminal, who says yes and types these when asked for a key or passphrase."""
    left = []
    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr(Console, "ask", lambda *_, **__: True)
    monkeypatch.setattr("safekept.cli.questions.prompt", lambda *_, **__: left.pop(0))
    return left


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_of_several_vaults_the_typed_passphrase_decides_and_not_the_key_of_this_machine(
    two_vaults, settled_anew, monkeypatch, typing
):
    say = spoken(monkeypatch, settled_anew.user)
    typing += ["not this one", PASSPHRASE]
    done = say("rebuild", two_vaults, "--home-only")
    assert done.code == 0, done.err
    assert typing == [], "it was asked for, and once more after a slip"
    with open(os.path.join(settled_anew.home, "memories", "MEMORY.md"), encoding="utf-8") as file:
        assert file.read().endswith("the newest thing\n")
    told = " ".join(done.err.split())
    own = settled_anew.context.places.vault_key_file
    with open_vault(settled_anew.context) as repository:
        mine = os.path.join(two_vaults, repository.id[:16])
    assert f"Left alone: `{mine}`, which the key of this machine opens." in told
    assert f"To rebuild from it, add `--key-file {own}`" in told


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_the_key_of_this_machine_still_opens_its_own_where_it_is_named_or_nothing_else_lies_there(
    two_vaults, settled_anew, monkeypatch, typing
):
    say = spoken(monkeypatch, settled_anew.user)
    own = settled_anew.context.places.vault_key_file
    named = say("rebuild", two_vaults, "--key-file", own, "--home-only", "--dry-run")
    assert named.code == 0, named.err  # and nobody was asked: nothing was there to be typed
    with open_vault(settled_anew.context) as repository:
        mine = repository.id[:16]
    alone = say("rebuild", os.path.join(two_vaults, mine), "--home-only", "--dry-run")
    assert alone.code == 0, alone.err
    for shown in (named, alone):
        assert mine in shown.out


def test_a_passphrase_that_opens_nothing_is_an_error_although_this_machines_key_would(
    two_vaults, settled_anew, tmp_path, monkeypatch
):
    wrong = tmp_path / "wrong"
    wrong.write_text("not this one\n")
    say = spoken(monkeypatch, settled_anew.user)
    refused = say("rebuild", two_vaults, "--passphrase-file", str(wrong), "--home-only", "--yes")
    assert refused.code == 12, refused.out
    assert "no key that was given opens one of them" in " ".join(refused.err.split())
    with open(os.path.join(settled_anew.home, "memories", "MEMORY.md"), encoding="utf-8") as file:
        assert file.read().endswith("of the new machine\n")


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A machine whose destination was added after its last snapshot, which knows of none. Then it burnt."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    state = made("fresh", tmp_path)
    here = state.context.changed(
        destinations=(DestinationSetting("usb", f"file:{tmp_path}/usb", same_disk=True),)
    )
    assert push(here, PushRequest("usb")).complete
    with open_vault(here) as repository:
        text, _ = write_kit(here, repository, str(tmp_path / "kit"))
    os.rename(here.places.vault, tmp_path / "survived")
    shutil.rmtree(state.user)
    (tmp_path / "bare").mkdir()
    return text, here.places.vault


def test_the_place_that_all_came_from_is_a_destination_again(late, tmp_path, monkeypatch):
    say, (kit, _) = spoken(monkeypatch, str(tmp_path / "bare")), late
    shown = say("rebuild", kit, "--dry-run")
    assert shown.code == 0, shown.err
    assert "copies go to usb again" in " ".join(shown.out.split())
    done = say("rebuild", kit, "--yes", "--json")
    assert done.code in (0, 3), done.err
    assert "failed" not in {one["state"] for one in json.loads(done.out)["protection"]["steps"]}, done.out
    with open(tmp_path / "bare" / ".config" / "safekept" / "config.toml", "rb") as file:
        saved = tomllib.load(file)["destination"]
    assert [(one["name"], one["url"]) for one in saved] == [("usb", f"file:{tmp_path}/usb")]


@pytest.fixture
def three(tmp_path, monkeypatch):
    """The last snapshot knows of `disk`; `nas` and `far/nas` were added after it. Then it burnt. Its kit."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    state = made("fresh", tmp_path)
    names = {"disk": "disk", "nas": "nas", "away": "far/nas"}
    disk, *rest = [
        DestinationSetting(name, f"file:{tmp_path}/{path}", same_disk=True) for name, path in names.items()
    ]
    take(state.context.changed(destinations=(disk,)), state.home)
    here = state.context.changed(destinations=(disk, *rest))
    for name in names:
        assert push(here, PushRequest(name)).complete
    with open_vault(here) as repository:
        text, _ = write_kit(here, repository, str(tmp_path / "kit"))
    shutil.rmtree(state.user)
    (tmp_path / "bare").mkdir()
    return text


def destinations_now(tmp_path) -> list[tuple[str, str]]:
    with open(tmp_path / "bare" / ".config" / "safekept" / "config.toml", "rb") as file:
        return [(one["name"], one["url"]) for one in tomllib.load(file)["destination"]]


def test_every_place_on_the_kit_is_a_destination_again(three, tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path / "bare"))
    done = say("rebuild", three, "--yes")
    assert done.code in (0, 3), done.err
    told = " ".join(done.out.split())
    assert "copies go to disk, nas, nas-2 again" in told and "Not again" not in told
    assert "Copied to nas," in told and "Copied to nas-2," in told
    urls = [(name, f"file:{tmp_path}/{path}") for name, path in (("disk", "disk"), ("nas", "nas"))]
    assert destinations_now(tmp_path) == [*urls, ("nas-2", f"file:{tmp_path}/far/nas")]
    findings = json.loads(say("doctor", "--json").out)["findings"]
    assert [one for one in findings if one["code"] == "kit-outdated"] == []


def test_a_place_on_the_kit_that_is_away_is_named_with_the_command_and_that_works(
    three, tmp_path, monkeypatch
):
    say = spoken(monkeypatch, str(tmp_path / "bare"))
    os.rename(tmp_path / "far", tmp_path / "unplugged")
    shown = say("rebuild", three, "--dry-run")
    done = say("rebuild", three, "--yes")
    assert done.code in (0, 3), done.err
    url = f"file:{tmp_path}/far/nas"
    for told in (" ".join(shown.out.split()), " ".join(done.out.split()).split("Copied to")[0]):
        assert "copies go to disk, nas again" in told
        assert f"no copies go to {url}, which the kit names too." in told
        assert f"`safekept destinations add {url} --name nas-2`" in told  # another one is called `nas`
    assert " ".join(done.out.split()).count("Not again") == 2, "in the plan, and in what was done"
    assert [name for name, _ in destinations_now(tmp_path)] == ["disk", "nas"]
    os.rename(tmp_path / "unplugged", tmp_path / "far")
    for room in ("place", "elsewhere"):
        monkeypatch.setattr(f"safekept.actions.offsite.{room}.on_a_disk_of_this_machine", lambda *_: "")
    added = say("destinations", "add", url, "--name", "nas-2")
    assert added.code == 0, added.err
    assert ("nas-2", url) in destinations_now(tmp_path)


def test_the_vault_of_a_disk_that_survived_is_no_destination(late, tmp_path, monkeypatch):
    say, (kit, vault) = spoken(monkeypatch, str(tmp_path / "bare")), late
    os.makedirs(os.path.dirname(vault))
    os.rename(tmp_path / "survived", vault)
    shutil.rmtree(tmp_path / "usb")
    shown = say("rebuild", kit, "--dry-run")
    assert shown.code == 0, shown.err
    assert f"From {vault}" in " ".join(shown.out.split()) and "copies go to" not in shown.out


def test_the_kit_that_was_given_is_never_written_over_and_the_screen_says_which_to_keep(
    late, tmp_path, monkeypatch
):
    say, (kit, _) = spoken(monkeypatch, str(tmp_path / "bare")), late
    with open(kit, encoding="utf-8") as file:
        page = file.read()
    vault = page.split("\nVault id  ")[1][:8]
    given = tmp_path / "bare" / f"safekept-kit-{vault}.txt"
    given.write_text(page)
    done = say("rebuild", str(given), "--yes")
    assert done.code in (0, 3), done.err
    assert given.read_text() == page
    new = tmp_path / "bare" / f"safekept-kit-{vault}-2.txt"
    told = " ".join(done.out.split())
    assert f"copy ~/{new.name}, and keep it elsewhere" in told
    assert f"~/{given.name} was not written by this machine and stays as it is; keep the new one" in told
    first = new.read_text()
    again = say("vault", "kit")  # a kit of this machine is written again where it lies
    assert again.code == 0 and given.read_text() == page and str(new) in again.out
    assert not (tmp_path / "bare" / f"safekept-kit-{vault}-3.txt").exists()
    assert f"file:{tmp_path}/usb" in first and f"file:{tmp_path}/usb" in new.read_text()


@pytest.fixture
def worthless(tmp_path, monkeypatch):
    """A machine that is alive and has its own key; the key on its kit was taken out of the vault."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    state = made("fresh", tmp_path)
    usb = DestinationSetting("usb", f"file:{tmp_path}/usb", same_disk=True)
    here = state.context.changed(destinations=(usb,))
    with open_vault(here) as repository:
        text, _ = write_kit(here, repository, str(tmp_path / "kit"))
        fresh = generate_secret()
        repository.add_key(fresh)
        old = repository.key_id
    with open(here.places.vault_key_file, "w", encoding="ascii") as file:
        file.write(fresh.text + "\n")
    with open_vault(here) as repository:
        repository.remove_key(old)
    assert push(here, PushRequest("usb")).complete
    return state, text


def test_a_kit_whose_key_was_taken_out_opens_nothing_although_this_machine_has_a_key(
    worthless, tmp_path, monkeypatch
):
    state, kit = worthless
    say = spoken(monkeypatch, state.user)
    usb = f"file:{tmp_path}/usb"
    calls = [("rebuild", kit, "--dry-run"), ("rebuild", kit, "--home-only", "--yes")]
    for call in (*calls, ("rebuild", usb, "--key-file", kit, "--dry-run")):
        refused = say(*call)
        assert refused.code == 12, refused.out
        told = " ".join(refused.err.split())
        assert f"The key on the kit does not open the vault at `{usb}/" in told
        assert "it was taken out of it" in told and "What opens it: the generated key" in told
        assert "If you have a kit that was written later: `safekept rebuild KIT`" in told
        assert "Name your kit" not in told and "it will ask" not in told and "passphrase" not in told


def with_recovery(state, tmp_path) -> None:
    here = state.context.changed(
        destinations=(DestinationSetting("usb", f"file:{tmp_path}/usb", same_disk=True),)
    )
    with open_vault(here) as repository:
        add_passphrase(here, repository, Secret(PASSPHRASE), recovery=True)
    assert push(here, PushRequest("usb")).complete


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_where_the_key_on_the_kit_was_taken_out_the_recovery_passphrase_is_asked_for(
    worthless, tmp_path, monkeypatch, typing
):
    state, kit = worthless
    with_recovery(state, tmp_path)
    say = spoken(monkeypatch, state.user)
    for call in (("rebuild", kit), ("rebuild", f"file:{tmp_path}/usb", "--key-file", kit)):
        typing += ["not this one", PASSPHRASE]
        done = say(*call, "--home-only", "--dry-run")
        assert done.code == 0, done.err
        assert typing == [], "it was asked for, and once more after a slip"
        told = " ".join(done.err.split())
        assert (
            "The key on the kit does not open the vault" in told and "Type your recovery passphrase" in told
        )
        assert "--key-file KIT" not in told
    typing += ["no"] * 9
    refused = say("rebuild", kit, "--home-only", "--dry-run")
    told = " ".join(refused.err.split())
    assert refused.code == 12 and "`--passphrase-file PATH`" in told and "it will ask" not in told


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_passphrase_that_is_given_beside_a_kit_without_worth_opens_the_vault(
    worthless, tmp_path, monkeypatch
):
    state, kit = worthless
    with_recovery(state, tmp_path)
    say, secret = spoken(monkeypatch, state.user), tmp_path / "secret"
    secret.write_text(PASSPHRASE + "\n")
    refused = say("rebuild", kit, "--dry-run")
    told = " ".join(refused.err.split())
    assert refused.code == 12 and "`--passphrase-file PATH`, or run the command at a terminal" in told
    done = say("rebuild", kit, "--passphrase-file", str(secret), "--home-only", "--dry-run")
    assert done.code == 0, done.err
    own = state.context.places.vault_key_file
    done = say("rebuild", kit, "--key-file", own, "--home-only", "--dry-run")
    assert done.code == 0, done.err


@pytest.fixture
def taken_out(tmp_path, monkeypatch):
    """Two destinations on the kit; one is taken out, and a later snapshot goes to the other. It burnt."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    state = made("fresh", tmp_path)
    names = ("nas", "usb")
    both = [DestinationSetting(name, f"file:{tmp_path}/{name}", same_disk=True) for name in names]
    here = state.context.changed(destinations=tuple(both))
    take(here, state.home)
    assert push(here, PushRequest("nas")).complete and push(here, PushRequest("usb")).complete
    with open_vault(here) as repository:
        text, _ = write_kit(here, repository, str(tmp_path / "kit"))
    here = here.changed(destinations=(both[0],))
    take(here, state.home, now_ns=time.time_ns() + 90 * 10**9)  # the kit says when to the minute
    assert push(here, PushRequest("nas")).complete
    shutil.rmtree(state.user)
    (tmp_path / "bare").mkdir()
    return text


def test_a_destination_that_was_taken_out_after_the_kit_stays_out_and_is_named(
    taken_out, tmp_path, monkeypatch
):
    say = spoken(monkeypatch, str(tmp_path / "bare"))
    shown = say("rebuild", taken_out, "--dry-run")
    assert shown.code == 0, shown.err
    told, url = " ".join(shown.out.split()), f"file:{tmp_path}/usb"
    assert "copies go to nas again" in told and "By the kit" not in told
    assert f"Not again {url} was taken out of the destinations after the kit was written." in told
    assert f"`safekept destinations add {url}`" in told
    document = json.loads(say("rebuild", taken_out, "--dry-run", "--json").out)
    removed = {one["place"].split("/")[-2]: one["removed"] for one in document["places"]}
    assert removed["usb"] is True and removed["nas"] is False
    assert say("rebuild", taken_out, "--yes").code in (0, 3)
    assert [name for name, _ in destinations_now(tmp_path)] == ["nas"]


def test_one_that_this_machine_took_out_stays_out_although_no_snapshot_knows_it(three, tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path / "bare"))
    data = str(tmp_path / "bare" / ".local" / "share" / "safekept")
    bare = throwaway(tmp_path).changed(data_directory=data)
    note_change(bare, DestinationSetting("nas", f"file:{tmp_path}/nas"), removed=True)
    told = " ".join(say("rebuild", three, "--dry-run").out.split())
    assert f"file:{tmp_path}/nas was taken out of the destinations" in told
    assert f"file:{tmp_path}/far/nas was taken out" not in told


def test_where_nobody_can_know_it_the_plan_says_that_only_the_kit_names_the_place(
    late, tmp_path, monkeypatch
):
    say, (kit, _) = spoken(monkeypatch, str(tmp_path / "bare")), late
    with open(kit, encoding="utf-8") as file:
        (written,) = re.findall(r"^Written +(.*)$", file.read(), re.MULTILINE)
    told = " ".join(say("rebuild", kit, "--dry-run").out.split())
    assert f"Kit of {written}; it names these places Looked at file:{tmp_path}/usb" in told
    assert "By the kit usb, which no snapshot knows." in told
    assert "`safekept destinations remove usb`" in told


def test_a_rebuild_that_goes_on_says_why_it_asks_for_the_passphrase_again(lost, say, tmp_path, typing):
    bare = throwaway(tmp_path).changed(
        data_directory=str(tmp_path / "bare" / ".local" / "share" / "safekept")
    )
    place = str(tmp_path / "usb")
    typing.append(PASSPHRASE)
    first = say("rebuild", place, "--dry-run")
    assert first.code == 0 and "type your recovery passphrase" in first.err and "goes on" not in first.err
    work = Unfinished("rebuild", (place,), place=place, homes={str(tmp_path / "bare" / ".hermes"): "0" * 64})
    work.write(bare)
    typing.append(PASSPHRASE)
    told = " ".join(say("rebuild", place, "--dry-run").err.split())
    assert "The rebuild goes on where it was cut off." in told
    assert "No passphrase is stored, so it is asked for again." in told
    saved = [os.path.join(root, name) for root, _, names in os.walk(tmp_path / "bare") for name in names]
    for path in saved:
        with open(path, "rb") as file:
            assert PASSPHRASE.encode() not in file.read(), path


def test_after_a_rebuild_from_a_destination_nobody_says_that_nothing_is_in_it(lost, say, tmp_path):
    done = say("rebuild", f"file:{tmp_path}/usb", "--key-file", lost, "--home-only", "--yes")
    assert done.code == 0, done.err
    settings = tmp_path / "bare" / ".config" / "safekept"
    settings.mkdir(parents=True, exist_ok=True)
    tables = [
        f'[[destination]]\nname = "{name}"\nurl = "file:{tmp_path}/{name}"\nsame_disk = true\n'
        for name in ("usb", "empty")
    ]
    (settings / "config.toml").write_text("".join(tables))
    status = json.loads(say("status", "--json").out)
    told = json.dumps(status["verdict"]["reasons"])
    assert "nothing is in empty yet" in told and "nothing is in usb yet" not in told
    by_name = {one["name"]: one["last_push"] for one in status["destinations"]}
    assert by_name["usb"] and by_name["empty"] is None
