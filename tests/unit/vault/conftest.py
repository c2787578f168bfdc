"""A vault in memory, for every test of the room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from safekept.vault.repo import Repository
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import new_vault


@pytest.fixture
def vault() -> Iterator[Repository]:
    with new_vault(MemoryStorage()) as made:
        yield made
