"""`sudo safekept keeper install` on a machine of its own: real users, a real store, the service for real.

No systemd runs in a test: its units are checked by `systemd-analyze verify` where that is, and what would be
said to it is recorded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from conftest import missing_part

# Loaded before rights are given away: this Python may lie where only root can read.
from safekept.actions.keeper import becoming_root  # noqa: F401
from safekept.actions.keeper.keeper_status import keeper_status
from safekept.actions.keeper.program_trust import writable_part
from safekept.keeper.client import Keeper
from safekept.keeper.units import unit_files
from safekept.schedule.hosts import systemd
from safekept.schedule.hosts.call import Call
from support.commands.waiting import wait_until
from support.keeper.keepers import name_of, read_all, store_all
from support.users.contexts import throwaway
from support.users.unprivileged import as_nobody
from support.users.users_world import World, answer, made_world

STORE = "/var/lib/safekept-keeper"
SYSTEMCTL = '#!/bin/sh\necho "$@" >> /srv/systemctl\n'


@pytest.fixture
def world() -> Iterator[World]:
    """Where its users can be played from outside: every directory above it is open."""
    place = tempfile.mkdtemp(
        prefix="safekept-world-", dir="/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    )
    os.chmod(place, 0o755)
    try:
        made = made_world(os.path.join(place, "world"))
        os.chmod(made.place, 0o755)
        yield made
    finally:
        shutil.rmtree(place)


@pytest.fixture
def roots_own(world: World) -> World:
    """The same, where only root can change the program that the tests run."""
    world.use_roots_own()
    return world


def keeper_user(world: World) -> int:
    return world.uid("safekept-keeper")


def test_install_serve_and_remove(roots_own):
    world = roots_own
    dry = answer(world.safekept("keeper", "install", "--dry-run", "--json"))
    assert dry["makes_user"] is True and dry["serve"] and not os.path.exists(world.outside(STORE))
    done = world.safekept("keeper", "install", "--yes", "--quota", "0.5", "--keep-days", "7")
    assert done.returncode == 0, done.stderr
    assert "No systemd runs here" in done.stdout and "keeper serve" in done.stdout
    facts = os.stat(world.outside(STORE))
    assert facts.st_uid == keeper_user(world) and facts.st_mode & 0o777 == 0o700
    serving = world.start(*world.program(), "keeper", "serve", user="")
    try:
        socket = world.outside("/run/safekept-keeper/socket")
        wait_until(lambda: os.path.exists(socket), "the socket")
        honest, mallory = world.uid("honest"), world.uid("mallory")
        files = {"vault/snapshots/1": b"one" * 1000}

        def store() -> int:
            with Keeper(socket) as keeper:
                assert keeper.hello()["quota"] == 500_000_000 and keeper.hello()["keep_days"] == 7
                return store_all(keeper, files).number

        assert as_nobody(store, honest) == 1
        with open(f"/proc/{serving.pid}/status") as file:
            users = next(line.split()[1:] for line in file if line.startswith("Uid:"))
        assert set(users) == {str(keeper_user(world))}, "it gave root's rights away, for good"
        context = _context(socket)
        status = as_nobody(lambda: keeper_status(context), honest)
        assert status.counts and status.why_not == "" and status.newest.points == 1
        status = as_nobody(lambda: keeper_status(context), mallory)
        assert not status.counts and status.newest is None, "nothing of hers is there"
        as_root = keeper_status(context)
        assert not as_root.counts
        assert (
            as_root.why_not
            == "this user can become root (it is root already), and delete what the keeper holds"
        )
        assert world.run("ls", STORE, user="honest").returncode != 0
        assert world.run("rm", "-rf", STORE, user="honest").returncode != 0
        said = world.safekept("keeper", "status")
        assert "honest: as of" in said.stdout and "does not count" in said.stdout

        def back() -> bytes:
            with Keeper(socket) as keeper:
                return read_all(keeper, name_of(files["vault/snapshots/1"]))

        assert as_nobody(back, honest) == files["vault/snapshots/1"]
    finally:
        serving.terminate()
        serving.wait(60)
    done = world.safekept("keeper", "remove", "--yes")
    assert done.returncode == 0 and os.path.isdir(world.outside(STORE)), "what it holds stays"
    done = world.safekept("keeper", "remove", "--store", "--yes")
    assert done.returncode == 0 and not os.path.exists(world.outside(STORE))
    with open(world.outside("/etc/passwd")) as file:
        assert "safekept-keeper" not in file.read()


def test_a_user_who_is_entered_in_a_group_like_docker_can_become_root(roots_own):
    """Also where no process has that group yet: `newgrp`, or the next login, gives it."""
    world = roots_own
    world.let_all_run_it()
    world.run("groupadd", "docker")
    world.run("usermod", "--append", "--groups", "docker", "mallory", check=True)
    look = "import sys; sys.path.insert(0, sys.argv[1]); from safekept.actions.keeper.becoming_root import *"
    for user, way in (("honest", ""), ("mallory", "it is in the group docker")):
        *begin, _ = world.program()
        words = [*begin[:-1], f"{look}; print(way_to_root(''))", world.program()[-1]]
        done = world.run(*words, user=user)
        assert done.returncode == 0 and done.stdout.strip() == way, (user, done.stdout, done.stderr)


def test_the_nightly_run_of_a_user_is_roots_and_outlives_what_her_agent_deletes(roots_own):
    """One installer, one store: the line that cron was given takes her snapshot, and the keeper has it."""
    world = roots_own
    world.let_all_run_it()
    world.directory("/etc/cron.d")
    home = world.hermes_home("honest")
    unknown = world.safekept("keeper", "install", "--yes", "--user-name", "nobody-here")
    assert unknown.returncode == 1 and "no user `nobody-here`" in unknown.stderr
    assert not os.path.exists(world.outside(STORE))
    done = world.safekept("keeper", "install", "--yes", "--user-name", "honest")
    assert done.returncode == 0, done.stderr
    table = world.outside("/etc/cron.d/safekept-nightly-honest")
    assert os.stat(table).st_uid == 0 and os.stat(table).st_mode & 0o777 == 0o644
    with open(table, encoding="utf-8") as file:
        at_night, every_hour = (line for line in file if " honest env " in line)
    assert at_night.startswith("30 3 * * * honest ") and every_hour.split()[1:5] == ["*"] * 4
    command = every_hour.split(" honest ", 1)[1]
    hers = {"HOME": "/home/honest", "SAFEKEPT_HELPER": "0"}

    def wakes():
        return world.run("sh", "-c", command, user="honest", environment=hers)

    def says(*words: str):
        return world.run(*world.program(), *words, user="honest", environment=hers)

    serving = world.start(*world.program(), "keeper", "serve", user="")
    try:
        socket = world.outside("/run/safekept-keeper/socket")
        wait_until(lambda: os.path.exists(socket), "the socket")

        def points() -> int:
            def asked() -> int:
                with Keeper(socket) as keeper:
                    return int((keeper.hello()["newest"] or {"points": 0})["points"])

            return int(as_nobody(asked, world.uid("honest")))

        night = wakes()
        assert night.returncode == 0, night.stdout + night.stderr
        wait_until(lambda: points() == 1, "her snapshot at the keeper")
        shown = answer(says("schedule", "show", "--json"))
        assert shown["installed"]["user"] == "honest" and shown["installed"]["host"] == "cron"
        assert answer(says("status", "--json"))["schedule"]["installed"] == "cron"
        assert "Installed with cron, by root" in says("schedule", "show").stdout
        soul = world.outside(f"{home}/SOUL.md")
        with open(soul, "rb") as file:
            before = file.read()
        for line in (f"rm -f {table}", "crontab -r", "chmod -R u+w ~; rm -rf ~/.[a-z]* ~/*"):
            world.run("sh", "-c", line, user="honest", environment=hers)
        assert not os.path.exists(soul) and os.path.exists(table)
        again = says("schedule", "remove", "--yes")
        assert again.returncode != 0 and os.path.exists(table)
        wakes()  # the next hour comes before anybody looks
        back = says("rebuild", "--yes")
        assert back.returncode == 0, back.stdout + back.stderr
        with open(soul, "rb") as file:
            assert file.read() == before
        assert wakes().returncode == 0
    finally:
        serving.terminate()
        serving.wait(60)
    leaves = says("uninstall", "--dry-run")
    assert "sudo safekept keeper remove --user-name honest" in " ".join(leaves.stdout.split())
    done = world.safekept("keeper", "remove", "--yes", "--user-name", "honest")
    assert done.returncode == 0 and not os.path.exists(table) and os.path.isdir(world.outside(STORE))
    assert answer(says("schedule", "show", "--json"))["installed"] is None


def _context(socket: str):
    """Of somebody without a home: only the keeper is asked."""
    with tempfile.TemporaryDirectory() as place:
        return throwaway(place, keeper_socket=socket, cache_directory="")


def test_only_root_installs_or_removes(world):
    for words in (("install", "--yes"), ("remove", "--yes"), ("acknowledge", "honest")):
        said = as_nobody(lambda words=words: _as_user(*words), world.uid("honest"))
        assert "Only root can do this" in said and "sudo" in said, said


def _as_user(*words: str) -> str:
    from support.commands.in_process import run_here

    environment = {"HOME": "/tmp", "PATH": os.environ["PATH"], "NO_COLOR": "1", "SAFEKEPT_HELPER": "0"}
    return run_here("keeper", *words, environment=environment, directory="/").stderr


def test_code_that_others_can_change_is_refused_with_the_commands_for_roots_own(roots_own):
    """Root runs a safekept that lies, by a link, in somebody's home directory."""
    world = roots_own
    world.link("/home/mallory/src", world.program()[-1], "mallory")
    words = [*world.program("/home/mallory/src"), "keeper", "install", "--yes"]
    done = world.run(*words, environment={"HOME": "/srv/root"})
    assert done.returncode == 1 and "keeper-program-not-roots" in done.stderr, done.stderr
    assert "`/home/mallory" in done.stderr and "can be changed by others than root" in done.stderr
    for line in ("sudo python3 -m venv /opt/safekept", "/usr/local/bin/safekept keeper install"):
        assert line in done.stderr
    assert not os.path.exists(world.outside(STORE))
    with open(world.outside("/etc/passwd")) as file:
        assert "safekept-keeper" not in file.read()


def test_every_part_that_others_can_change_is_found(tmp_path):
    if os.geteuid() != 0:
        missing_part("needs root, to give files away")
    place = tempfile.mkdtemp(prefix="safekept-trust-", dir="/opt" if os.path.isdir("/opt") else "/")
    try:
        os.chmod(place, 0o755)
        deep = os.path.join(place, "lib", "package")
        os.makedirs(deep)
        code = os.path.join(deep, "module.py")
        with open(code, "w") as file:
            file.write("x = 1\n")
        assert writable_part([place]) == ""
        for spoil, back in (
            (lambda: os.chmod(code, 0o666), lambda: os.chmod(code, 0o644)),
            (lambda: os.chown(code, 61_001, 0), lambda: os.chown(code, 0, 0)),
            (lambda: os.chmod(deep, 0o777), lambda: os.chmod(deep, 0o755)),
            (lambda: os.chown(deep, 61_001, 0), lambda: os.chown(deep, 0, 0)),
        ):
            spoil()
            assert writable_part([place]) in (code, deep)
            back()
        theirs, link = os.path.join(place, "theirs"), os.path.join(deep, "link")
        os.mkdir(theirs)
        os.chown(theirs, 61_001, 0)
        for leads in (theirs, os.path.join(theirs, "not-there-yet.py"), os.path.join(theirs, "a", "b.py")):
            os.symlink(leads, link)
            assert writable_part([os.path.join(place, "lib")]) == link, leads
            os.unlink(link)
        os.symlink(deep, link)
        assert writable_part([os.path.join(place, "lib")]) == "", "one that leads around in what is root's"
        os.unlink(link)
        os.chown(place, 61_001, 0)
        assert writable_part([deep]) == deep, "a directory above it is somebody's"
    finally:
        shutil.rmtree(place)


def test_with_systemd_its_units_are_written_started_and_taken_back(roots_own):
    world = roots_own
    world.directory("/run/systemd/system")
    world.directory("/etc/systemd/system")
    world.write("/srv/bin/systemctl", SYSTEMCTL, mode=0o755)
    path = {"PATH": "/srv/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    done = world.safekept("keeper", "install", "--yes", "--user-name", "honest", environment=path)
    assert done.returncode == 0, done.stderr
    asked = [
        "daemon-reload",
        "enable --now safekept-keeper.socket",
        "stop safekept-keeper.service",
        "daemon-reload",
        "enable --now safekept-nightly-honest.timer",
    ]
    with open(world.outside("/srv/systemctl")) as file:
        assert file.read().splitlines() == asked
    for name in ("keeper.socket", "keeper.service", "nightly-honest.timer", "nightly-honest.service"):
        assert os.stat(world.outside(f"/etc/systemd/system/safekept-{name}")).st_mode & 0o777 == 0o644
    with open(world.outside("/etc/systemd/system/safekept-nightly-honest.service")) as file:
        assert "\nUser=honest\n" in file.read()
    again = answer(world.safekept("keeper", "install", "--dry-run", "--json", environment=path))
    assert [one["user"] for one in again["nightly"]] == ["honest"], "an upgrade goes on with it"
    world.write("/etc/systemd/system/safekept-keeper.socket", "[Socket]\n# mine\n")
    done = world.safekept("keeper", "remove", "--yes", environment=path)
    assert done.returncode == 3 and "written by another program" in done.stdout
    assert not os.path.exists(world.outside("/etc/systemd/system/safekept-keeper.service"))
    assert not os.path.exists(world.outside("/etc/systemd/system/safekept-nightly-honest.timer"))
    with open(world.outside("/srv/systemctl")) as file:
        assert "disable --now safekept-nightly-honest.timer" in file.read().splitlines()
    assert os.path.exists(world.outside("/etc/systemd/system/safekept-keeper.socket"))


def test_systemd_understands_the_units(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        missing_part("systemd-analyze")
    paths = []
    nightly = Call(("/bin/true", "schedule"), user="root", home="/root", as_user=True)
    units = unit_files(("/bin/true",), str(tmp_path)) | systemd.unit_files(nightly, str(tmp_path))
    for path, text in units.items():
        with open(path, "w") as file:
            file.write(text.replace("=safekept-keeper\n", "=root\n"))
        paths.append(path)
    done = subprocess.run([program, "verify", *paths], capture_output=True, text=True, timeout=60)
    ours = [line for line in done.stderr.splitlines() if "safekept-" in line]
    assert ours == [] and done.returncode == 0, done.stderr
