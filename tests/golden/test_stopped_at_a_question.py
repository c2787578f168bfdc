"""Ctrl-C and Ctrl-D at a question: a line of its own, what was not done, and nothing changed."""

from __future__ import annotations

import os
import sys

import pytest

from support.commands.terminals import Terminal
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.users.first_hour import files_of
from support.vault.snapshots import take


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    here = throwaway(tmp_path_factory.mktemp("asked"))
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    take(here, home)
    with open(os.path.join(home, "SOUL.md"), "w", encoding="ascii") as file:
        file.write("changed since\n")
    return here.places.user_home


#: A command, the question, whether it hides what is typed, and what it says.
QUESTIONS = {
    "a plan": (("snapshot", "restore", "latest"), "[y/N]", False, "nothing was changed"),
    "a hidden one": (
        ("setup",),
        "Passphrase (not shown)",
        True,
        "nothing was changed, and no answer was kept",
    ),
}


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize(("key", "code", "word"), [("\x03", 130, "Interrupted"), ("\x04", 1, "Stopped")])
def test_who_leaves_at_a_question_is_told_on_a_line_of_its_own(user, asked, key, code, word):
    words, question, hidden, kept = QUESTIONS[asked]
    before = files_of(user, os.path.join(user, ".cache"))
    environment = {
        **{"HOME": user, "PATH": os.environ["PATH"], "TERM": "xterm", "NO_COLOR": "1"},
        "LC_ALL": "C.UTF-8",
        "SAFEKEPT_SEAT_BELT": "false",  # else whoever reads closes what was taken without one
    }
    with Terminal(sys.executable, "-m", "safekept", *words, environment=environment) as terminal:
        terminal.until(question)
        if hidden:
            terminal.until_hidden()
        if key == "\x03":
            assert terminal.interrupt() == code
        else:
            terminal.type(key)
            assert terminal.end() == code
    lines = terminal.seen.replace("\r", "").split("\n")
    assert lines[-2:] == [f"{word}; {kept}", ""], lines[-4:]
    assert lines[-3] != "", "no empty line between"
    assert files_of(user, os.path.join(user, ".cache")) == before


def test_ctrl_c_in_the_demo_is_answered_once_and_without_a_traceback(tmp_path):
    """Every program that the demo started hears the same Ctrl-C."""
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "xterm", "NO_COLOR": "1"}
    environment |= {"LC_ALL": "C.UTF-8", "TMPDIR": str(tmp_path)}
    with Terminal(sys.executable, "-m", "safekept", "demo", environment=environment) as terminal:
        terminal.until("before the update'")
        terminal.until("\x1b[?25l")  # it is on its way, with a bar
        assert terminal.interrupt() == 130
    assert "Traceback" not in terminal.seen and "KeyboardInterrupt" not in terminal.seen, terminal.seen
    assert terminal.seen.count("Interrupted") == 1, terminal.seen
    assert "Interrupted; nothing of yours was touched; what the demo made is removed" in terminal.seen
    assert not [name for name in os.listdir(tmp_path) if name.startswith("safekept-demo-")]
    shown, hidden = terminal.seen.rfind("\x1b[?25h"), terminal.seen.rfind("\x1b[?25l")
    assert shown >= hidden, "the cursor stayed hidden"
