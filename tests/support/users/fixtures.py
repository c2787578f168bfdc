"""A throwaway user for any test: their context, a small home of Hermes, and the command line said by them."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from safekept.actions.base.context import UserContext
from support.commands.in_process import Said, spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway


@pytest.fixture(name="here")
def a_user(tmp_path: object) -> UserContext:
    """A user who has nothing yet."""
    return throwaway(tmp_path)


@pytest.fixture(name="home")
def their_home(here: UserContext) -> str:
    """The plainest home of theirs: one profile, nothing awkward in it."""
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)


@pytest.fixture(name="say")
def their_command_line(monkeypatch: pytest.MonkeyPatch, here: UserContext) -> Callable[..., Said]:
    """Runs `safekept …` as that user: `say("snapshot", "list").out`."""
    return spoken(monkeypatch, here.places.user_home)
