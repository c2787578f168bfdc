"""What happened at one place is the same, whether lines of others are taken apart or passed over."""

from __future__ import annotations

import json

import pytest

from safekept.actions.undo import other_places
from safekept.actions.undo.log import LogRequest, read_log
from safekept.core.journal import Journal, Record
from support.users.contexts import throwaway

HERE, THERE = "/home/zoë/\udcff agent", "/home/zoë/other"
ALSO = ("push", "alarm")


@pytest.fixture
def context(tmp_path):
    return throwaway(tmp_path)


def write(journal: Journal, operation: str, verb: str, state: str, **facts: object) -> None:
    journal.append(Record(operation, verb, state, facts=facts))


def shown(context, counted: bool = False) -> list[tuple[str, str]]:
    request = LogRequest(most=None, home=HERE, unplaced=ALSO, counted=counted)
    return [(one.id, one.outcome) for one in read_log(context, request).operations]


def test_an_operation_is_what_its_last_line_says_wherever_that_was(context):
    journal = context.journal
    write(journal, "1-moved", "restore", "begun", home=HERE)
    write(journal, "2-killed", "restore", "begun", home=HERE)
    write(journal, "3-came", "restore", "begun", home=THERE)
    write(journal, "1-moved", "restore", "recovered", home=THERE)
    write(journal, "3-came", "restore", "recovered", home=HERE)
    write(journal, "4-other", "undo", "done", home=THERE, undoes="2-killed")
    write(journal, "5-between", "drill", "begun", home=HERE)
    write(journal, "5-between", "drill", "begun", home=THERE)
    write(journal, "5-between", "drill", "done", home=HERE)
    expected = [("5-between", "done"), ("3-came", "recovered"), ("2-killed", "killed")]
    assert shown(context) == shown(context, counted=True) == expected


def test_torn_foreign_and_unplaced_lines_count_as_ever(context):
    journal = context.journal
    write(journal, "1", "setup", "done", homes=[THERE, HERE])
    write(journal, "2", "restore", "begun", home=HERE)
    torn = (
        b'{"version": 1, "time": 5.0, "operation": "2", "verb": "restore", "state": "done", "facts": {"home'
    )
    never = b'{"version": 1, "time": 999999999999, "operation": "2", "verb": "a", "state": "b", "facts": {}}'
    later = {"operation": "3", "verb": "new", "state": "done", "time": 5.0, "facts": {"project": HERE}}
    with open(journal.path, "ab") as file:
        for line in (torn, never, json.dumps({"version": 7, **later}).encode(), b"rubbish", b"{}"):
            file.write(line + b"\n")
    write(journal, "4", "push", "done", destination="disk")
    write(journal, "5", "push", "done", home=THERE)
    write(journal, "6", "alarm", "done")
    write(journal, "7", "schedule", "done")
    expected = [("6", "done"), ("4", "done"), ("3", "done"), ("2", "killed"), ("1", "done")]
    assert shown(context) == shown(context, counted=True) == expected


def test_lines_of_other_places_are_not_taken_apart(context, monkeypatch):
    for number in range(50):
        write(context.journal, f"{number}", "checkpoint", "done", project=HERE if number == 10 else THERE)
    monkeypatch.setattr(other_places, "REMEMBERED", 5)
    read: list[bytes] = []
    whole = read_log.__globals__["parse_line"]
    monkeypatch.setitem(read_log.__globals__, "parse_line", lambda line: read.append(line) or whole(line))
    assert shown(context) == [("10", "done")]
    assert len(read) == 1
    assert shown(context, counted=True) == [("10", "done")]
    assert len(read) == 51
