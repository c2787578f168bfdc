"""What a check of a database says, and what it is taken for."""

from __future__ import annotations

import pytest

from safekept.core.sqlite.check import examine


class Answering:
    """Stands for a connection whose check ends with these lines: a disk that fails on demand cannot be had.

    `./test --soak faults` fails the real reads.
    """

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    def execute(self, statement: str) -> Answering:
        return self

    def fetchall(self) -> list[tuple[str]]:
        return [(line,) for line in self._lines]


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("ok", "sound"),
        ("Page 21: unable to get the page. error code=266", "unverified"),  # reading failed
        ("Tree 4 page 9: unable to get the page. error code=10", "unverified"),
        ("Page 21: unable to get the page. error code=522", "damaged"),  # the file ends before it
        ("Page 21: unable to get the page. error code=11", "damaged"),
        ("row 3 missing from index i", "damaged"),
    ],
)
def test_a_page_that_could_not_be_read_is_no_damage_and_not_remembered_as_one(line, state):
    found, detail = examine(Answering(line) if line == "ok" else Answering("*** in database main ***", line))
    assert found == state and (line in detail or state == "sound")
