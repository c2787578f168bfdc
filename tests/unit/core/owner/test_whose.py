"""Whose a place is: the first on the way who is not root decides, and nobody below can change that."""

import os
import tempfile

import pytest

from conftest import missing_part
from safekept.core.owner import chosen_by, foreign_owner, open_to_others, ours

SOMEBODY, OTHER = 65534, 12345


@pytest.fixture
def place():
    """A directory of root's in /tmp."""
    if os.geteuid() != 0:
        missing_part("needs root")
    with tempfile.TemporaryDirectory() as found:
        yield os.path.realpath(found)


def given(path: str, uid: int, mode: int = 0o755) -> str:
    os.mkdir(path)
    os.chmod(path, mode)
    os.chown(path, uid, uid)
    return path


def uid_of(path: str) -> int | None:
    found = foreign_owner(path)
    return None if found is None else found.uid


def test_what_is_roots_to_the_top_is_roots(place):
    given(f"{place}/a", 0)
    assert uid_of(f"{place}/a") is None
    assert uid_of(f"{place}/a/not/there/yet") is None
    assert uid_of("/") is None


def test_the_first_on_the_way_who_is_not_root_decides(place):
    given(f"{place}/hers", SOMEBODY)
    given(f"{place}/hers/his", OTHER)
    given(f"{place}/hers/his/roots", 0)
    assert uid_of(f"{place}/hers") == SOMEBODY
    assert uid_of(f"{place}/hers/his/roots") == SOMEBODY
    assert uid_of(f"{place}/hers/nothing/there") == SOMEBODY


def test_a_link_of_hers_to_what_is_roots_is_hers(place):
    given(f"{place}/hers", SOMEBODY)
    os.symlink("/etc", f"{place}/hers/link")
    assert uid_of(f"{place}/hers/link") == SOMEBODY
    os.symlink("/etc", f"{place}/link")
    os.lchown(f"{place}/link", SOMEBODY, SOMEBODY)
    assert uid_of(f"{place}/link/passwd") == SOMEBODY


def test_a_link_of_roots_is_followed_and_its_end_decides(place):
    given(f"{place}/hers", SOMEBODY)
    os.symlink("hers", f"{place}/link")
    assert uid_of(f"{place}/link") == SOMEBODY
    os.symlink("/usr", f"{place}/own")
    assert uid_of(f"{place}/own/bin") is None


def test_two_dots_are_gone_as_the_kernel_goes_them(place):
    given(f"{place}/hers", SOMEBODY)
    os.symlink("/usr/bin", f"{place}/far")
    assert uid_of(f"{place}/hers/../own") == SOMEBODY, "she decides where her directory is"
    assert uid_of(f"{place}/far/../share") is None


def test_links_without_an_end_are_an_answer_too(place):
    os.symlink("loop", f"{place}/loop")
    assert uid_of(f"{place}/loop/x") is None


def test_only_root_asks_whose_a_place_is(place, monkeypatch):
    given(f"{place}/hers", SOMEBODY)
    monkeypatch.setattr("os.geteuid", lambda: OTHER)
    assert foreign_owner(f"{place}/hers") is None


def test_a_number_without_a_name_is_an_owner_too(place):
    given(f"{place}/its", 54321)
    found = foreign_owner(f"{place}/its")
    assert found is not None
    assert (found.uid, found.gid, found.groups, found.name, found.home) == (54321, 54321, (), "#54321", "/")
    assert found.login == "'#54321'"


def test_what_may_be_run_as_somebody_was_chosen_by_him_and_root_alone(place):
    given(f"{place}/hers", SOMEBODY)
    assert chosen_by(f"{place}/hers/python", SOMEBODY)
    assert not chosen_by(f"{place}/hers/python", 0)
    given(f"{place}/hers/his", OTHER)
    assert not chosen_by(f"{place}/hers/his/python", SOMEBODY)
    given(f"{place}/anybodys", 0, 0o777)
    assert not chosen_by(f"{place}/anybodys/python", 0)


def test_what_others_can_write_is_open_to_them(place):
    given("/var/own-of-the-test", 0)
    try:
        assert not open_to_others("/var/own-of-the-test")
        given("/var/own-of-the-test/shared", 0, 0o777)
        assert open_to_others("/var/own-of-the-test/shared/x")
    finally:
        os.rmdir("/var/own-of-the-test/shared")
        os.rmdir("/var/own-of-the-test")
    assert open_to_others(place), "/tmp is everybody's"


@pytest.mark.parametrize("kind", ["own", "another's", "two names", "a pipe", "open to others"])
def test_a_file_to_act_on_is_plain_ours_and_has_one_name(place, kind):
    path = f"{place}/file"
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        with open(path, "w"):
            pass
    os.chmod(path, 0o602 if kind == "open to others" else 0o600)
    if kind == "another's":
        os.chown(path, SOMEBODY, SOMEBODY)
    if kind == "two names":
        os.link(path, path + ".2")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert ours(descriptor) is (kind == "own")
    finally:
        os.close(descriptor)
