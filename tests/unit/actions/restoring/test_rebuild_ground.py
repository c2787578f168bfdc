"""Putting a rebuilt home in its place: two renames, between which nothing can be lost."""

from __future__ import annotations

import os

import pytest

from safekept.actions.restoring import rebuild_target as rebuild_ground
from safekept.actions.restoring.rebuild_target import HomeNotMovable, building, inspect_target, put_in_place
from safekept.core.errors import SafekeptError
from safekept.core.locks import AlreadyRunning


@pytest.fixture
def home(here):
    place = os.path.join(os.path.realpath(here.places.user_home), ".hermes")
    os.makedirs(os.path.join(place + ".safekept", "landings"))
    os.mkdir(place)
    write(place, "old")
    return place


def write(place, text):
    with open(os.path.join(place, "SOUL.md"), "w") as file:
        file.write(text)


def read(place):
    with open(os.path.join(place, "SOUL.md")) as file:
        return file.read()


def built(ground):
    os.mkdir(ground.built)
    write(ground.built, "new")


def in_child(work):
    """Run it in a child that may die on the way; its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def program(place):
    return os.path.join(place, "hermes-agent", "venv", "bin", "hermes")


def install(place):
    os.makedirs(os.path.dirname(program(place)))
    with open(program(place), "w") as file:
        file.write("#!/bin/sh")


def killed_at_rename(here, home, number, layout=None):
    """A rebuild that is killed right after so many renames of its last step."""

    def work():
        real, done = os.rename, 0

        def rename(*arguments, **options):
            nonlocal done
            real(*arguments, **options)
            if str(arguments[0]).startswith(home):
                done += 1
                if done == number:
                    os._exit(9)

        with building(inspect_target(here, home, layout)) as ground:
            built(ground)
            os.rename = rename
            put_in_place(ground)

    return in_child(work)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_killed_between_the_renames_the_next_one_finds_the_old_home(here, home, number):
    """The record of the swap is itself a rename; then the home, its work area, and the new home."""
    assert killed_at_rename(here, home, number) == 9
    ground = inspect_target(here, home)
    if number < 4:
        assert read(home) == "old" and os.path.isdir(home + ".safekept/landings"), "as it was"
    else:
        assert read(home) == "new", "it was in place already"
    with building(ground):
        built(ground)
        put_in_place(ground)
    assert read(home) == "new"
    beside = sorted(name for name in os.listdir(os.path.dirname(home)) if name.startswith(".hermes"))
    texts = [read(os.path.join(os.path.dirname(home), name)) for name in beside if "safekept" not in name]
    assert sorted(texts) == (["new", "old"] if number < 4 else ["new", "new", "old"])
    assert not os.path.exists(home + ".safekept-rebuild")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_killed_while_the_program_is_carried_over_it_is_in_the_home_again(here, home, number):
    install(home)
    layout = here.layout("hermes")
    assert killed_at_rename(here, home, number, layout) == 9
    ground = inspect_target(here, home, layout)
    assert ground.stays == ("hermes-agent",) and os.path.isfile(program(home))
    assert read(home) == ("old" if number < 5 else "new")
    with building(ground):
        built(ground)
        put_in_place(ground)
    assert read(home) == "new" and os.path.isfile(program(home))
    assert not os.path.exists(program(ground.aside))
    assert os.system(ground.bring_back) == 0
    assert os.path.isfile(program(home)) and not os.path.exists(ground.aside)


def test_a_rename_that_fails_leaves_the_old_home_in_its_place(here, home, monkeypatch):
    real = os.rename

    def rename(source, target, **options):
        if target == home and source.endswith("/home"):
            raise OSError(5, "Input/output error", source)
        real(source, target, **options)

    with building(inspect_target(here, home)) as ground:
        built(ground)
        monkeypatch.setattr(os, "rename", rename)
        with pytest.raises(SafekeptError) as raised:
            put_in_place(ground)
        assert raised.value.kept == "The home is as it was"
    monkeypatch.undo()
    assert read(home) == "old" and not os.path.exists(ground.aside)
    assert not os.path.exists(home + ".safekept-rebuild")


def test_two_rebuilds_of_one_home_do_not_meet(here, home):
    with building(inspect_target(here, home)) as ground, pytest.raises(AlreadyRunning), building(ground):
        pytest.fail("both were let in")
    assert read(home) == "old"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_where_it_would_build_leads_nowhere(here, home, tmp_path):
    os.symlink(tmp_path, home + ".safekept-rebuild")
    before = sorted(os.listdir(tmp_path))
    ground = inspect_target(here, home)
    with pytest.raises(HomeNotMovable, match="is in the way"), building(ground):
        pytest.fail("it followed the link")
    assert sorted(os.listdir(tmp_path)) == before and read(home) == "old"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_home_behind_a_link_stays_behind_it(here, home, tmp_path):
    link = str(tmp_path / "link")
    os.symlink(home, link)
    ground = inspect_target(here, here.locate(link).home)
    with building(ground):
        built(ground)
        put_in_place(ground)
    assert os.path.islink(link) and read(link) == "new"


def test_a_move_into_a_mount_point_that_was_cut_off_is_begun_again(here, tmp_path, monkeypatch):
    place = os.path.join(os.path.realpath(tmp_path), "mounted")
    os.mkdir(place)
    monkeypatch.setattr(rebuild_ground, "_movable", lambda home: False)

    def work():
        real = os.rename
        with building(inspect_target(here, place)) as ground:
            built(ground)
            os.mkdir(os.path.join(ground.built, "skills"))

            def rename(source, target, **options):
                real(source, target, **options)
                if target == os.path.join(place, "SOUL.md"):
                    os._exit(9)

            os.rename = rename
            put_in_place(ground)

    assert in_child(work) == 9
    assert sorted(os.listdir(place)) == [".safekept-rebuild", "SOUL.md"]
    ground = inspect_target(here, place)
    assert os.listdir(place) == [".safekept-rebuild"] and not ground.beside
    with building(ground):
        built(ground)
        put_in_place(ground)
    assert os.listdir(place) == ["SOUL.md"]
