"""Which project a path belongs to; what never is one."""

from __future__ import annotations

import hashlib
import os

import pytest

from safekept.checkpoints.project import MARKERS, Root, find_root, holds_too_much, project_id
from support.projects.checkpoints import put


@pytest.mark.parametrize("marker", MARKERS)
def test_the_nearest_marker_above_a_file_names_the_project(tmp_path, marker):
    outer = str(tmp_path / "outer")
    put(f"{outer}/package.json")
    put(f"{outer}/inner/{marker}")
    path = put(f"{outer}/inner/src/deep/a.py")
    assert find_root(path) == Root(f"{outer}/inner", marker)
    assert find_root(f"{outer}/other.txt") == Root(outer, "package.json")
    assert find_root(f"{outer}/inner/yet/to/be/made.txt") == Root(f"{outer}/inner", marker)


@pytest.mark.needs("symlinks", "it makes symbolic links")
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
    assert find_root("/home/nobody-at-all/a/b") is None


def test_the_packages_of_a_repository_are_one_project(tmp_path):
    """#B3: a monorepo has one history and one set of ignore rules; an own repository is its own project."""
    top = str(tmp_path / "mono")
    put(f"{top}/.git/HEAD")
    put(f"{top}/packages/a/package.json")
    put(f"{top}/packages/a/lib/Makefile")
    put(f"{top}/vendor/own/.git/HEAD")
    put(f"{top}/vendor/worktree/.git", "gitdir: elsewhere")
    put(f"{top}/vendor/own/sub/go.mod")
    assert find_root(f"{top}/packages/a/x.js") == Root(top, ".git")
    assert find_root(f"{top}/packages/a/lib/yet/to/be/made.js") == Root(top, ".git")
    assert find_root(f"{top}/vendor/own/sub/x.go") == Root(f"{top}/vendor/own", ".git")
    assert find_root(f"{top}/vendor/worktree/x") == Root(f"{top}/vendor/worktree", ".git")
    assert find_root(f"{top}/packages/a/x.js", forbidden=[top]) == Root(f"{top}/packages/a", "package.json")


def test_a_file_without_a_marker_is_in_one_project_before_and_after_its_directory_is_made(tmp_path):
    path = f"{tmp_path}/loose/sub/deep/new.txt"
    put(f"{tmp_path}/loose/other.txt")
    before = find_root(path)
    put(path)
    assert before == find_root(path) == Root(os.path.dirname(path), "")


@pytest.mark.parametrize(
    "place", "/ /tmp /var/tmp /home /etc /usr /var /usr/share /proc/sys /root /home/somebody".split()
)
def test_what_holds_everything_is_no_project_though_a_person_names_it(place):
    assert holds_too_much(place)


def test_a_directory_that_a_person_names_is_one(tmp_path):
    agent = str(tmp_path / "agent")
    assert holds_too_much(agent, [agent]) and not holds_too_much(f"{agent}/skills", [agent])
    for place in (
        str(tmp_path),
        "/etc/nginx",
        "/srv/www",
        "/dev/shm/x",
        "/home/somebody/project",
        "/usr/src/app",
    ):
        assert not holds_too_much(place)


@pytest.mark.needs("symlinks", "it makes symbolic links")
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
