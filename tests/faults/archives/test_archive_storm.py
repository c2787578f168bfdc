"""Archives cut short anywhere, with bits flipped anywhere: noticed, or without any effect.

A seeded sample runs by default, the full counts with `--soak archive`.
"""

import contextlib
import os
import random

import pytest

from safekept.archive.errors import (
    ArchiveDamaged,
    ArchiveTooLarge,
    ArchiveUnknown,
    ArchiveUnsafe,
    ArchiveUnsupported,
)
from safekept.archive.errors import ArchiveLocked as HasPassword
from safekept.core.entries import CHUNK
from support.archives.sources import FORMS, directory, facts, file, link, read, write

NOTICED = (ArchiveDamaged, ArchiveUnknown)
#: A flipped bit in a header may also say "encrypted", "method 12" or "a name with `..`": noticed too.
ALTERED = (*NOTICED, ArchiveUnsafe, ArchiveUnsupported, HasPassword, ArchiveTooLarge)


def small_home():
    chooser = random.Random(5)
    return [
        file(".env", b"KEY=value\n", 0o600),
        directory("skills", 0o700),
        *(file(f"skills/s{number}.md", chooser.randbytes(40) * 9, 0o640) for number in range(12)),
        link("skills/current", "s1.md"),
        directory("skills/none"),
        file("state.db", chooser.randbytes(CHUNK + 4000), 0o600),
    ]


def make(tmp_path, form):
    path = tmp_path / f"good.{form}"
    write(small_home(), path, form)
    return path.read_bytes(), facts(small_home())


def flips(tmp_path, form, count, seed):
    good, wanted = make(tmp_path, form)
    path = tmp_path / "flipped"
    chooser = random.Random(seed)
    noticed = 0
    for number in range(count):
        # A third of the flips into the last bytes, where the lists and the manifest are.
        span = len(good) if number % 3 else min(6000, len(good))
        position = len(good) - 1 - chooser.randrange(span)
        bit = 1 << chooser.randrange(8)
        data = bytearray(good)
        data[position] ^= bit
        path.write_bytes(data)
        try:
            found = read(path)
        except ALTERED as error:
            assert error.kept == "Nothing was changed"
            noticed += 1
        else:
            assert found == wanted, f"byte {position}, bit {bit} of {form} went unnoticed"
    return noticed


def cuts(tmp_path, form, positions):
    good, _ = make(tmp_path, form)
    path = tmp_path / "cut"
    for position in positions(len(good)):
        path.write_bytes(good[:position])
        with pytest.raises(NOTICED):
            read(path)


@pytest.mark.parametrize("form", FORMS)
def test_flipped_bits_are_noticed_or_carry_nothing(form, tmp_path):
    assert flips(tmp_path, form, 60, seed=1) > 30


@pytest.mark.parametrize("form", FORMS)
def test_archives_cut_short_are_noticed(form, tmp_path):
    def positions(size):
        chooser = random.Random(2)
        return [0, 1, 4, 30, size - 1, size - 2, size - 22, *(chooser.randrange(size) for _ in range(25))]

    cuts(tmp_path, form, positions)


@pytest.mark.soak("archive")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(100, 110))
def test_storm_of_flipped_bits(form, seed, tmp_path):
    flips(tmp_path, form, 300, seed)


@pytest.mark.soak("archive")
@pytest.mark.parametrize("form", FORMS)
def test_storm_of_cuts(form, tmp_path):
    cuts(tmp_path, form, lambda size: [*range(0, size, 1499), *range(size - 3000, size, 3)])


@pytest.mark.soak("archive")
@pytest.mark.parametrize("packing", ["gz", "bz2", "xz", "zst", "plain"])
def test_storm_over_tarballs_of_others(packing, tmp_path):
    """Others' archives hold fewer checksums, so equal content is not promised; a typed error or none is."""
    import bz2
    import gzip
    import io
    import lzma
    import tarfile

    import zstandard

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(20):
            info = tarfile.TarInfo(f"d/f{number}")
            info.size = 3000
            archive.addfile(info, io.BytesIO(os.urandom(3000)))
    packers = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
        "plain": bytes,
    }
    good = packers[packing](buffer.getvalue())
    path, chooser = tmp_path / "a", random.Random(7)
    for _ in range(300):
        data = bytearray(good)
        data[chooser.randrange(len(data))] ^= 1 << chooser.randrange(8)
        path.write_bytes(data[: chooser.randrange(len(data))] if chooser.random() < 0.3 else data)
        with contextlib.suppress(ALTERED):
            read(path)
