"""A vault that never held anything is put aside whole, with its own key and no other."""

from __future__ import annotations

import os

import pytest

from safekept.actions.setup.unused_vault import is_unused, put_aside
from safekept.actions.vault.opening import initialise
from safekept.vault.errors import VaultUnreachable
from safekept.vault.repo import Repository, Secret
from safekept.vault.storage import LocalStorage
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture
def here(tmp_path):
    context = throwaway(tmp_path)
    initialise(context).close()
    return context


def key_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def test_it_goes_aside_with_its_key_and_opens_there(here):
    assert is_unused(here)
    aside = put_aside(here)
    assert not os.path.exists(here.places.vault) and not os.path.exists(here.places.vault_key_file)
    ending = aside.removeprefix(here.places.vault)
    Repository.open(LocalStorage(aside), Secret(key_text(here.places.vault_key_file + ending))).close()
    assert not is_unused(here), "nothing is there any more"


def test_a_key_of_another_vault_stays_where_it_is(here):
    with open(here.places.vault_key_file, "w", encoding="utf-8") as file:
        file.write("the key from the kit of another vault\n")
    put_aside(here)
    assert key_text(here.places.vault_key_file) == "the key from the kit of another vault"


def test_one_that_holds_a_snapshot_or_only_data_of_one_is_in_use(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    take(here, home)
    assert not is_unused(here)
    for name in os.listdir(os.path.join(here.places.vault, "snapshots")):
        os.unlink(os.path.join(here.places.vault, "snapshots", name))
    assert not is_unused(here), "what was cut off may still be of use"


def test_what_cannot_be_moved_is_an_error_that_says_where_both_are(here, monkeypatch):
    """The key went and the vault did not: it comes back, and the error says so."""
    vault, key, rename = here.places.vault, here.places.vault_key_file, os.rename

    def refused(path, to):
        if path == vault:
            raise PermissionError(13, "Permission denied")
        rename(path, to)

    monkeypatch.setattr("safekept.actions.setup.unused_vault.os.rename", refused)
    with pytest.raises(VaultUnreachable) as error:
        put_aside(here)
    assert error.value.what == f"The empty vault at `{vault}` cannot be put aside: Permission denied"
    assert error.value.kept == f"Nothing was deleted: the empty vault is `{vault}`, its key is `{key}`"
    assert os.path.exists(vault) and os.path.exists(key)


def test_where_the_key_cannot_come_back_the_error_names_where_it_is(here, monkeypatch):
    vault, key, rename, moved = here.places.vault, here.places.vault_key_file, os.rename, []

    def once(path, to):
        if moved:
            raise OSError(30, "Read-only file system")
        rename(path, to)
        moved.append(to)

    monkeypatch.setattr("safekept.actions.setup.unused_vault.os.rename", once)
    with pytest.raises(VaultUnreachable) as error:
        put_aside(here)
    assert moved[0].startswith(f"{key}.before-rebuild-")
    assert error.value.kept == f"Nothing was deleted: the empty vault is `{vault}`, its key is `{moved[0]}`"


def test_killed_between_the_two_the_next_run_puts_the_vault_beside_its_key(here):
    vault, key = here.places.vault, here.places.vault_key_file
    os.rename(key, f"{key}.before-rebuild-20260101-010101")
    with open(f"{key}.before-rebuild-20260202-020202", "w", encoding="utf-8") as file:
        file.write("a key of another one\n")
    assert is_unused(here)
    assert put_aside(here) == f"{vault}.before-rebuild-20260101-010101"
    assert not os.path.exists(vault) and not os.path.exists(key)
