"""What a user can do to root, who looks after homes: nothing outside that user's own files.

Real users on a machine of their own. Each attack is set up as its author could have set it up, then root does
what root does every night or by hand, and every byte that is not the attacker's is compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator

import pytest

from support.commands.waiting import wait_until
from support.users.users_world import World, answer, made_world

HOME = "/home/mallory/.hermes"
AREA = HOME + ".safekept"
#: What root does with such a home, by hand and by the schedule.
WAYS = {
    "snapshot": ("snapshot", "create"),
    "backup": ("backup", "-o", "/srv/root/out.zip"),
    "restore": ("snapshot", "restore", "latest", "--yes"),
    "undo": ("undo",),
    "status": ("status",),
    "doctor": ("doctor", "--fix"),
    "schedule": ("schedule", "run", "--now", "--system", "--user-name", "mallory"),
}
GUARDED = ("/etc", "/srv", "/home", "/tmp", "/var/tmp", "/var/backups")


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return made_world(str(tmp_path_factory.mktemp("world")))


def guarded(machine: World) -> dict[str, tuple[object, ...]]:
    """What mallory may not change: all but her own, root's own stores, and what root was told to write."""
    seen = machine.seen(*GUARDED, but_of="mallory")
    return {
        path: facts
        for path, facts in seen.items()
        if not path.startswith(("/srv/root", "/etc/safekept", "/var/backups/"))
        and path not in ("/tmp", "/var/tmp", "/var/backups", "/home")
    }


def record(**changes: object) -> list[dict[str, object]]:
    """The lines of a landing's record that fits this home; a change of the header, and more lines."""
    lines = changes.pop("lines", [])
    header: dict[str, object] = {
        "format": "safekept-landing",
        "version": 1,
        "operation": "20260101-000000-abcdef",
        "home": HOME,
        "verb": "land",
        "undoes": "",
        "time": time.time(),
        "process": 1,
        "roots": [{"label": "home", "base": "/home/mallory", "name": ".hermes"}],
        **changes,
    }
    return [header, *lines]  # type: ignore[misc]


def step(**changes: object) -> dict[str, object]:
    return {
        "number": 0,
        "do": "put",
        "root": 0,
        "path": ".hermes/x",
        "entry": "x",
        "had": False,
        "staged": "",
        "size": 0,
        "mtime_ns": 0,
        "database": False,
        "carries": [],
        **changes,
    }


WIDE = [{"label": "home", "base": "/", "name": "home/mallory/.hermes"}]
SECRET = "srv/precious/secret"
FORGED = {
    "a base of /, to delete": record(
        roots=WIDE, lines=[step(path=SECRET, entry="x", size=1500, staged="0/gone")]
    ),
    "a base of /, to replace": record(roots=WIDE, lines=[step(do="away", path=SECRET, had=True)]),
    "a base of /, to pour into": record(roots=WIDE, lines=[step(do="pour", path=SECRET, had=True)]),
    "a base of /, to change rights": record(
        roots=WIDE, lines=[{"root": 0, "path": "srv/precious", "mode": 0o777, "mtime_ns": 0}]
    ),
    "a directory that leaves its root": record(
        lines=[{"root": 0, "path": "../../srv/precious", "mode": 0o777, "mtime_ns": 0}]
    ),
    "a step that leaves its root": record(lines=[step(do="away", path="../../" + SECRET, had=True)]),
    "an absolute step": record(lines=[step(do="away", path="/" + SECRET, had=True)]),
    "a staged name that leaves": record(lines=[step(staged="../../../../../../" + SECRET)]),
    "a sidecar that leaves": record(
        lines=[step(database=True, carries=["/../../../../" + SECRET], had=True, staged="0/1")]
    ),
    "a label that leaves": record(
        roots=[{"label": "../../../../../srv/precious", "base": "/home/mallory", "name": ".hermes"}],
        lines=[step(do="away", path="kept", had=True)],
    ),
    "an operation that leaves": record(operation="../../../../srv/precious/other", lines=[step()]),
    "an undone operation that leaves": record(verb="undo", undoes="../../../../srv/precious/other"),
    "a second root of root's": record(
        roots=[
            {"label": "home", "base": "/home/mallory", "name": ".hermes"},
            {"label": "external-1", "base": "/srv", "name": "precious"},
        ],
        lines=[step(root=1, do="away", path="precious/secret", had=True)],
    ),
    "a step with a name for its number": record(
        lines=[step(number="/../../../../" + SECRET, do="away", path=".hermes/config.yaml", had=True)]
    ),
    "a process with a name for its number": record(
        process="../../" + SECRET, lines=[step(do="away", had=True)]
    ),
    "a device": record(roots=[{"label": "home", "base": "/dev", "name": "../home/mallory/.hermes"}]),
}


def plant(machine: World, area: str, lines: list[dict[str, object]], name: str = "plan.jsonl") -> None:
    """An area with a record and with what it speaks of, all of it mallory's."""
    landing = f"{area}/landings/20260101-000000-abcdef"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    machine.write(f"{landing}/{name}", text, "mallory", 0o600)
    for path in ("home/srv/precious/secret", "home/.hermes/x", "external-1/precious/secret", "home/kept"):
        machine.write(f"{landing}/replaced/{path}", "mallory was here\n", "mallory")
    machine.write(f"{landing}/staged/0/1", "mallory was here\n", "mallory")
    machine.give_all(area, "mallory")


def everything(machine: World, *ways: str, patience: float = 300) -> list[int]:
    """What root does with mallory's home; whatever comes of it, it comes in time."""
    return [
        machine.system("mallory", *WAYS[way], patience=patience).returncode for way in ways or tuple(WAYS)
    ]


class Stored:
    """Mallory's home, a snapshot of it, and a persona that was changed since: a restore has work to do."""

    def __init__(self, machine: World) -> None:
        self.machine = machine
        machine.hermes_home("mallory")
        made = machine.system("mallory", "snapshot", "create", "--json")
        assert made.returncode == 0, made.stderr
        self.id, self.persona = str(answer(made)["id"]), machine.outside(f"{HOME}/SOUL.md")
        with open(self.persona, "rb") as file:
            self.then = file.read()

    def restore(self, swapped: bool = False) -> int:
        """Its exit code, which is 0 only if the persona came back. Nothing is seen while it is swapped."""
        with contextlib.suppress(OSError):
            with open(os.open(self.persona, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "wb") as file:
                file.write(b"changed since\n")
        code = self.machine.system("mallory", "snapshot", "restore", self.id, "--yes").returncode
        if code == 0 and not swapped:
            with open(self.persona, "rb") as file:
                assert file.read() == self.then, "exit code 0, so it came back"
        return code


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_changes_nothing_of_anybody_else(world: World, name: str):
    stored = Stored(world)
    plant(world, AREA, FORGED[name], "plan.jsonl")
    before = guarded(world)
    everything(world, "snapshot", "doctor")
    stored.restore()  # which is what meets an unfinished landing first
    assert guarded(world) == before
    world.run("rm", "-rf", AREA, check=True)
    plant(world, AREA, FORGED[name], "landed.jsonl")
    everything(world, "snapshot", "undo")
    assert guarded(world) == before


def test_nothing_that_root_does_acts_on_a_forged_record(world: World):
    world.hermes_home("mallory")
    before = guarded(world)
    for way in WAYS:
        # What is not whole yet keeps the schedule trying for minutes; what is old is swept by it.
        state = "landed.jsonl" if way == "schedule" else "plan.jsonl"
        world.run("rm", "-rf", AREA, check=True)
        header, *lines = FORGED["a base of /, to delete"]
        plant(world, AREA, [{**header, "time": 1.0}, *lines], state)
        everything(world, way)
        assert guarded(world) == before, way


@pytest.mark.parametrize("name", ["a base of /, to delete", "a base of /, to change rights"])
def test_a_record_beside_a_target_in_tmp_is_not_acted_on(world: World, name: str):
    """Anybody can put `/tmp/x.safekept` there before root restores into `/tmp/x`."""
    world.hermes_home("honest")
    assert world.system("honest", "snapshot", "create").returncode == 0
    roots = [{"label": "home", "base": "/", "name": "tmp/x"}]
    plant(
        world, "/tmp/x.safekept", [{**FORGED[name][0], "home": "/tmp/x", "roots": roots}, *FORGED[name][1:]]
    )
    before = guarded(world)
    done = world.system("honest", "snapshot", "restore", "latest", "--into", "/tmp/x", "--yes")
    after = guarded(world)
    assert {path: facts for path, facts in after.items() if not path.startswith("/tmp/x")} == before
    if done.returncode == 0:
        assert os.stat(world.outside("/tmp/x")).st_uid == 0
        assert os.path.exists(world.outside("/tmp/x/config.yaml"))


LINKS = {
    "the area": (AREA, "/srv/precious"),
    "landings": (f"{AREA}/landings", "/srv/precious"),
    "a landing": (f"{AREA}/landings/20260101-000000-abcdef", "/srv/precious/other"),
    "staged": (f"{AREA}/landings/20260101-000000-abcdef/staged", "/srv/precious/other"),
    "replaced": (f"{AREA}/landings/20260101-000000-abcdef/replaced", "/srv/precious/other"),
    "set-aside": (f"{AREA}/landings/20260101-000000-abcdef/set-aside", "/srv/precious/other"),
    "the record": (f"{AREA}/landings/20260101-000000-abcdef/plan.jsonl", "/srv/precious/secret"),
    "the lock": (f"{AREA}/lock", "/srv/precious/secret"),
    "the area inside": (f"{HOME}/.safekept", "/srv/precious"),
    "the lock inside": (f"{HOME}/.safekept/lock", "/srv/precious/secret"),
    "the database": (f"{HOME}/state.db", "/srv/precious/secret"),
    "the settings": (f"{HOME}/config.yaml", "/srv/precious/secret"),
    "the memories": (f"{HOME}/memories", "/srv/precious/kept"),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_anywhere_in_the_area_or_the_home_leads_root_nowhere(world: World, name: str):
    stored = Stored(world)
    path, target = LINKS[name]
    if os.path.lexists(world.outside(path)):
        os.rename(world.outside(path), world.outside(path) + ".old")
    if path.startswith(AREA + "/landings/2"):
        plant(world, AREA, record())
        if os.path.lexists(world.outside(path)):
            world.run("rm", "-rf", path, check=True)
    world.link(path, target, "mallory")
    if path == f"{AREA}/lock":
        plant(world, AREA, record(lines=[step()]))
    before = guarded(world)
    everything(world, "snapshot", "doctor")
    stored.restore()
    assert guarded(world) == before
    world.run("rm", "-rf", path, AREA, check=True)
    assert stored.restore() == 0, "and once the link is gone, root does its work"
    assert guarded(world) == before


@pytest.mark.parametrize("what", ["lock", "landings/20260101-000000-abcdef/plan.jsonl"])
@pytest.mark.parametrize("kind", ["hard link", "pipe", "directory"])
def test_odd_things_in_the_area_neither_harm_nor_stop_root(world: World, what: str, kind: str):
    """A second name of a file of root's (where the kernel lets her make one), a pipe, a directory."""
    stored = Stored(world)
    plant(world, AREA, record(lines=[step()]))
    place = world.outside(f"{AREA}/{what}")
    if os.path.lexists(place):
        os.unlink(place)
    if kind == "hard link":
        os.link(world.outside("/srv/precious/secret"), place)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        os.mkdir(place)
    if kind != "hard link":
        world.give(f"{AREA}/{what}", "mallory")
    before = guarded(world)
    everything(world, "snapshot")
    stored.restore()
    assert {path: facts for path, facts in guarded(world).items() if not path.startswith(AREA)} == {
        path: facts for path, facts in before.items() if not path.startswith(AREA)
    }
    world.run("rm", "-rf", AREA, check=True)
    assert stored.restore() == 0, "and once it is gone, root does its work"


def test_a_home_that_leads_to_what_is_roots_is_refused(world: World):
    """The home is a link of mallory's to a directory that only root can read, and that looks like a home."""
    world.write("/srv/precious/config.yaml", "model: x\n", mode=0o600)
    world.write("/srv/precious/SOUL.md", "root's soul\n", mode=0o600)
    os.chmod(world.outside("/srv/precious"), 0o700)
    world.link(HOME, "/srv/precious", "mallory")
    world.hermes_home("mallory", "/home/mallory/own")
    before = guarded(world)
    codes = everything(world, "snapshot", "backup", "restore", "schedule")
    assert guarded(world) == before
    assert codes[0] != 0 and codes[1] != 0
    said = answer(world.system("mallory", "snapshot", "create", "--json"))["error"]
    assert isinstance(said, dict) and said["code"] == "home-unreadable", "mallory may not read it"
    said = answer(world.system("mallory", "snapshot", "list", "--json"))["error"]
    assert isinstance(said, dict) and said["code"] == "home-leads-elsewhere"
    assert said["what"] == f"`{HOME}` belongs to `mallory` and leads to `/srv/precious`, which does not"
    assert not os.path.exists(world.outside("/var/lib/safekept/mallory/vault")), "nothing was stored"


AGENT = """#!/bin/sh
id -u > /home/mallory/ran
id -G >> /home/mallory/ran
ls -l /proc/self/fd >> /home/mallory/descriptors
cat /etc/safekept/mallory/vault.key > /home/mallory/key 2>/dev/null
rm -rf /var/lib/safekept/mallory 2>/dev/null
echo owned > /srv/precious/owned
chmod 777 /srv/precious
"""


@pytest.mark.parametrize("command", [("drill",), WAYS["schedule"]])
def test_a_drill_runs_what_is_in_a_home_as_its_owner(world: World, command: tuple[str, ...]):
    world.hermes_home("mallory")
    world.write(f"{HOME}/hermes-agent/venv/bin/python", AGENT, "mallory", 0o755)
    world.give_all(HOME, "mallory")
    assert world.system("mallory", "snapshot", "create").returncode == 0
    before = guarded(world)
    world.system("mallory", *command)
    assert guarded(world) == before
    uid = str(world.uid("mallory"))
    with open(world.outside("/home/mallory/ran")) as file:
        assert file.read().split() == [uid, uid]
    with open(world.outside("/home/mallory/key")) as file:
        assert file.read() == ""
    with open(world.outside("/home/mallory/descriptors")) as file:
        held = {re.sub(r"\d+", "N", line.split(" -> ")[1].strip()) for line in file if " -> " in line}
    # Its own two files are those that it opened for this list.
    assert held == {"/dev/null", "pipe:[N]", "/home/mallory/descriptors", "/proc/N/fd"}, "pipes only"
    assert world.system("mallory", "snapshot", "list").returncode == 0


def test_settings_that_somebody_else_wrote_are_not_obeyed(world: World):
    """`sudo` that keeps HOME: what mallory wrote into her settings would be run by root."""
    world.hermes_home("mallory")
    text = '[notify]\ncommand = "/home/mallory/evil"\n[vault]\npassword_command = "/home/mallory/evil"\n'
    world.write("/home/mallory/.config/safekept/config.toml", text, "mallory")
    world.write("/home/mallory/evil", "#!/bin/sh\nid -u > /srv/precious/owned\n", "mallory", 0o755)
    world.give_all("/home/mallory", "mallory")
    before = guarded(world)
    for words in (("notify", "test"), ("snapshot", "create"), ("status",), ("undo",), ("log",)):
        done = world.safekept(*words, environment={"HOME": "/home/mallory"})
        assert done.returncode == 1, done
        assert "belongs to `mallory`" in done.stderr and re.search(
            r"`(sudo -u mallory|runuser -u mallory --) safekept", done.stderr
        )
    assert guarded(world) == before


def test_root_connects_nobody_elses_agent(world: World):
    world.hermes_home("mallory")
    world.link("/home/mallory/.claude/settings.json", "/srv/precious/secret", "mallory")
    before = guarded(world)
    for words in (("connect", "claude-code", "--yes"), ("connect", "--remove", "claude-code", "--yes")):
        world.system("mallory", *words)
        assert guarded(world) == before


def test_root_writes_no_archive_into_a_directory_of_somebody_else(world: World):
    world.hermes_home("mallory")
    os.mkfifo(world.outside("/home/mallory/hermes-backup-2026-01-01-000000.zip"))
    for words in (("backup",), ("backup", "-o", "/home/mallory/x.zip"), ("backup", "-o", "/home/mallory/d/")):
        said = answer(world.system("mallory", *words, "--json"))["error"]
        assert isinstance(said, dict) and said["code"] == "output-of-another", said
    assert sorted(os.listdir(world.outside("/home/mallory")))[-1].startswith("hermes-backup-2026-01-01")


SWAPPER = """
import os, sys, time
area = sys.argv[1]
names = [word.split('=') for word in sys.argv[2:]]
open('/home/mallory/swapping', 'w').close()
while True:
    for name, target in names:
        place = f'{area}/{name}'
        try:
            os.symlink(target, place + '.link')
        except OSError:
            pass
        try:
            os.rename(place, place + '.real')
        except OSError:
            pass
        try:
            os.rename(place + '.link', place)
        except OSError:
            pass
        time.sleep(0.0005)
        try:
            os.rename(place, place + '.link')
            os.rename(place + '.real', place)
        except OSError:
            pass
"""


@contextlib.contextmanager
def swapping(machine: World, place: str, **names: str) -> Iterator[None]:
    """Names there turn into links and back a thousand times a second, by mallory's hand."""
    words = [f"{name}={target}" for name, target in names.items()]
    swapper = machine.start("/usr/bin/python3", "-c", SWAPPER, place, *words, user="mallory")
    try:
        wait_until(lambda: os.path.exists(machine.outside("/home/mallory/swapping")), "the swapper")
        yield
    finally:
        swapper.kill()
        swapper.wait()


def test_a_swapper_beside_root_wins_nothing(world: World):
    """Names in the area turn into links and back while root works there."""
    stored = Stored(world)
    plant(world, AREA, FORGED["a base of /, to delete"])
    before = guarded(world)
    with swapping(world, AREA, landings="/srv/precious", lock="/srv/precious/secret"):
        for _ in range(3):
            everything(world, "snapshot", "undo", "status")
            stored.restore()
    assert guarded(world) == before
    world.run("rm", "-rf", AREA, check=True)
    assert stored.restore() == 0


def test_a_swapper_in_the_home_has_nothing_of_roots_stored_or_changed(world: World):
    """A directory and files that root stores and restores turn into links to root's own and back."""
    stored = Stored(world)
    world.write(f"{HOME}/memories/one", "mine\n", "mallory")
    world.write(f"{HOME}/memories/two", "mine\n" * 100_000, "mallory")
    assert world.system("mallory", "snapshot", "create").returncode == 0
    before = guarded(world)
    names = {"memories": "/srv/precious/kept", "SOUL.md": "/srv/precious/secret"}
    with swapping(world, HOME, **names, **{"config.yaml": "/srv/precious/secret"}):
        for number in range(2):
            made = answer(world.system("mallory", "snapshot", "create", "--json"))
            assert "id" in made, made
            stored.restore(swapped=True)
            # By its id, since one that met a link is not sound and is not brought back unasked.
            into = ("--into", f"/srv/root/out{number}")
            done = world.system("mallory", "snapshot", "restore", str(made["id"]), *into, "--yes")
            assert done.returncode in (0, 3), done.stdout + done.stderr
    assert guarded(world) == before
    out = world.outside("/srv/root")
    assert any(name.startswith("out") for name in os.listdir(out)), "something came back"
    for parent, _, files in os.walk(out):
        for path in (os.path.join(parent, name) for name in files):
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    assert b" of root" not in file.read(), path


def test_the_schedule_does_its_work_for_the_honest_user(world: World):
    home = world.hermes_home("honest")
    done = world.safekept("schedule", "run", "--now", "--system", "--user-name", "honest", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    states = {str(one["task"]).split(":")[0]: one["state"] for one in answer(done)["steps"]}  # type: ignore[union-attr, index]
    assert states["snapshot"] == "done" and states["drill"] == "done"
    listed = answer(world.system("honest", "snapshot", "list", "--json"))
    assert len(listed["snapshots"]) == 1  # type: ignore[arg-type]
    assert os.stat(world.outside("/var/lib/safekept/honest")).st_uid == 0
    assert not os.path.exists(world.outside(home + ".safekept"))


def test_what_did_not_change_is_not_read_again_by_the_child(world: World):
    """The cost follows change for somebody else's home, too."""
    home = world.hermes_home("honest")
    made = answer(world.system("honest", "snapshot", "create", "--json"))
    time.sleep(2.5)  # a file that was written a moment ago is not believed to be unchanged
    assert world.system("honest", "snapshot", "create").returncode == 0
    world.write(f"{home}/memories/NEW.md", "one more thing\n", "honest")
    again = answer(world.system("honest", "snapshot", "create", "--json"))
    assert made["complete"] is True and again["complete"] is True
    assert again["files"] == int(str(made["files"])) + 1
    assert int(str(again["reused_files"])) > 40
    assert int(str(again["added_bytes"])) < int(str(made["added_bytes"])) / 10
    assert world.system("honest", "vault", "check", "--read-data").returncode == 0


def test_root_brings_back_what_the_honest_user_lost(world: World):
    home = world.hermes_home("honest")
    assert world.system("honest", "snapshot", "create").returncode == 0
    kept = world.seen(home)
    lost = world.outside(f"{home}/SOUL.md")
    os.unlink(lost)
    with open(world.outside(f"{home}/config.yaml"), "w") as file:
        file.write("broken: [\n")
    done = world.system("honest", "snapshot", "restore", "latest", "--yes")
    assert done.returncode == 0, done.stderr
    again = world.seen(home)
    files = {path for path, facts in kept.items() if "-wal" not in path and "-shm" not in path}
    assert {path: again.get(path) for path in files} == {path: kept[path] for path in files}
    uid = world.uid("honest")
    assert {facts[1] for facts in world.seen(home, home + ".safekept").values()} == {uid}
    undone = world.system("honest", "undo")
    assert undone.returncode == 0, undone.stderr
    assert not os.path.exists(lost)
    into = world.system("honest", "snapshot", "restore", "latest", "--into", "/home/honest/back", "--yes")
    assert into.returncode == 0, into.stderr
    assert {facts[1] for facts in world.seen("/home/honest/back").values()} == {uid}


def test_root_can_import_an_archive_for_somebody(world: World):
    home = world.hermes_home("honest")
    assert world.system("honest", "backup", "-o", "/srv/root/home.zip").returncode == 0
    os.unlink(world.outside(f"{home}/SOUL.md"))
    done = world.system("honest", "import", "/srv/root/home.zip", "--force")
    assert done.returncode == 0, done.stderr
    assert os.stat(world.outside(f"{home}/SOUL.md")).st_uid == world.uid("honest")


def test_root_imports_no_archive_that_a_link_of_somebody_else_leads_to(world: World):
    """What lands in mallory's home is hers to read, so root may not fetch it from where she cannot."""
    world.hermes_home("honest")
    home = world.hermes_home("mallory")
    world.write(f"{home}/SOUL.md", "hers\n", "mallory")
    world.write("/home/honest/.hermes/SOUL.md", "not hers\n", "honest")
    for user in ("honest", "mallory"):
        made = world.system(user, "backup", "-o", f"/srv/root/{user}.zip")
        assert made.returncode == 0, made.stderr
    world.link("/home/mallory/link.zip", "/srv/root/honest.zip", "mallory")
    world.link("/home/mallory/led", "/srv/root", "mallory")
    world.link("/tmp/link.zip", "/srv/root/honest.zip", "mallory")
    for path in ("/home/mallory/link.zip", "/home/mallory/led/honest.zip", "/tmp/link.zip"):
        for words in (("import", path, "--force"), ("drill", path)):
            said = answer(world.system("mallory", *words, "--json"))["error"]
            assert isinstance(said, dict) and said["code"] == "archive-unreadable", (words, said)
            assert "belongs to `mallory`, the file at its end does not" in said["what"], said
        with open(world.outside(f"{home}/SOUL.md")) as file:
            assert file.read() == "hers\n"
    # What is hers, and a link of root's own, is imported as ever.
    os.rename(world.outside("/srv/root/mallory.zip"), world.outside("/home/mallory/hers.zip"))
    world.give("/home/mallory/hers.zip", "mallory")
    world.link("/srv/root/link.zip", "/srv/root/honest.zip")
    for path, text in (("/home/mallory/hers.zip", "hers\n"), ("/srv/root/link.zip", "not hers\n")):
        done = world.system("mallory", "import", path, "--force")
        assert done.returncode == 0, done.stderr
        with open(world.outside(f"{home}/SOUL.md")) as file:
            assert file.read() == text
