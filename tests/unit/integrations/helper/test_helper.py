"""The helper: whatever is sent to it, it answers the next one; and it ends by itself when it should."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import threading
import time

import pytest

from safekept.checkpoints.project import project_id
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import project_lock
from safekept.core.locks import AlreadyRunning
from safekept.integrations.calls import Call
from safekept.integrations.helper import client, server
from safekept.integrations.helper.server import Server
from support.commands.waiting import PATIENT
from support.hosts.throwaway_helper import Unchanging, helper_thread, short_place, throwaway
from support.projects.checkpoints import contents_in_store


@pytest.fixture
def user():
    with short_place() as place:
        yield throwaway(place)


@pytest.fixture
def helped(user):
    with helper_thread(user):
        yield user


def connected(user) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENT)
    folder = os.open(user.directory, os.O_RDONLY | os.O_DIRECTORY)
    connection.connect(f"/proc/self/fd/{folder}/socket")
    os.close(folder)
    return connection


def points(user, project: str):
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        return [(point, contents_in_store(store, point)) for point in store.checkpoints(project)]


def before(project: str, **more) -> Call:
    return Call("before", "claude-code", "Write", ("a.txt",), directory=project, session="s", **more)


# ── what it does ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_call_is_answered_when_the_old_bytes_are_kept(helped):
    project = helped.project()
    outcome = helped.call(before(project))
    assert outcome["failures"] == [] and outcome["skipped"] == [] and not outcome["off"]
    [(point, contents)] = points(helped, project)
    assert outcome["checkpoints"] == [point.id]
    assert contents["a.txt"] == b"first\n"
    assert (point.session, point.reason, point.kind) == ("s", "before Write a.txt", "before")


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_mark_after_a_command_is_made_off_the_callers_path(helped):
    project = helped.project()
    shell = Call("before", "claude-code", "Bash", shell=True, directory=project, session="s", turn="t")
    helped.call(shell)
    with open(os.path.join(project, "a.txt"), "w") as file:
        file.write("second\n")
    place = os.path.join(helped.data, "checkpoints", "projects", project_id(os.path.realpath(project)))
    with project_lock(place, "a test", 0.0):
        # Nobody can take anything now, so an answer means that nobody waited for the mark.
        after = Call("after", "claude-code", "Bash", shell=True, directory=project, session="s", turn="t")
        assert helped.call(after)["failures"] == []
        assert [point.kind for point, _ in points(helped, project)] == ["before"]
    helped.settled()
    kinds = {point.kind: contents["a.txt"] for point, contents in points(helped, project)}
    assert kinds == {"before": b"first\n", "after": b"second\n"}


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_what_was_promised_for_later_is_done_before_it_ends(user):
    project = user.project()
    with helper_thread(user):
        user.call(Call("before", "codex", "Bash", shell=True, directory=project, session="s", turn="t"))
        with open(os.path.join(project, "a.txt"), "w") as file:
            file.write("second\n")
        user.call(Call("end", "codex", directory=project, session="s", turn="t"))
    assert {point.kind for point, _ in points(user, project)} == {"before", "after"}


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_each_caller_is_judged_by_his_own_environment(helped):
    project = helped.project()
    helped.more["SAFEKEPT_CHECKPOINTS"] = "0"
    off = helped.call(before(project))
    assert off["off"] and off["checkpoints"] == []
    [notice] = off["notices"]
    assert "SAFEKEPT_CHECKPOINTS=0" in notice
    del helped.more["SAFEKEPT_CHECKPOINTS"]
    assert helped.call(before(project))["checkpoints"]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_settings_that_are_broken_are_said_and_the_project_is_protected_all_the_same(helped):
    project = helped.project()
    assert helped.call(before(project))["failures"] == []
    os.makedirs(os.path.dirname(helped.config))
    with open(helped.config, "w") as file:
        file.write("[checkpoints\nmax_files = 3\n")
    with open(os.path.join(project, "a.txt"), "w") as file:
        file.write("second\n")
    outcome = helped.call(before(project))
    [failure] = outcome["failures"]
    assert failure["code"] == "bad-setting" and helped.config in failure["what"]
    assert outcome["checkpoints"] and points(helped, project)[0][1]["a.txt"] == b"second\n"
    os.unlink(helped.config)
    assert helped.call(before(project))["failures"] == [], "a mended file is read again at once"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_notice_is_given_once_in_a_session(helped):
    call = Call("before", "hermes", "terminal", shell=True, out_of_reach="a container", session="one")
    [notice] = helped.call(call)["notices"]
    assert notice == "`terminal` works in a container, out of safekept's reach: nothing there is kept"
    assert helped.call(call)["notices"] == []
    assert helped.call(Call.from_dict({**call.as_dict(), "session": "two"}))["notices"] == [notice]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_line_of_a_chat_without_a_directory_is_about_where_its_session_last_worked(helped):
    project, other = helped.project(), os.path.join(helped.home, "nowhere")
    call = Call("before", "hermes", "patch", ("a.txt",), directory=project, session="chat-1")
    helped.call(call)
    ends = time.monotonic() + PATIENT
    while f"Nothing changed in {project}" not in helped.chat("/rollback", "", "chat-1")["text"]:
        assert time.monotonic() < ends  # it is noted after the call was answered
        time.sleep(0.02)
    assert other in helped.chat("/rollback", other, "chat-1")["text"], "what the asker names counts more"
    assert helped.chat("/rollback", "", "chat-2")["text"].startswith("No checkpoints found for")
    words = {"line": "/rollback", "session": "chat-2", "otherwise": other}
    _, body = helped.ask("chat", json.dumps(words).encode())
    assert other in json.loads(body)["text"]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_chat_line_is_dispatched(helped):
    project = helped.project()
    assert helped.chat("/rollback", project)["text"].startswith("No checkpoints found")
    helped.call(before(project))
    with open(os.path.join(project, "a.txt"), "w") as file:
        file.write("second\n")
    assert helped.chat("/rollback 1", project)["ok"]
    with open(os.path.join(project, "a.txt")) as file:
        assert file.read() == "first\n"


# ── what it stands ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        (b"\xff\xff\xff\xff\0\0\0\0", "too large"),
        (b"\0\0\0\1\xff\xff\xff\xff", "too large"),
        (b"\0\0\0\4\0\0\0\0what", "without values"),
        (b"\0\0\0\x06\0\0\0\0what=x", "not a header"),
        (b"\0\0\0\x0a\0\0\0\0safekept=9", "not a header"),
        (client.packed({"safekept": "1"}), "nothing called ``"),
        (client.packed({"safekept": "1", "do": "dance"}), "nothing called `dance`"),
        (client.packed({"safekept": "1", "do": "call"}, b"not JSON"), "JSONDecodeError"),
        (client.packed({"safekept": "1", "do": "call"}, b"[1]"), "a call is an object"),
        (client.packed({"safekept": "1", "do": "chat"}, b"7"), "a line of a chat is an object"),
        (client.packed({"safekept": "1", "do": "call"}, b"[" * 200_000), "RecursionError"),
    ],
)
@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_what_makes_no_sense_is_answered_and_the_next_one_served(helped, frame, answer):
    with connected(helped) as connection:
        connection.sendall(frame)
        said = b""
        while part := connection.recv(65536):
            said += part
    assert answer in said.decode()
    assert helped.call(before(helped.project()))["checkpoints"]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_noise_never_ends_it(helped):
    dice = random.Random(7)
    whole = client.packed(client.request("call", helped.environment), b'{"kind":"before"}')
    for _ in range(60):
        with connected(helped) as connection:
            piece = bytearray(whole[: dice.randrange(len(whole))])
            for _ in range(dice.randrange(4)):
                if piece:
                    piece[dice.randrange(len(piece))] = dice.randrange(256)
            connection.sendall(bytes(piece))  # and gone, in the middle of a word
    assert helped.call(before(helped.project()))["checkpoints"]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_whoever_says_half_a_word_is_not_waited_for(helped, monkeypatch):
    monkeypatch.setattr(server, "_READING", 0.05)
    with connected(helped) as connection:
        said = b""
        with contextlib.suppress(ConnectionError):  # it may be tired of waiting before we have said anything
            connection.sendall(b"\0\0")
            said = connection.recv(1)
        assert said == b"", "it hangs up"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_beyond_the_bound_of_connections_callers_are_sent_away(helped, monkeypatch):
    monkeypatch.setattr(server, "_CONNECTIONS", 1)
    with connected(helped) as idle:  # takes the only place
        ends = time.monotonic() + PATIENT
        while True:
            answer = helped.ask("status")
            if answer is not None and "error" in answer[0]:
                break
            assert time.monotonic() < ends
        assert answer[0]["error"] == "too many at once"
        idle.close()


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_other_users_are_not_listened_to(helped, monkeypatch):
    monkeypatch.setattr(server, "peer", lambda connection: os.geteuid() + 1)
    with connected(helped) as connection:
        said = b""
        with contextlib.suppress(ConnectionError):  # it hangs up without listening
            connection.sendall(client.packed({"safekept": "1", "do": "status"}))
            said = connection.recv(1)
        assert said == b""
    monkeypatch.undo()
    assert helped.ask("status") is not None


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_nobody_else_can_reach_the_socket(helped):
    assert os.stat(helped.directory).st_mode & 0o777 == 0o700
    assert os.stat(os.path.join(helped.directory, "socket")).st_mode & 0o777 == 0o600
    assert os.stat(helped.data).st_mode & 0o777 == 0o700


@pytest.mark.needs("proc", "its socket has a long path")
@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_long_path_is_no_hindrance(tmp_path):
    user = throwaway(tmp_path / ("long" * 40))
    assert len(user.directory) > 150
    with helper_thread(user):
        assert user.call(before(user.project()))["checkpoints"]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_an_answer_too_late_for_its_caller_harms_nobody(helped):
    project = helped.project()
    place = os.path.join(helped.data, "checkpoints", "projects", project_id(os.path.realpath(project)))
    helped.call(before(project))
    with open(os.path.join(project, "a.txt"), "w") as file:
        file.write("second\n")
    with project_lock(place, "a test", 0.0):
        with connected(helped) as connection:
            body = json.dumps(before(project).as_dict()).encode()
            connection.sendall(client.packed(client.request("call", helped.environment), body))
            assert b"working=1" in connection.recv(65536)
    ends = time.monotonic() + PATIENT
    while len(points(helped, project)) < 2:  # its work is done although nobody waits
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert helped.ask("status") is not None


# ── when it ends ───────────────────────────────────────────────────────────────────────────────────


def ended(user, work, **more) -> str:
    """Why a helper ended, once `work` was done to it."""
    why: list[str] = []
    runner = Server(user.directory, user.environment, **{"code": Unchanging(), **more})
    thread = threading.Thread(target=lambda: why.append(runner.run()))
    thread.start()
    ends = time.monotonic() + PATIENT
    while user.ask("status") is None and thread.is_alive():
        assert time.monotonic() < ends
        time.sleep(0.01)
    work()
    thread.join(PATIENT)
    assert not thread.is_alive()
    return why[0]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_it_ends_when_nobody_asks(user):
    assert ended(user, lambda: None, idle=0.1) == "there was no request for a while"
    assert not os.path.exists(os.path.join(user.directory, "socket"))


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_it_ends_when_its_place_is_gone_and_takes_no_other_socket_with_it(user, monkeypatch):
    monkeypatch.setattr(server, "_LOOK", 0.05)
    path = os.path.join(user.directory, "socket")

    def replaced() -> None:
        os.unlink(path)
        with open(path, "w") as file:
            file.write("another helper's")

    assert ended(user, replaced) == "its socket is gone"
    assert os.path.exists(path), "what is not its own stays"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_other_code_on_disk_is_answered_with_stale_and_ends_it(user):
    def asked() -> None:
        answer = user.ask("call", b"{}", code="another")
        assert answer is not None and answer[0]["stale"] == "1"

    assert ended(user, asked) == "the code on disk is another"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_changed_file_of_its_own_code_ends_it(user):
    code = Unchanging()
    code.changed = lambda: True  # type: ignore[method-assign]

    def asked() -> None:
        answer = user.ask("call", b"{}")
        assert answer is not None and answer[0]["stale"] == "1"

    assert ended(user, asked, code=code) == "the code on disk is another"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_there_is_one_for_each_place(helped):
    with pytest.raises(AlreadyRunning) as caught:
        Server(helped.directory, helped.environment).run()
    assert "safekept helper" in caught.value.what
    assert helped.ask("status") is not None, "the first one stays"
