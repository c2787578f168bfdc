"""Documents in which something is remembered: what does not fit is as good as none, and nothing hangs."""

from __future__ import annotations

import os

import pytest

from safekept.core.files.small import read_document, read_fields, write_document


def counts(document):
    return {str(name): int(number) for name, number in document["counts"].items()}


@pytest.mark.needs("modes", "it looks at modes")
def test_a_document_comes_back_and_only_its_owner_can_read_it(tmp_path):
    path = tmp_path / "below" / "a.json"
    write_document(str(path), {"counts": {"a\udcff": 1}})
    assert read_document(str(path), counts, {}) == {"a\udcff": 1}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    write_document(str(path), {"counts": {}}, durable=False)
    assert read_fields(str(path)) == {"counts": {}}
    assert os.listdir(path.parent) == ["a.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"counts": 3}', '{"counts": {"a": "x"}}', "[" * 100_000, b"\xff\xfe\x00"]
)
def test_what_is_torn_or_of_another_shape_is_as_good_as_none(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_document(str(path), counts, {"none": 0}) == {"none": 0}
    assert read_document(str(path), counts, {"none": 0}, strict=True) == {"none": 0}


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    assert read_fields(str(tmp_path / "a.json")) == {}


def test_who_must_know_hears_that_a_file_cannot_be_read(tmp_path):
    (tmp_path / "a.json").mkdir()
    assert read_document(str(tmp_path / "a.json"), counts, {}) == {}
    with pytest.raises(OSError, match="not a regular file"):
        read_document(str(tmp_path / "a.json"), counts, {}, strict=True)
    assert read_document(str(tmp_path / "none.json"), counts, {}, strict=True) == {}
    assert read_document(str(tmp_path / "none" / "none.json"), counts, {}, strict=True) == {}
