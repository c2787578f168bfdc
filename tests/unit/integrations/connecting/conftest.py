"""A throwaway user, for every test of the room."""

from __future__ import annotations

import pytest

from safekept.actions.base.context import UserContext
from support.users.contexts import throwaway


@pytest.fixture
def user(tmp_path: object) -> UserContext:
    return throwaway(tmp_path)
