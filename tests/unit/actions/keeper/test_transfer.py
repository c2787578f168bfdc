"""What goes to the keeper after a snapshot or a checkpoint, and comes back to the byte."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from safekept.actions.keeper.bring_back import AnotherVaultThere, bring_back
from safekept.actions.keeper.held import look_at_keeper
from safekept.actions.keeper.stores import Stores
from safekept.actions.keeper.transfer import transfer
from safekept.actions.vault.seat_belt import belts
from safekept.checkpoints.project import project_id
from safekept.checkpoints.store import Refs
from safekept.keeper.client import Keeper, KeeperRefused
from support.commands.waiting import wait_until
from support.keeper.keepers import RunningKeeper, running_keeper
from support.keeper.kept_user import KeptUser
from support.projects.checkpoints import fsck, put
from support.users.contexts import throwaway


@pytest.fixture
def running() -> Iterator[RunningKeeper]:
    """Of each test its own: what a command of one sends behind its back would be compared in the next."""
    with running_keeper() as keeper:
        keeper.start()
        yield keeper


@pytest.fixture
def user(tmp_path, running) -> KeptUser:
    one = KeptUser(tmp_path, running)
    one.run("snapshot")
    one.run("checkpoint", one.project)
    return one


def test_everything_comes_back_to_the_byte(user):
    put(os.path.join(user.project, "notes.txt"), "second")
    user.run("checkpoint", user.project)
    before = user.stored()
    transfer(user.stores)
    user.lose()
    held = look_at_keeper(user.context)
    assert held is not None and len(held.missing(user.stores)) == len(before)
    bring_back(user.context, held)
    assert user.stored() == before and held.missing(user.stores) == []
    fsck(user.stores.checkpoints)
    assert "1 snapshot" in user.run("vault", "check")
    assert os.stat(user.stores.key_file).st_mode & 0o077 == 0
    user.run("snapshot")
    put(os.path.join(user.project, "notes.txt"), "third")
    user.run("rollback", "1", "--dir", user.project)
    with open(os.path.join(user.project, "notes.txt")) as file:
        assert file.read() == "second"


def test_what_git_hides_goes_with_its_checkpoint_and_comes_back(user):
    secret = os.path.join(user.project, ".env")
    put(secret, "KEY=first\n", 0o600)
    user.run("checkpoint", user.project)
    transfer(user.stores)
    user.lose()
    held = look_at_keeper(user.context)
    assert held is not None
    bring_back(user.context, held)
    put(secret, "ruined\n", 0o644)
    user.run("rollback", "1", "--dir", user.project)
    with open(secret) as file:
        assert file.read() == "KEY=first\n"
    assert os.stat(secret).st_mode & 0o777 == 0o600


def test_a_second_transfer_sends_only_what_is_new(user):
    first = transfer(user.stores)
    assert first.sent > 5
    again = transfer(user.stores)
    assert (again.number, again.sent, again.bytes) == (first.number, 0, 0)
    put(os.path.join(user.project, "notes.txt"), "second")
    user.run("checkpoint", user.project)
    third = transfer(user.stores)
    assert third.number == first.number + 1 and third.bytes < 50_000
    assert third.sent <= 12, "a pack and its index, the end of the journal, a few pages"


def test_after_a_snapshot_and_a_checkpoint_it_goes_by_itself(user):
    """By the command line, in a process that nobody waits for."""

    def newest() -> int:
        with Keeper(user.socket) as keeper:
            return int((keeper.hello()["newest"] or {"number": 0})["number"])

    before = newest()
    user.run("snapshot", keeper=True)
    wait_until(lambda: newest() > before, "the snapshot's manifest")
    before = newest()
    put(os.path.join(user.project, "notes.txt"), "second")
    user.run("checkpoint", user.project, keeper=True)
    wait_until(lambda: newest() > before, "the checkpoint's manifest")
    expected = user.stored()
    wait_until(lambda: not look_at_keeper(user.context).missing(user.stores), "the end of it")
    user.lose()
    bring_back(user.context, look_at_keeper(user.context))
    assert user.stored().items() >= {k: v for k, v in expected.items() if not k.startswith("own/")}.items()


def test_a_passphrase_command_keeps_the_key_away(user):
    context = user.context.changed(vault_wants_passphrase=True)
    transfer(Stores.of(context))
    held = look_at_keeper(context)
    assert "own/vault.key" not in {one.path for one in held.entries}
    transfer(user.stores)
    assert "own/vault.key" in {one.path for one in look_at_keeper(user.context).entries}


def test_what_survived_stays_and_what_was_cut_is_put_aside(user):
    transfer(user.stores)
    before = user.stored()
    pack = next(file for path, file in user.stores.files() if path.startswith("vault/data/"))
    os.chmod(pack, 0o600)
    with open(pack, "r+b") as file:
        file.write(b"torn")
    inode = os.stat(os.path.join(user.stores.vault, "config")).st_ino
    done = bring_back(user.context, look_at_keeper(user.context))
    assert len(done.aside) == 1 and done.aside[0].startswith(pack)
    assert os.stat(os.path.join(user.stores.vault, "config")).st_ino == inode
    assert {path: data for path, data in user.stored().items() if "before-rebuild" not in path} == before


def test_a_journal_that_began_again_goes_on_behind_the_old_one(user):
    transfer(user.stores)
    journal = os.path.join(user.data, "journal.jsonl")
    with open(journal, "rb") as file:
        old = file.read()
    user.lose()
    put(journal, b'{"new": 1}\n')
    bring_back(user.context, look_at_keeper(user.context))
    with open(journal, "rb") as file:
        assert file.read() == old + b'{"new": 1}\n'


def test_an_empty_vault_makes_way_and_another_one_does_not(user):
    transfer(user.stores)
    before = user.stored()
    user.lose()
    user.run("vault", "init")
    bring_back(user.context, look_at_keeper(user.context))
    after = user.stored()
    assert {path: data for path, data in after.items() if path.startswith("vault/")} == {
        path: data for path, data in before.items() if path.startswith("vault/")
    }
    assert after["own/vault.key"] == before["own/vault.key"]
    user.lose()
    user.run("snapshot")
    with pytest.raises(AnotherVaultThere, match=r"Another vault is at .* and it holds snapshots"):
        bring_back(user.context, look_at_keeper(user.context))


def test_after_a_wipe_that_was_sent_the_state_before_it_is_taken(user):
    """The agent deletes everything, and the next turn sends what is left: an alarm, and passed over."""
    before = user.stored()
    transfer(user.stores)
    user.lose()
    put(os.path.join(user.data, "journal.jsonl"), b'{"new": 1}\n')
    assert transfer(user.stores).shrunk
    held = look_at_keeper(user.context)
    assert held.passed_over
    bring_back(user.context, held)
    assert {path: data for path, data in user.stored().items() if path != "own/journal.jsonl"} == {
        path: data for path, data in before.items() if path != "own/journal.jsonl"
    }


def test_a_damaged_file_of_the_vault_is_sent_as_it_is_and_stops_nothing(user):
    pack = next(file for path, file in user.stores.files() if path.startswith("vault/data/"))
    os.chmod(pack, 0o600)
    with open(pack, "r+b") as file:
        file.write(b"torn")
    transfer(user.stores)
    before = user.stored()
    user.lose()
    bring_back(user.context, look_at_keeper(user.context))
    assert user.stored() == before


def test_nothing_to_send_is_not_sent(tmp_path, running):
    context = throwaway(tmp_path, keeper_socket=running.socket)
    with pytest.raises(KeeperRefused, match="nothing to send yet"):
        transfer(Stores.of(context))


def test_who_deletes_a_piece_at_a_time_gets_no_further(user):
    """The points of one project go first, which is no alarm yet; then the rest: all of it comes back."""
    other = os.path.join(user.home, "other")
    put(os.path.join(other, "package.json"), "{}")
    for number in range(3):
        put(os.path.join(user.project, "notes.txt"), f"{number}")
        user.run("checkpoint", user.project)
    user.run("checkpoint", other)
    transfer(user.stores)
    before = {path for path in user.stored() if path.startswith("checkpoints/refs/")}
    assert any(project_id(other) in path for path in before)
    for _, belt in belts(user.context):
        belt.take_off()
    refs = Refs(user.stores.checkpoints)
    refs.drop(project_id(other), refs.of(project_id(other)))
    assert not transfer(user.stores).shrunk
    user.lose()
    put(os.path.join(user.data, "journal.jsonl"), b'{"new": 1}\n')
    assert transfer(user.stores).shrunk
    user.run("rebuild", "--yes", keeper=True)
    assert {path for path in user.stored() if path.startswith("checkpoints/refs/")} >= before
    fsck(user.stores.checkpoints)


def test_a_state_that_was_sent_between_two_deletions_does_not_cost_the_key(user):
    """The key goes first, and what is left is sent: no alarm, for it is a small file."""
    transfer(user.stores)
    key = user.stored()["own/vault.key"]
    os.unlink(user.stores.key_file)
    assert not transfer(user.stores).shrunk
    user.lose()
    user.run("rebuild", "--yes", keeper=True)
    assert user.stored()["own/vault.key"] == key
    user.run("vault", "check")
