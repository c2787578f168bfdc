"""The first line tells a stranger whether `rm -rf ~` would be survived; a line below, by which step.

The states are those of a user: the step is what was tried, and nobody says that it holds because it is set.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import pytest

from safekept.actions.keeper.stores import Stores
from safekept.actions.keeper.transfer import transfer
from safekept.actions.status.findings.survival import STEPS
from safekept.cli.screen import Screen
from support.commands.in_process import spoken
from support.commands.transcripts import same_as, widest
from support.keeper.keeper_troubles import confirmed_before
from support.keeper.keepers import RunningKeeper, running_keeper
from support.users.states import HOUR, State, aged, made, told
from support.vault.closed import open_below

HOURS = 3 * 3600.0


def settings(state: State, text: str) -> None:
    with open(os.path.join(state.user, ".config", "safekept", "config.toml"), "w", encoding="utf-8") as file:
        file.write(text)


def without(state: State, *_: object) -> None:
    settings(state, "seat_belt = false\n")


def belt(state: State, *_: object) -> None:
    pass


@pytest.fixture(scope="module")
def running() -> Iterator[RunningKeeper]:
    with running_keeper() as one:
        one.start()
        yield one


def keeper(state: State, monkeypatch: pytest.MonkeyPatch, running: RunningKeeper) -> None:
    """One that runs and took everything. That its user is another one, and root is out of reach, is shown in
    `e2e/test_rm_rf.py`: who runs a test may be root."""
    monkeypatch.setattr("safekept.actions.keeper.keeper_status._why_not", lambda *_: "")
    settings(state, f'[keeper]\nsocket = "{running.socket}"\n')
    transfer(Stores.of(state.context.changed(keeper_socket=running.socket)))
    confirmed_before(running, HOURS)


def pushed(state: State, rights: dict[str, object]) -> None:
    place = os.path.join(os.path.dirname(state.user), "far")
    settings(state, f'[[destination]]\nname = "far"\nurl = "{place}"\nelsewhere = true\n')
    facts = {"destination": "far", "place": f"file:{place}", "bytes": 1000, "snapshots": 2, "rights": rights}
    line = {"version": 1, "operation": "20260101-000000-abcdef", "verb": "push", "state": "done"}
    line |= {"time": time.time() - HOURS, "actor": "person", "facts": facts}
    with open(state.context.journal.path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def append_only(state: State, *_: object) -> None:
    pushed(state, {"overwrite": False, "delete": False, "versioning": None, "keeps": True})


def object_lock(state: State, *_: object) -> None:
    pushed(state, {"overwrite": True, "delete": False, "versioning": True, "keeps": True})


HERE, LOST = "Protected on this machine", "Protected if the machine is lost"
STATES = {
    "none": (
        without,
        f"{HERE}, not from rm -rf ~: ",
        "not survived: it would take the vault (the seat belt is off)",
    ),
    "belt": (belt, f"{HERE} and from rm -rf ~: ", ", closed to rm -rf ~ (tried now)"),
    "keeper": (keeper, f"{HERE} and from rm -rf ~: ", "survived by the keeper; tried 3 h ago"),
    "append-only": (
        append_only,
        f"{LOST}, rm -rf ~ too: ",
        "survived by far, where nothing can be deleted from here; tried 3 h ago",
    ),
    "object-lock": (
        object_lock,
        f"{LOST}, rm -rf ~ too: ",
        "survived by far, which keeps every version; tried 3 h ago",
    ),
}


def test_every_step_has_its_screen():
    assert tuple(STATES) == STEPS


@pytest.mark.parametrize("step", STATES)
def test_the_first_line_says_whether_it_would_be_survived(step, tmp_path, monkeypatch, running):
    make, first, by = STATES[step]
    state = made("fresh", tmp_path)
    make(state, monkeypatch, running)
    say = spoken(monkeypatch, state.user)
    document = json.loads(say("status", "--json").out)
    assert (document["rm_rf"]["step"], document["rm_rf"]["survived"]) == (step, step != "none")
    assert bool(document["rm_rf"]["tried"]) == (step != "none")
    monkeypatch.setattr(Screen, "_rows", lambda *_: 1)  # the paths of a test are longer than a person's
    said = spoken(monkeypatch, state.user, 80, 24)("status").out
    assert said.startswith(first) and by in " ".join(said.split())
    assert widest(said, 80) == [] and len(said.splitlines()) < 24
    same_as(f"survival-{step}-80x24.txt", told(said, state))
    assert say("status", "--short").out.startswith(f"safekept: {first}")


def test_a_keeper_without_the_last_snapshot_is_not_what_survival_is_judged_by(tmp_path, monkeypatch, running):
    state = made("fresh", tmp_path)
    keeper(state, monkeypatch, running)
    say = spoken(monkeypatch, state.user)
    assert json.loads(say("status", "--json").out)["rm_rf"]["step"] == "keeper"
    aged(state, HOUR)
    document = json.loads(say("status", "--json").out)
    assert document["rm_rf"]["step"] == "belt"
    assert document["keeper"]["why_not"] == "it does not have the last snapshot"
    assert "it does not have your last snapshot" in " ".join(say("status").out.split())


def test_a_store_that_is_open_is_never_called_survived(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    assert say("status").out.startswith(f"{HERE} and from rm -rf ~: ")
    assert say("vault", "open").code == 0
    said = say("status")
    assert said.out.startswith(f"{HERE}, not from rm -rf ~: ")
    assert "it would take the vault" in said.out and "(opened by `vault open`)" in " ".join(said.out.split())
    open_below(state.user)


def test_a_vault_whose_only_key_would_go_is_not_called_survived(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    os.unlink(os.path.join(state.context.places.data_directory, "kits.json"))
    document = json.loads(say("status", "--json").out)["rm_rf"]
    assert not document["survived"] and document["why_not"].startswith("it would take the only key")
    assert say("snapshot").code == 0
    assert json.loads(say("status", "--json").out)["rm_rf"]["step"] == "belt"
