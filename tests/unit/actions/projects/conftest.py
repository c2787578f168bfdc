"""A project with hidden files, for every test of the group that asks for one."""

from __future__ import annotations

import pytest

from support.projects.hidden_halves import HiddenWorld


@pytest.fixture
def world(tmp_path: object) -> HiddenWorld:
    found = HiddenWorld(tmp_path)
    found.fill()
    return found
