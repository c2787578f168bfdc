"""A disk that fills up while an archive is written: a clear error, and nothing left behind."""

import os

import pytest

from safekept.core.entries import CHUNK
from safekept.core.files import NoRoom
from support.archives.sources import FORMS, file, read, write


@pytest.mark.real
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kibibytes", [64, 1024, 2600])
def test_full_disk_is_said_and_leaves_nothing(form, kibibytes, small_filesystem):
    place = small_filesystem(kibibytes)
    noise = [file(f"f{number:04}", os.urandom(3000)) for number in range(200)]
    with pytest.raises(NoRoom) as caught:
        write([*noise, file("state.db", os.urandom(3 * CHUNK), database=True)], f"{place}/a", form)
    error = caught.value
    assert error.code == "no-room"
    assert error.what == f"There is no room for the archive in `{place}`: no space left on device"
    assert error.kept == "No archive was written, and no part of one was left behind"
    assert error.advice() == (
        "Free some space there, or write it elsewhere: `safekept backup -o DIRECTORY`",
        "See what takes the space without writing anything: `safekept backup --dry-run`",
    )
    assert os.listdir(place) == []
    write([file("a", b"1")], f"{place}/a", form)
    assert list(read(f"{place}/a")) == ["a"]
