"""A record is acted on unasked, so every field of it is checked: a wrong one, and nothing of it is done."""

import copy
import json
import os

import pytest

from safekept.home.landing.record import read_header, read_record

OPERATION = "20260101-000000-abcdef"
HEADER = {
    "format": "safekept-landing",
    "version": 1,
    "operation": OPERATION,
    "home": "/home/u/.hermes",
    "verb": "land",
    "undoes": "",
    "time": 1.5,
    "process": 12,
    "roots": [
        {"label": "home", "base": "/home/u", "name": ".hermes"},
        {"label": "external-1", "base": "/home/u", "name": ".honcho"},
    ],
}
DIRECTORY = {"root": 0, "path": ".hermes/a", "mode": 0o755, "mtime_ns": 1}
STEP = {
    "number": 0,
    "do": "put",
    "root": 0,
    "path": ".hermes/a/b",
    "entry": "a/b",
    "had": True,
    "staged": "0/1",
    "size": 3,
    "mtime_ns": 1,
    "database": True,
    "carries": ["-wal"],
}
NOTE = {"note": "vanished", "step": 0}


def written(tmp_path, header=HEADER, directory=DIRECTORY, step=STEP, note=NOTE) -> str:
    place = tmp_path / OPERATION
    place.mkdir(mode=0o700)
    path = place / "plan.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, directory, step, note)))
    os.chmod(path, 0o600)
    return str(path)


def test_a_record_of_ours_is_read(tmp_path):
    record = read_record(written(tmp_path))
    assert (len(record.steps), len(record.directories), len(record.notes)) == (1, 1, 1)


LEAVING = [
    "../x",
    "/etc",
    ".hermes/../../x",
    ".hermes//x",
    "",
    ".",
    ".hermes/.",
    "other",
    ".hermesx/y",
    "a\0b",
    7,
    None,
]


@pytest.mark.parametrize("path", LEAVING)
def test_no_step_leaves_its_root(tmp_path, path):
    with pytest.raises(ValueError, match="a record with"):
        read_record(written(tmp_path, step={**STEP, "path": path}))


@pytest.mark.parametrize("path", LEAVING)
def test_no_directory_leaves_its_root(tmp_path, path):
    with pytest.raises(ValueError, match="a record with"):
        read_record(written(tmp_path, directory={**DIRECTORY, "path": path}))


def test_parents_of_a_root_are_made_and_never_put(tmp_path):
    header = copy.deepcopy(HEADER)
    header["roots"][0] = {"label": "home", "base": "/home", "name": "u/.hermes"}
    making = {**STEP, "do": "make", "path": "u", "carries": [], "database": False}
    directory = {**DIRECTORY, "path": "u"}
    step = {**STEP, "path": "u"}
    assert read_record(written(tmp_path, header, directory, making)).steps[0].path == "u"
    os.unlink(tmp_path / OPERATION / "plan.jsonl")
    os.rmdir(tmp_path / OPERATION)
    with pytest.raises(ValueError, match="leaves its root"):
        read_record(written(tmp_path, header, directory, step))


@pytest.mark.parametrize(
    "change",
    [
        {"number": 1},
        {"number": "/../x"},
        {"number": True},
        {"do": "burn"},
        {"root": 2},
        {"root": -1},
        {"root": "0"},
        {"staged": "../../x"},
        {"staged": "/etc/passwd"},
        {"size": -1},
        {"size": "3"},
        {"had": "yes"},
        {"carries": ["/../x"]},
        {"carries": "-wal"},
        {"entry": 3},
    ],
)
def test_an_odd_step_is_no_step(tmp_path, change):
    with pytest.raises((ValueError, TypeError)):
        read_record(written(tmp_path, step={**STEP, **change}))


@pytest.mark.parametrize("change", [{"mode": 0o10000}, {"mode": -1}, {"root": 9}, {"mode": "0755"}])
def test_an_odd_directory_is_none(tmp_path, change):
    with pytest.raises(ValueError):
        read_record(written(tmp_path, directory={**DIRECTORY, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "../../x"},
        {"operation": "another"},
        {"undoes": "../x"},
        {"verb": "burn"},
        {"process": -1},
        {"process": "a/../b"},
        {"roots": []},
        {"roots": "home"},
        {"roots": [{"label": "../x", "base": "/home/u", "name": ".hermes"}]},
        {"roots": [{"label": "external-1", "base": "/home/u", "name": ".hermes"}]},
        {"roots": [{"label": "home", "base": "home/u", "name": ".hermes"}]},
        {"roots": [{"label": "home", "base": "/home/../etc", "name": ".hermes"}]},
        {"roots": [{"label": "home", "base": "/home/u", "name": "../x"}]},
        {"roots": [{"label": "home", "base": "/home/u", "name": ""}]},
    ],
)
def test_an_odd_header_is_none(tmp_path, change):
    path = written(tmp_path, {**HEADER, **change})
    for read in (read_record, read_header):
        with pytest.raises((ValueError, TypeError)):
            read(path)


@pytest.mark.parametrize("kind", ["link", "pipe", "second name"])
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"link"})
@pytest.mark.needs("pipes", "it makes a pipe or a socket", only={"pipe"})
@pytest.mark.needs("hard-links", "it makes a second name of a file", only={"second name"})
def test_a_record_that_is_no_plain_file_is_not_read(tmp_path, kind):
    path = written(tmp_path)
    if kind == "second name":
        os.link(path, path + ".2")
    else:
        os.rename(path, path + ".2")
        os.symlink(path + ".2", path) if kind == "link" else os.mkfifo(path)
    with pytest.raises(ValueError, match="a record that is"):
        read_record(path)
