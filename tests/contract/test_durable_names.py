"""A name that may not survive a power cut is not called stored: not at once, and not when tried again."""

from __future__ import annotations

import errno
import os

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.objects.base import Taken
from safekept.core.objects.local import LocalObjects
from safekept.vault.storage.base import AlreadyStored, FileKind
from safekept.vault.storage.local import LocalStorage

NAME = "ab" * 32


class Place:
    """Either kind of local store, asked to keep one and the same file."""

    def __init__(self, kind, path):
        path.mkdir()
        self.path, self.kind = str(path), kind
        if kind in ("vault", "batch"):
            self.storage = LocalStorage(self.path)
            if kind == "batch":
                self.storage.create()
        else:
            self.objects = LocalObjects(self.path)

    def write(self):
        try:
            if self.kind == "vault":
                self.storage.write(FileKind.PACK, NAME, b"pack")
            elif self.kind == "batch":
                with self.storage.batch() as batch:
                    batch.add(FileKind.PACK, NAME, b"pack")
                    batch.publish(FileKind.PACK)
            else:
                self.objects.write(f"data/ab/{NAME}", b"pack")
        except (AlreadyStored, Taken):
            return "there already"
        return "written"


class Disk:
    """Knows which directories were made durable since their names last changed; fails where told to."""

    def __init__(self, monkeypatch):
        self.durable, self.failing = set(), ""
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path == self.failing:
            self.failing = ""
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.durable.add(path)
        self._fsync(descriptor)


@pytest.mark.parametrize(
    ("kind", "below"),
    [
        ("vault", "data"),
        ("vault", "data/ab"),
        ("batch", "data"),
        ("batch", "data/ab"),
        ("objects", ""),
        ("objects", "data"),
        ("objects", "data/ab"),
    ],
)
def test_a_directory_that_could_not_be_made_durable_is_so_after_the_next_try(
    tmp_path, monkeypatch, kind, below
):
    place = Place(kind, tmp_path / "place")
    disk = Disk(monkeypatch)
    failed = disk.failing = os.path.normpath(os.path.join(place.path, below))
    with pytest.raises(SafekeptError, match="Input/output error"):
        place.write()
    assert disk.failing == "", "nothing was failed"
    if kind == "objects":  # else the next push would take it for one that is there to stay
        assert not os.path.exists(os.path.join(place.path, "data", "ab", NAME))
    disk.durable.clear()
    assert place.write() in ("written", "there already")
    assert failed in disk.durable, "and it was not tried again"
    with open(os.path.join(place.path, "data", "ab", NAME), "rb") as file:
        assert file.read() == b"pack"
