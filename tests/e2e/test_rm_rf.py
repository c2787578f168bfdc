"""An agent runs `rm -rf ~`: what a seat belt held gives back the home and the projects.

As another user of this machine, whom modes bind, by the launcher and in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from support.home.homes import make_hermes_home
from support.places import CHECKOUT
from support.users.another_user import as_another_user, give

SAFEKEPT = os.path.join(CHECKOUT, "safekept")
WAYS = {
    "rm": 'rm -rf "$HOME"',
    "find": 'find "$HOME" -delete',
    "rm of what lies beside it": 'rm -rf "$HOME/.local" "$HOME/.config"',
    "rmtree": "python3 -c 'import os, shutil; shutil.rmtree(os.environ[\"HOME\"], ignore_errors=True)'",
}


class User:
    """Somebody with an agent's home, two projects and a seat belt."""

    def __init__(self, place: str) -> None:
        self.home = os.path.join(place, "somebody")
        os.makedirs(self.home)
        make_hermes_home(self.path(".hermes"), profiles=(), awkward=False)
        for project, marker in (("first", ".git"), ("second", "package.json")):
            os.makedirs(self.path(project, marker) if marker == ".git" else self.path(project))
            for name in {"notes.txt", marker} - {".git"}:
                with open(self.path(project, name), "w", encoding="utf-8") as file:
                    file.write(f"{name} of {project}")
        os.makedirs(self.path(".config", "safekept"))
        with open(self.path(".config", "safekept", "config.toml"), "w", encoding="utf-8") as file:
            file.write("seat_belt = true\n")
        give(self.home)
        self.begin = as_another_user(self.home)

    def path(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], "NO_COLOR": "1", "LANG": "C.UTF-8"}
        return subprocess.run(
            [*self.begin, *words], env=environment, cwd="/", capture_output=True, text=True, timeout=300
        )

    def safekept(self, *words: str) -> str:
        done = self.run(SAFEKEPT, *words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def files(self, *below: str) -> dict[str, bytes]:
        found = {}
        for parent, _, names in os.walk(self.path(*below)):
            for name in names:
                with open(os.path.join(parent, name), "rb") as file:
                    found[os.path.relpath(os.path.join(parent, name), self.home)] = file.read()
        return found


@pytest.mark.parametrize("way", WAYS)
def test_home_and_projects_come_back_from_what_the_seat_belt_held(way, tmp_path):
    user = User(str(tmp_path))
    for words in (("snapshot",), ("checkpoint", user.path("first")), ("checkpoint", user.path("second"))):
        user.safekept(*words)
    before = {**user.files("first"), **user.files("second"), **user.files(".hermes", "memories")}
    user.run("sh", "-c", WAYS[way])
    assert not os.path.exists(user.path(".config"))
    said = json.loads(user.safekept("status", "--json"))
    assert said["vault"]["state"] == "open" and said["vault"]["snapshots"] == 1
    assert {one["project"] for one in said["checkpoints"]["projects"]} == {
        user.path("first"),
        user.path("second"),
    }
    if not os.path.exists(user.path(".hermes")):
        user.safekept("snapshot", "restore", "latest", "--home", user.path(".hermes"), "--yes")
        for project in ("first", "second"):
            user.safekept("rollback", "1", "--dir", user.path(project))
    after = {**user.files("first"), **user.files("second"), **user.files(".hermes", "memories")}
    assert after == before
    user.safekept("snapshot")
    closed = json.loads(user.safekept("vault", "close", "--json"))["stores"]
    assert len(closed) == 3 and all(one["closed"] for one in closed)
