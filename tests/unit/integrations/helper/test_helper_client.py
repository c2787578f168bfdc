"""The lean client: it never raises, it waits for nobody who is stopped, and it imports next to nothing."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from safekept.checkpoints.store.store import Store
from safekept.core.errors import SafekeptError
from safekept.home.layout import load_layouts
from safekept.integrations.helper import client
from safekept.settings import load_settings
from support.commands.waiting import PATIENT, text_of
from support.hosts.throwaway_helper import SOURCE, helper_process, program, short_place, throwaway
from support.projects.checkpoints import fsck


@pytest.fixture
def user():
    with short_place() as place:
        yield throwaway(place)


@pytest.fixture(scope="module")
def helped(tmp_path_factory):
    user = throwaway(tmp_path_factory.mktemp("helped"))
    with helper_process(user):
        yield user


def test_whatever_says_where_an_agents_home_is_comes_with_each_request():
    """A home that was moved by its variable would else be looked for where the helper was started."""
    variables = {one.variable for one in load_layouts().values() if one.variable}
    assert {"CLINE_DIR", "CURSOR_CONFIG_DIR", "HERMES_HOME"} <= variables
    assert [name for name in sorted(variables) if not client.counts(name)] == []


def listening(user, serve):
    """Somebody at the helper's place who does with a connection what `serve` says."""
    client.private_directory(user.directory)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(user.directory, os.O_RDONLY | os.O_DIRECTORY)
    listener.bind(f"/proc/self/fd/{folder}/socket")
    os.close(folder)
    listener.listen()

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            serve(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return listener, thread


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0\0",
        b"\xff" * 40,
        b"\0\0\0\4\0\0\0\0what",
        b"\0\0\0\x0a\0\0\0\0safekept=2",
        client.packed({"safekept": "1", "exit": "0"}, b"long")[:-1],
        client.packed({"safekept": "1", "working": "1"}),
    ],
)
@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_an_answer_that_is_none_is_no_answer(user, said):
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(said)

    listener, thread = listening(user, serve)
    with listener:
        assert client.ask(user.directory, {"safekept": "1", "do": "status"}, b"", PATIENT) is None
        thread.join(PATIENT)


def test_nobody_there_is_no_answer(user):
    assert user.ask("status") is None
    client.private_directory(user.directory)
    with open(os.path.join(user.directory, "socket"), "w"):
        assert user.ask("status") is None


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_the_helper_of_another_user_is_not_asked(helped, monkeypatch):
    assert helped.ask("status") is not None
    monkeypatch.setattr(client, "peer", lambda connection: os.geteuid() + 1)
    assert helped.ask("status") is None


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_stopped_helper_is_given_up_long_before_the_deadline(user):
    with helper_process(user) as process:
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert user.ask("call", b"{}", deadline=10 * PATIENT, patience=client.PATIENCE) is None
        assert time.monotonic() - began < PATIENT
        process.send_signal(signal.SIGCONT)


def test_of_many_who_want_to_start_one_only_one_does(user, monkeypatch):
    monkeypatch.setattr(client, "RETRY_SECONDS", 10 * PATIENT)  # however long the machine takes over this
    ran = os.path.join(user.root, "ran")
    threads = [
        threading.Thread(
            target=client.start, args=(["/bin/sh", "-c", f"echo x >> '{ran}'"], user.directory, {})
        )
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert text_of(ran) == "x\n"
    client.start(["/bin/sh", "-c", f"echo x >> '{ran}'"], user.directory, {})
    assert text_of(ran) == "x\n"


def test_a_program_that_cannot_be_started_stops_nobody(user):
    assert client.start(["/nowhere/at/all"], user.directory, {}, wait=0.05) is False
    assert client.start(["/nowhere"], "/proc/nowhere/helper", {}) is False


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "/home/u"},
        {"HOME": "/home/u", "XDG_DATA_HOME": "/data"},
        {"HOME": "/home/u", "XDG_DATA_HOME": ""},
        {"HOME": "/home/u", "SAFEKEPT_SYSTEM_USER": "root"},
        {"HOME": "/home/u", "SAFEKEPT_SYSTEM_USER": ""},
    ],
)
def test_it_looks_where_the_settings_say(environment):
    assert client.data_directory(environment) == load_settings(environment).data_directory


def test_a_user_whom_nobody_knows_is_an_error_of_the_settings_only():
    environment = {"HOME": "/home/u", "SAFEKEPT_SYSTEM_USER": "nobody-of-this-name"}
    with pytest.raises(SafekeptError):
        load_settings(environment)
    assert client.data_directory(environment).startswith("/var/lib/safekept")


def test_only_what_can_matter_is_sent():
    environment = {
        "HOME": "/h",
        "PATH": "/bin",
        "XDG_DATA_HOME": "/d",
        "SAFEKEPT_CHECKPOINTS": "0",
        "HERMES_HOME": "/x",
        "CODEX_HOME": "/y",
        "CLAUDE_CONFIG_DIR": "/z",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "ANTHROPIC_API_KEY": "secret",
    }
    sent = client.request("hook", environment)
    assert "secret" not in sent.values()
    assert {key for key in sent if key.startswith("env.")} == {
        f"env.{name}" for name in environment if not name.endswith("_KEY")
    }


def test_a_header_comes_back_as_it_was_sent():
    header = {"safekept": "1", "do": "hook", "cwd": "/a=b/\udce4ß", "env.PATH": "", "stderr": "a\nb"}
    packed = client.packed(header, b"body\0")
    length = int.from_bytes(packed[:4], "big")
    assert client.unpacked(packed[8 : 8 + length]) == header
    assert packed[8 + length :] == b"body\0"


def test_nothing_of_safekepts_and_nothing_heavy_is_imported():
    with open(os.path.join(SOURCE, "safekept", "integrations", "helper", "client.py")) as file:
        tree = ast.parse(file.read())
    names = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    # `pwd` is built in, and is asked only where HOME is unset or no place.
    assert names - {"pwd"} == {"os", "sys", "time", "_socket"}


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_the_lean_way_loads_only_itself(helped):
    """What a hook waits for besides the interpreter and the work."""
    words = program()
    words[1:1] = ["-X", "importtime"]
    own: set[str] = set()
    for _ in range(5):  # where the machine lets no helper answer within a second, a hook does it all itself
        done = subprocess.run(
            [*words, "hook", "claude-code"],
            input=b"{}",
            capture_output=True,
            env=helped.environment,
            cwd="/",
            timeout=PATIENT,
        )
        said = done.stderr.decode().splitlines()
        loaded = {line.rpartition("|")[2].strip() for line in said if "|" in line}
        own = {name for name in loaded if name.startswith("safekept")}
        if "safekept.integrations.here" not in own:
            break
    assert own == {
        "safekept",
        "safekept.__main__",
        "safekept.integrations",
        "safekept.integrations.entry",
        "safekept.integrations.helper",
        "safekept.integrations.helper.client",
    }
    heavy = {"click", "site", "socket", "json", "re", "contextlib", "dataclasses", "typing", "subprocess"}
    assert loaded & heavy == set()


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_what_is_not_exactly_a_hook_or_a_prompt_goes_the_ordinary_way(helped):
    for words, expected in (
        (["hook", "--help"], b"Usage: safekept hook"),
        (["status", "--short", "--json"], b'"level"'),
        (["status", "--check"], b"protected"),
        (["--version"], b"safekept"),
    ):
        done = subprocess.run(
            [*program(), *words],
            capture_output=True,
            env=helped.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        assert expected in done.stdout.lower() or expected in done.stdout, (words, done)


@pytest.mark.parametrize("helper", ["0", "1"])
@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_the_prompt_says_the_same_with_and_without_a_helper(helped, helper):
    done = subprocess.run(
        [*program(), "status", "--short"],
        capture_output=True,
        env={**helped.environment, "SAFEKEPT_HELPER": helper},
        cwd="/",
    )
    assert (done.returncode, done.stdout) == (
        0,
        b"safekept: Not protected: no agent's home was found here, and none is kept\n",
    )
    assert done.stderr == b""


@pytest.mark.parametrize("helper", ["0", "1"])
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_closed_streams_get_into_no_file_of_ours(helped, closed, helper):
    project = helped.project(f"closed{helper}{len(closed)}{closed[0]}")
    message = json.dumps(
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": project, "session_id": "s"}
    )
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            '"$@" ' + " ".join(f"{number}>&-" for number in closed),
            "sh",
            *program(),
            "hook",
            "codex",
        ],
        input=message.encode(),
        capture_output=True,
        env={**helped.environment, "SAFEKEPT_HELPER": helper},
        cwd="/",
        timeout=PATIENT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if 0 not in closed:
        with Store.open(os.path.join(helped.data, "checkpoints")) as store:
            assert len(store.checkpoints(project)) == 1
            fsck(store)


def test_a_program_that_waits_for_no_children_can_start_a_helper(tmp_path):
    """In such a program the system waits for them, and whoever asks is told that there is none."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        client._spawn(["touch", str(tmp_path / "started")], {"PATH": os.environ["PATH"]})
    finally:
        signal.signal(signal.SIGCHLD, before)
