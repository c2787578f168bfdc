"""Where the vault lies and how it opens: made once, outside every home, never without its key."""

from __future__ import annotations

import os
import shutil
import stat
import threading

import pytest

from safekept.actions.vault.keys.key_file import KeyMissing, KeyUnwritable, write_key_once
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.keys.passphrase import BadKey, as_made, easy_passphrase
from safekept.actions.vault.opening import (
    VaultInsideHome,
    cache_of,
    initialise,
    looks_generated,
    make_vault,
    open_vault,
)
from safekept.vault.errors import NoSuchVault, VaultExists, VaultHalfMade, WrongKey
from safekept.vault.repo.keys import FOR_GENERATED, FOR_PASSPHRASE, KeyFile, Secret, generate_secret
from safekept.vault.repo.repository import Repository
from safekept.vault.storage import LocalStorage
from support.users.contexts import throwaway
from support.vault.vaults import CHEAP


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def make(here) -> str:
    with open_vault(here, create=True) as repository:
        return repository.id


def key_costs(here) -> list[object]:
    with open_vault(here) as repository:
        return [key.cost for key in repository.list_keys() if isinstance(key, KeyFile)]


def test_first_use_makes_a_private_vault_and_a_private_key(tmp_path):
    here = throwaway(tmp_path)
    previous = os.umask(0)
    try:
        identity = make(here)
    finally:
        os.umask(previous)
    assert mode(here.places.vault_key_file) == 0o600
    assert looks_generated(read(here.places.vault_key_file).strip())
    for directory, _, _ in os.walk(here.places.vault):
        assert mode(directory) == 0o700, directory
    assert mode(os.path.dirname(here.places.vault_key_file)) == 0o700
    assert key_costs(here) == [FOR_GENERATED]
    assert make(here) == identity, "a second use opens the same vault"


def test_nothing_is_made_unless_asked(tmp_path):
    here = throwaway(tmp_path)
    with pytest.raises(NoSuchVault) as caught:
        open_vault(here)
    assert caught.value.exit_code == 10
    assert not os.path.exists(here.places.vault) and not os.path.exists(here.places.vault_key_file)


def test_a_key_file_without_a_vault_is_used_and_never_overwritten(tmp_path):
    """An init that was killed between the key and the vault leaves exactly this."""
    here = throwaway(tmp_path)
    secret = generate_secret()
    assert write_key_once(here.places.vault_key_file, secret.text)
    make(here)
    assert read(here.places.vault_key_file) == secret.text + "\n"
    with Repository.open(LocalStorage(here.places.vault), secret):
        pass


def test_writing_a_key_never_replaces_one(tmp_path):
    path = str(tmp_path / "deep" / "key")
    assert write_key_once(path, "one") is True
    assert write_key_once(path, "two") is False
    assert read(path) == "one\n"
    assert os.listdir(tmp_path / "deep") == ["key"], "no temporary file stays"


@pytest.mark.stretched
def test_a_passphrase_put_into_the_key_file_by_hand_is_stretched(tmp_path):
    here = throwaway(tmp_path)
    write_key_once(here.places.vault_key_file, "correct horse battery staple")
    make(here)
    assert key_costs(here) == [FOR_PASSPHRASE]


def test_no_vault_is_made_whose_key_cannot_be_written(tmp_path):
    here = throwaway(tmp_path)
    os.makedirs(os.path.join(here.places.user_home, ".config"))
    with open(os.path.join(here.places.user_home, ".config", "safekept"), "w"):
        pass  # a file where the directory should be
    with pytest.raises(KeyUnwritable) as caught:
        make(here)
    assert "without its key it could never be opened" in caught.value.kept
    assert not os.path.exists(here.places.vault)


@pytest.mark.parametrize("where", [".hermes/vault", ".hermes", ".claude/vaults/one"])
def test_a_vault_inside_a_home_is_refused(tmp_path, where):
    here = throwaway(tmp_path)
    here = here.changed(vault=os.path.join(here.places.user_home, where))
    with pytest.raises(VaultInsideHome) as caught:
        make(here)
    assert "that it protects" in caught.value.what
    assert "SAFEKEPT_VAULT_PATH" in caught.value.advice()[0]
    assert not os.path.exists(here.places.vault) and not os.path.exists(here.places.vault_key_file)


def test_a_vault_inside_a_home_is_refused_behind_links_and_for_named_homes(tmp_path):
    home = tmp_path / "elsewhere" / "agent"
    home.mkdir(parents=True)
    (tmp_path / "door").symlink_to(home)
    here = throwaway(tmp_path, vault=str(tmp_path / "door" / "vault"))
    with pytest.raises(VaultInsideHome):
        open_vault(here, create=True, homes=(str(home),))
    with open_vault(here, create=True):
        pass  # nobody's home: it may


def test_the_variable_of_the_agent_names_a_home_too(tmp_path):
    here = throwaway(tmp_path, environment={"HERMES_HOME": str(tmp_path / "agent")})
    with pytest.raises(VaultInsideHome):
        make(here.changed(vault=str(tmp_path / "agent" / "vault")))


def test_a_missing_key_is_said_with_its_file_and_both_ways_out(tmp_path):
    here = throwaway(tmp_path)
    make(here)
    os.unlink(here.places.vault_key_file)
    for create in (False, True):
        with pytest.raises(KeyMissing) as caught:
            open_vault(here, create=create)
        assert caught.value.exit_code == 12
        assert here.places.vault_key_file in caught.value.what
        assert "kit" in caught.value.advice()[0] and here.places.vault_key_file in caught.value.advice()[0]
        assert "recovery passphrase" in caught.value.advice()[1]
        assert not os.path.exists(here.places.vault_key_file), "no new key beside a vault that it cannot open"


def test_the_recovery_passphrase_opens_what_the_lost_key_no_longer_does(tmp_path):
    here = throwaway(tmp_path)
    with open_vault(here, create=True) as repository:
        repository.add_key(Secret("a long recovery phrase"), cost=CHEAP, username="recovery")
        identity = repository.id
    os.unlink(here.places.vault_key_file)
    here = here.changed(vault_secret=lambda: Secret("a long recovery phrase"))
    with open_vault(here) as repository:
        assert repository.id == identity


def test_what_is_tried_for_seconds_is_drawn_from_the_moment_it_was_typed(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    make(here)
    order = []

    def tried(*_):
        order.append("tried")
        raise WrongKey("no", kept="", next_steps=())

    def typed():
        order.append("typed")
        return Secret("wrong")

    monkeypatch.setattr("safekept.actions.vault.opening.open_with", tried)
    bare = here.changed(vault_key_file="", vault_secret=typed, secret_tries=2)
    with pytest.raises(WrongKey):
        open_vault(bare, listener=lambda event: order.append("said" if event.text else event.phase))
    assert order == ["typed", "open", "tried", "said", "typed", "open", "tried"]


def test_a_key_file_of_another_vault_is_a_wrong_key_and_names_itself(tmp_path):
    here = throwaway(tmp_path)
    make(here)
    os.unlink(here.places.vault_key_file)
    write_key_once(here.places.vault_key_file, generate_secret().text)
    with pytest.raises(WrongKey) as caught:
        open_vault(here)
    assert caught.value.exit_code == 12
    assert here.places.vault_key_file in caught.value.what and here.places.vault in caught.value.what
    assert "Nothing was written" in caught.value.kept


def test_behind_a_wrong_key_file_the_passphrase_is_tried(tmp_path):
    here = throwaway(tmp_path)
    with open_vault(here, create=True) as repository:
        repository.add_key(Secret("a long recovery phrase"), cost=CHEAP)
    os.unlink(here.places.vault_key_file)
    write_key_once(here.places.vault_key_file, generate_secret().text)
    with open_vault(here.changed(vault_secret=lambda: Secret("a long recovery phrase"))):
        pass
    with pytest.raises(WrongKey):
        open_vault(here.changed(vault_secret=lambda: Secret("a wrong phrase")))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"one\ntwo\n", "has more than one line"), (b"x" * 5000, "is not a key")],
)
def test_a_key_file_that_is_none_is_said_and_nothing_made(tmp_path, content, said):
    here = throwaway(tmp_path)
    os.makedirs(os.path.dirname(here.places.vault_key_file))
    with open(here.places.vault_key_file, "wb") as file:
        file.write(content)
    with pytest.raises(BadKey) as caught:
        make(here)
    assert said in caught.value.what and here.places.vault_key_file in caught.value.what
    assert not os.path.exists(os.path.join(here.places.vault, "config"))


def test_a_half_made_vault_is_said_and_finished_by_the_next_use(tmp_path):
    here = throwaway(tmp_path)
    make(here)
    os.unlink(os.path.join(here.places.vault, "config"))
    os.unlink(os.path.join(here.places.data_directory, "vaults.json"))
    with pytest.raises(VaultHalfMade) as caught:
        open_vault(here)
    assert "`safekept vault init`" in caught.value.advice()[0]
    make(here)
    assert len(os.listdir(os.path.join(here.places.vault, "keys"))) == 1, "the key of before was used"


def test_a_vault_without_config_but_with_data_is_never_made_anew(tmp_path):
    here = throwaway(tmp_path)
    make(here)
    os.unlink(os.path.join(here.places.vault, "config"))
    with open(os.path.join(here.places.vault, "snapshots", "0" * 64), "wb") as file:
        file.write(b"x")
    for create in (False, True):
        with pytest.raises(VaultHalfMade) as caught:
            open_vault(here, create=create)
        assert "`config` file is missing" in caught.value.what
    with pytest.raises(VaultHalfMade):
        make_vault(here)


def test_a_vault_that_is_gone_is_not_made_anew_behind_anybodys_back(tmp_path):
    """A drive that is not mounted looks like this; a new empty vault would look like loss."""
    here = throwaway(tmp_path)
    identity = make(here)
    shutil.move(here.places.vault, str(tmp_path / "away"))
    for create in (False, True):
        with pytest.raises(NoSuchVault) as caught:
            open_vault(here, create=create)
        assert "was here before, and is gone" in caught.value.what
        assert caught.value.kept == "No new vault was made in its place"
    os.mkdir(here.places.vault)  # the empty mount point
    with pytest.raises(NoSuchVault):
        open_vault(here, create=True)
    os.rmdir(here.places.vault)
    shutil.move(str(tmp_path / "away"), here.places.vault)
    assert make(here) == identity


def test_an_init_by_a_person_replaces_what_is_gone_but_nothing_that_is_there(tmp_path):
    here = throwaway(tmp_path)
    make(here)
    with pytest.raises(VaultExists):
        make_vault(here)
    shutil.rmtree(here.places.vault)
    with make_vault(here):
        pass
    make(here)


@pytest.mark.stretched
def test_a_passphrase_in_the_settings_makes_a_vault_without_a_key_file(tmp_path):
    here = throwaway(tmp_path, vault_secret=lambda: Secret("from the command"), vault_wants_passphrase=True)
    make(here)
    assert not os.path.exists(here.places.vault_key_file)
    assert key_costs(here) == [FOR_PASSPHRASE]


def test_first_uses_at_once_make_one_vault(tmp_path):
    here = throwaway(tmp_path)
    found: list[object] = []

    def use() -> None:
        try:
            found.append(make(here))
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(map(str, found))) == 1 and isinstance(found[0], str), found
    assert len(os.listdir(os.path.join(here.places.vault, "keys"))) == 1


def test_the_cache_has_a_place_for_each_vault(tmp_path):
    here = throwaway(tmp_path)
    with open_vault(here, create=True) as repository:
        assert cache_of(here, repository) == os.path.join(here.places.cache_directory, repository.id[:16])
        assert cache_of(here.changed(cache_directory=""), repository) == ""


@pytest.mark.parametrize(
    ("typed", "made"),
    [
        ("Bafi dogu hale jomi nupa ravo", "bafi-dogu-hale-jomi-nupa-ravo"),
        (" bafi  dogu-hale\u2013JOMI nupa ravo ", "bafi-dogu-hale-jomi-nupa-ravo"),
        ("bafidoguhalejominuparavo", "bafi-dogu-hale-jomi-nupa-ravo"),
        ("abcd " * 13, "-".join(["ABCD"] * 13)),
        ("bafi dogu hale jomi nupa", ""),
        ("bafi dogu hale jomi nupa xavo", ""),
        ("Four Words Are Enough", ""),
    ],
)
def test_what_we_made_is_known_however_it_is_typed_and_nothing_else_is(typed, made):
    assert as_made(typed) == made


def test_a_passphrase_of_our_making_opens_with_capitals_and_blanks_and_a_chosen_one_does_not(
    tmp_path, monkeypatch
):
    here = throwaway(tmp_path)
    ours, chosen = easy_passphrase(), "four words are enough"
    assert as_made(ours) == ours
    with initialise(here) as repository:
        for text in (ours, chosen):
            add_passphrase(here, repository, Secret(text), recovery=True)
    os.unlink(here.places.vault_key_file)

    def opens(text):
        try:
            open_vault(here.changed(vault_secret=lambda: Secret(text))).close()
        except WrongKey:
            return False
        return True

    assert opens(ours) and opens(ours.upper().replace("-", " ")) and opens(chosen)
    assert not opens(chosen.upper()) and not opens(ours[:-1] + "x")


def test_one_that_somebody_chose_in_our_shape_opens_as_it_was_chosen(tmp_path, monkeypatch):
    """As typed comes first: what looks like ours may be somebody's own."""
    here, own = throwaway(tmp_path), "BAFI DOGU HALE JOMI NUPA RAVO"
    with initialise(here) as repository:
        add_passphrase(here, repository, Secret(own), recovery=True)
    os.unlink(here.places.vault_key_file)
    open_vault(here.changed(vault_secret=lambda: Secret(own))).close()
