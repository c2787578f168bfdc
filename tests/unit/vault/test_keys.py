"""Key files and the config: any key opens the vault, a wrong one says so, a bad file stops nobody."""

from __future__ import annotations

import hashlib
import json

import pytest

from safekept.vault.errors import (
    KeyInUse,
    NoSuchKey,
    NoSuchVault,
    VaultDamaged,
    VaultExists,
    VaultHalfMade,
    VaultUnsupported,
    WrongKey,
)
from safekept.vault.format.config import BadConfig, Config, irreducible, random_polynomial
from safekept.vault.format.crypto import Key
from safekept.vault.repo.keys import (
    FOR_GENERATED,
    FOR_PASSPHRASE,
    BadKeyFile,
    Cost,
    KeyFile,
    Secret,
    generate_secret,
    make_key_file,
)
from safekept.vault.repo.repository import Repository
from safekept.vault.storage import FileKind
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import CHEAP, SECRET, new_vault

OTHER = Secret("another one", generated=True)


def test_a_vault_opens_with_its_secret_and_no_other():
    storage = MemoryStorage()
    made = new_vault(storage)
    opened = Repository.open(storage, SECRET)
    assert (opened.key, opened.id, opened.version) == (made.key, made.id, 2)
    with pytest.raises(WrongKey) as caught:
        Repository.open(storage, OTHER)
    assert caught.value.exit_code == 12
    assert "does not open" in caught.value.what
    assert caught.value.kept == "Nothing was written to the vault"
    assert OTHER.text not in str(caught.value.as_dict())


def test_a_second_key_opens_the_same_vault_and_can_be_removed():
    storage = MemoryStorage()
    vault = new_vault(storage)
    added = vault.add_key(OTHER, cost=CHEAP)
    assert Repository.open(storage, OTHER).key == vault.key
    assert {key.id for key in vault.list_keys()} == {vault.key_id, added}
    assert vault.remove_key(added[:10]) == added
    with pytest.raises(WrongKey):
        Repository.open(storage, OTHER)
    assert Repository.open(storage, SECRET).key == vault.key


def test_the_key_in_use_and_unknown_keys_are_not_removed():
    vault = new_vault(MemoryStorage())
    with pytest.raises(KeyInUse):
        vault.remove_key(vault.key_id)
    for prefix in ("", "zz", "0" * 64):
        with pytest.raises(NoSuchKey):
            vault.remove_key(prefix)
    assert len(vault.list_keys()) == 1


def test_a_damaged_key_file_does_not_keep_another_from_opening():
    storage = MemoryStorage()
    vault = new_vault(storage)
    added = vault.add_key(OTHER, cost=CHEAP)
    storage.files[f"keys/{added}"] = storage.files[f"keys/{added}"][:-9]
    assert Repository.open(storage, SECRET).key == vault.key
    with pytest.raises(WrongKey) as caught:
        Repository.open(storage, OTHER)
    assert "1 key files cannot be read" in caught.value.what


def test_a_vault_whose_key_files_cannot_be_read_does_not_blame_the_key():
    """Who is told that his key is wrong throws the right one away."""
    storage = MemoryStorage()
    new_vault(storage)
    (name,) = (name for name in storage.files if name.startswith("keys/"))
    storage.files[name] = storage.files[name][:-9]
    with pytest.raises(VaultDamaged) as caught:
        Repository.open(storage, SECRET)
    assert caught.value.what.startswith("No key file of the vault at ")
    assert "your key may well be the right one" in caught.value.kept


def test_cheap_keys_are_tried_first(monkeypatch):
    storage = MemoryStorage()
    vault = new_vault(storage)
    for number in range(4):
        vault.add_key(Secret(f"slow {number}"), cost=Cost(8, 8, 1))
    tried = []
    real = KeyFile.open
    monkeypatch.setattr(
        KeyFile, "open", lambda self, secret: (tried.append(self.cost), real(self, secret))[1]
    )
    Repository.open(storage, SECRET)
    assert tried == [CHEAP]


def test_no_more_than_twenty_keys_are_tried():
    storage = MemoryStorage()
    vault = new_vault(storage)
    for number in range(30):
        vault.add_key(Secret(f"key {number}", generated=True), cost=CHEAP)
    assert len(vault.list_keys()) == 20


@pytest.mark.stretched
def test_the_costs_are_those_that_restic_reads():
    assert (FOR_GENERATED.n, FOR_GENERATED.r, FOR_GENERATED.p) == (1024, 8, 1)
    assert FOR_PASSPHRASE.n == 32768
    assert FOR_PASSPHRASE.r == 8
    assert generate_secret().cost == FOR_GENERATED
    assert Secret("a passphrase").cost == FOR_PASSPHRASE


def test_generated_secrets_are_long_printable_and_different():
    secrets = {generate_secret().text for _ in range(50)}
    assert len(secrets) == 50
    for text in secrets:
        assert len(text.replace("-", "")) == 52
        assert text == text.strip()
        assert text.isascii()


@pytest.mark.parametrize("text", ["", " x", "x ", "x\n", "a\nb", "a\x00b"])
def test_secrets_that_restic_could_not_be_given_are_refused(text):
    with pytest.raises(ValueError, match="one line"):
        Repository.init(MemoryStorage(), Secret(text))


@pytest.mark.parametrize(
    "change",
    [
        {"kdf": "argon2"},
        {"salt": "AAAA"},
        {"N": 3},
        {"N": 1},
        {"r": 0},
        {"p": 0},
        {"N": 1 << 30},
        {"data": "!!"},
        {"N": "x"},
        {"p": 1 << 28},
    ],
)
def test_key_files_that_are_none_are_named_as_such(change):
    name, text = make_key_file(SECRET, Key.generate(), username="u", hostname="h", now_ns=0, cost=CHEAP)
    fields = {**json.loads(text), **change}
    with pytest.raises(BadKeyFile):
        KeyFile.parse(name, json.dumps(fields).encode())


def test_a_key_file_is_named_by_its_content():
    name, text = make_key_file(SECRET, Key.generate(), username="u", hostname="h", now_ns=0, cost=CHEAP)
    assert name == hashlib.sha256(text).hexdigest()
    assert list(json.loads(text)) == [
        "created", "username", "hostname", "kdf", "N", "r", "p", "salt", "data",
    ]  # fmt: skip


def test_nothing_there_is_no_such_vault():
    with pytest.raises(NoSuchVault) as caught:
        Repository.open(MemoryStorage(), SECRET)
    assert caught.value.exit_code == 10
    assert "`safekept vault init`" in caught.value.advice()[0]


def test_a_half_made_vault_is_named_and_finished_by_init():
    storage = MemoryStorage()
    vault = new_vault(storage)
    del storage.files["config"]
    with pytest.raises(VaultHalfMade) as caught:
        Repository.open(storage, SECRET)
    assert "not finished" in caught.value.what
    finished = new_vault(storage)
    assert finished.key == vault.key
    assert Repository.open(storage, SECRET).id == finished.id


def test_a_lost_config_is_not_papered_over():
    storage = MemoryStorage()
    new_vault(storage)
    del storage.files["config"]
    storage.write(FileKind.SNAPSHOT, "0" * 64, b"x")
    for call in (Repository.open, Repository.init):
        with pytest.raises(VaultHalfMade) as caught:
            call(storage, SECRET)
        assert "`config` file is missing" in caught.value.what
        assert "still there" in caught.value.kept


def test_a_second_init_touches_nothing():
    storage = MemoryStorage()
    new_vault(storage)
    before = dict(storage.files)
    with pytest.raises(VaultExists):
        new_vault(storage)
    assert storage.files == before


def test_no_keys_at_all_is_damage():
    storage = MemoryStorage()
    new_vault(storage)
    for name in [name for name in storage.files if name.startswith("keys/")]:
        del storage.files[name]
    with pytest.raises(VaultDamaged, match="no key files"):
        Repository.open(storage, SECRET)


@pytest.mark.parametrize("length", [0, 10, 40])
def test_a_torn_config_is_damage(length):
    storage = MemoryStorage()
    new_vault(storage)
    storage.files["config"] = storage.files["config"][:length]
    with pytest.raises(VaultDamaged, match="config"):
        Repository.open(storage, SECRET)


def test_an_unknown_version_is_named():
    storage = MemoryStorage()
    vault = new_vault(storage)
    storage.files["config"] = vault.key.seal(b'{"version":3,"id":"00","chunker_polynomial":"25"}')
    with pytest.raises(VaultUnsupported, match="version 3"):
        Repository.open(storage, SECRET)


def test_polynomials_are_tested_as_restic_does():
    for known in (0x3DA3358B4DC173, 0x32967EE8D59753, 0x330D45F2DD6F03):
        assert irreducible(known)
        assert not irreducible(known ^ 2)
    made = random_polynomial()
    assert made.bit_length() == 54
    assert irreducible(made)
    # Degree 8: there are exactly 30 irreducible ones over GF(2).
    assert sum(irreducible(number) for number in range(256, 512)) == 30


def test_a_config_with_a_bad_polynomial_is_refused_and_others_fields_are_not_minded():
    text = Config.generate().to_json()
    assert Config.from_json(text[:-1] + b',"is_hot":true,"extra_verify":false}').version == 2
    fields = {**json.loads(text), "chunker_polynomial": "3da3358b4dc171"}
    with pytest.raises(BadConfig, match="irreducible"):
        Config.from_json(json.dumps(fields).encode())
