"""Which project a path belongs to; what never is one."""

from __future__ import annotations

import hashlib
import os

import pytest

from checkpoint_support import put
from holdfast.checkpoints.project import MARKERS, Root, find_root, project_id


@pytest.mark.parametrize("marker", MARKERS)
def test_the_nearest_marker_above_a_file_names_the_project(tmp_path, marker):
    outer = str(tmp_path / "outer")
    put(f"{outer}/package.json")
    put(f"{outer}/inner/{marker}")
    path = put(f"{outer}/inner/src/deep/a.py")
    assert find_root(path) == Root(f"{outer}/inner", marker)
    assert find_root(f"{outer}/other.txt") == Root(outer, "package.json")
    assert find_root(f"{outer}/inner/yet/to/be/made.txt") == Root(f"{outer}/inner", marker)


def test_a_home_is_never_a_project_even_with_a_marker(tmp_path):
    home = str(tmp_path / "home")
    put(f"{home}/.git/HEAD")
    put(f"{home}/notes/a.txt")
    assert find_root(f"{home}/notes/a.txt", forbidden=[home]) == Root(f"{home}/notes", "")
    os.symlink(home, str(tmp_path / "link-to-home"))
    found = find_root(f"{tmp_path}/link-to-home/notes/a.txt", forbidden=[f"{tmp_path}/link-to-home"])
    assert found == Root(f"{home}/notes", ""), "#20626: a linked home is the same home"


def test_the_shared_temporary_directory_is_never_a_project(monkeypatch):
    assert find_root("/tmp/some-file-of-a-tool") == Root("/tmp", "")
    assert find_root("/") == Root("/", "")
    assert find_root("/nonexistent/a/b") is None


def test_a_link_is_taken_where_it_lies_and_a_linked_directory_where_it_leads(tmp_path):
    real = str(tmp_path / "real")
    put(f"{real}/go.mod")
    put(f"{real}/a.go")
    os.symlink(real, str(tmp_path / "way"))
    put(str(tmp_path / "other" / "Makefile"))
    os.symlink(f"{real}/a.go", str(tmp_path / "other" / "link.go"))
    assert find_root(f"{tmp_path}/way/a.go") == Root(real, "go.mod")
    assert find_root(f"{tmp_path}/other/link.go") == Root(f"{tmp_path}/other", "Makefile")
    assert find_root(f"{tmp_path}/way") == Root(real, "go.mod")


def test_the_id_of_a_project_is_that_of_hermes():
    assert project_id("/a/b") == hashlib.sha256(b"/a/b").hexdigest()[:16]
    assert project_id("/\udcff") == hashlib.sha256(b"/\xff").hexdigest()[:16]
