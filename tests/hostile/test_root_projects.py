"""What root does in somebody's project is done as that somebody: by hand, by an agent's hook, by every face.

Real users on a machine of their own, as in `test_root.py`. The point lies in the owner's store, so the owner
finds it, too; what the owner may not read or change is not read or changed for anybody.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys

import pytest

from support.places import CHECKOUT
from support.users.users_world import World, answer, made_world
from support.vault.closed import open_below

PROJECT = "/home/mallory/code"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> World:
    return made_world(str(tmp_path_factory.mktemp("world")))


@pytest.fixture
def world(machine: World) -> World:
    """The machine with a project of mallory's, and nothing else of hers or of root's."""
    for place in ("/home/mallory", "/srv/root", "/srv/app", "/var/lib/safekept-projects"):
        shutil.rmtree(open_below(machine.outside(place)), ignore_errors=True)
    os.mkdir(machine.outside("/srv/root"), 0o700)
    machine.directory("/home/mallory")
    machine.give("/home/mallory", "mallory")
    make_project(machine, PROJECT, "mallory")
    return machine


def make_project(machine: World, place: str, owner: str) -> None:
    machine.write(f"{place}/main.py", "print('hello')\n", owner)
    machine.write(f"{place}/src/one.py", "one = 1\n", owner)
    machine.write(f"{place}/pyproject.toml", "", owner)
    if owner:
        machine.give_all(place, owner)


def owners(machine: World, *tops: str) -> dict[str, int]:
    found = {}
    for top in tops:
        for parent, directories, files in os.walk(machine.outside(top)):
            for name in (*directories, *files):
                full = os.path.join(parent, name)
                found[full] = os.lstat(full).st_uid
    return found


def read(machine: World, path: str) -> str:
    with open(machine.outside(path)) as file:
        return file.read()


def hook(
    machine: World, directory: str, *, event: str = "PreToolUse", tool: str = "Bash", path: str = ""
) -> str:
    """An agent that runs as root does something there, or has done it; what its hook says."""
    given = {"command": "make"} if not path else {"file_path": path, "content": "x"}
    call = {"session_id": "s", "cwd": directory, "hook_event_name": event}
    about = {"tool_name": tool, "tool_input": given} if event == "PreToolUse" else {}
    machine.write("/srv/root/call.json", json.dumps({**call, **about}))
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from safekept.__main__ import main; main()"
    words = [sys.executable, "-I", "-c", start, os.path.join(CHECKOUT, "src"), "hook", "claude-code"]
    own = {"HOME": "/srv/root", "SAFEKEPT_HELPER": "0"}
    done = machine.run("sh", "-c", '"$@" </srv/root/call.json', "sh", *words, environment=own)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_checkpoint_and_a_rollback_of_roots_are_the_owners(world: World):
    taken = world.safekept("checkpoint", PROJECT, "--json")
    assert taken.returncode == 0, taken.stderr
    assert "mallory" in taken.stderr, "root is told in whose name it is done"
    point = answer(taken)["checkpoint"]["id"]  # type: ignore[index]
    uid = world.uid("mallory")
    store = owners(world, "/home/mallory/.local")
    assert store and set(store.values()) == {uid}
    assert not os.path.exists(world.outside("/srv/root/.local/share/safekept/checkpoints"))
    world.write(f"{PROJECT}/main.py", "broken\n", "mallory")
    os.unlink(world.outside(f"{PROJECT}/src/one.py"))
    back = world.safekept("rollback", point, "--dir", PROJECT)
    assert back.returncode == 0, back.stderr
    assert read(world, f"{PROJECT}/main.py") == "print('hello')\n"
    assert read(world, f"{PROJECT}/src/one.py") == "one = 1\n"
    assert set(owners(world, PROJECT).values()) == {uid}
    # It is the owner's own point: the owner sees it and can take the rollback back.
    again = world.safekept("rollback", "--undo", "--dir", PROJECT)
    assert again.returncode == 0 and read(world, f"{PROJECT}/main.py") == "broken\n", again.stderr


def test_roots_own_project_stays_roots(world: World):
    make_project(world, "/srv/root/code", "")
    taken = world.safekept("checkpoint", "/srv/root/code", "--json")
    assert taken.returncode == 0 and "mallory" not in taken.stderr, taken.stderr
    assert os.path.isdir(world.outside("/srv/root/.local/share/safekept/checkpoints"))


@pytest.mark.parametrize("tool", ["a command", "a file"])
def test_a_hook_of_an_agent_that_is_root_keeps_somebodys_project_as_that_somebody(world: World, tool: str):
    """The agent stands in its own place and names a file of mallory's, or stands in mallory's."""
    if tool == "a command":
        said = hook(world, PROJECT)
    else:
        make_project(world, "/srv/root/code", "")
        said = hook(world, "/srv/root/code", tool="Write", path=f"{PROJECT}/main.py")
    assert "not kept" not in said and "nothing was kept" not in said, said
    uid = world.uid("mallory")
    store = owners(world, "/home/mallory/.local")
    assert store and set(store.values()) == {uid}
    world.write(f"{PROJECT}/main.py", "broken by the agent\n", "mallory")
    hook(world, PROJECT, event="Stop")
    # The end of the turn was marked there, too: what comes after it is not the agent's, and stays.
    world.write(f"{PROJECT}/src/one.py", "one = 'by mallory'\n", "mallory")
    back = world.safekept("rollback", "1", "--dir", PROJECT)
    assert back.returncode == 0, back.stderr
    assert read(world, f"{PROJECT}/main.py") == "print('hello')\n"
    assert read(world, f"{PROJECT}/src/one.py") == "one = 'by mallory'\n"


def test_a_project_of_somebody_without_a_home_has_a_store_of_its_own(world: World):
    """A number without a name, as in a container: no home, and a store that is that user's all the same."""
    make_project(world, "/srv/app", "")
    for path in (world.outside("/srv/app"), *owners(world, "/srv/app")):
        os.lchown(path, 4321, 4321)
    taken = world.safekept("checkpoint", "/srv/app", "--json")
    assert taken.returncode == 0, taken.stderr
    stored = owners(world, "/var/lib/safekept-projects/4321")
    assert stored and set(stored.values()) == {4321}
    place = os.stat(world.outside("/var/lib/safekept-projects/4321"))
    assert (place.st_uid, stat.S_IMODE(place.st_mode)) == (4321, 0o700)
    with open(world.outside("/srv/app/main.py"), "w") as file:
        file.write("broken\n")
    assert world.safekept("rollback", "1", "--dir", "/srv/app").returncode == 0
    assert read(world, "/srv/app/main.py") == "print('hello')\n"


def test_what_the_owner_may_not_read_is_not_read_by_root_either(world: World):
    world.write(f"{PROJECT}/roots.txt", "of root\n", mode=0o600)
    world.link(f"{PROJECT}/led", "/srv/precious/secret", "mallory")
    taken = world.safekept("checkpoint", PROJECT, "roots.txt", "--json")
    assert taken.returncode == 3, taken.stdout
    assert "roots.txt" in taken.stdout
    found = b""
    for full in owners(world, "/home/mallory/.local"):
        if os.path.isfile(full):
            with open(full, "rb") as file:
                found += file.read()
    assert b"of root" not in found


def test_faces_that_cannot_become_the_owner_refuse_and_say_what_to_run(world: World):
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import safekept\n"
        "try: safekept.Checkpoints(sys.argv[1]).take('by hand')\n"
        "except safekept.SafekeptError as error: print(error.code, error, *error.next_steps)"
    )
    own = {"HOME": "/srv/root", "SAFEKEPT_HELPER": "0"}
    source = os.path.join(CHECKOUT, "src")
    done = world.run(sys.executable, "-I", "-c", program, source, PROJECT, environment=own)
    assert done.stdout.startswith("project-of-another"), done.stdout + done.stderr
    run = world.safekept("run", "--dir", PROJECT, "--", "true")
    assert run.returncode == 1 and "belongs to `mallory`" in run.stderr, run.stderr
    for said in (done.stdout, run.stderr):
        assert "mallory" in said and re.search(r"(sudo|runuser) -u mallory", said), said
    assert not os.path.exists(world.outside("/home/mallory/.local"))


def test_a_link_in_the_way_of_the_owners_store_leads_root_nowhere(world: World):
    for where in (".local", ".local/share/safekept", ".config"):
        world.link(f"/home/mallory/{where}", "/srv/precious", "mallory")
        before = world.seen("/srv", "/etc", but_of="mallory")
        world.safekept("checkpoint", PROJECT)
        hook(world, PROJECT)
        after = world.seen("/srv", "/etc", but_of="mallory")
        changed = {path for path in after if after[path] != before.get(path)} | (before.keys() - after.keys())
        assert not {path for path in changed if not path.startswith("/srv/root")}, where
        os.unlink(world.outside(f"/home/mallory/{where}"))
