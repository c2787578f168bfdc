"""Every line of the journal is a dataclass of its verb: what was written reads, whoever wrote it and when."""

import ast
import glob
import json
import os
from dataclasses import fields

import pytest
import zstandard

import safekept.actions
from safekept.actions.base.operations.facts import READERS, AnyFacts, Failure, every_verb, read_operation
from safekept.actions.base.operations.homes import SessionFacts, SnapshotFacts
from safekept.core.journal import Record
from safekept.core.next_step import NextStep

RECORDED = os.path.join(os.path.dirname(__file__), "..", "..", "..", "data", "rename-commit", "told.json.zst")


@pytest.fixture(scope="module")
def recorded():
    """The lines that the rename commit wrote, of every verb."""
    with open(RECORDED, "rb") as file:
        told = json.loads(zstandard.ZstdDecompressor().decompress(file.read(), max_output_size=1 << 26))
    lines = [line for user in told["lines"].values() for line in user]
    assert len(lines) >= 150
    return [
        Record(line["operation"], line["verb"], line["state"], line["time"], line["facts"], line["version"])
        for line in lines
    ]


def test_every_line_that_was_recorded_is_understood_whole_and_written_the_same(recorded):
    assert {one.verb for one in recorded} <= every_verb().keys()
    for one in recorded:
        known = {name: value for name, value in one.facts.items() if value is not None}
        assert read_operation(one).facts() == known, one.verb


def test_every_verb_was_recorded_once_at_least(recorded):
    since = {"decline", "setup", "destination-add", "destination-remove"}  # written by later code
    since |= {"vault-open", "vault-close", "rebuild-here", "destination-test", "rollback-turn"}
    since |= {"rollback-turn-undo"}
    assert every_verb().keys() - {one.verb for one in recorded} == since


def test_every_field_has_a_type_that_can_be_read():
    for verb, kind in every_verb().items():
        assert {str(one.type) for one in fields(kind)} <= READERS.keys(), verb


@pytest.mark.parametrize("strange", [None, 7, -1.5, True, "text", ["a", 3], {"a": 1}, []])
def test_nothing_in_a_line_can_make_its_reader_fail(strange):
    for verb, kind in every_verb().items():
        names = {one.name.removesuffix("_") for one in fields(kind)}
        line = Record("x", verb, "done", facts={**dict.fromkeys(names, strange), "of-tomorrow": strange})
        found = read_operation(line)
        assert isinstance(found, kind)
        for one in fields(kind):
            value = getattr(found, one.name)
            assert value is None or value == READERS[str(one.type)](strange)


def test_a_verb_of_tomorrow_says_what_every_verb_says():
    line = Record("x", "of-tomorrow", "done", facts={"home": "/h", "more": 1})
    assert read_operation(line) == AnyFacts(home="/h")


def test_of_the_lines_of_one_operation_the_last_word_counts():
    begun = Record("x", "snapshot", "begun", facts={"home": "/h", "files": 1, "process": 7})
    done = Record("x", "snapshot", "done", facts={"home": "/h", "files": 2})
    assert read_operation(begun, done) == SnapshotFacts(home="/h", files=2, process=7)


@pytest.mark.parametrize("facts", [None, [], "text", 3])
def test_a_line_without_facts_says_nothing(facts):
    assert SnapshotFacts.read(Record("x", "snapshot", "done", facts=facts)) == SnapshotFacts()


def test_what_is_not_known_yet_is_not_written_and_a_word_of_python_is_no_obstacle():
    work = SessionFacts(home="/h", as_="new")
    assert work.line("id", "begun").facts == {"home": "/h", "as": "new"}
    work.proof = "abc"
    assert work.line("id", "done") == Record(
        "id",
        "restore-session",
        "done",
        facts={"home": "/h", "as": "new", "proof": "abc"},
        time=pytest.approx(0, abs=1e12),
    )


def test_a_failure_is_read_with_its_commands():
    error = {"code": "a", "what": "b", "kept": "c", "next": ["Wait", "Then: `safekept undo 'x y'`"]}
    assert Failure.read(Record("x", "snapshot", "failed", facts={"error": error})) == Failure(
        "a", "b", "c", ("Wait", NextStep("undo", ("x y",), "Then:"))
    )
    assert Failure.read(Record("x", "snapshot", "done", facts={"error": "torn"})) is None


def test_a_snapshot_counts_nothing_where_somebody_wrote_words():
    found = SnapshotFacts.read(Record("x", "snapshot", "done", facts={"files": "many", "kind": "quick"}))
    assert (found.files, found.kind) == (None, "quick")


#: Who still writes a line by hand, and why.
BY_HAND = {
    "base/operations/facts.py": "what all of them are written by",
    "base/recovery.py": "what was cut off is ended under the verb that it had",
}


def test_every_action_writes_the_facts_of_its_verb():
    base = os.path.dirname(safekept.actions.__file__)
    found = set()
    for path in glob.glob(os.path.join(base, "**", "*.py"), recursive=True):
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        if any(getattr(call.func, "id", "") == "Record" for call in calls):
            found.add(os.path.relpath(path, base))
    assert found == BY_HAND.keys()
