"""The door to the system: what macOS prints is read, and where a feature is missing the plain way is taken.

The texts are those of macOS's manual pages: none of this has run on a Mac.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import sys
import time
from pathlib import Path

import pytest

from safekept.core.platform import (
    attributes,
    copying,
    descriptors,
    filesystems,
    open_files,
    processes,
    renaming,
    rights,
    sockets,
    syncing,
    system,
)
from safekept.core.sqlite.holders import holders
from safekept.schedule import machine

MOUNTS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse, protect)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
//ada@nas.local/Copies on /Volumes/Copies (smbfs, nodev, nosuid, mounted by ada)
/dev/disk5s1 on /Volumes/Sun on Sea (2024) (exfat, local, nodev, nosuid, noowners)
"""
FIRST, SECOND = (1, 4711), (2, 4711)  # one number on two disks
LSOF = "p88\nf12\ni4711\nf13\ni99\np90\nftxt\ni5\n"
PROCESSES = "    1     0\n   88   501\n  300    89\n"
COMMANDS = "    1 /sbin/launchd\n   88 hermes\n  300 postgres -D /srv/agent data\n"


@pytest.fixture
def without(monkeypatch):
    """Switches features off; the programs of the system answer with these texts."""

    def switch(*names: str, answers: dict[str, str | None] | None = None) -> None:
        monkeypatch.setattr(system, "off", frozenset(names))
        if answers is not None:
            for module in (open_files, processes, filesystems):
                monkeypatch.setattr(module, "output_of", lambda words, **_: answers.get(" ".join(words)))

    return switch


def lsof(*paths: str) -> str:
    return " ".join(["lsof -w -n -P -F pi --", *paths])


def test_the_mounts_of_macos_are_read(without):
    without("proc", answers={"mount": MOUNTS})
    found = {one.place: (one.kind, one.source) for one in filesystems.mounts()}
    assert found == {
        "/": ("apfs", "/dev/disk3s1s1"),
        "/dev": ("devfs", "devfs"),
        "/System/Volumes/Data": ("apfs", "/dev/disk3s5"),
        "/System/Volumes/Data/home": ("autofs", "map auto_home"),
        "/Volumes/Copies": ("smbfs", "//ada@nas.local/Copies"),
        "/Volumes/Sun on Sea (2024)": ("exfat", "/dev/disk5s1"),
    }
    assert filesystems.mount_of("/Volumes/Sun on Sea (2024)/home").kind == "exfat"
    assert (
        filesystems.disk_of_device("/dev/disk3s1s1") == filesystems.disk_of_device("/dev/disk3s5") == "disk3"
    )
    assert filesystems.disk_of_device("//ada@nas.local/Copies") == ""


def test_the_mounts_that_linux_prints_are_those_of_its_table(without):
    by_table = {(one.place, one.kind) for one in filesystems.mounts() if " " not in one.place}
    without("proc")
    assert {(one.place, one.kind) for one in filesystems.mounts()} >= by_table


def test_two_databases_of_one_number_on_two_disks_are_both_held(without):
    without("proc", answers={lsof("/a.db", "/b.db"): LSOF})
    found = open_files.users_of({FIRST: "/a.db", SECOND: "/b.db"})
    assert sorted(found.open) == [(88, FIRST), (88, SECOND)] and not found.unknown


def test_where_lsof_says_nothing_every_database_may_be_open(without, tmp_path):
    without("proc", answers={})
    assert open_files.users_of({FIRST: "/a.db"}).unknown
    (tmp_path / "x.db").write_bytes(b"text")
    assert [str(one) for one in holders(str(tmp_path / "x.db"))] == [
        "a process that cannot be seen from here"
    ]


def test_a_process_of_another_user_whose_command_names_the_directory_counts_as_a_holder(
    without, monkeypatch, tmp_path
):
    place = tmp_path / "agent data"
    place.mkdir()
    path = place / "x.db"
    path.write_bytes(b"text")
    monkeypatch.setattr(os, "geteuid", lambda: 501)
    answers = {
        lsof(str(path)): "",
        "ps -ax -o pid= -o uid=": PROCESSES,
        "ps -ax -ww -o pid= -o command=": COMMANDS.replace("/srv/agent data", str(place)),
        "ps -ww -o command= -p 300": f"postgres -D {place}\n",
    }
    without("proc", answers=answers)
    [found] = holders(str(path))
    assert (found.pid, found.how) == (300, "may have it open; its files cannot be listed")
    assert found.command.startswith("postgres -D ")


@pytest.mark.parametrize(
    ("text", "seconds"), [("01:05", 65), ("02:01:05", 7265), ("3-02:01:05", 266465), ("", None), ("?", None)]
)
def test_how_long_a_process_has_run_is_read_from_ps(without, text, seconds):
    without("proc", answers={"ps -ww -o etime= -p 88": text})
    began = processes.started(88)
    assert began is None if seconds is None else abs(time.time() - seconds - began) < 60


def test_a_name_that_ps_gives_is_the_one_of_proc(without):
    ours = processes.command_line(os.getpid()), processes.started(os.getpid())
    without("proc")
    theirs = processes.command_line(os.getpid()), processes.started(os.getpid())
    assert theirs[0] == ours[0]
    assert ours[1] is not None and theirs[1] is not None and abs(ours[1] - theirs[1]) < 3


def test_without_any_feature_each_question_has_a_plain_answer(without, tmp_path):
    without(*system.FEATURES)
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"text")
    other.write_bytes(b"other")
    place = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    first, second = socket.socketpair()
    with first, second, one.open("rb") as source, other.open("r+b") as target:
        assert renaming.exchange((place, "one"), (place, "other")) is False
        assert renaming.rename_new((place, "one"), (place, "three")) is False
        assert copying.copy_inside(source.fileno(), target.fileno(), 4, 0) is None
        assert copying.knows_holes() is False
        assert descriptors.name_of(place) == "" and source.fileno() in descriptors.open_here()
        assert descriptors.keeps_secrets_in_memory() is False
        attributes.set_immutable(source.fileno(), True)
        attributes.copy_labels(str(one), target.fileno())
        syncing.sync_file(target.fileno())
        syncing.sync_filesystem(str(tmp_path))
        syncing.start_writeback(target.fileno(), 0, 4)
        with pytest.raises(PermissionError, match="does not say who calls"):
            sockets.peer(first)
    os.close(place)
    assert (one.read_bytes(), other.read_bytes()) == (b"text", b"other"), (
        "what could not be had changed nothing"
    )
    kept = descriptors.in_memory("kept")
    os.write(kept, b"kept")
    assert os.pread(kept, 10, 0) == b"kept" and os.fstat(kept).st_nlink == 0
    os.close(kept)
    ends = descriptors.pipe_without_waiting()
    assert descriptors.widen_pipe(ends[0], 1 << 20) is False
    for end in ends:
        os.close(end)
    assert (sockets.has_packets(), rights.follows_stops(), rights.words_without_network("/bin")) == (
        False,
        False,
        (),
    )
    assert processes.boot_id() == processes.boot_id() != "" and processes.awake() is None
    assert (processes.number_space(), processes.numbers(), processes.name_of_process("1")) == ("", [], "")
    assert processes.uptime() <= processes.uptime()
    assert (processes.command_line(1), processes.mentioning([1], "init")) == ("", [])
    assert filesystems.mounts() == [] and filesystems.kind_of_filesystem(os.stat("/").st_dev) == ""
    assert system.features() == dict.fromkeys(sorted(system.FEATURES), False)


# ── the branches of macOS, with its calls played ───────────────────────────────────────────────────


@pytest.fixture
def on_macos(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")


def test_on_macos_bytes_go_past_the_memory_of_the_drive(on_macos, monkeypatch, tmp_path):
    asked, synced, refusal = [], [], [0]

    def full(descriptor: int, request: int) -> None:
        asked.append(request)
        if refusal[0]:
            raise OSError(refusal[0], os.strerror(refusal[0]))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(os, "fsync", synced.append)
    syncing.sync_file(7)
    assert (asked, synced) == ([51], [])
    refusal[0] = errno.ENOTSUP  # a network share
    syncing.sync_file(7)
    assert synced == [7]
    refusal[0] = errno.EIO
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.EIO))):
        syncing.sync_file(7)
    assert synced == [7], "a disk that fails is never taken for one that cannot"


def test_on_macos_who_calls_is_read_from_the_kernels_answer(on_macos):
    class Connection:
        def getsockopt(self, level: int, option: int, size: int = 0) -> bytes | int:
            assert level == 0
            return {1: (0).to_bytes(4, "little") + (501).to_bytes(4, "little") + bytes(68), 2: 88}[option]

    assert sockets.peer(Connection()) == (88, 501)


def test_on_macos_an_open_directory_says_its_path(on_macos, monkeypatch):
    monkeypatch.setattr(fcntl, "F_GETPATH", 50, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda number, request, room: b"/Users/ada".ljust(len(room), b"\0"))
    assert descriptors.path_of(3) == "/Users/ada"


@pytest.mark.parametrize("source", ["Battery", "AC"])
def test_on_macos_the_power_is_asked_of_pmset(tmp_path, source):
    program = Path(tmp_path, "pmset")
    program.write_text(f"#!/bin/sh\necho \"Now drawing from '{source} Power'\"\n")
    program.chmod(0o755)
    nowhere = str(tmp_path / "supplies")
    assert machine.look(nowhere, str(tmp_path)).battery is (source == "Battery")


def test_on_macos_a_drill_loses_its_network_by_the_sandbox(on_macos, tmp_path):
    assert rights.words_without_network(str(tmp_path)) == ()
    program = Path(tmp_path, "sandbox-exec")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert rights.words_without_network(str(tmp_path)) == (
        str(program),
        "-p",
        "(version 1)(allow default)(deny network*)",
    )
