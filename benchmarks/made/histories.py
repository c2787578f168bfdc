"""A user with much behind them: a thousand snapshots, two hundred projects, twenty thousand checkpoints.

One snapshot and one checkpoint of each project are made by the actions; the others are the same states at
other times, with files and refs of their own, as a list and a page see them.
"""

from __future__ import annotations

import dataclasses
import os
import time

from safekept.actions.base.context import Choices, Places, UserContext
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.projects.project import checkpoint_directory
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.opening import open_vault
from safekept.checkpoints.project import project_id
from safekept.checkpoints.store import Store
from safekept.home.layout import load_layouts
from safekept.vault.storage import FileKind

from .projects import make_project

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_HOUR = 3600.0


def context_of_user(user: str) -> UserContext:
    """The usual places below a throwaway directory."""
    data = os.path.join(user, ".local", "share", "safekept")
    places = Places(
        user_home=user,
        data_directory=data,
        cache_directory=os.path.join(user, ".cache", "safekept"),
        vault=os.path.join(data, "vault"),
        vault_key_file=os.path.join(user, ".config", "safekept", "vault.key"),
    )
    return UserContext(places, Choices(load_layouts()))


def make_snapshots(context: UserContext, home: str, count: int) -> None:
    """So many of one home, an hour apart; the newest is of now."""
    create_snapshot(context, SnapshotRequest(context.locate(home), retention=False))
    with open_vault(context) as repository:
        name, _ = next(iter(repository.storage.list(FileKind.SNAPSHOT)))
        one = repository.load_snapshot(name)
        for number in range(1, count):
            older = one.time_ns - int(number * _HOUR * 1e9)
            repository.save_snapshot(dataclasses.replace(one, time_ns=older, id="", original=""))


def make_checkpoints(context: UserContext, code: str, projects: int, each: int) -> list[str]:
    """So many projects with so many checkpoints each; returns the projects."""
    made = []
    for number in range(projects):
        place = os.path.join(code, f"project-{number:03}")
        make_project(place, 5, seed=number)
        os.makedirs(os.path.join(place, ".git"), exist_ok=True)
        take_checkpoint(context, place, CheckpointPolicy(), reason="before an edit")
        made.append(place)
    with Store.open(checkpoint_directory(context)) as store:
        for place in made:
            identity = project_id(place)
            newest = store.checkpoints(place)[0]
            points = [_earlier(newest, back) for back in range(1, each)]
            store.open_refs(identity)
            for point in points:
                path = os.path.join(store.repository, "refs", "safekept", identity, point.id)
                with open(path, "w", encoding="ascii") as file:
                    file.write(point.commit + "\n")
            store.note(reversed(points))  # the oldest first, as they would have come
    return made


def _earlier(point, back: int):  # type: ignore[no-untyped-def]
    when = time.time_ns() - int(back * _HOUR * 1e9)
    return dataclasses.replace(point, id=_name(when // 1_000_000, back), time_ns=when)


def _name(milliseconds: int, number: int) -> str:
    """An id as the store makes them: nine characters of time, three more."""
    value, letters = milliseconds * 32**3 + number, []
    while value:
        value, digit = divmod(value, 32)
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters)).rjust(12, "0")
