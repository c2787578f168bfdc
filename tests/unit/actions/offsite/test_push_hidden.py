"""What git hides leaves this host only where a destination asks for it, and comes back from there."""

from __future__ import annotations

import os
import shutil

import pytest

from safekept.actions.offsite.destination import DestinationSetting, parse_destination, table_of
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.projects import care
from safekept.actions.projects.hidden.repository import open_hidden
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.opening import open_vault
from safekept.core.objects.errors import PlaceRefused
from safekept.vault.care import check
from safekept.vault.repo.keys import Secret
from safekept.vault.snapshots import list_snapshots
from support.commands.in_process import spoken
from support.offsite.pushes import pointed
from support.projects.hidden_halves import PASSWORD, HiddenWorld

TAKES = ("vault", "archives", "hidden")


class Machine(HiddenWorld):
    """A project with secrets, a way into the vault from elsewhere, and a disk."""

    def __init__(self, directory: object, takes: tuple[str, ...] = TAKES) -> None:
        super().__init__(directory)
        self.disk = os.path.join(str(directory), "disk")
        self.fill()
        self.take()
        with open_vault(self.context) as vault:
            add_passphrase(self.context, vault, Secret("four words that I know"), recovery=True)
        one = DestinationSetting("disk", f"file:{self.disk}", takes, same_disk=True)
        self.context = self.context.changed(destinations=(one,))

    @property
    def copy(self) -> str:
        with open_hidden(self.context) as repository:
            return os.path.join(self.disk, f"hidden-{repository.id[:16]}")

    def there(self, place: str) -> list[str]:
        """The snapshots of a copy, after a check of every byte."""
        with open_vault(self.context.changed(source_vault=place)) as repository:
            assert check(repository, read_data=1.0).damage == []
            return sorted(one.id for one in list_snapshots(repository)[0])


@pytest.fixture
def machine(tmp_path: object) -> Machine:
    return Machine(tmp_path)


def test_without_being_asked_for_it_stays_here(tmp_path: object) -> None:
    machine = Machine(tmp_path, ("vault", "archives"))
    assert push(machine.context, PushRequest("disk")).complete
    assert not os.path.exists(machine.copy)


def test_a_copy_lies_beside_the_vault_and_is_no_vault_to_anybody(machine: Machine) -> None:
    done = push(machine.context, PushRequest("disk"))
    assert done.complete and done.hidden is not None and done.hidden.mirrored is not None
    assert done.hidden.mirrored.snapshots == 1
    assert machine.there(machine.copy) == sorted(machine.snapshots())
    assert machine.there("disk") == [], "the vault is what a destination's name means"
    again = push(machine.context, PushRequest("disk"))
    assert again.hidden is not None and again.hidden.mirrored is not None and not again.hidden.mirrored.files


def test_a_secret_comes_back_from_the_copy_alone(
    machine: Machine, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(machine.context, PushRequest("disk"))
    (snapshot,), copy = machine.snapshots(), machine.copy
    say = spoken(monkeypatch, machine.context.places.user_home)
    shutil.rmtree(machine.project)
    back = os.path.join(str(tmp_path), "back")
    done = say("snapshot", "restore", snapshot[:8], "--vault", copy, "--into", back, "--yes")
    assert done.code == 0, done
    with open(os.path.join(back, ".env")) as file:
        assert PASSWORD in file.read()


def test_what_was_dropped_here_goes_there_only_with_prune(machine: Machine) -> None:
    push(machine.context, PushRequest("disk"))
    old = machine.snapshots()
    care.carry_out_prune(
        machine.context, machine.policy, care.plan_clear(machine.context), everything=True, now=True
    )
    machine.put(".env", "another\n")
    machine.take()
    (new,) = machine.snapshots()
    push(machine.context, PushRequest("disk"))
    assert machine.there(machine.copy) == sorted([*old, new])
    dry = push(machine.context, PushRequest("disk", prune=True, dry_run=True))
    assert dry.deleting and machine.there(machine.copy) == sorted([*old, new])
    push(machine.context, PushRequest("disk", prune=True))
    assert machine.there(machine.copy) == [new]


def test_a_place_that_deletes_nothing_has_all_of_it_and_that_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object, **more: object) -> dict[str, int]:
        raise PlaceRefused("the key may not delete", kept="Everything has arrived", next_steps=())

    monkeypatch.setattr("safekept.vault.mirror.prune_mirror", refuse)
    done = push(machine.context, PushRequest("disk", prune=True))
    assert not done.complete and machine.there(machine.copy) == sorted(machine.snapshots())
    assert done.notes == ["what was forgotten here stays there: the key may not delete"] * 2


def test_where_it_cannot_be_sent_the_vault_is_and_it_is_said(machine: Machine) -> None:
    push(machine.context, PushRequest("disk"))
    copy = machine.copy
    shutil.rmtree(copy)
    with open(copy, "w") as file:
        file.write("in the way")
    done = push(machine.context, PushRequest("disk"))
    assert done.mirrored is not None and not done.complete
    assert any("what git hides was not sent" in note for note in done.notes), done.notes


def test_a_dry_run_counts_it_and_sends_nothing(machine: Machine) -> None:
    done = push(machine.context, PushRequest("disk", dry_run=True))
    assert done.hidden is not None and done.hidden.plan is not None and done.hidden.plan.snapshots == 1
    assert done.as_dict()["hidden"]["plan"]["snapshots"] == 1  # type: ignore[index]
    assert not os.path.exists(machine.disk)


def test_it_goes_with_a_vault_only() -> None:
    fields = {"name": "disk", "url": "file:/mnt/disk", "takes": ["hidden", "vault"]}
    found = parse_destination(fields)
    assert found.takes == ("vault", "hidden") and table_of(found)["takes"] == ["vault", "hidden"]
    with pytest.raises(ValueError, match="`hidden` goes with the vault whose key opens it"):
        parse_destination({**fields, "takes": ["hidden"]})
    rest = {"name": "nas", "url": "rest:https://me@nas/me/", "takes": ["vault", "hidden"]}
    assert parse_destination(rest).takes == ("vault", "hidden")


@pytest.mark.real
def test_a_server_that_keeps_vaults_only_keeps_it_too(
    tmp_path: object, request: pytest.FixtureRequest
) -> None:
    machine = Machine(tmp_path)
    machine.context = pointed(
        machine.context, request.getfixturevalue("rest_server").place(), takes=TAKES[::2]
    )
    done = push(machine.context, PushRequest("far"))
    assert done.complete and done.hidden is not None, done.notes
    there = f"{machine.context.choices.destinations[0].url.rstrip('/')}/{os.path.basename(machine.copy)}"
    assert machine.there(there) == machine.snapshots()
    assert machine.there("far") == []
