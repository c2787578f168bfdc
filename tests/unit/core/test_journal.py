"""The journal: append-only, safe with many writers, readable after a crash."""

import fcntl
import json
import subprocess
import sys
import tracemalloc

import pytest

from safekept.core import journal as journal_module
from safekept.core.journal import Journal, Record, new_id

WRITER = """
import sys
from safekept.core import journal as journal_module
from safekept.core.journal import Journal, Record
journal_module.PATIENCE = 300.0
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
    # Ten, not hundreds: of 500 two are the same once in 134 times, and no second has so many operations.
    assert len({new_id() for _ in range(10)}) == 10


# ── from the end ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block", [1, 2, 3, 7, 16, 1 << 16])
@pytest.mark.parametrize(
    "text", [b"", b"\n", b"a", b"a\n", b"\na", b"one\ntwo\n\nthree", b"\n\n\nx\n\n", b"ab\ncd\n"]
)
def test_lines_come_last_first_whatever_the_size_of_a_block(tmp_path, block, text):
    path = tmp_path / "journal"
    path.write_bytes(text)
    wanted = [line for line in reversed(text.split(b"\n")) if line]
    assert list(journal_module._lines_backwards(str(path), (), block)) == wanted
    for word in (b"o", b"e\n", b"ab", b"three"):
        found = list(journal_module._lines_backwards(str(path), (word, b"zz"), block))
        assert found == [line for line in wanted if word in line]


def test_a_line_without_end_is_passed_over_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "LONGEST", 1 << 20)
    path = tmp_path / "journal.jsonl"
    journal = Journal(str(path))
    journal.append(Record("a", "backup", "done"))
    with open(path, "ab") as file:
        for _ in range(24):
            file.write(b"x" * (1 << 20))
        file.write(b"\n")
    journal.append(Record("b", "backup", "done"))
    for read in (lambda: [one.operation for one in journal.read()], lambda: list(journal.lines_backwards())):
        tracemalloc.start()
        found = read()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(found) == 2
        assert peak < 8 << 20
    assert [one.operation for one in journal.backwards("backup")] == ["b", "a"]


def test_twenty_megabytes_are_read_from_the_end_at_once(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(str(path))
    journal.append(Record("first", "backup", "done", facts={"filler": "x" * 1000}))
    line = path.read_bytes()
    path.write_bytes(line * 20_000)
    journal.append(Record("last", "backup", "done"))
    tracemalloc.start()
    assert next(journal.backwards("backup")).operation == "last"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_writer_that_hangs_holds_the_next_one_up_for_a_moment_only(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "PATIENCE", 0.05)
    journal = Journal(str(tmp_path / "journal.jsonl"))
    journal.append(Record("a", "backup", "done"))
    with open(journal.path, "rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process holds it"):
            journal.append(Record("b", "backup", "done"))
        assert [one.operation for one in journal.read()] == ["a"], "readers need no lock"
    journal.append(Record("c", "backup", "done"))
    assert [one.operation for one in journal.read()] == ["a", "c"]


@pytest.mark.parametrize("when", ["NaN", "Infinity", "-1", "1e300", '"soon"', "null", "[]", "true[" * 9])
def test_a_time_that_no_calendar_has_makes_no_record(when):
    line = f'{{"version": 1, "time": {when}, "operation": "a", "verb": "b", "state": "done", "facts": {{}}}}'
    assert journal_module.parse_line(line.encode()) is None


def test_a_line_nested_without_end_is_passed_over():
    assert journal_module.parse_line(b'{"a":' * 100_000) is None
