"""What differs between two points: counted in bounds, shown as text, never guessed at."""

from __future__ import annotations

import os

import pytest

from safekept.actions.projects.difference import pairs_of
from safekept.checkpoints.points import differences as changes
from safekept.checkpoints.points.differences import count_pairs, text_difference
from safekept.checkpoints.points.reconstructed_state import ReconstructedState
from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    made.write("a.txt", "one\ntwo\nthree\n")
    made.write("b.bin", b"\0\1\2")
    yield made
    made.store.close()


def pairs_between(store, older, newer):
    return pairs_of(store, ReconstructedState(older), ReconstructedState(newer))


def test_files_and_lines_are_counted_and_times_do_not_count(project):
    older = project.before()
    project.write("a.txt", "one\nTWO\nthree\nfour\n")
    project.write("b.bin", b"\0\1\3")
    project.write("new.txt", "x\ny\n")
    os.mkdir(project.full("hollow"))
    newer = project.after()
    found = count_pairs(project.store, pairs_between(project.store, older, newer))
    assert (found.files, found.added, found.removed, found.more) == (3, 4, 1, False)
    os.utime(project.full("a.txt"))
    assert count_pairs(project.store, pairs_between(project.store, newer, project.after())).files == 0


def test_counting_stops_in_time_and_says_so(project, monkeypatch):
    older = project.before()
    for number in range(6):
        project.write(f"{number}.txt", "x\n")
    newer = project.after()
    monkeypatch.setattr(changes, "_FILES_COUNTED", 3)
    found = count_pairs(project.store, pairs_between(project.store, older, newer))
    assert (found.files, found.added, found.more) == (6, 3, True)


@pytest.mark.needs("modes", "it looks at modes")
def test_a_difference_is_shown_as_text_and_what_is_no_text_is_named(project):
    older = project.before()
    project.write("a.txt", "one\ntwo\nTHREE\n", mode=0o755)
    project.write("b.bin", b"\0\1\3\4")
    newer = project.after()
    lines = list(text_difference(project.store, pairs_between(project.store, older, newer)))
    assert "-three" in lines and "+THREE" in lines and "--- a/a.txt" in lines
    assert "# b.bin: not shown as text (3 -> 4 bytes)" in lines
    assert any(line.startswith("# a.txt: file 0644 -> file 0755") for line in lines)


def test_a_file_made_or_deleted_is_shown_against_nothing(project):
    older = project.before()
    project.delete("a.txt")
    project.write("new.txt", "x\n")
    newer = project.after()
    lines = list(text_difference(project.store, pairs_between(project.store, older, newer)))
    assert "+++ /dev/null" in lines and "--- /dev/null" in lines and "+x" in lines and "-one" in lines
