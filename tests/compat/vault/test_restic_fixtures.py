"""Repositories that others wrote: sound ones are read whole, damaged ones are named.

The real restic writes them here, and what is damaged is damaged here. What no program here can write
(rustic's, another release's, trees whose JSON is written in another way) is read where it is at hand.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
from collections.abc import Callable

import pytest

from safekept.core.entries import Kind
from safekept.vault.care.checking import check
from safekept.vault.errors import VaultReadOnly, WrongKey
from safekept.vault.format.blobs import BlobKind
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import LocalStorage
from support.vault.restics import Restic
from support.vault.vaults import read_all, read_files, stored

pytestmark = pytest.mark.real

PASSWORD = "geheim"


def _contents() -> list[dict[str, bytes]]:
    """What the two snapshots of a repository hold: text, noise, and nothing at all."""
    source = random.Random(5)
    first = {f"memories/{number % 4}/note-{number}.md": b"a word or two " * number for number in range(40)}
    first |= {
        "empty": b"",
        "noise.bin": source.randbytes(3 << 20),
        "naïve name": b"\xff\x00",
        "test": b"test\n",
    }
    second = {path: data for path, data in first.items() if path != "empty"} | {"test": b"other\n"}
    return [first, second]


CONTENTS = _contents()


@pytest.fixture(scope="session")
def repositories(tmp_path_factory) -> Callable[[str, int], str]:
    """`repositories(program, version)`: that restic's repository of that version, made once."""

    @functools.cache
    def made(program: str, version: int) -> str:
        place = tmp_path_factory.mktemp("written")
        repository, source = str(place / "repository"), str(place / "source")
        restic = Restic(program, repository, PASSWORD, str(place / "cache"))
        restic("init", "--repository-version", str(version))
        for files in CONTENTS:
            shutil.rmtree(source, ignore_errors=True)
            for path, data in files.items():
                os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
                with open(os.path.join(source, path), "wb") as file:
                    file.write(data)
            restic("backup", ".", "--host", "thinkpad", cwd=source)
        return repository

    return made


@pytest.fixture
def copied(repositories, installed_restic, tmp_path) -> Restic:
    """A repository to be damaged."""
    restic = installed_restic(str(tmp_path / "repository"), PASSWORD)
    shutil.copytree(repositories(restic.program, 2), restic.repository)
    return restic


def opened(path: str, password: str = PASSWORD) -> Repository:
    return Repository.open(LocalStorage(path), Secret(password))


def changed(path: str) -> tuple[Snapshot, str]:
    """The second snapshot, and the pack that holds the one file that had changed."""
    with opened(path) as vault:
        _, second = list_snapshots(vault)[0]
        place = vault.index.lookup(BlobKind.DATA, vault.load_tree(second.tree).find("test").content)
        return second, place.pack.hex()


@pytest.mark.parametrize("version", [1, 2])
def test_what_restic_wrote_is_read_whole(repositories, restic_program, version):
    with opened(repositories(restic_program, version)) as vault:
        assert vault.version == version
        assert check(vault, read_data=1.0).findings == []
        assert read_all(vault) == CONTENTS
        if version == 1:
            with pytest.raises(VaultReadOnly):
                vault.saver(None)


def test_a_wrong_password_is_refused(repositories, restic_program):
    with pytest.raises(WrongKey):
        opened(repositories(restic_program, 2), "falsch")


def test_missing_packs_are_named_with_the_file_that_needs_them(copied):
    second, pack = changed(copied.repository)
    os.unlink(os.path.join(copied.repository, "data", pack[:2], pack))
    with opened(copied.repository) as vault:
        (finding,) = check(vault, read_data=1.0).findings
        assert finding.code == "pack-missing"
        assert finding.what == f"Pack {pack[:8]} is missing; it held 1 pieces"
        assert [(item.snapshot, item.paths) for item in finding.touches] == [(second.id, ("test",))]
        first, _ = list_snapshots(vault)[0]
        assert read_files(vault, first) == (CONTENTS[0], [])
        whole = {path: data for path, data in CONTENTS[1].items() if path != "test"}
        assert read_files(vault, second) == (whole, ["test"])
        directories = {entry.path for entry in stored(vault, second) if entry.kind is Kind.DIRECTORY}
        assert directories == {"memories", *(f"memories/{number}" for number in range(4))}


def test_a_missing_index_is_named_and_everything_still_read(copied):
    indexes = os.path.join(copied.repository, "index")
    os.unlink(os.path.join(indexes, sorted(os.listdir(indexes))[0]))
    with opened(copied.repository) as vault:
        damage = check(vault, read_data=1.0).damage
        assert damage and {finding.code for finding in damage} == {"pack-not-indexed"}
        assert "the index must be rebuilt" in damage[0].what
        assert read_all(vault) == CONTENTS
    copied("rebuild-index")
    with opened(copied.repository) as vault:
        assert check(vault, read_data=1.0).damage == []


def test_data_that_nobody_needs_is_a_note(copied):
    """What a backup leaves that was cut short before it wrote its index."""
    second, pack = changed(copied.repository)
    os.unlink(os.path.join(copied.repository, "snapshots", second.id))
    for name in os.listdir(os.path.join(copied.repository, "index")):
        if any(one["id"] == pack for one in json.loads(copied("cat", "index", name))["packs"]):
            os.unlink(os.path.join(copied.repository, "index", name))
    with opened(copied.repository) as vault:
        findings = check(vault, read_data=1.0).findings
        assert findings
        assert {(finding.code, finding.severity) for finding in findings} == {("pack-unreferenced", "note")}
        assert read_all(vault) == CONTENTS[:1]


# ── what nothing here can write ────────────────────────────────────────────────────────────────────

# name, password, version, files and bytes of each snapshot (as `restic stats --mode restore-size` has them)
OTHERS = [
    ("made-by-restic-0.16.5", "restic", 2, [(51, 246223), (50, 244301)]),
    ("made-by-rustic-0.9.1", "rustic", 2, [(51, 246223), (50, 244301)]),
    ("copy-unstable-json", "geheim", 1, [(0, 0)]),
]


@pytest.mark.parametrize(("name", "password", "version", "expected"), OTHERS)
def test_what_others_wrote_is_read_whole(unpacked: Callable[[str], str], name, password, version, expected):
    with opened(unpacked(name), password) as vault:
        assert vault.version == version
        assert check(vault, read_data=1.0).findings == []
        found = [(len(files), sum(map(len, files.values()))) for files in read_all(vault)]
        assert found == expected


def test_restic_and_rustic_stored_the_same_files(unpacked: Callable[[str], str]):
    contents = []
    for name, password in (("made-by-restic-0.16.5", "restic"), ("made-by-rustic-0.9.1", "rustic")):
        with opened(unpacked(name), password) as vault:
            contents.append(
                [
                    {tuple(path.split("/")[1:]): data for path, data in files.items()}
                    for files in read_all(vault)
                ]
            )
    names = [[{path[-1] for path in files} for files in one] for one in contents]
    assert names[0] == names[1]
    assert [sorted(files.values()) for files in contents[0]] == [
        sorted(files.values()) for files in contents[1]
    ]
