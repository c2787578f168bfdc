"""The journal: append-only, safe with many writers, readable after a crash."""

import json
import subprocess
import sys

from holdfast.core.journal import Journal, Record, new_id

WRITER = """
import sys
from holdfast.core.journal import Journal, Record
journal = Journal(sys.argv[1])
for number in range(50):
    journal.append(Record(f"{sys.argv[2]}-{number}", "backup", "done", facts={"filler": "x" * 3000}))
"""


def test_what_was_appended_is_read_back_in_order(tmp_path):
    journal = Journal(str(tmp_path / "deep" / "journal.jsonl"))
    assert list(journal.read()) == []
    first = Record("a", "backup", "done", time=1.5, facts={"home": "/x"})
    second = Record("b", "import", "failed", time=2.5, facts={"path": "caf\udce9"})
    journal.append(first)
    journal.append(second)
    assert list(journal.read()) == [first, second]
    assert (tmp_path / "deep" / "journal.jsonl").stat().st_mode & 0o777 == 0o600


def test_eight_writers_at_once_lose_and_tear_nothing(tmp_path):
    path = str(tmp_path / "journal.jsonl")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(n)]) for n in range(8)]
    assert [writer.wait() for writer in writers] == [0] * 8
    found = {record.operation for record in Journal(path).read()}
    assert found == {f"{writer}-{number}" for writer in range(8) for number in range(50)}


def test_a_torn_last_line_costs_only_itself(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(str(path))
    journal.append(Record("a", "backup", "done"))
    journal.append(Record("b", "backup", "done"))
    path.write_bytes(path.read_bytes()[:-20])
    journal.append(Record("c", "backup", "done"))
    assert [record.operation for record in journal.read()] == ["a", "c"]


def test_rubbish_and_lines_of_a_newer_version_do_not_stop_the_reader(tmp_path):
    path = tmp_path / "journal.jsonl"
    newer = {"version": 9, "time": 3, "operation": "n", "verb": "teleport", "state": "done", "more": [1]}
    path.write_bytes(b'\x00\xff not json\n[1, 2]\n"text"\n' + json.dumps(newer).encode() + b"\n")
    assert [(record.operation, record.verb) for record in Journal(str(path)).read()] == [("n", "teleport")]


def test_ids_made_in_the_same_second_differ():
    assert len({new_id() for _ in range(500)}) == 500
