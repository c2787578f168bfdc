"""The kit in escrow: one private key opens every vault of a fleet, and it follows what changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time

import pytest
from pyrage import decrypt, encrypt, x25519

from safekept.actions.offsite.destination import VAULT
from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.status.findings.stores import of_vault
from safekept.actions.status.recent import recent
from safekept.actions.status.vault_status import vault_view
from safekept.actions.vault.keys.escrow import DIRECTORY, escrow_trouble
from safekept.actions.vault.keys.keys import NoRecoveryAccess, recovery_access
from safekept.actions.vault.keys.renewal import renew_key
from safekept.actions.vault.opening import open_vault
from support.commands.in_process import spoken
from support.offsite.pushes import machine, pointed, with_disk
from support.restoring.rebuilds import equal, lose_a_machine
from support.users.contexts import throwaway


class Administrator:
    """Somebody with one private key, who looks after machines."""

    def __init__(self, directory):
        self.identity = x25519.Identity.generate()
        self.file = str(directory / "identity")
        with open(self.file, "w") as file:
            file.write(f"{self.identity}\n")
        self.key = str(self.identity.to_public())
        self.context = throwaway(directory / "desk", identities=(self.file,))

    def fleet(self, place, **changes):
        context = self.context.changed(**changes)
        return look_at_fleet(context, FleetRequest(str(place)))


@pytest.fixture
def admin(tmp_path):
    return Administrator(tmp_path)


@pytest.fixture
def disk(tmp_path):
    return str(tmp_path / "disk")


def cared_for(admin, directory, disk, **changes):
    """A machine that nobody ever sat at: no passphrase, no kit on paper; only the setting."""
    here = with_disk(machine(directory, escrow=(admin.key,), **changes), disk)
    os.unlink(os.path.join(here.places.data_directory, "kits.json"))
    return here


def in_escrow(disk):
    found = {}
    for vault in sorted(os.listdir(disk)):
        place = os.path.join(disk, vault, DIRECTORY)
        for name in os.listdir(place) if os.path.isdir(place) else ():
            with open(os.path.join(place, name), "rb") as file:
                found[name] = file.read()
    return found


def trouble(here):
    with open_vault(here) as repository:
        return escrow_trouble(here, repository.id, [repository.key_id])


def test_one_private_key_opens_every_vault_of_a_fleet(admin, disk, tmp_path):
    for name in ("ada", "brahe", "curie"):
        assert push(cared_for(admin, tmp_path / name, disk), PushRequest("disk")).complete
    assert [vault.state for vault in admin.fleet(disk).vaults] == ["open"] * 3
    assert [vault.state for vault in admin.fleet(disk, identities=()).vaults] == ["locked"] * 3
    stranger = str(tmp_path / "stranger")
    with open(stranger, "w") as file:
        file.write(f"{x25519.Identity.generate()}\n")
    assert [vault.state for vault in admin.fleet(disk, identities=(stranger,)).vaults] == ["locked"] * 3


def test_what_lies_there_is_the_kit_and_others_tools_open_it(admin, disk, tmp_path):
    here = cared_for(admin, tmp_path / "ada", disk)
    push(here, PushRequest("disk"))
    ((name, sealed),) = in_escrow(disk).items()
    assert name == hashlib.sha256(sealed).hexdigest()
    with open(here.places.vault_key_file) as file:
        key = file.read().strip()
    text = decrypt(sealed, [admin.identity]).decode()
    assert key in text and "safekept kit: how to open the vault of" in text and f"file:{disk}" in text
    assert key.encode() not in sealed
    with (
        open(os.path.join(here.places.data_directory, "escrow.json")) as file,
        open(here.journal.path) as log,
    ):
        assert key not in file.read() + log.read()


def test_escrow_is_a_second_way_in_once_it_has_arrived(admin, disk, tmp_path):
    here = cared_for(admin, tmp_path / "ada", disk)
    with open_vault(here) as repository:
        assert recovery_access(here, repository) == ""
        assert trouble(here) == "no kit lies in escrow yet at disk"
    with pytest.raises(NoRecoveryAccess):
        push(here.changed(escrow=()), PushRequest("disk"))
    with pytest.raises(NoRecoveryAccess):
        push(here.changed(escrow=("age1nonsense",)), PushRequest("disk"))
    assert push(here, PushRequest("disk")).complete
    with open_vault(here) as repository:
        assert recovery_access(here, repository) == "escrow"
    assert trouble(here) == ""
    before = in_escrow(disk)
    assert push(here, PushRequest("disk")).complete
    assert in_escrow(disk) == before, "nothing changed, so nothing is sealed again"


def test_a_renewed_key_is_said_to_be_missing_there_and_follows_with_the_next_push(admin, disk, tmp_path):
    here = cared_for(admin, tmp_path / "ada", disk)
    push(here, PushRequest("disk"))
    (old,) = in_escrow(disk)
    with open_vault(here) as repository:
        renew_key(here, repository)
    with vault_view(here, recent(here), time.time()) as view:
        assert view.status.escrow == "the kit in escrow is of no use: its key opens the vault no more"
        found = {one.code: one for one in of_vault(view.status, ())}
        assert found["escrow-stale"].fix[0].words == ("push",)
        assert "key-only-here" in found, "the copies could be opened by nobody"
    assert push(here, PushRequest("disk")).complete
    (new,) = in_escrow(disk)
    assert new != old and trouble(here) == ""
    assert [vault.state for vault in admin.fleet(disk).vaults] == ["open"]


def test_other_recipients_are_told_and_then_can_open_it(admin, disk, tmp_path):
    here = cared_for(admin, tmp_path / "ada", disk)
    push(here, PushRequest("disk"))
    second = x25519.Identity.generate()
    both = here.changed(escrow=(admin.key, str(second.to_public())))
    assert trouble(both) == "the kit in escrow is sealed to other keys than the setting `escrow` names"
    assert push(both, PushRequest("disk")).complete
    (sealed,) = in_escrow(disk).values()
    assert decrypt(sealed, [second]) == decrypt(sealed, [admin.identity])


def test_a_recipient_that_is_none_stops_no_copy_and_is_said(admin, disk, tmp_path):
    here = with_disk(machine(tmp_path / "ada", escrow=("gpg:ada@example.org",)), disk)
    done = push(here, PushRequest("disk"))
    assert done.state == "incomplete" and done.mirrored is not None and done.mirrored.snapshots == 2
    why = "this is sealed to age and SSH keys only, and something else is named"
    assert done.notes == [f"no escrow was made: {why}"]
    assert trouble(here) == f"no kit can be put in escrow: {why}"


def test_where_nothing_can_be_deleted_the_newest_that_fits_opens_it(admin, adding_server, tmp_path):
    place = adding_server.place()
    here = pointed(machine(tmp_path / "ada", escrow=(admin.key,)), place, takes=(VAULT,))
    assert push(here, PushRequest("far")).complete
    with open_vault(here) as repository:
        renew_key(here, repository)
        directory = repository.id[:16]
    assert push(here, PushRequest("far")).complete
    assert len(os.listdir(os.path.join(place.directory, f"{directory}-escrow", "snapshots"))) == 2
    (vault,) = admin.fleet(place.url, environment=place.environment).vaults
    assert vault.state == "open"


def test_what_somebody_put_beside_a_vault_opens_nothing_and_hides_nothing(admin, disk, tmp_path):
    here = cared_for(admin, tmp_path / "ada", disk)
    push(here, PushRequest("disk"))
    (vault,) = [name for name in os.listdir(disk) if len(name) == 16]
    place = os.path.join(disk, vault, DIRECTORY)
    other = cared_for(admin, tmp_path / "eve", str(tmp_path / "eves"))
    push(other, PushRequest("disk"))
    planted = [
        *in_escrow(str(tmp_path / "eves")).values(),
        b"age-encryption.org/v1\nrubbish",
        b"",
        b"x" * (2 << 20),
    ]
    planted.append(encrypt(b"safekept kit\nKey  nothing of the kind\n", [admin.identity.to_public()]))
    for data in planted:
        with open(os.path.join(place, hashlib.sha256(data).hexdigest()), "wb") as file:
            file.write(data)
    with open(os.path.join(place, "ab" * 32), "wb") as file:
        file.write(planted[0])
    assert [one.state for one in admin.fleet(disk).vaults] == ["open"]


def test_a_bare_machine_is_rebuilt_with_the_administrators_key(admin, disk, tmp_path, monkeypatch):
    gone = lose_a_machine(str(tmp_path / "gone"), small=True, escrow=(admin.key,))
    here = with_disk(gone.here, disk)
    assert push(here, PushRequest("disk")).complete
    shutil.rmtree(os.path.dirname(here.places.vault_key_file))
    bare = tmp_path / "bare"
    bare.mkdir()
    say = spoken(monkeypatch, str(bare))
    refused = say("rebuild", f"file:{disk}")
    assert refused.code == 12, refused.out
    done = say("rebuild", f"file:{disk}", "--identity", admin.file, "--json")
    assert done.code == 0, done.err + done.out
    assert json.loads(done.out)["home"] == str(bare / ".hermes")
    equal(gone.home, str(bare / ".hermes"))


def test_of_several_machines_the_one_that_is_meant_has_to_be_named(admin, disk, tmp_path, monkeypatch):
    for name in ("ada", "brahe"):
        push(cared_for(admin, tmp_path / name, disk), PushRequest("disk"))
    bare = tmp_path / "bare"
    bare.mkdir()
    say = spoken(monkeypatch, str(bare))
    refused = say("rebuild", f"file:{disk}", "--identity", admin.file)
    assert refused.code == 2
    assert "Kits of 2 vaults lie in escrow" in refused.err and f"--host {os.uname().nodename}" in refused.err
