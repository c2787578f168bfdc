"""A checkpoint store, for every test of the room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from safekept.checkpoints.store import Store


@pytest.fixture
def store(tmp_path: object) -> Iterator[Store]:
    with Store.open(f"{tmp_path}/data") as opened:
        yield opened
