"""A key of the machine that this one was rebuilt from: the list of keys says once how it is taken away."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from safekept.actions.vault.keys.keys import GENERATED, RECOVERY_PASSPHRASE, ListedKey, keys_of_old_machines
from safekept.actions.vault.keys.kit_record import KitRecord
from support.users.first_hour import Newcomer

REVOKE = re.compile(r"`safekept vault key remove ([0-9a-f]{8})`")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A machine that was set up, and is gone; its kit lies elsewhere."""
    machine = Newcomer(tmp_path_factory.mktemp("old"), profiles=())
    usb = os.path.join(machine.place, "usb")
    words = ("setup", "--yes", "--passphrase-file", machine.secret, "--destination", usb, "--elsewhere")
    done = machine.run(*words, "--no-connect", "--at", "no", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    [key] = [one for one in keys_of(machine) if one["kind"] == "generated key"]
    assert not REVOKE.search(machine.run("status").stdout + machine.run("vault", "key", "list").stdout)
    kit = next(one["text"] for one in json.loads(done.stdout)["steps"] if one["step"] == "kit")
    os.rename(kit, os.path.join(machine.place, "kit.txt"))
    os.rename(machine.user, machine.user + "-gone")
    shutil.copytree(usb, usb + "-as-it-was")
    return machine, key["id"][:8]


def rebuilt(machine, name, *words):
    usb = os.path.join(machine.place, "usb")
    shutil.rmtree(usb)
    shutil.copytree(usb + "-as-it-was", usb)
    new = machine.moved(name)
    done = new.run("rebuild", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return new


def keys_of(machine):
    return json.loads(machine.run("vault", "key", "list", "--json").stdout)["keys"]


def test_the_printed_command_revokes_it_and_then_nothing_is_said(old):
    machine, key = old
    new = rebuilt(machine, "eve", os.path.join(machine.place, "usb"), "--passphrase-file", machine.secret)
    before = new.run("status").stdout + new.run("vault", "key", "list").stdout
    assert not REVOKE.search(before), "a kit of the old machine may be all that the person has"
    assert new.run("vault", "kit", "--stored").returncode == 0  # with this machine's key
    status, listed = new.run("status"), new.run("vault", "key", "list").stdout
    assert REVOKE.findall(status.stdout) == [key] and REVOKE.findall(listed) == [key], status.stdout + listed
    told = " ".join(status.stdout.split())
    assert "An older kit opens nothing then: throw it away" in told
    assert "1 key of a machine before this one" in told and "generated key" not in told, status.stdout
    document = json.loads(new.run("status", "--json").stdout)
    assert [one["id"][:8] for one in document["vault"]["old_keys"]] == [key]
    assert key not in new.run("doctor").stdout, "that is no alarm"
    assert key not in new.run("status", "--check").stdout

    assert new.run("vault", "key", "remove", key, "--yes").returncode == 0
    assert key not in [one["id"][:8] for one in keys_of(new)]
    after = new.run("status").stdout + new.run("vault", "key", "list").stdout
    assert not REVOKE.search(after), after


def test_a_key_that_the_stored_kit_needs_is_not_to_be_revoked(old):
    machine, key = old
    new = rebuilt(machine, "kim", os.path.join(machine.place, "kit.txt"))
    before = new.run("status").stdout + new.run("vault", "key", "list").stdout
    assert not REVOKE.search(before), "the kit that was used holds that key"
    assert new.run("vault", "kit", "--stored").returncode == 0  # the new one, with this machine's key
    assert REVOKE.findall(new.run("status").stdout) == [key]


def listed(name, created, *, current=False, kind=GENERATED):
    return ListedKey(name * 64, kind, f"2026-11-{created:02}T12:00:00Z", "ada@box", current)


NOON = 1_793_534_400.0  # of 2026-11-01
DAY = 86_400.0


@pytest.mark.parametrize(
    ("keys", "since", "kit", "old"),
    [
        ([listed("a", 1), listed("b", 2), listed("c", 9, current=True)], 8, "c", "ab"),
        ([listed("a", 1), listed("b", 2), listed("c", 9, current=True)], 8, None, ""),  # a kit on paper?
        (
            [listed("a", 1), listed("b", 2), listed("c", 9, current=True)],
            8,
            "a",
            "",
        ),  # the one that is stored
        ([listed("a", 1), listed("c", 9, current=True)], 8, "", ""),  # a kit, and nobody knows its key
        ([listed("a", 1), listed("c", 9, current=True)], None, "c", ""),  # never rebuilt
        ([listed("a", 1), listed("c", 5, current=True)], 8, "c", ""),  # it had a vault of its own then
        ([listed("a", 1), listed("b", 12), listed("c", 9, current=True)], 8, "c", "a"),  # a host that joined
        ([listed("a", 1, kind=RECOVERY_PASSPHRASE), listed("c", 9, current=True)], 8, "c", ""),
        ([listed("a", 1), listed("c", 9, current=True, kind=RECOVERY_PASSPHRASE)], 8, "c", ""),
        ([ListedKey("a" * 64, GENERATED, "torn", "", False), listed("c", 9, current=True)], 8, "c", ""),
    ],
)
def test_only_generated_keys_from_before_the_rebuild_count(keys, since, kit, old):
    rebuilt = NOON + (since - 1) * DAY if since else 0.0
    stored = None if kit is None else KitRecord(places=(), key=kit * 64)
    assert "".join(one.id[0] for one in keys_of_old_machines(keys, rebuilt, stored)) == old
