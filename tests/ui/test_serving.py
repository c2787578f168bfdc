"""How the page begins and ends: it asks once at a terminal, takes no other program's port, ends when idle."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from support.commands.terminals import Terminal
from support.ui.served import SOURCE
from support.users.states import empty

_SERVE = """
import sys
from safekept.ui.server import PageRequest, serve
print(serve(PageRequest(idle=float(sys.argv[1])), lambda link: print(link, flush=True)))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    user = empty(tmp_path_factory.mktemp("serving")).user
    return {
        "PATH": os.environ["PATH"],
        "HOME": user,
        "HERMES_HOME": os.path.join(user, ".hermes"),
        "PYTHONPATH": os.path.abspath(SOURCE),
        "TERM": "xterm",
    }


def test_it_ends_when_nobody_asks(environment):
    words = [sys.executable, "-c", _SERVE, "0.2"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    link, ended = done.stdout.split()
    assert link.startswith("http://127.0.0.1:") and ended == "0", "by itself, and by no signal"


@pytest.mark.parametrize(("typed", "said"), [("y", "may change things"), ("n", "read-only")])
def test_at_a_terminal_it_asks_once_whether_it_may_change_anything(environment, typed, said):
    words = [sys.executable, "-m", "safekept", "ui", "--no-open"]
    with Terminal(*words, environment=environment) as terminal:
        terminal.until("May the page change anything")
        terminal.type(f"{typed}\r")
        terminal.until("Ctrl-C ends it now")
        assert said in terminal.seen and terminal.seen.count("May the page") == 1
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.end() in (0, 130)  # before or after it had made itself ready for Ctrl-C


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(environment):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = [sys.executable, "-m", "safekept", "ui", "--no-open", "--port", port]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and f"Port {port} of this machine cannot be used" in done.stderr
    assert "No page was served" in done.stderr and "safekept ui" in done.stderr
