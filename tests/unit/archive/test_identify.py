"""Rotation asks `identify`; it must know its own and be silent about everything else."""

import os
import zipfile

import pytest

from safekept.archive import identify
from support.archives.sources import FORMS, HEAD, file, sample_home, write


@pytest.mark.parametrize("form", FORMS)
def test_own_archives_are_known_whatever_their_name(form, tmp_path):
    write(sample_home(), tmp_path / "anything", form)
    head = identify(str(tmp_path / "anything"))
    assert head is not None
    assert (head["id"], head["complete"]) == (HEAD["id"], True)


@pytest.mark.parametrize("form", FORMS)
def test_identify_reads_little_of_a_large_archive(form, tmp_path, monkeypatch):
    path = tmp_path / "a"
    write([file(f"f{number}", os.urandom(5000)) for number in range(2000)], path, form)
    total = 0
    real = os.pread

    def counting(descriptor, length, offset):
        nonlocal total
        total += length
        return real(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counting)
    assert identify(str(path)) is not None
    assert total < 100_000 < path.stat().st_size // 10


@pytest.mark.parametrize("form", FORMS)
def test_truncated_archives_are_not_known(form, tmp_path):
    path = tmp_path / "a"
    write(sample_home(), path, form)
    good = path.read_bytes()
    for cut in (1, 5, 30, 1000, len(good) // 2, len(good) - 1, len(good)):
        path.write_bytes(good[: len(good) - cut])
        assert identify(str(path)) is None


def test_foreign_and_missing_files_are_not_known(tmp_path):
    with zipfile.ZipFile(tmp_path / "hermes.zip", "w") as archive:
        archive.writestr("config.yaml", "x")
        archive.writestr(
            ".safekept/manifest.json", '{"format":"safekept-archive","version":1,"complete":true}'
        )
    (tmp_path / "text").write_bytes(b"hello")
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for name in ("hermes.zip", "text", "empty", "pipe", "missing", "."):
        assert identify(str(tmp_path / name)) is None
