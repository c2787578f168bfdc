"""A checkpoint is written out exactly, and what its store lost is named file by file."""

from __future__ import annotations

import os

import pytest

from safekept.checkpoints.rollback.unpacking import size_of, unpack
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from support.platforms.needs import where_the_disk_can
from support.projects.checkpoints import put, tree_on_disk


@pytest.fixture
def project(tmp_path):
    project = str(tmp_path / "work")
    put(f"{project}/pyproject.toml", "[project]\n")
    put(f"{project}/src/a.py", "a = 1\n" * 500, 0o640)
    put(f"{project}/run.sh", "#!/bin/sh\n", 0o755)
    put(f"{project}/closed", "x", 0o000)
    os.makedirs(f"{project}/empty/deep")
    with where_the_disk_can():
        os.symlink("src/a.py", f"{project}/link")
    return project


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_what_is_written_out_is_what_was_there(tmp_path, project):
    os.chmod(f"{project}/closed", 0o400)
    with Store.open(str(tmp_path / "checkpoints")) as store:
        point = take(store, project, full=True).checkpoint
        os.chmod(f"{project}/closed", 0o400)
        target = str(tmp_path / "out")
        os.mkdir(target)
        done = unpack(store, point, target)
        assert size_of(store, point) >= 8 * 4096
    assert done.wrong == []
    assert done.files == 5
    before, after = tree_on_disk(project), tree_on_disk(target)
    assert before.keys() == after.keys()
    for path, facts in before.items():
        if facts[0] == "file":
            assert after[path] == facts, path
        assert after[path][4] == facts[4], path


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_what_the_store_lost_is_named_and_the_rest_comes(tmp_path, project):
    os.chmod(f"{project}/closed", 0o400)
    place = str(tmp_path / "checkpoints")
    with Store.open(place) as store:
        point = take(store, project, full=True).checkpoint
        oid = store.state(point)["src/a.py"].oid
    packs = os.path.join(place, "store", "objects", "pack")
    (path,) = (os.path.join(packs, name) for name in os.listdir(packs) if name.endswith(".pack"))
    with Store.open(place) as store:
        pack = next(iter(store.objects._copies(bytes.fromhex(oid))))
        at = pack.offset(bytes.fromhex(oid)) + 12
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))
    target = str(tmp_path / "out")
    os.mkdir(target)
    with Store.open(place) as store:
        done = unpack(store, point, target)
    assert [name for name, _ in done.wrong] == ["src/a.py"]
    assert done.files == 4
