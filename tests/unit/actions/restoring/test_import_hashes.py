"""Every byte that an import lands is held against the hash of the manifest, by the landing itself."""

import os
import zipfile

import pytest

from safekept.actions.restoring.import_ import ImportRequest, prepare_import
from safekept.home.landing.stage.proving import RestoreNotProven
from support.archives.sources import file, write
from support.users.contexts import throwaway


def with_another_content(path, name, data):
    """The zip again, one member exchanged, its CRC right: only the manifest's SHA-256 can tell."""
    with zipfile.ZipFile(path) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
        comment = archive.comment
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = comment
        for info, content in members:
            archive.writestr(info, data if info.filename == name else content)


@pytest.mark.parametrize("size", [50, 200_000, 1_500_000])
def test_a_file_exchanged_in_an_archive_never_lands(tmp_path, size):
    path = tmp_path / "a.zip"
    write([file("config.yaml", b"a: 1\n"), file("big", b"1" * size)], path)
    with_another_content(path, "big", b"2" * size)
    home = tmp_path / "home"
    request = ImportRequest(file=str(path), into=str(home), layout="generic")
    with prepare_import(throwaway(tmp_path), request) as prepared, pytest.raises(RestoreNotProven) as caught:
        prepared.carry_out()
    assert (
        "1 of 2 restored things could not be proven: `big`: its bytes do not have the recorded hash"
        in caught.value.what
    )
    assert caught.value.kept == "The home is as it was; what was staged has been removed"
    assert not os.path.exists(home / "big") and not os.path.exists(home / "config.yaml")
