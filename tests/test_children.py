"""Every program that safekept starts ends in time, or there is a reason why nobody can say when."""

from __future__ import annotations

import ast
import os
import subprocess
import time

import pytest

from safekept.archive.sealing.gpg import program
from safekept.home.scan import databases
from support.places import CHECKOUT
from support.source import modules

SOURCE = os.path.join(CHECKOUT, "src", "safekept")
STARTS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "execve", "execv", "execvp"},
}
#: Where a program is started without `timeout=`: the name in that file that bounds it, or why nothing does.
BOUNDED = {
    "actions/alarms/notify_ways.py": "_deadline",
    "actions/drill/checks/interpreter.py": "patience",
    "archive/sealing/gpg/program.py": "SILENCE",
    "checkpoints/scan/ignore.py": "_LONGEST_WAIT",
    "checkpoints/store/repositories/keeping.py": "until",
    "core/objects/rclone/process.py": "_START",
    "core/objects/sftp/channel.py": "_PATIENCE",
    "core/sqlite/isolated.py": "_SILENCE",
    "home/scan/databases.py": "_PATIENCE",
}
REASONS = {
    "api/apart.py": "our own code with a whole command to do; what it waits for has deadlines",
    "cli/commands/demo/demo.py": "our own writer, ended by the demo",
    "core/owner/child.py": "our own code with a whole scan or landing to do; its end has a deadline, and a "
    "schedule's time limit and Ctrl-C end the wait",
    "core/owner/handover.py": "the command itself, begun again",
    "core/processes/foreground.py": "the user's own program, in front of the user",
    "keeper/server.py": "our own code for one caller; each question has a deadline that ends the process",
    "integrations/helper/client.py": "a shell that starts the helper and ends at once",
    "integrations/hermes/plugin/commands.py": "the user's own command, in front of the user",
    "integrations/hermes/plugin/link.py": "our own code with one call to do, which nobody waits for",
    "integrations/run/watcher_process.py": "our own code with a checkpoint to take; its end has a deadline",
}


def starts():
    """Every place where a program is started: file, line, and whether it has `timeout=`."""
    for path, tree in modules(SOURCE):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                where = node.func.value
                if isinstance(where, ast.Name) and node.func.attr in STARTS.get(where.id, ()):
                    timed = any(word.arg == "timeout" for word in node.keywords)
                    yield path, node.lineno, timed


def test_every_program_that_is_started_has_a_deadline_or_a_reason():
    found = list(starts())
    assert len(found) > 20, "the search finds too little to be right"
    open_ended = {path for path, _, timed in found if not timed}
    assert open_ended - BOUNDED.keys() - REASONS.keys() == set(), "give it a timeout, or say what bounds it"
    assert (BOUNDED.keys() | REASONS.keys()) - open_ended == set(), "no such start any more"
    for path, name in BOUNDED.items():
        with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
            assert file.read().count(name) > 1, f"{path} bounds nothing by {name}"


def test_a_gpg_that_does_nothing_is_ended_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "SILENCE", 0.4)
    monkeypatch.setattr(program, "_LOOK", 0.1)
    fake = tmp_path / "gpg"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    began = time.monotonic()
    gpg = program.Gpg(["--decrypt"], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, kept="Nothing was changed")
    try:
        assert gpg.read(16) == b""
        assert not gpg.finish()
        assert gpg.reason == "it did nothing for 0 s, and was ended"
    finally:
        gpg.close()
    assert time.monotonic() - began < 50, "before it ends by itself"


def test_a_gpg_that_waits_for_us_may_wait(tmp_path, monkeypatch):
    """A person is asked whether to go on, while its output waits to be read."""
    monkeypatch.setattr(program, "_LOOK", 0.1)
    fake = tmp_path / "gpg"
    fake.write_text("#!/bin/sh\nhead -c 3000000 /dev/zero\n")
    fake.chmod(0o755)
    gpg = program.Gpg(["--decrypt"], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, kept="Nothing was changed")
    try:
        first = len(gpg.some())
        with monkeypatch.context() as impatient:  # only while it is our turn: a busy machine is silent, too
            impatient.setattr(program, "SILENCE", 0.4)
            time.sleep(1.2)
        assert first + len(gpg.read(3_000_000 - first)) == 3_000_000
        assert gpg.finish()
    finally:
        gpg.close()


@pytest.mark.parametrize("helper", ["import time; time.sleep(60)", "raise SystemExit"])
def test_a_reader_of_headers_that_does_not_answer_leaves_no_database_to_be_read_plainly(
    tmp_path, monkeypatch, helper
):
    monkeypatch.setattr(databases, "_PATIENCE", 0.3)
    monkeypatch.setattr(databases, "_IMPATIENCE", 0.3)
    monkeypatch.setattr(databases, "_HELPER", helper)
    path = tmp_path / "state.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(84))
    directory = os.open(tmp_path, os.O_RDONLY)
    reader = databases.HeaderReader(isolated=True)
    try:
        assert reader.read(directory, "state.db", str(path)) == b"SQLite format 3\0"
    finally:
        reader.close()
        os.close(directory)
    left = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True)
    assert "time.sleep(60)" not in left.stdout
