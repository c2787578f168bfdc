"""Bad luck around the helper: killed, stopped, crowded, its ground taken away; no call goes unprotected."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from safekept.checkpoints.project import project_id
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import project_lock
from safekept.integrations.calls import Call
from safekept.integrations.helper import client, server
from safekept.integrations.places import Place
from support.commands.waiting import PATIENT
from support.hosts.throwaway_helper import (
    end_helper,
    helper_process,
    helper_thread,
    program,
    throwaway,
    wait_for_socket,
)
from support.projects.checkpoints import contents_in_store, fsck, put
from support.vault.closed import open_below


@pytest.fixture
def user(tmp_path):
    return throwaway(tmp_path)


def message(project: str, name: str = "a.txt", session: str = "s", event: str = "PreToolUse") -> bytes:
    return json.dumps(
        {
            "session_id": session,
            "prompt_id": "p",
            "cwd": project,
            "hook_event_name": event,
            "tool_name": "Write",
            "tool_input": {"file_path": os.path.join(project, name), "content": "new"},
        }
    ).encode()


def write(project: str, content: str, name: str = "a.txt") -> None:
    with open(os.path.join(project, name), "w") as file:
        file.write(content)


def contents(user, project: str) -> list[dict[str, bytes]]:
    """What the checkpoints of a project hold, newest first; and plain git finds the store sound."""
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        found = [contents_in_store(store, point) for point in store.checkpoints(project)]
        fsck(store)
    return found


def lock_of(user, project: str) -> str:
    return os.path.join(user.data, "checkpoints", "projects", project_id(os.path.realpath(project)))


def test_a_helper_killed_in_mid_request_leaves_the_work_to_the_hook(user):
    project = user.project()
    with helper_process(user) as helper:
        user.call(Call("before", "claude-code", "Write", ("a.txt",), directory=project, session="s"))
        write(project, "second\n")
        with project_lock(lock_of(user, project), "a test", 0.0):
            hook = subprocess.Popen(
                [*program(), "hook", "claude-code"],
                env=user.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert hook.stdin is not None
            hook.stdin.write(message(project, session="t"))
            hook.stdin.close()
            hook.stdin = None
            ends = time.monotonic() + PATIENT
            while int(user.ask("status")[0]["requests"]) < 2:  # the hook's own, and it waits for the lock
                assert time.monotonic() < ends
            helper.send_signal(signal.SIGKILL)
            helper.wait()
        out, errors = hook.communicate(timeout=PATIENT)
    assert (hook.returncode, out, errors) == (0, b"", b"")
    assert contents(user, project)[0]["a.txt"] == b"second\n"


def test_a_stopped_helper_costs_a_moment_and_no_protection(user):
    project = user.project()
    with helper_process(user) as helper:
        helper.send_signal(signal.SIGSTOP)
        done = user.hook("claude-code", message(project))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert contents(user, project)[0]["a.txt"] == b"first\n"
        helper.send_signal(signal.SIGCONT)


def test_the_first_hook_does_its_own_work_and_starts_a_helper_for_the_second(user):
    project = user.project()
    started = os.path.join(user.directory, "started")
    try:
        done = user.hook("claude-code", message(project), SAFEKEPT_HELPER="1")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert contents(user, project)[0]["a.txt"] == b"first\n"
        wait_for_socket(user)
        before = int(user.ask("status")[0]["requests"])
        write(project, "second\n")
        done = user.hook("claude-code", message(project), SAFEKEPT_HELPER="1")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert int(user.ask("status")[0]["requests"]) == before + 1, "the helper did it"
        assert contents(user, project)[0]["a.txt"] == b"second\n"
    finally:
        if os.path.exists(started):
            wait_for_socket(user)
            end_helper(user)


def test_where_only_a_running_helper_is_wanted_none_is_started(user):
    project = user.project()
    done = user.hook("claude-code", message(project), SAFEKEPT_HELPER="running")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert contents(user, project)[0]["a.txt"] == b"first\n"
    assert not os.path.exists(user.directory)


def test_a_socket_that_a_killed_helper_left_is_no_hindrance(user):
    with helper_process(user) as helper:
        helper.kill()
        helper.wait()
    assert os.path.exists(os.path.join(user.directory, "socket"))
    with helper_thread(user):
        assert user.ask("status") is not None


def at_once(user, count: int, **more: str) -> None:
    """So many hooks of four sessions that name a file each; all are silent, and all files are kept."""
    names = [f"file{number}.txt" for number in range(count)]
    project = user.project(**{name: f"old {name}" for name in names})
    hooks = [
        subprocess.Popen(
            [*program(), "hook", "claude-code"],
            env=user.environment | more,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in names
    ]
    try:
        for number, (hook, name) in enumerate(zip(hooks, names, strict=True)):
            hook.stdin.write(message(project, name, session=f"s{number % 4}"))
            hook.stdin.close()
            hook.stdin = None
        said = [(*hook.communicate(timeout=2 * PATIENT), hook.returncode) for hook in hooks]
        assert said == [(b"", b"", 0)] * count
        held = contents(user, project)
        assert all(any(one.get(name) == f"old {name}".encode() for one in held) for name in names)
    finally:
        for hook in hooks:
            hook.kill()
            hook.communicate()


def test_twenty_hooks_at_once_keep_what_each_of_them_named(user):
    with helper_process(user):
        at_once(user, 20)


def test_six_hooks_at_once_without_a_helper_keep_what_each_of_them_named(user):
    at_once(user, 6, SAFEKEPT_HELPER="0")


def test_hooks_killed_at_their_timeout_leave_a_sound_store_and_a_helper_that_serves(user):
    project = user.project(**{f"f{number}.txt": "x" * 2000 for number in range(300)})
    with helper_process(user):
        for number in range(12):
            write(project, f"round {number}\n")
            hook = subprocess.Popen(
                [*program(), "hook", "claude-code"], env=user.environment, stdin=subprocess.PIPE
            )
            hook.stdin.write(message(project, session=f"s{number}"))
            hook.stdin.close()
            time.sleep(number * 0.004)  # sooner or later, somewhere on its way
            hook.kill()
            hook.wait()
        write(project, "last\n")
        done = user.hook("claude-code", message(project, session="last"))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert contents(user, project)[0]["a.txt"] == b"last\n"


def test_hooks_without_a_helper_killed_on_their_way_leave_a_sound_store(user):
    project = user.project(**{f"f{number}.txt": "x" * 2000 for number in range(300)})
    environment = {**user.environment, "SAFEKEPT_HELPER": "0"}
    for number in range(6):
        write(project, f"round {number}\n")
        hook = subprocess.Popen([*program(), "hook", "claude-code"], env=environment, stdin=subprocess.PIPE)
        hook.stdin.write(message(project, session=f"s{number}"))
        hook.stdin.close()
        time.sleep(0.08 + number * 0.03)
        hook.kill()
        hook.wait()
    write(project, "last\n")
    done = user.hook("claude-code", message(project, session="last"), SAFEKEPT_HELPER="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert contents(user, project)[0]["a.txt"] == b"last\n"


# ── an agent that takes the ground away in mid-turn ────────────────────────────────────────────────


def test_an_agent_that_deletes_the_project_gets_it_back(user):
    project = user.project()
    with helper_thread(user):
        shell = Call("before", "codex", "Bash", shell=True, directory=project, session="s", turn="t")
        assert user.call(shell)["checkpoints"]
        shutil.rmtree(project)
        user.call(Call("after", "codex", "Bash", shell=True, directory=project, session="s", turn="t"))
        user.settled()
        gone = user.call(shell)
        assert gone["failures"] == [] or all("what" in one for one in gone["failures"])
        user.call(Call("end", "codex", directory=project, session="s", turn="t"))
        user.settled()
        os.makedirs(project)
        reply = user.chat("/rollback 1", project)
        assert reply["ok"], reply
    with open(os.path.join(project, "a.txt")) as file:
        assert file.read() == "first\n"


def test_an_agent_that_deletes_the_store_is_protected_from_its_next_call_on(user):
    project = user.project()
    with helper_thread(user):
        call = Call("before", "codex", "Bash", shell=True, directory=project, session="s", turn="t")
        assert user.call(call)["checkpoints"]
        user.settled()  # nobody puts anything there while it goes
        shutil.rmtree(open_below(os.path.join(user.data, "checkpoints")))
        write(project, "second\n")
        outcome = user.call(call)
        assert outcome["failures"] == [] and len(outcome["checkpoints"]) == 1
    assert contents(user, project)[0]["a.txt"] == b"second\n"


def test_an_agent_that_deletes_all_of_safekepts_data_is_protected_without_the_helper(user, monkeypatch):
    monkeypatch.setattr(server, "_LOOK", 0.05)
    project = user.project()
    with helper_thread(user) as helper:
        assert user.hook("claude-code", message(project)).returncode == 0
        shutil.rmtree(open_below(user.data), ignore_errors=True)
        write(project, "second\n")
        done = user.hook("claude-code", message(project, session="t"), SAFEKEPT_HELPER="0")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert contents(user, project)[0]["a.txt"] == b"second\n"
        assert user.ask("status") is None, "the old helper is not found any more"
        ends = time.monotonic() + PATIENT
        while helper.ending != "its socket is gone":
            assert time.monotonic() < ends
            time.sleep(0.01)


def test_an_agent_that_deletes_or_breaks_the_settings_changes_nothing_but_what_is_said(user):
    project = user.project()
    os.makedirs(os.path.dirname(user.config))
    with open(user.config, "w") as file:
        file.write("[checkpoints]\nmax_file_size_mb = 1\n")
    with helper_thread(user):
        call = Call("before", "codex", "Bash", shell=True, directory=project, session="s", turn="t")
        assert user.call(call)["failures"] == []
        for text in ("[[[", "checkpoints = 7", "\0", '[checkpoints]\nmax_files = "many"'):
            with open(user.config, "w") as file:
                file.write(text)
            write(project, text)
            outcome = user.call(call)
            assert [one["code"] for one in outcome["failures"]] == ["bad-setting"], text
            assert outcome["checkpoints"], text
        shutil.rmtree(os.path.dirname(user.config))
        assert user.call(call)["failures"] == []


def test_a_data_directory_that_cannot_be_written_is_said_and_nothing_is_raised(user):
    project = user.project()
    os.makedirs(os.path.dirname(user.data))
    with open(user.data, "w") as file:
        file.write("in the way")
    done = user.hook("claude-code", message(project))
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert client.ask(user.directory, client.request("status", {}), b"", 1.0) is None


@pytest.mark.soak("hooks")
def test_a_long_storm_of_callers_marks_and_kills(user):
    """Two hundred callers of eight projects, hooks and calls, helpers killed under them."""
    projects = [user.project(f"p{number}") for number in range(8)]
    stop = threading.Event()
    helpers: list[subprocess.Popen[bytes]] = []

    def keep_one() -> None:
        while not stop.is_set():
            helper = subprocess.Popen(
                [*program(), "helper", "run", "--quiet"], env=user.environment, stdin=subprocess.DEVNULL
            )
            helpers.append(helper)
            stop.wait(0.7)
            helper.kill()
            helper.wait()

    keeper = threading.Thread(target=keep_one)
    keeper.start()
    try:
        for number in range(200):
            project = projects[number % 8]
            write(project, f"state {number}\n")
            done = user.hook("claude-code", message(project, session=f"s{number}"))
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
            assert contents(user, project)[0]["a.txt"] == f"state {number}\n".encode()
    finally:
        stop.set()
        keeper.join()
        end_helper(user)


@pytest.mark.parametrize("helper", ["0", "running"])
def test_a_hook_in_a_directory_that_was_deleted_protects_what_it_is_told(user, helper):
    project = user.project()
    with helper_process(user):
        gone = os.path.join(user.home, "gone")
        os.mkdir(gone)
        done = subprocess.run(
            ["/bin/sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *program(), "hook", "claude-code"],
            input=message(project),
            capture_output=True,
            cwd=gone,
            env={**user.environment, "SAFEKEPT_HELPER": helper},
            timeout=PATIENT,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert contents(user, project)[0]["a.txt"] == b"first\n"


def test_the_end_of_a_session_leads_to_a_snapshot_that_nobody_waited_for(user):
    put(os.path.join(user.home, ".claude", "CLAUDE.md"), "what it knows")
    journal = Place.load(user.environment).context.journal
    with helper_thread(user):
        outcome = user.call(Call("session-end", "claude-code", session="s"))
        assert outcome["failures"] == [] and outcome["home_point"] == ""
        ends = time.monotonic() + PATIENT
        while not (found := [one for one in journal.backwards("snapshot") if one.state != "begun"]):
            assert time.monotonic() < ends, "no snapshot is taken"
            time.sleep(0.02)
    assert found[0].state == "done" and found[0].facts["actor"] == "agent:claude-code"
    assert os.path.realpath(str(found[0].facts["home"])) == os.path.realpath(f"{user.home}/.claude")
