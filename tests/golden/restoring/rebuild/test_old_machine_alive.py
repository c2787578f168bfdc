"""A rebuild was a rehearsal: the machine that it was made of goes on, and copies are not mixed unasked."""

from __future__ import annotations

import json
import os
import time

import pytest

from safekept.cli.console import Console
from support.commands.error_texts import error_code
from support.users.first_hour import Newcomer


def said(done, code=0):
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def remember(machine, text):
    with open(os.path.join(machine.home, "memories", "MEMORY.md"), "w", encoding="utf-8") as file:
        file.write(text)
    said(machine.run("snapshot"))


@pytest.fixture
def both(tmp_path):
    """Ada's machine, and one that was rebuilt from her second copy on trial; and what the rebuild said."""
    ada = Newcomer(tmp_path, profiles=())
    usb = os.path.join(ada.place, "usb")
    words = ("setup", "--yes", "--passphrase-file", ada.secret, "--destination", usb, "--elsewhere")
    said(ada.run(*words, "--no-connect", "--at", "no"))
    trial = ada.moved("trial")
    told = said(trial.run("rebuild", usb, "--passphrase-file", ada.secret))
    return ada, trial, told


def test_the_last_lines_say_where_copies_go_and_how_that_is_switched_off(both):
    _, trial, told = both
    host = os.uname().nodename
    assert (
        f"Copies from here now go to usb, where those of {host} are. Is that machine still at work?" in told
    )
    assert "If so, send nothing there from here: `safekept destinations remove usb`" in told
    said(trial.run("destinations", "remove", "usb"))
    assert trial.run("push").returncode == 2, "nothing is sent anywhere"


def test_a_push_to_where_the_old_machine_has_pushed_since_needs_a_word(both):
    ada, trial, _ = both
    remember(trial, "on trial\n")
    assert trial.run("push").returncode == 0, "the old machine may well be gone: nothing speaks against it"
    time.sleep(1.01)
    remember(ada, "the real one goes on\n")
    said(ada.run("push"))
    remember(trial, "on trial again\n")
    before = listing(f"{ada.place}/usb")
    refused = trial.run("push")
    told = said(refused, 1)
    assert error_code(refused.stderr) == "destination-shared"
    assert "The machine that this one was rebuilt from is alive" in told and f"`{ada.home}`" in told
    assert "Nothing was sent" in told
    assert "`safekept destinations remove usb`" in told and "`safekept push usb --shared`" in told
    assert listing(f"{ada.place}/usb") == before
    night = json.loads(trial.run("schedule", "run", "--now", "--json").stdout)
    states = {step["task"]: (step["state"], step["error"]) for step in night["steps"]}
    assert states["push:usb"] == ("failed", "destination-shared"), states
    assert not [name for name in listing(f"{ada.place}/usb") - before if "/snapshots/" in name]
    remember(ada, "and on\n")
    said(ada.run("push"))  # the real one is never held up by a rehearsal
    said(trial.run("push", "usb", "--shared"))
    remember(trial, "both\n")
    said(trial.run("push"))  # it was said once
    kept = {one for one in before if "/snapshots/" in one}
    assert kept < listing(f"{ada.place}/usb"), "each keeps its own"


def test_a_person_at_a_terminal_is_asked(both, monkeypatch):
    ada, trial, _ = both
    time.sleep(1.01)
    remember(ada, "the real one goes on\n")
    said(ada.run("push"))
    asked, answers = [], [False, True]
    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr(Console, "ask", lambda _, question: asked.append(question) or answers.pop(0))
    assert error_code(trial.run("push").stderr) == "destination-shared"
    said(trial.run("push"))
    assert asked == ["Send the copies of this machine there, too?"] * 2
    said(trial.run("push"))
    assert len(asked) == 2


def test_snapshots_of_before_the_rebuild_stop_nothing(tmp_path):
    """What the old machine sent to another place before it was gone is no sign of life."""
    ada = Newcomer(tmp_path, profiles=())
    usb, other = os.path.join(ada.place, "usb"), os.path.join(ada.place, "other")
    words = ("setup", "--yes", "--passphrase-file", ada.secret, "--destination", usb, "--elsewhere")
    said(ada.run(*words, "--no-connect", "--at", "no"))
    said(ada.run("destinations", "add", other, "--elsewhere"))
    said(ada.run("push"))
    remember(ada, "only the other place has this\n")
    said(ada.run("push", "other"))
    trial = ada.moved("trial")
    told = said(trial.run("rebuild", usb, "--passphrase-file", ada.secret))
    assert "destination-shared" not in told
    said(trial.run("push", other))


def listing(place):
    found = set()
    for above, _, names in os.walk(place):
        found |= {os.path.join(above, name) for name in names}
    return found
