"""A link-safe tree: no link is followed, no `..` leads out, and what is open stays the right thing."""

from __future__ import annotations

import os
import stat

import pytest

from safekept.checkpoints.rollback.project_tree import ProjectTree
from safekept.core.files.tree import LinkSafeTree

DEEP = "/".join(f"d{number}" for number in range(100))  # more than are kept open at once


def make_deep(base, path):
    """Directories below each other, without ever naming a long path."""
    with LinkSafeTree(str(base), make=True) as tree:
        tree.parent(f"{path}/x")


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_in_the_way_is_no_directory_whatever_is_asked(tmp_path):
    outside, base = tmp_path / "outside", tmp_path / "base"
    outside.mkdir()
    base.mkdir()
    (outside / "file").write_text("theirs")
    (base / "link").symlink_to(outside)
    with LinkSafeTree(str(base), make=True) as tree:
        assert tree.look("link/file") is None
        for ask in (tree.directory, tree.parent, tree.open, tree.link_text):
            with pytest.raises(NotADirectoryError):
                ask("link/file")
        tree.unlink("link/file")
        with pytest.raises(OSError):
            tree.open("link")
        facts = tree.look("link")
    assert facts is not None and stat.S_ISLNK(facts.st_mode)
    assert (outside / "file").read_text() == "theirs" and os.listdir(outside) == ["file"]


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_put_there_after_a_walk_is_met_once_the_directory_is_forgotten(tmp_path):
    (tmp_path / "base" / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    with LinkSafeTree(str(tmp_path / "base")) as tree:
        tree.directory("a")
        os.rename(tmp_path / "base" / "a", tmp_path / "base" / "moved")
        (tmp_path / "base" / "a").symlink_to(tmp_path / "outside")
        parent, name = tree.parent("a/new")
        os.mkdir(name, dir_fd=parent)  # into the directory that was walked, not through the link
        tree.forget("a")
        with pytest.raises(NotADirectoryError):
            tree.parent("a/new")
    assert os.listdir(tmp_path / "outside") == []
    assert os.listdir(tmp_path / "base" / "moved") == ["new"]


@pytest.mark.parametrize("path", ["..", "../secret", "a/..", "a/../../secret", "a/./b", "."])
def test_dots_lead_nowhere(tmp_path, path):
    (tmp_path / "base" / "a" / "b").mkdir(parents=True)
    (tmp_path / "secret").write_text("not of this tree")
    with LinkSafeTree(str(tmp_path / "base"), make=True) as tree:
        assert tree.look(path) is None
        for ask in (tree.parent, tree.open):
            with pytest.raises(FileNotFoundError):
                ask(path)
        tree.unlink(path)
    assert sorted(os.listdir(tmp_path)) == ["base", "secret"] and os.listdir(tmp_path / "base") == ["a"]


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_base_that_is_a_link_is_refused_unless_it_may_be_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        LinkSafeTree(str(tmp_path / "link"))
    with LinkSafeTree(str(tmp_path / "link"), follow=True) as tree:
        assert tree.look("") is not None and tree.full("a") == f"{tmp_path}/link/a"


def test_no_path_is_too_deep_and_few_directories_stay_open(tmp_path):
    path = "/".join(["directory"] * 1500)  # beyond PATH_MAX, and beyond what recursion bears
    before = len(os.listdir("/dev/fd"))
    with LinkSafeTree(str(tmp_path), make=True) as tree:
        parent, name = tree.parent(f"{path}/file")
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=parent))
        assert len(os.listdir("/dev/fd")) - before < 70
    with LinkSafeTree(str(tmp_path)) as tree:
        facts = tree.look(f"{path}/file")
        assert facts is not None and stat.S_ISREG(facts.st_mode)
        tree.unlink(f"{path}/file")
        assert tree.look(f"{path}/file") is None
        while path:  # pytest's own clean-up cannot go so deep
            path = path.rpartition("/")[0]
            parent, name = tree.parent(f"{path}/directory" if path else "directory")
            tree.forget(f"{path}/directory" if path else "directory")
            os.rmdir(name, dir_fd=parent)
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize(
    ("source", "target"),
    [("near", f"{DEEP}/far"), (f"{DEEP}/far", "near"), (f"{DEEP}/far", f"other/{DEEP}/x")],
)
def test_a_thing_moves_however_far_apart_its_two_places_are(tmp_path, source, target):
    """The way to the second place closed the first one, and its number meant another directory."""
    for path in ("one", DEEP, f"other/{DEEP}"):
        make_deep(tmp_path, path)
    source, target = (f"one/{name}" if name == "near" else name for name in (source, target))
    (tmp_path / source).write_text("mine")
    with ProjectTree(str(tmp_path)) as tree:
        tree.move(source, target)
        assert not (tmp_path / source).exists() and (tmp_path / target).read_text() == "mine"
    (tmp_path / source).write_text("another")
    with ProjectTree(str(tmp_path)) as tree:
        tree.exchange(source, target)
    assert (tmp_path / source).read_text() == "mine" and (tmp_path / target).read_text() == "another"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with LinkSafeTree(str(tmp_path)) as tree:
        os.close(tree.open("pipe"))
