"""Every flipped bit is found, and only what it touched is lost."""

from __future__ import annotations

import random

import pytest

from safekept.core.errors import SafekeptError
from safekept.vault.care.checking import check
from safekept.vault.errors import VaultDamaged
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import CHEAP, SECRET, new_vault, read_files, save_files, some_files

SPARE = Secret("the recovery passphrase", generated=True)


@pytest.fixture(scope="module")
def made():
    storage = MemoryStorage()
    contents = []
    with new_vault(storage) as vault:
        vault.add_key(SPARE, cost=CHEAP)
        for seed in (1, 2, 3):
            files = some_files(seed, 12)
            contents.append({save_files(vault, files, time_ns=seed).id: files})
    return storage.files, {key: value for one in contents for key, value in one.items()}


def below(name, hit):
    return hit.endswith("/") and name.startswith(hit)


def flip(made, source):
    files, contents = made
    path = source.choice(sorted(files))
    data = bytearray(files[path])
    at = source.randrange(len(data))
    data[at] ^= 1 << source.randrange(8)
    storage = MemoryStorage({**files, path: bytes(data)})
    if path == "config":
        with pytest.raises(VaultDamaged, match="config"):
            Repository.open(storage, SECRET)
        return
    try:
        vault = Repository.open(storage, SECRET)
    except SafekeptError:
        assert path.startswith("keys/")
        vault = Repository.open(storage, SPARE)
    with vault:
        report = check(vault, read_data=1.0)
        assert not report.sound, (path, at)
        assert path in {finding.file for finding in report.damage}, (path, at)
        touches = [item for finding in report.damage for item in finding.touches]
        touched = {(item.snapshot, name) for item in touches for name in item.paths}
        snapshots, _ = list_snapshots(vault)
        assert len(snapshots) == len(contents) - path.startswith("snapshots/")
        for snapshot in snapshots:
            found, lost = read_files(vault, snapshot)
            expected = contents[snapshot.id]
            for name, data in found.items():
                assert expected[name] == data
            missing = set(expected) - set(found)
            if not path.startswith("data/"):
                assert not missing, path  # keys, indexes and other snapshots cost no file
            hits = [hit for identity, hit in touched if identity == snapshot.id]
            for name in missing:  # named itself, or below a directory that is named
                assert any(hit in (name, "/") or below(name, hit) for hit in hits), (path, name, lost)


def test_a_sample_of_bit_flips_is_found_and_stays_local(made):
    source = random.Random(20261115)
    for _ in range(60):
        flip(made, source)


@pytest.mark.soak("vault")
def test_a_thousand_bit_flips_are_found_and_stay_local(made):
    source = random.Random()
    for _ in range(1000):
        flip(made, source)
