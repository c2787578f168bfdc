"""The verdict in twelve states, as a person sees it on a screen of 80×24 and of 120×40."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import time

import pytest

from safekept.actions.alarms.declined import take_back
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.opening import open_vault
from safekept.cli.screen import Screen
from safekept.home.scan import Selection
from safekept.integrations.connecting.hosts import HOSTS
from safekept.vault.storage import FileKind
from support.commands.in_process import spoken
from support.commands.transcripts import same_as, widest
from support.home.homes import make_hermes_home
from support.hosts.connected import connect, program_in
from support.users.states import State, drilled, empty, made, settled, told

SCREENS = {"80x24": (80, 24), "120x40": (120, 40)}


def first_snapshot(directory) -> State:
    """A new user right after the first command."""
    state = empty(directory)
    create_snapshot(state.context, SnapshotRequest(state.context.locate(state.home)))
    return state


def three_profiles(directory) -> State:
    """One of four homes of Hermes is connected, and nothing else is wrong."""
    state = made("fresh", directory)
    shutil.rmtree(state.home)
    make_hermes_home(state.home, profiles=("coder", "ops", "writer"), awkward=False)
    create_snapshot(state.context, SnapshotRequest(state.context.locate(state.home)))
    connect(state.context, HOSTS["hermes"], program_in(directory))
    for name in ("coder", "ops", "writer"):
        os.utime(os.path.join(state.home, "profiles", name))
    return state


def elsewhere(directory) -> State:
    """A copy off this machine that a kit opens."""
    state = made("fresh", directory)
    place = os.path.join(str(directory), "usb")
    config = os.path.join(state.user, ".config", "safekept", "config.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'[[destination]]\nname = "usb"\nurl = "{place}"\nelsewhere = true\n')
    line = {
        "version": 1,
        "operation": "20260101-000000-abcdef",
        "verb": "push",
        "state": "done",
        "time": time.time(),
        "actor": "person",
        "facts": {"destination": "usb", "place": f"file:{place}", "bytes": 1000, "snapshots": 2},
    }
    with open(state.context.journal.path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return state


def only_key(directory) -> State:
    """A copy elsewhere, and nothing but this machine opens it."""
    state = elsewhere(directory)
    os.unlink(os.path.join(state.context.places.data_directory, "kits.json"))
    return state


def parts_only(directory) -> State:
    """A snapshot of one kind of files, and none of the whole home."""
    state = empty(directory)
    selection = Selection(quick=True)
    create_snapshot(
        state.context, SnapshotRequest(state.context.locate(state.home), "quick", selection=selection)
    )
    settled(state)
    return state


def future(directory) -> State:
    """A clock was a month ahead."""
    state = made("fresh", directory)
    with open_vault(state.context) as repository:
        for name, _ in list(repository.storage.list(FileKind.SNAPSHOT)):
            one = repository.load_snapshot(name)
            later = dataclasses.replace(one, time_ns=one.time_ns + 30 * 86400 * 10**9, original=one.id)
            repository.save_snapshot(later)
            repository.delete_snapshot(name)
    return state


def drill_failed(directory) -> State:
    state = made("fresh", directory)
    drilled(state, state.snapshots[-1], ok=False)
    return state


def dead_schedule(directory) -> State:
    """The schedule was installed and nothing is left of it."""
    state = made("fresh", directory)
    take_back(state.context, ("no-schedule",))
    place = os.path.join(state.context.places.data_directory, "schedule")
    os.makedirs(place)
    document = {
        "version": 1,
        "host": "systemd",
        "user": "",
        "time": time.time(),
        "files": {"/nowhere/safekept.timer": "0"},
        "directories": [],
        "table": False,
        "stop": [],
        "after": [],
    }
    with open(os.path.join(place, "installed.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    return state


def shut(directory) -> State:
    state = made("fresh", directory)
    os.unlink(state.context.places.vault_key_file)
    return state


def gone(directory) -> State:
    state = made("fresh", directory)
    shutil.rmtree(state.home)
    return state


#: Worst first, as the ladder has them.
TWELVE = {
    "nothing-yet": (empty, "Not protected", 3),
    "parts-only": (parts_only, "Not protected", 3),
    "only-key": (only_key, "ALARM, not protected", 4),
    "vault-shut": (shut, "ALARM, not protected", 4),
    "home-gone": (gone, "ALARM, not protected", 4),
    "loss": (lambda directory: made("alarmed", directory), "ALARM, partly protected", 4),
    "drill-failed": (drill_failed, "ALARM, partly protected", 4),
    "future": (future, "Partly protected", 3),
    "dead-schedule": (dead_schedule, "Partly protected", 3),
    "three-profiles": (three_profiles, "Partly protected", 3),
    "first-snapshot": (first_snapshot, "Partly protected", 3),
    "this-machine": (
        lambda directory: made("fresh", directory),
        "Protected on this machine and from rm -rf ~",
        0,
    ),
    "elsewhere": (elsewhere, "Protected if the machine is lost, rm -rf ~ too", 0),
}


@pytest.mark.parametrize("name", TWELVE)
def test_the_verdict_and_the_next_command_are_on_the_first_screen(name, tmp_path, monkeypatch):
    make, words, code = TWELVE[name]
    state = make(tmp_path)
    say = spoken(monkeypatch, state.user)
    monkeypatch.setattr(Screen, "_rows", lambda *_: 1)  # the paths of a test are longer than a person's
    for size, (columns, rows) in SCREENS.items():
        said = spoken(monkeypatch, state.user, columns, rows)("status")
        assert widest(said.out, columns) == []
        assert (said.code, said.err) == (0, "")
        lines = said.out.splitlines()
        assert len(lines) < rows, "the prompt has a line, too"
        assert said.out.startswith(f"{words}: ")
        if name != "elsewhere":
            assert any(line.startswith("  Next  ") for line in lines[:4])
        same_as(f"verdict-{name}-{size}.txt", _same(told(said.out, state), state))
    assert say("status", "--check").code == code


def test_what_a_terminal_breaks_counts_as_the_lines_that_it_takes(tmp_path, monkeypatch):
    """A link that leads out of the home is confirmed by a command that is longer than a line."""
    state = made("fresh", tmp_path / "a-directory-with-a-long-name" / "and-another-one-with-a-longer-name")
    os.rename(os.path.join(state.home, "memories"), os.path.join(state.user, "memories"))
    os.symlink(os.path.join(state.user, "memories"), os.path.join(state.home, "memories"))
    say = spoken(monkeypatch, state.user)
    assert say("snapshot").code == 3
    columns, rows = 80, 20
    monkeypatch.setattr("safekept.cli.screen.width", lambda: columns)
    monkeypatch.setattr("safekept.cli.screen.height", lambda: rows)
    lines = say("status").out.splitlines()
    assert "memories in ~/.hermes leads out of it" in " ".join(lines[:2])
    assert any("--acknowledge" in line and len(line) > columns for line in lines[:7]), lines
    assert lines[-1].startswith("… more")
    assert sum(max(1, -(-len(line) // columns)) for line in lines) < rows, "the verdict scrolls away"


def _same(text: str, state: State) -> str:
    """Without what depends on where the test runs; a path in a message may be broken at another place."""
    text = re.sub(r"(SIZE) free", r"\1 free", text)
    # Broken elsewhere once the age is in minutes.
    text = re.sub(r"by the\s+journal\s+\(ID\)", "by the journal (ID)", text)
    return re.sub(r"/dev/shm/\S+|/tmp/\S+", "PATH", text)
