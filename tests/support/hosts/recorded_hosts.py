"""Recorded conversations with hosts: how to read one, and how to go through it against a real project."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from typing import Any

from safekept.checkpoints.store.store import Store
from safekept.integrations.entry import HOSTS
from safekept.integrations.places import Place
from support.places import TESTS
from support.projects.checkpoints import contents_in_store, put

RECORDED = os.path.join(TESTS, "recorded")


def conversations() -> list[str]:
    """`claude-code/turn`, …: every recorded conversation."""
    return [
        f"{host}/{name.removesuffix('.json')}"
        for host in HOSTS
        for name in sorted(os.listdir(os.path.join(RECORDED, host)))
        if name.endswith(".json") and name != "schema.json"
    ]


@functools.cache
def recorded(name: str) -> dict[str, Any]:
    """A conversation; do not change it."""
    with open(os.path.join(RECORDED, *name.split("/")) + ".json", encoding="utf-8") as file:
        return json.load(file)


def schema_of(host: str) -> dict[str, Any]:
    return recorded(f"{host}/schema")


def neutral_exit(host: str, event: str = "") -> int:
    """The code with which a host is told nothing; "" where nobody can tell which event it was."""
    ones = schema_of(host).get("ends_with_1")
    return int(ones is not None and (not event or event in ones))


def filled_in(value: Any, project: str) -> Any:
    """With the project's directory wherever the recording says $PROJECT."""
    return json.loads(json.dumps(value).replace("$PROJECT", project))


@dataclass(frozen=True)
class User:
    """Somebody's machine: a home, a project, and what safekept keeps of both."""

    home: str
    project: str
    hidden: bool = True  # whether the hidden half is kept, by a process that may win or lose any race

    @property
    def environment(self) -> dict[str, str]:
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], "SAFEKEPT_HELPER": "0"}
        return environment if self.hidden else {**environment, "SAFEKEPT_CHECKPOINTS_HIDDEN_BUDGET": "0"}

    def place(self) -> Place:
        return Place.load(self.environment)

    @property
    def data(self) -> str:
        return self.place().data_directory

    def change(self, files: dict[str, str | None]) -> None:
        for name, content in files.items():
            path = os.path.join(self.project, name)
            if content is None:
                os.unlink(path)
            else:
                put(path, content)

    def points(self) -> list[Any]:
        """Those that `rollback` numbers, newest first."""
        place = os.path.join(self.data, "checkpoints")
        if not os.path.isdir(place):
            return []
        with Store.open(place) as store:
            return [one for one in store.checkpoints(self.project) if one.kind == "before"]

    def held(self, number: int = 1) -> dict[str, bytes]:
        """What rollback number so-and-so would bring back."""
        point = self.points()[number - 1]
        with Store.open(os.path.join(self.data, "checkpoints")) as store:
            return contents_in_store(store, point)

    def calls(self, host: str) -> dict[str, Any]:
        """What `status` is told of a host."""
        try:
            with open(os.path.join(self.data, "integrations", f"{host}.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}


def new_user(directory: str, files: dict[str, str], *, hidden: bool = True) -> User:
    project = os.path.join(os.path.realpath(directory), "project")
    user = User(os.path.join(directory, "user"), project, hidden)
    os.makedirs(user.home, exist_ok=True)
    put(os.path.join(user.project, ".git", "HEAD"), "ref: refs/heads/main\n")
    user.change(dict(files))
    return user
