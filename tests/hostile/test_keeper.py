"""What a process of the same user, and another user, can do to the keeper: lose nothing, starve nobody.

A real keeper in a process of its own, as another user where the test may make one; every attack is what its
author could send, and every object is compared afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from safekept.keeper.client import Keeper, KeeperRefused
from safekept.keeper.pages import Entry, packed_pages
from safekept.keeper.room import Put
from safekept.keeper.wire import MAX_PACKET, new_socket, receive
from support.commands.waiting import wait_until
from support.keeper.keepers import (
    FIRST,
    SECOND,
    RunningKeeper,
    name_of,
    passed,
    read_all,
    running_keeper,
    store_all,
)
from support.users.unprivileged import as_nobody

FILES = {f"vault/snapshots/{number}": b"%d" % number * 5000 for number in range(10)}
#: Nobody waits longer than this, whatever somebody else does.
STARVED = 10.0
needs_users = pytest.mark.usefixtures("several_users")


@pytest.fixture(scope="module")
def keeper() -> Iterator[RunningKeeper]:
    """One for all attacks that leave it running; the victim's stores are in it."""
    with running_keeper() as running:
        running.start()
        victim(running, lambda own: store_all(own, FILES))
        yield running


def victim(running: RunningKeeper, work: Callable[[Keeper], object], user: int = FIRST) -> object:
    """What one user asks, in a process of its own."""

    def ask() -> object:
        with Keeper(running.socket) as own:
            return work(own)

    return as_nobody(ask, user)


def refused(running: RunningKeeper, work: Callable[[Keeper], object], user: int = FIRST) -> str:
    """The keeper's own word for why it did not do it."""

    def ask(own: Keeper) -> object:
        try:
            return f"did it: {work(own)}"
        except KeeperRefused as error:
            assert error.kept == "What the keeper holds is as it was" and error.next_steps
            return error.reason

    return str(victim(running, ask, user))


def everything_is_there(running: RunningKeeper) -> None:
    def look(own: Keeper) -> object:
        return {name: read_all(own, name) for name in map(name_of, FILES.values())}

    assert victim(running, look) == {name_of(data): data for data in FILES.values()}


def test_there_is_no_verb_that_deletes_or_replaces(keeper):
    before = keeper.files()
    name = name_of(FILES["vault/snapshots/1"])
    for verb in ("delete", "remove", "replace", "put!", "", "prune", "forget", "__class__", "run"):
        answer = refused(keeper, lambda own, verb=verb: own._ask({"do": verb, "name": name}))
        assert answer == "no-such-verb", verb
    assert keeper.files() == before


def test_a_name_that_is_taken_is_never_written_again(keeper):
    """Other bytes under the name of an object: seen by its name, before anything is looked at."""
    before, name = keeper.files(), name_of(FILES["vault/snapshots/1"])

    def attack(own: Keeper) -> object:
        one, descriptor = passed(b"mine", name)
        return own.put([(one, descriptor)])

    victim(keeper, attack)
    assert keeper.files() == before


def test_bytes_that_do_not_match_their_name_are_not_taken(keeper):
    def attack(own: Keeper) -> object:
        one, descriptor = passed(b"mine", name_of(b"something else"))
        return own.put([(one, descriptor)])

    before = keeper.files()
    (answer,) = victim(keeper, attack)  # type: ignore[misc]
    assert answer["error"] == "mismatch" and answer["text"] == "the bytes do not match their name"
    assert keeper.files() == before


@needs_users
def test_another_user_finds_nothing_of_this_one(keeper):
    name = name_of(FILES["vault/snapshots/1"])
    assert refused(keeper, lambda own: own.get(name), SECOND) == "not-there"
    assert victim(keeper, lambda own: own.missing([name]), SECOND) == {name}
    assert victim(keeper, lambda own: own.manifests(), SECOND) == []
    assert refused(keeper, lambda own: own.rooms(), SECOND) == "only-root"
    assert refused(keeper, lambda own: own.acknowledge(FIRST), SECOND) == "only-root"

    def enters() -> str:
        for path in (keeper.store, os.path.join(keeper.store, "rooms", str(FIRST))):
            with contextlib.suppress(PermissionError):
                os.listdir(path)
                return path
        return ""

    for user in (FIRST, SECOND):
        assert as_nobody(enters, user) == ""


@needs_users
def test_the_descriptor_of_an_object_cannot_be_written(keeper):
    """What `get` passes is the keeper's own file: nobody can open it again for writing, or change it."""

    def attack(own: Keeper) -> object:
        descriptor = own.get(name_of(FILES["vault/snapshots/1"]))
        won = []
        for deed in (
            lambda: os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY),
            lambda: os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_TRUNC),
            lambda: os.write(descriptor, b"x"),
            lambda: os.ftruncate(descriptor, 0),
            lambda: os.fchmod(descriptor, 0o666),
            lambda: os.fchown(descriptor, FIRST, FIRST),
            lambda: os.utime(f"/proc/self/fd/{descriptor}"),
            lambda: os.unlink(os.readlink(f"/proc/self/fd/{descriptor}")),
        ):
            with contextlib.suppress(OSError):
                won.append(str(deed()))
        return won

    before = keeper.files()
    assert victim(keeper, attack) == []
    assert keeper.files() == before


BAD_NAMES = [
    "../../../../etc/passwd",
    "/etc/passwd",
    "A" * 64,
    "a" * 63,
    "a" * 64 + "\n",
    "a" * 63 + "\0",
    "aa/" + "a" * 61,
    "٣" * 64,
    "",
    "..",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_no_hash_leads_nowhere(keeper, name):
    before = keeper.files()
    assert refused(keeper, lambda own: own.get(name)) == "bad-name"
    assert refused(keeper, lambda own: own.missing([name])) == "bad-name"
    (answer,) = victim(keeper, lambda own: own.put([passed(b"x", name)] if name else [_nameless()]))  # type: ignore[misc]
    assert answer["error"] == "bad-name"
    assert keeper.files() == before


def _nameless() -> tuple[Put, int]:
    return Put("", 0, 1), passed(b"x")[1]


def _odd_descriptors(place: str) -> dict[str, int]:
    """What is no plain file, or cannot be read, under a descriptor."""
    os.symlink("/etc/passwd", os.path.join(place, "link"))
    os.mkfifo(os.path.join(place, "pipe"))
    left, right = socket.socketpair()
    plain = os.path.join(place, "plain")
    with open(plain, "w") as file:
        file.write("x" * 100)
    return {
        "link": os.open(os.path.join(place, "link"), os.O_PATH | os.O_NOFOLLOW),
        "pipe": os.open(os.path.join(place, "pipe"), os.O_RDWR),
        "socket": left.detach(),
        "other end": right.detach(),
        "directory": os.open(place, os.O_RDONLY),
        "device": os.open("/dev/zero", os.O_RDONLY),
        "written only": os.open(plain, os.O_WRONLY),
        "a place only": os.open(plain, os.O_PATH),
    }


def test_what_is_no_file_is_refused_at_once(keeper, tmp_path):
    held = _odd_descriptors(str(tmp_path))
    before, began = keeper.files(), time.monotonic()

    def attack(own: Keeper) -> object:
        return {
            what: own.put([(Put(name_of(b"%d" % number), 0, 100), descriptor)])[0]["error"]
            for number, (what, descriptor) in enumerate(held.items())
        }

    answers = victim(keeper, attack)
    for descriptor in held.values():
        os.close(descriptor)
    assert set(answers.values()) == {"no-file", "unreadable"}, answers  # type: ignore[attr-defined]
    assert answers["pipe"] == answers["device"] == answers["directory"] == "no-file"  # type: ignore[index]
    assert time.monotonic() - began < STARVED
    assert keeper.files() == before


def test_truncated_and_endless_files_are_refused_and_leave_nothing(keeper):
    def attack(own: Keeper) -> object:
        short, endless = os.memfd_create("short"), os.memfd_create("endless")
        os.write(short, b"x" * 10)
        os.ftruncate(endless, 1 << 42)
        rows = [
            (Put(name_of(b"a"), 0, 11), short),
            (Put(name_of(b"b"), 5, 6), short),
            (Put(name_of(b"c"), 0, 1 << 42), endless),
            (Put(name_of(b"d"), 1 << 41, 10), endless),
            (Put(name_of(b"e"), -5, 10), endless),
            (Put(name_of(b"f"), 0, -1), endless),
        ]
        return [one["error"] for one in own.put(rows)]

    before = keeper.files()
    expected = ["too-short", "too-short", "too-large", "mismatch", "too-large", "too-large"]
    assert victim(keeper, attack) == expected
    assert keeper.files() == before


def test_a_file_that_is_changed_while_it_is_taken_is_whole_or_not_there(keeper, tmp_path):
    """The name is checked on the keeper's own copy."""
    path = str(tmp_path / "file")
    content = os.urandom(1 << 20)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o666)
    writer = (
        "import os,sys\nf=os.open(sys.argv[1],os.O_RDWR)\nwhile True: os.pwrite(f,os.urandom(4096),65536)"
    )
    attacker = subprocess.Popen([sys.executable, "-I", "-c", writer, path])
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for _ in range(10):
            data = os.pread(descriptor, 1 << 20, 0)
            victim(keeper, lambda own, data=data: own.put([(Put(name_of(data), 0, len(data)), descriptor)]))
    finally:
        attacker.kill()
        attacker.wait()
        os.close(descriptor)
    for path, data in keeper.files().items():
        assert os.path.basename(path) == name_of(data)


def _packets() -> dict[str, bytes]:
    return {
        "nothing of ours": os.urandom(1000),
        "too large": b" " * (MAX_PACKET + 1),
        "deep": b"[" * 60_000,
        "no object": b"[]",
        "a number without end": b'{"do":"put","objects":[["' + b"a" * 64 + b'",1e999,5]]}',
        "no objects": b'{"do":"put","objects":[]}',
        "objects without descriptors": json.dumps({"do": "put", "objects": [["a" * 64, 0, 5]] * 30}).encode(),
        "names that are none": b'{"do":"missing","names":[1,null,{}]}',
        "a root that is none": b'{"do":"commit","root":{"a":1}}',
        "numbers that are none": b'{"do":"manifests","before":"x"}',
    }


@pytest.mark.parametrize("name", _packets())
def test_rubbish_gets_a_clear_error_and_ends_nothing(keeper, name):
    data = _packets()[name]
    with new_socket() as connection:
        connection.settimeout(STARVED)
        connection.connect(keeper.socket)
        connection.send(data)
        answer, passed_back = receive(connection)
    assert passed_back == [] and answer["error"] in (
        "bad-packet",
        "bad-question",
        "bad-name",
        "no-such-verb",
    ), answer
    assert len(answer["text"]) > 10
    everything_is_there(keeper)


def test_too_many_descriptors_are_refused_and_not_kept(keeper):
    with new_socket() as connection:
        connection.settimeout(STARVED)
        connection.connect(keeper.socket)
        many = [os.memfd_create("x") for _ in range(100)]
        socket.send_fds(connection, [b'{"do":"hello"}'], many)
        answer, _ = receive(connection)
        assert answer["error"] == "bad-packet"
        for descriptor in many:
            os.close(descriptor)


#: So many at once, by one process; whoever is sent away comes again at once.
_HELD = 2000


def _hold(path: str) -> None:
    """Connections without end."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    held: list[socket.socket] = []
    while True:
        while len(held) < _HELD:
            one = new_socket()
            one.settimeout(5)
            with contextlib.suppress(OSError):
                one.connect(path)
            held.append(one)
        for one in held[4:]:
            one.close()
        del held[4:]


@contextlib.contextmanager
def _attackers(keeper: RunningKeeper, user: int, count: int) -> Iterator[None]:
    started = []
    try:
        for _ in range(count):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    as_nobody(lambda: _hold(keeper.socket), user)
                os._exit(0)
            started.append(child)
        # Until the keeper sends somebody of theirs away, who gets no answer to a question.
        wait_until(lambda: _is_busy(keeper, user), "the row of callers")
        yield
    finally:
        for child in started:
            for one in (*_children(child), child):
                os.kill(one, signal.SIGKILL)
            os.waitpid(child, 0)


def _children(process: int) -> list[int]:
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(one) for one in file.read().split()]


def _is_busy(keeper: RunningKeeper, user: int) -> bool:
    """Whether this user has as many connections as one may have."""

    def look() -> bool:
        held = [new_socket() for _ in range(8)]
        try:
            for one in held:
                one.settimeout(STARVED)
                with contextlib.suppress(OSError):
                    one.connect(keeper.socket)
                    one.send(b'{"do":"hello"}')
                    if receive(one)[0].get("error") == "busy":
                        return True
            return False
        except (OSError, EOFError):
            return True
        finally:
            for one in held:
                one.close()

    return as_nobody(look, user)


@needs_users
def test_thousands_of_connections_of_one_user_starve_no_other(keeper):
    with _attackers(keeper, SECOND, 3):
        for number in range(5):
            began = time.monotonic()
            files = {**FILES, "own/note": b"note %d" % number}
            victim(keeper, lambda own, files=files: store_all(own, files))
            assert time.monotonic() - began < STARVED
    everything_is_there(keeper)


def test_thousands_of_connections_of_one_process_starve_no_other_process_of_the_same_user(keeper):
    with _attackers(keeper, FIRST, 1):
        began = time.monotonic()
        everything_is_there(keeper)
        assert time.monotonic() - began < STARVED


def test_a_silent_caller_is_sent_away(keeper):
    """Nobody holds a place by saying nothing."""
    with new_socket() as connection:
        connection.settimeout(60)
        connection.connect(keeper.socket)
        began = time.monotonic()
        assert connection.recv(10) == b""
        assert time.monotonic() - began < 30


def test_forged_manifests_are_refused(keeper):
    name = name_of(FILES["vault/snapshots/1"])
    forged = {
        "missing": [Entry("vault/a", ((name_of(b"never sent"), 5),))],
        "bad-size": [Entry("vault/a", ((name, 1 << 40),))],
        "bad-manifest": [Entry("../../a", ((name, 5000),))],
    }
    for expected, entries in forged.items():
        pages, root = packed_pages(entries)

        def attack(own: Keeper, pages: dict[str, bytes] = pages, root: str = root) -> object:
            own.put_bytes(pages)
            return own.commit(root)

        assert refused(keeper, attack) == expected
    assert refused(keeper, lambda own: own.commit(name)) == "bad-manifest"
    everything_is_there(keeper)


def test_an_empty_manifest_is_an_alarm_and_only_root_ends_it():
    with running_keeper() as running:
        running.start()
        victim(running, lambda own: store_all(own, FILES))
        for _ in range(2):
            victim(running, lambda own: store_all(own, {}))
        for number in range(5):  # so that the good one is none of the newest three
            victim(running, lambda own, number=number: store_all(own, {"vault/x": b"%d" % number}))
        said = victim(running, lambda own: own.hello())
        assert said["alarm"]["pinned"] == 1 and said["newest"]["shrunk"]  # type: ignore[index]
        everything_is_there(running)
        if os.geteuid() == 0:
            assert refused(running, lambda own: own.acknowledge(FIRST)) == "only-root"
            with Keeper(running.socket) as root:
                assert root.acknowledge(FIRST)["was"]["pinned"] == 1
                assert root.rooms()["rooms"][-1]["alarm"]["pinned"] == 0


def test_a_full_quota_is_an_alarm_refuses_and_deletes_nothing():
    with running_keeper() as running:
        running.limit(400_000)
        running.start()
        victim(running, lambda own: store_all(own, FILES))
        before = running.files()

        def fill(own: Keeper) -> object:
            contents = {name_of(data): data for data in (b"%d" % number * 20_000 for number in range(30))}
            return own.put_bytes(contents), own.hello()

        answers, said = victim(running, fill)  # type: ignore[misc]
        assert {one["error"] for one in answers} == {"full"}
        assert "quota of 400,000 bytes is used up" in answers[0]["text"]
        assert said["alarm"]["full"] > 0 and said["used"] <= 400_000
        assert running.files().items() >= before.items()
        everything_is_there(running)


def test_a_killed_keeper_has_lost_nothing_that_it_said_it_has():
    """Killed again and again while objects come in; started again, what was answered is there, whole."""
    with running_keeper() as running:
        running.start()
        victim(running, lambda own: store_all(own, FILES))
        for number in range(2):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    victim(
                        running,
                        lambda own, number=number: [
                            own.put_bytes({name_of(data): data})
                            for data in (b"%d %d " % (number, piece) * 20_000 for piece in range(200))
                        ],
                    )
                os._exit(0)
            count = running.count()
            wait_until(lambda count=count: running.count() > count + 3, "objects")
            running.kill()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            for path, data in running.files().items():
                assert os.path.basename(path) == name_of(data)
            running.start()
        everything_is_there(running)
        victim(running, lambda own: store_all(own, {**FILES, "vault/new": b"new"}))


def test_a_second_keeper_is_refused_and_takes_nothing_from_the_first(keeper):
    """Started twice by mistake: callers still reach the one that is there."""
    words = ["keeper", "serve", "--store", keeper.store, "--socket", keeper.socket, "--user", "nobody"]
    second = keeper.command(words)
    assert (second.returncode, "already-running" in second.stderr) == (11, True)
    everything_is_there(keeper)


def test_a_keeper_started_anew_waits_for_the_callers_of_the_one_that_was_killed():
    """Each is served by a process of its own, which outlives a killed keeper by some seconds."""
    with running_keeper() as running:
        running.start()
        victim(running, lambda own: store_all(own, FILES))
        with new_socket() as silent:
            silent.settimeout(STARVED)
            silent.connect(running.socket)
            silent.send(b'{"do":"hello"}')
            receive(silent)
            running.kill()
            running.start()
            silent.shutdown(socket.SHUT_RDWR)  # gone as soon as the new one has looked, or a little earlier
            everything_is_there(running)


def test_the_caller_is_who_the_kernel_says(keeper):
    """Credentials that a caller sends along are not what decides."""
    with new_socket() as connection:
        connection.settimeout(STARVED)
        connection.connect(keeper.socket)
        mine = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
        connection.sendmsg(
            [b'{"do":"hello","user":61001}'], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, mine)]
        )
        answer, _ = receive(connection)
    assert answer["user"] == os.getuid()
