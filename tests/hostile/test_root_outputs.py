"""What root is told to write where others can write: never through their links, never over what is theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from conftest import missing_part
from safekept.core.owner import OutputOfAnother, held_output
from support.commands.waiting import PATIENT
from support.users.unprivileged import NOBODY, nobodys  # noqa: F401 - a fixture
from support.users.users_world import World, made_world

#: Every command that writes where it is told; OUT stands for the place. The rest is in test_root.
OUTPUTS = {
    "report": ("guard", "--anyway", "--report", "OUT", "--", "true"),
    "key pair": ("backup", "keygen", "-o", "OUT"),
    "key": ("vault", "key", "export", "-o", "OUT"),
    "kit": ("vault", "kit", "-o", "OUT"),
    "image": ("status", "--plot", "OUT.svg"),
}
#: A key pair is never written over anything, whoever has it.
REFUSED = ("output-of-another", "identity-exists")
NAMES = ("out", "out.txt", "out.html", "out.svg")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    machine = made_world(str(tmp_path_factory.mktemp("world")))
    assert machine.safekept("vault", "init").returncode == 0
    os.mkdir(machine.outside("/srv/share"))
    os.chmod(machine.outside("/srv/share"), 0o777)
    return machine


def link_on_the_way(machine: World) -> str:
    machine.link("/home/mallory/way", "/srv/precious", "mallory")
    return "/home/mallory/way"


def links_with_the_name(machine: World) -> str:
    for name in NAMES:
        machine.link(f"/srv/share/{name}", "/srv/precious/secret", "mallory")
    return "/srv/share"


def pipes_with_the_name(machine: World) -> str:
    for name in NAMES:
        os.mkfifo(machine.outside(f"/srv/share/{name}"))
        machine.give(f"/srv/share/{name}", "mallory")
    return "/srv/share"


@pytest.mark.parametrize("trap", [link_on_the_way, links_with_the_name, pipes_with_the_name])
def test_no_output_of_roots_is_led_elsewhere_or_kept_waiting(world: World, trap):
    place = trap(world)
    before = world.seen("/srv", but_of="mallory")
    try:
        for what, words in OUTPUTS.items():
            done = world.safekept(*(word.replace("OUT", f"{place}/out") for word in words))
            assert done.returncode != 0 and any(code in done.stderr for code in REFUSED), (
                what,
                done.stdout,
                done.stderr,
            )
            assert "Traceback" not in done.stderr, what
        after = world.seen("/srv", but_of="mallory")
        gone = {path for path in before | after if before.get(path) != after.get(path)}
        assert not {path for path in gone if not path.startswith("/srv/root")}
    finally:
        for path in ("/home/mallory/way", *(f"/srv/share/{name}" for name in NAMES)):
            if os.path.lexists(world.outside(path)):
                os.unlink(world.outside(path))


def test_an_honest_output_goes_where_it_was_told_to(world: World):
    for place in ("/srv/share", "/home/mallory", "/srv/root", "/tmp"):
        for what in ("report", "key pair", "key"):
            name = f"{place}/{what.replace(' ', '-')}"
            done = world.safekept(*(word.replace("OUT", name) for word in OUTPUTS[what]))
            assert done.returncode == 0, (what, done.stderr)
            facts = os.stat(world.outside(name))
            assert facts.st_uid == 0 and facts.st_mode & 0o777 == 0o600


def test_a_swapper_never_leads_an_output_elsewhere(nobodys):  # noqa: F811
    """A directory of mallory's that becomes a link between two looks, thousands of times."""
    if os.geteuid() != 0:
        missing_part("needs root")
    precious, way, spare = (os.path.join(nobodys, name) for name in ("precious", "way", "spare"))
    for place in (precious, way):
        os.mkdir(place)
    os.chown(way, NOBODY, NOBODY)
    os.symlink(precious, spare)
    os.chown(spare, NOBODY, NOBODY, follow_symlinks=False)
    swap = (
        "import os, sys\nway, spare, other = sys.argv[1:]\n"
        "while True:\n os.rename(way, other); os.rename(spare, way)\n"
        " os.rename(way, spare); os.rename(other, way)"
    )
    words = [sys.executable, "-I", "-c", swap, way, spare, way + ".other"]
    swapper = subprocess.Popen(words)
    written = refused = 0
    try:
        end, patience = time.monotonic() + 1.0, time.monotonic() + PATIENT
        while time.monotonic() < end or (not (written and refused) and time.monotonic() < patience):
            try:
                with held_output(os.path.join(way, "report")) as name, open(name, "w") as file:
                    file.write("of root")
                written += 1
            except (OutputOfAnother, OSError):
                refused += 1
    finally:
        swapper.kill()
        swapper.wait()
    assert os.listdir(precious) == [], (written, refused)
    assert written and refused, "the swapper was at work, and sometimes too late"
