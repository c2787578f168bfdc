"""A user with a month behind them: snapshots on most days, a gap, copies, proofs and an alarm.

Everything is made by the actions themselves and then moved to the day on which it is to have happened.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time

from safekept.actions.base.record import record
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.vault.opening import open_vault
from safekept.core.events import silent
from safekept.core.journal import Record, new_id
from safekept.vault.storage import FileKind
from support.users.states import DAY, HOUR, State, _snapshot, drilled, empty, settled, write

#: Days ago on which a snapshot was taken; six days in the middle have none.
KEPT = (25, 24, 23, 22, 20, 12, 11, 10, 8, 7, 5, 4, 3, 2, 1, 0)


def month(directory: object, kept: tuple[int, ...] = KEPT, *, copied: bool = True) -> State:
    """Protected on this machine, with a month of history; the newest snapshot is an hour old."""
    state = empty(directory)
    when: dict[str, float] = {}
    for number, days in enumerate(kept):
        write(state, "memories/MEMORY.md", f"On day {number} we spoke of the garden.\n§\n", append=True)
        if days == 1:  # something was put in other words
            _reword(state, "On day 2 we spoke of the garden.", "On day 2 we spoke of roses in the garden.")
        if days % 3 == 0:
            write(state, f"skills/note-{number}.md", f"# Note {number}\n\nSources and doubts.\n")
        when[_snapshot(state)] = _then(days)
    settled(state)
    _move_snapshots(state, when)
    _move_lines(state, when)
    for days in (21, 14, 7):
        _line(state, _then(days), "drill", home=state.home, ok=True, subject="snapshot")
    if copied:
        _add_destination(state)
        for days in (24, 20, 12, 8, 5, 2):
            wholes = {state.home: _then(days)}
            _line(state, _then(days), "push", destination="attic", bytes=1_000_000, wholes=wholes)
    alarm = _line(state, _then(16), "alarm", home=state.home, kind="overdue", text="no backup for 3 days")
    _line(state, _then(12), "alarm-over", alarms=[alarm])
    newest = max(when, key=lambda one: when[one])
    drilled(state, newest)
    return dataclasses.replace(state, name="month", snapshots=tuple(when))


def _reword(state: State, before: str, after: str) -> None:
    path = os.path.join(state.home, "memories", "MEMORY.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    write(state, "memories/MEMORY.md", text.replace(before, after))


def project(state: State) -> str:
    """A project of that user with three checkpoints, and a change after the last."""
    place = os.path.join(state.user, "code", "garden")
    os.makedirs(os.path.join(place, ".git"))
    for number, what in enumerate(("roses", "beans", "herbs")):
        with open(os.path.join(place, "plan.md"), "w", encoding="utf-8") as file:
            file.write(f"# Garden\n\nWater the {what} at {6 + number} in the morning.\n")
        taken = take_checkpoint(state.context, place, CheckpointPolicy(), reason=f"before edit {number}")
        assert taken.taken.checkpoint is not None
    with open(os.path.join(place, "plan.md"), "w", encoding="utf-8") as file:
        file.write("# Garden\n\nWater nothing.\n")
    return place


def _then(days: int) -> float:
    return time.time() - days * DAY - HOUR


def _line(state: State, when: float, verb: str, **facts: object) -> str:
    operation = new_id()
    record(state.context, Record(operation, verb, "done", time=when, facts=facts), silent)
    return operation


def _add_destination(state: State) -> None:
    """A disk in the attic, as the settings say: off this machine."""
    place = os.path.abspath(os.path.join(state.user, "..", "attic"))
    os.makedirs(place)
    with open(os.path.join(state.user, ".config", "safekept", "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'[[destination]]\nname = "attic"\nurl = "file:{place}"\nelsewhere = true\n')


def _move_snapshots(state: State, when: dict[str, float]) -> None:
    with open_vault(state.context) as repository:
        for name, _ in list(repository.storage.list(FileKind.SNAPSHOT)):
            snapshot = repository.load_snapshot(name)
            moved = dataclasses.replace(
                snapshot, time_ns=int(when[snapshot.original or snapshot.id] * 1e9), original=snapshot.id
            )
            repository.save_snapshot(moved)
            repository.delete_snapshot(name)


def _move_lines(state: State, when: dict[str, float]) -> None:
    path = os.path.join(state.context.places.data_directory, "journal.jsonl")
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    ends = {line["operation"]: when.get(line["facts"].get("snapshot", ""), 0.0) for line in lines}
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps({**line, "time": ends[line["operation"]] or line["time"]}) + "\n")
