"""A copy counts as elsewhere only where it would survive the loss of this machine."""

from __future__ import annotations

import json
import os
import re
import time

import pytest

from safekept.actions.offsite import elsewhere, place
from safekept.actions.offsite.destination import DestinationSetting, parse_destination, table_of
from safekept.actions.offsite.elsewhere import not_elsewhere
from support.commands.in_process import spoken
from support.projects.checkpoints import put
from support.users.contexts import throwaway
from support.users.states import HOUR, aged, write
from support.vault.snapshots import take


@pytest.fixture
def say(state, monkeypatch):
    return spoken(monkeypatch, state.user)


def settings(state, *lines: str) -> None:
    path = os.path.join(state.user, ".config", "safekept", "config.toml")
    put(path, "\n".join(["[[destination]]", *lines, ""]))


def verdict(say) -> dict:
    found = json.loads(say("status", "--json").out)["verdict"]
    short = json.loads(say("status", "--short", "--json").out)
    assert short["level"] == found["level"], "one ladder"
    if found["level"] == "machine-lost":
        # A second may pass between the two.
        assert re.sub(r"\d+ s\b", "now", short["text"]) == re.sub(r"\d+ s\b", "now", found["text"])
    return found


def test_a_copy_on_the_same_disk_is_stored_and_not_counted(state, say, tmp_path):
    usb = str(tmp_path / "usb")
    assert say("destinations", "add", usb, "--same-disk").code == say("push", "usb").code == 0
    found = verdict(say)
    assert found["level"] == "this-machine"
    (reason,) = found["reasons"]
    assert reason["code"] == "no-copy-elsewhere"
    assert reason["text"] == "every copy is on this machine: none would survive its loss"
    assert any(line.startswith("usb is ") for line in reason["evidence"])
    assert not any("elsewhere" in step for step in reason["fix"]), "a directory is where it is"
    screen = " ".join(say("status").out.split())
    assert " Off-host none Copy here usb " in screen and f"; it {reason['evidence'][0][4:]}" in screen, screen
    again = say("destinations", "add", f"{usb}2", "--same-disk").out
    assert "does not count if the machine is lost" in " ".join(again.split())


def test_memory_is_no_other_disk_although_it_is_another_filesystem(state, say, small_filesystem):
    stick = small_filesystem(8192)
    refused = say("destinations", "add", f"{stick}/usb")
    told = " ".join((refused.out + refused.err).split())
    assert refused.code == 1 and "is in memory, and gone at the next start: no copy would last there" in told
    assert "Plug" not in told and "that disk" not in told, "there is none"
    assert say("destinations", "add", f"{stick}/usb", "--same-disk").code == say("push", "usb").code == 0
    assert verdict(say)["level"] == "this-machine"


@pytest.mark.parametrize("host", ["127.0.0.1:2222", "localhost", "NODE", "me@[::1]"])
def test_a_server_that_is_this_very_machine_is_not_another_one(state, say, host):
    url = f"sftp://{host.replace('NODE', os.uname().nodename)}/srv"
    settings(state, 'name = "nas"', f'url = "{url}"')
    push = {"destination": "nas", "place": url, "bytes": 1, "snapshots": 2}
    line = {
        "version": 1,
        "operation": "o",
        "verb": "push",
        "state": "done",
        "time": time.time(),
        "actor": "person",
    }
    with open(state.context.journal.path, "a", encoding="utf-8") as file:
        file.write(json.dumps({**line, "facts": push}) + "\n")
    found = verdict(say)
    assert found["level"] == "this-machine"
    assert found["reasons"][0]["evidence"][0] == "nas is this very machine"
    assert any("`elsewhere = true`" in step for step in found["reasons"][0]["fix"])
    settings(state, 'name = "nas"', f'url = "{url}"', "elsewhere = true")
    assert verdict(say)["level"] == "machine-lost", "who says so means the end of a tunnel"


def test_every_kind_of_place_on_this_machine_is_known_for_what_it_is(tmp_path):
    here = throwaway(tmp_path, environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    config = put(
        str(tmp_path / "rclone.conf"),
        "[disk]\ntype = local\n[short]\ntype = alias\nremote = /srv\n[web]\ntype = webdav\n"
        "url = http://localhost:8080/dav\n[drive]\ntype = drive\n",
    )
    options = {"rclone_config": config}
    for url, more in (
        ("s3://bucket/a", {}),
        ("s3://bucket/a", {"endpoint": "https://localhost:9000"}),
        ("rclone:disk:/srv", options),
        ("rclone:short:a", options),
        ("rclone:web:a", options),
    ):
        assert not_elsewhere(here, DestinationSetting("x", url, options=more)) == "is this very machine", url
    far = {"endpoint": "https://s3.example.org"}
    assert not_elsewhere(here, DestinationSetting("x", "s3://bucket/a", options=far)) == ""
    assert not_elsewhere(here, DestinationSetting("x", "rclone:drive:a", options=options)) == ""
    assert not_elsewhere(here, DestinationSetting("x", "sftp://nas.example.org/a")) == ""
    declared = parse_destination({"name": "x", "url": "sftp://localhost/a", "elsewhere": True})
    assert not_elsewhere(here, declared) == "" and parse_destination(table_of(declared)) == declared


def test_a_disk_that_is_away_counts_as_the_disk_that_it_was(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    away = DestinationSetting("usb", f"file:{tmp_path}/usb")
    assert not_elsewhere(here, away) == ""
    assert not_elsewhere(here, DestinationSetting("usb", away.url, same_disk=True)) != ""
    (tmp_path / "usb").mkdir()
    monkeypatch.setattr(elsewhere, "in_memory", lambda path: False)
    assert "same disk" in not_elsewhere(here, away)


def test_the_headline_has_the_age_of_what_is_in_the_copy(state, say, tmp_path, monkeypatch):
    monkeypatch.setattr(place, "on_a_disk_of_this_machine", lambda *_: "")
    monkeypatch.setattr(elsewhere, "on_a_disk_of_this_machine", lambda *_: "")
    assert say("destinations", "add", str(tmp_path / "usb")).code == say("push", "usb").code == 0
    aged(state, 3 * HOUR)
    write(state, "memories/MEMORY.md", "newer than the copy\n", append=True)
    take(state.context, state.home)
    found = verdict(say)
    assert found["text"] == "Protected if the machine is lost, rm -rf ~ too: the copy in usb is 3 h old"


def test_a_home_that_was_never_sent_is_not_protected_if_the_machine_is_lost(
    state, say, tmp_path, monkeypatch
):
    monkeypatch.setattr(place, "on_a_disk_of_this_machine", lambda *_: "")
    monkeypatch.setattr(elsewhere, "on_a_disk_of_this_machine", lambda *_: "")
    assert say("destinations", "add", str(tmp_path / "usb")).code == say("push", "usb").code == 0
    assert verdict(say)["level"] == "machine-lost"
    other = os.path.join(state.user, ".claude")
    os.makedirs(os.path.join(other, "projects"))
    put(os.path.join(other, "settings.json"), "{}")
    assert say("snapshot", "--home", other).code == 0
    reasons = {one["code"]: one for one in verdict(say)["reasons"]}
    assert reasons["never-pushed"]["text"] == f"nothing of {other} is in usb yet"
    assert reasons["never-pushed"]["level"] == "this-machine"
    assert say("push", "usb").code == 0
    assert "never-pushed" not in {one["code"] for one in verdict(say)["reasons"]}


def test_a_stick_that_is_pulled_out_keeps_its_verdict_until_it_is_overdue(state, say, tmp_path, monkeypatch):
    usb, mounted = tmp_path / "usb", [True]
    for module in (place, elsewhere):
        monkeypatch.setattr(
            module, "on_a_disk_of_this_machine", lambda *_: "" if mounted[0] else "is on the same disk"
        )
    assert say("destinations", "add", str(usb)).code == say("push", "usb").code == 0
    assert verdict(say)["level"] == "machine-lost"
    usb.rename(tmp_path / "pulled")
    usb.mkdir()  # the bare mount point, on the disk of the system
    mounted[0] = False
    found = verdict(say)
    assert found["level"] == "machine-lost" and "the copy in usb" in found["text"]
    assert "no-copy-elsewhere" not in {one["code"] for one in found["reasons"]}
    aged(state, 8 * 24 * HOUR)
    found = verdict(say)
    assert "push-stale" in {one["code"] for one in found["reasons"]}


def test_a_copy_on_the_same_disk_does_not_count_because_its_directory_is_gone(state, say, tmp_path):
    usb = tmp_path / "usb"
    assert say("destinations", "add", str(usb), "--same-disk").code == say("push", "usb").code == 0
    (usb / place.MARKER).unlink()
    assert verdict(say)["level"] == "this-machine"
    usb.rename(tmp_path / "pulled")
    assert verdict(say)["level"] == "this-machine"
