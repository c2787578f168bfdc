"""What every transcript leans on: the same words as root of a container, too."""

from __future__ import annotations

import os

import pytest

from safekept.core.files.belt import Belt
from support.users.states import State, made


@pytest.fixture
def state(tmp_path: object) -> State:
    """A user with a fresh snapshot of a home; the tests of a state of their own have one of this name."""
    return made("fresh", tmp_path)


@pytest.fixture(scope="session")
def closes(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether a directory can be closed to whoever runs the tests: not to root without the attribute."""
    belt = Belt(str(tmp_path_factory.mktemp("closes")), (), "belt", wanted=True)
    os.chmod(belt.root, 0o700)
    held = belt.fasten()
    belt.take_off()
    return held


@pytest.fixture(autouse=True)
def words_of_a_seat_belt(closes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be closed to root, transcripts say what everybody else is told."""
    if not closes:
        monkeypatch.setattr(Belt, "holds", lambda self: self.state == "on")
