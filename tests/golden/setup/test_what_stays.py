"""What lies open on this machine is named, and goes with the stores."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from safekept.core.versions import version_text
from support.commands.in_process import spoken
from support.users.first_hour import Newcomer
from support.users.states import made, write
from support.vault.closed import open_below

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def test_what_a_restore_replaced_is_named_by_uninstall_and_goes_with_the_stores(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    write(state, "memories/MEMORY.md", "this is replaced\n", append=True)
    assert say("restore", "latest", "--yes").code == 0
    area = state.home + ".safekept"
    assert os.path.isdir(os.path.join(area, "landings"))
    said = say("uninstall", "--dry-run")
    assert f"{os.path.basename(area)}" in said.out and "not sealed" in said.out
    document = json.loads(say("uninstall", "--stores", "--dry-run", "--json").out)
    assert area in [one["path"] for one in document["deleted"]]
    assert say("uninstall", "--stores", "--word", "delete").code == 0
    assert not os.path.exists(area) and os.path.isdir(state.home)


def test_what_a_restore_put_aside_beside_another_home_is_not_ours_to_delete(tmp_path, monkeypatch):
    """One that was only looked at from here, such as by a snapshot or a drill of it."""
    state, other = made("fresh", tmp_path / "one"), made("fresh", tmp_path / "other")
    say = spoken(monkeypatch, other.user)
    write(other, "memories/MEMORY.md", "this is replaced\n", append=True)
    assert say("restore", "latest", "--yes").code == 0
    area = other.home + ".safekept"
    say = spoken(monkeypatch, state.user)
    assert say("snapshot", "--home", other.home).code == 0
    assert area not in say("uninstall", "--stores", "--dry-run", "--json").out
    assert say("uninstall", "--stores", "--word", "delete").code == 0
    assert os.path.isdir(os.path.join(area, "landings"))


def test_stores_alone_are_deleted_under_one_heading_and_leave_no_empty_directory(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    program = os.path.join(CHECKOUT, "safekept")
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", program)
    link = os.path.join(state.user, ".local", "bin", "safekept")
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(program, link)
    said = say("uninstall", "--stores", "--word", "delete")
    assert said.code == 0 and "To be taken back" not in said.out, said.out
    assert "Done: nothing in this home directory calls safekept, and its stores are deleted\n" in said.out
    assert "~/.local/bin/safekept is a link to it" in said.out
    assert not [name for name in (".cache", ".config", ".local/share") if exists(state, name)]
    assert os.path.islink(link), "somebody made it by hand"
    again = say("uninstall", "--stores", "--word", "delete")
    assert again.code == 0 and "To be" not in again.out
    assert "Nothing in this home directory calls safekept; nothing was changed\n" in again.out


def exists(state, name: str) -> bool:
    return os.path.exists(os.path.join(state.user, name))


def test_a_backup_that_is_not_sealed_says_so(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    said = say("backup", "-o", str(tmp_path / "open.zip"))
    assert said.code == 0
    assert "Not sealed" in said.out and "anyone with this file can read all of it" in said.out


def test_the_kit_says_where_to_get_safekept(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    assert say("vault", "kit", "-o", str(tmp_path / "kit")).code == 0
    for name in ("kit.txt", "kit.html"):
        page = " ".join((tmp_path / name).read_text().split())
        assert "Get safekept the way you got it the first time: a clone of its repository, or a wheel" in page
        assert f"written by safekept {version_text()}" in page
        assert "PyPI" not in page and "pip install" not in page


def test_a_directory_for_plugins_that_came_with_a_home_goes_where_only_ours_lay_in_it(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    plugins = os.path.join(state.home, "plugins")
    shutil.rmtree(plugins, ignore_errors=True)
    assert say("connect", "hermes", "--yes").code == 0
    shutil.rmtree(open_below(state.context.places.data_directory))  # another machine knows nothing of it
    assert say("connect", "hermes", "--yes").code == 0
    assert say("connect", "--remove", "hermes", "--yes").code == 0
    assert not os.path.exists(plugins)
    os.mkdir(plugins)  # somebody's own
    assert say("connect", "hermes", "--yes").code == say("connect", "--remove", "hermes", "--yes").code == 0
    assert os.path.isdir(plugins)


@pytest.mark.parametrize("more", [("--yes",), ("--stores", "--word", "delete")])
def test_uninstall_does_not_tell_to_delete_a_program_that_another_home_still_calls(tmp_path, more):
    first = Newcomer(tmp_path, profiles=())
    second = first.moved("trial")
    shutil.copytree(first.home, second.home)
    for machine in (first, second):
        assert machine.run("schedule", "install", "--host", "cron", "--yes").returncode == 0
    both = first.crontab()
    planned = second.run("uninstall", "--dry-run")
    assert f"calls safekept for the home directory {first.user}" in " ".join(planned.stdout.split())
    done = second.run("uninstall", *more)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert first.crontab() and both.startswith(first.crontab())
    assert (
        "Done: nothing in this home directory calls safekept" in said and "on this machine calls" not in said
    )
    assert f"(`crontab -l`) still calls safekept for the home directory {first.user}" in said, said
    assert "keep it: without it that installation stops" in said and "delete the checkout" not in said
    last = first.run("uninstall", "--yes")
    assert last.returncode == 0 and "delete the checkout" in last.stdout and "keep it" not in last.stdout
    assert not first.crontab()
