"""Holes of sparse files: stored as one known blob, restored as zeros, wherever they lie."""

from __future__ import annotations

import hashlib
import os
import random

import pytest

from safekept.home.scan.content import open_plain
from safekept.vault.format.blobs import HOLE, HOLE_ID, ID
from safekept.vault.write.chunks import store_content


def test_the_name_of_a_hole_is_the_hash_of_its_zeros():
    assert hashlib.sha256(bytes(HOLE)).digest() == HOLE_ID


def stored_and_read(vault, path):
    directory, name = os.path.split(path)
    with vault.saver(None) as saver, open_plain(directory + "/", name, name, os.stat(path).st_ino) as content:
        ids, size = store_content(saver, content)
        saver.flush()
    assert size == os.path.getsize(path)
    digest = hashlib.sha256()
    for piece in vault.loader.stream(ids):
        digest.update(piece)
    return ids, digest.hexdigest()


@pytest.mark.parametrize("seed", range(6))
def test_a_sparse_file_comes_back_to_the_byte(vault, tmp_path, seed):
    source, path = random.Random(seed), str(tmp_path / "sparse")
    with open(path, "wb") as file:
        at = 0
        for _ in range(source.randrange(1, 5)):
            at += source.choice((0, 5000, 1 << 20, HOLE - 1, HOLE, HOLE + 1, 3 * HOLE + 77))
            file.seek(at)
            piece = source.randbytes(source.choice((1, 4096, 700_000, 2 << 20)))
            file.write(piece)
            at += len(piece)
        file.truncate(at + source.choice((0, 1, 4096, HOLE, 2 * HOLE + 5)))
    with open(path, "rb") as file:
        expected = hashlib.file_digest(file, "sha256").hexdigest()
    _, found = stored_and_read(vault, path)
    assert found == expected


@pytest.mark.needs("holes", "it makes a file of holes")
@pytest.mark.needs("seek_data", "it counts on holes being found")
def test_a_file_of_holes_is_one_blob_again_and_again(vault, tmp_path):
    path = str(tmp_path / "sparse")
    with open(path, "wb") as file:
        file.truncate(40 * HOLE)
    ids, _ = stored_and_read(vault, path)
    assert ids == HOLE_ID * 40 and len(ids) == 40 * ID


def test_zeros_that_are_written_are_no_holes_and_come_back_too(vault, tmp_path):
    path = str(tmp_path / "zeros")
    with open(path, "wb") as file:
        file.write(bytes(2 * HOLE + 3))
    _, found = stored_and_read(vault, path)
    assert found == hashlib.sha256(bytes(2 * HOLE + 3)).hexdigest()
