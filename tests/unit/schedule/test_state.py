"""What is remembered between runs: whole or empty, never an error."""

from __future__ import annotations

import json

import pytest

from safekept.schedule.tasks import RunNote, ScheduleState, StepNote, TaskHistory, read_state, write_state


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "state.json")


def test_what_is_written_is_read_back(path):
    steps = (StepNote("snapshot:/h", "done", 1.5, "x"), StepNote("push:nas", "failed", 2.0, "gone", "place"))
    state = ScheduleState(
        {"snapshot:/h": TaskHistory(1.0, 2.0, 3.0, 4.0, 5, "code", "text", 6.0, "what", 7.0)},
        RunNote("20260101-000000-abcdef", 10.0, "incomplete", 3.5, steps, 77),
        11.0,
    )
    write_state(path, state)
    assert read_state(path) == state


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "tasks": {}}',
        '{"version": 1, "tasks": []}',
        '{"version": 1, "tasks": {"a": {"done": "yesterday"}}}',
        '{"version": 1, "tasks": {}, "run": {"operation": "x"}}',
        '{"version": 1, "tasks": {}, "run": {"operation": "", "started": 1, "state": "", "seconds": 1, '
        '"steps": [{}]}}',
        "\x00\x00\x00",
    ],
)
def test_a_torn_or_strange_file_is_an_empty_memory(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    assert read_state(path) == ScheduleState()


def test_facts_of_a_later_version_are_passed_over(path):
    document = {"version": 1, "looked": 1, "tasks": {"prune": {"done": 5, "mood": "good"}}, "run": None}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    assert read_state(path).past("prune") == TaskHistory(done=5.0)
