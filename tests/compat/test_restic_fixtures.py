"""Repositories that restic and rustic wrote: sound ones are read whole, damaged ones are named."""

from __future__ import annotations

import pytest

from safekept.core.entries import Kind
from safekept.vault.check import check
from safekept.vault.errors import VaultReadOnly, WrongKey
from safekept.vault.keys import Secret
from safekept.vault.reader import SnapshotSource
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import LocalStorage
from vaults import read_all, read_files

pytestmark = pytest.mark.real

# name, password, version, files and bytes of each snapshot (as `restic stats --mode restore-size` has them)
SOUND = [
    ("made-by-restic-0.16.5", "restic", 2, [(51, 246223), (50, 244301)]),
    ("made-by-rustic-0.9.1", "rustic", 2, [(51, 246223), (50, 244301)]),
    ("small-repo", "geheim", 1, [(2, 8), (2, 8), (2, 8), (3, 14)]),
    ("copy-unstable-json", "geheim", 1, [(0, 0)]),
]


@pytest.mark.parametrize(("name", "password", "version", "expected"), SOUND)
def test_sound_repositories_are_read_whole(unpacked, name, password, version, expected):
    with Repository.open(LocalStorage(unpacked(name)), Secret(password)) as vault:
        assert vault.version == version
        assert check(vault, read_data=1.0).findings == []
        found = [(len(files), sum(map(len, files.values()))) for files in read_all(vault)]
        assert found == expected


def test_restic_and_rustic_stored_the_same_files(unpacked):
    contents = []
    for name, password in (("made-by-restic-0.16.5", "restic"), ("made-by-rustic-0.9.1", "rustic")):
        with Repository.open(LocalStorage(unpacked(name)), Secret(password)) as vault:
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


def test_missing_packs_are_named_with_the_file_that_needs_them(unpacked):
    with Repository.open(LocalStorage(unpacked("repo-data-missing")), Secret("geheim")) as vault:
        report = check(vault, read_data=1.0)
        (finding,) = report.findings
        assert finding.code == "pack-missing"
        assert finding.what == "Pack 1959b7f2 is missing; it held 1 pieces"
        (snapshot,), _ = list_snapshots(vault)
        assert [(item.snapshot, item.paths) for item in finding.touches] == [
            (snapshot.id, ("home/thinkpad/data/test",))
        ]
        found, lost = read_files(vault, snapshot)
        assert (found, lost) == ({}, ["home/thinkpad/data/test"])
        assert [entry.path for entry in SnapshotSource(vault, snapshot) if entry.kind is Kind.DIRECTORY] == [
            "home",
            "home/thinkpad",
            "home/thinkpad/data",
        ]


def test_a_missing_index_is_named_and_everything_still_read(unpacked):
    with Repository.open(LocalStorage(unpacked("repo-index-missing")), Secret("geheim")) as vault:
        report = check(vault, read_data=1.0)
        (finding,) = report.damage
        assert finding.code == "pack-not-indexed"
        assert "the index must be rebuilt" in finding.what
        assert [sorted(files.values()) for files in read_all(vault)] == [[b"test\n"], [b"test\n"]]


def test_data_that_nobody_needs_is_a_note(unpacked):
    with Repository.open(LocalStorage(unpacked("repo-unreferenced-data")), Secret("geheim")) as vault:
        report = check(vault, read_data=1.0)
        assert [(finding.code, finding.severity) for finding in report.findings] == [
            ("pack-unreferenced", "note")
        ]
        assert len(read_all(vault)) == 1


def test_version_one_is_read_only_and_a_wrong_password_is_refused(unpacked):
    path = unpacked("small-repo")
    with Repository.open(LocalStorage(path), Secret("geheim")) as vault, pytest.raises(VaultReadOnly):
        vault.saver(None)
    with pytest.raises(WrongKey):
        Repository.open(LocalStorage(path), Secret("falsch"))
