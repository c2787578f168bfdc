"""Many hosts in one vault: each with a key of its own, all of them visible, and no copy taken for a vault."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest

from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet
from safekept.actions.vault.opening import make_vault, open_vault
from safekept.actions.vault.shared_vault import VaultIsCopy, join_vault
from safekept.vault.care.checking import check
from safekept.vault.errors import VaultExists, WrongKey
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.lock_file import LockIdentity
from support.commands.in_process import spoken
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture
def first(tmp_path):
    """A host with a vault in a place that all can reach, and its key."""
    here = throwaway(tmp_path / "first", vault=str(tmp_path / "shared"))
    make_vault(here).close()
    return here


def home_of(here, soul):
    home = os.path.join(here.places.user_home, ".hermes")
    os.makedirs(home)
    for name, text in (("SOUL.md", soul), ("config.yaml", "model: x\n")):
        with open(os.path.join(home, name), "w") as file:
            file.write(text)
    return home


def test_two_hosts_store_into_one_vault_and_both_are_seen(first, tmp_path, monkeypatch):
    second = throwaway(tmp_path / "second")
    joined = join_vault(second, first.places.vault, opens_with=first.places.vault_key_file)
    assert joined.key and os.stat(second.places.vault_key_file).st_mode & 0o777 == 0o600
    with open(first.places.vault_key_file) as one, open(second.places.vault_key_file) as other:
        assert one.read() != other.read(), "a key of its own"
    second = second.changed(vault=first.places.vault)
    take(first, home_of(first, "be kind\n"))
    own = LockIdentity.of_this_process()
    monkeypatch.setattr(
        LockIdentity, "of_this_process", classmethod(lambda cls: replace(own, hostname="iris"))
    )
    take(second, home_of(second, "be quick\n"))
    monkeypatch.undo()
    fleet = look_at_fleet(first, FleetRequest(first.places.vault))
    assert sorted(home.host for home in fleet.homes) == sorted([os.uname().nodename, "iris"])
    with open_vault(second) as repository:
        assert check(repository, read_data=1.0).damage == [] and len(repository.list_keys()) == 2
    again = join_vault(second, first.places.vault)
    assert again.key == "", "it has one already"


def test_the_passphrase_opens_it_this_once(first, tmp_path):
    with open_vault(first) as repository:
        repository.add_key(Secret("four words are enough", generated=True))
    second = throwaway(tmp_path / "second", vault_secret=lambda: Secret("four words are enough"))
    assert join_vault(second, first.places.vault).key
    open_vault(second.changed(vault=first.places.vault, vault_secret=None)).close()


def test_without_a_key_nothing_is_added_and_no_key_file_is_left(first, tmp_path):
    second = throwaway(tmp_path / "second")
    wrong = tmp_path / "wrong.key"
    wrong.write_text("AAAA-BBBB\n")
    with pytest.raises(WrongKey):
        join_vault(second, first.places.vault, opens_with=str(wrong))
    assert not os.path.exists(second.places.vault_key_file)
    with open_vault(first) as repository:
        assert len(repository.list_keys()) == 1


def test_a_host_with_a_vault_or_a_key_of_its_own_keeps_it(first, tmp_path):
    second = throwaway(tmp_path / "second")
    make_vault(second).close()
    with pytest.raises(VaultExists):
        join_vault(second, first.places.vault, opens_with=first.places.vault_key_file)
    shutil.rmtree(second.places.vault)
    with open(second.places.vault_key_file) as file:
        before = file.read()
    with pytest.raises(Exception, match="holds the key of another vault"):
        join_vault(second, first.places.vault, opens_with=first.places.vault_key_file)
    with open(second.places.vault_key_file) as file:
        assert file.read() == before
    with open_vault(first) as repository:
        assert len(repository.list_keys()) == 1


def test_a_copy_in_a_destination_is_not_shared(first, tmp_path):
    with open_vault(first) as repository:
        copy = tmp_path / "disk" / repository.id[:16]
    shutil.copytree(first.places.vault, copy)
    (tmp_path / "disk" / "safekept-destination").write_text("{}")
    second = throwaway(tmp_path / "second")
    for place in (str(copy), f"file:{copy}"):
        with pytest.raises(VaultIsCopy, match="is the copy of a vault that a machine pushes"):
            join_vault(second, place, opens_with=first.places.vault_key_file)


def test_it_is_asked_first_and_says_what_to_set(first, tmp_path, monkeypatch):
    user = tmp_path / "third"
    user.mkdir()
    say = spoken(monkeypatch, str(user))
    words = ("vault", "init", "--from", first.places.vault, "--key-file", first.places.vault_key_file)
    refused = say(*words)
    assert (
        refused.code == 1 and "every host that shares a vault can read what the others stored" in refused.err
    )
    done = say(*words, "--yes")
    assert done.code == 0, done.err
    assert f'    path = "{first.places.vault}"\n' in done.out
    assert done.out.endswith("Every host that has a key to it can read everything in it\n")
    assert json.loads(say(*words, "--yes", "--json").out)["key"] is None
    assert say("vault", "init", "--yes").code == 2
    assert say(*words, "--passphrase").code == 2
