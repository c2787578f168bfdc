"""Killed at any step, `connect` and `disconnect` leave a settings file old or new; the next call mends it."""

from __future__ import annotations

import json
import os

import pytest

from support.faults.kill_points import count_steps, run_killed
from support.hosts.connected import read, write

ORIGINAL = (
    b'{\n    "model": "opus",\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}\n}\n'
)


def settings_of(environment: dict[str, str]) -> str:
    return os.path.join(environment["HOME"], ".claude", "settings.json")


def user_in(directory: str, base: dict[str, str]) -> dict[str, str]:
    environment = {**base, "HOME": directory}
    write(settings_of(environment), ORIGINAL, 0o600)
    return environment


def storm(tmp_path, base: dict[str, str], share: int) -> None:
    """Kill at every `share`th step of connect and of disconnect."""
    first = user_in(str(tmp_path / "whole"), base)
    counter = str(tmp_path / "steps")
    steps = count_steps(["connect", "claude-code", "--yes"], first, counter)
    connected = read(settings_of(first))
    assert connected and connected != ORIGINAL and json.loads(connected)
    back = count_steps(["connect", "--remove", "claude-code", "--yes"], first, counter)
    assert read(settings_of(first)) == ORIGINAL
    assert steps > 10 and back > 5
    for at in range(1, steps + 1, share):
        one = user_in(str(tmp_path / f"connect-{at}"), base)
        run_killed(["connect", "claude-code", "--yes"], one, at)
        assert read(settings_of(one)) in (ORIGINAL, connected), at
        assert run_killed(["connect", "claude-code", "--yes"], one, 0).returncode == 0
        assert read(settings_of(one)) == connected
        assert run_killed(["connect", "--remove", "claude-code", "--yes"], one, 0).returncode == 0
        assert read(settings_of(one)) == ORIGINAL
        assert os.listdir(os.path.dirname(settings_of(one))) == ["settings.json"], at
    for at in range(1, back + 1, share):
        one = user_in(str(tmp_path / f"disconnect-{at}"), base)
        assert run_killed(["connect", "claude-code", "--yes"], one, 0).returncode == 0
        run_killed(["connect", "--remove", "claude-code", "--yes"], one, at)
        assert read(settings_of(one)) in (ORIGINAL, connected), at
        assert run_killed(["connect", "--remove", "claude-code", "--yes"], one, 0).returncode == 0
        assert read(settings_of(one)) == ORIGINAL


def test_killed_in_the_middle_the_file_is_old_or_new(tmp_path, launcher_environment):
    storm(tmp_path, launcher_environment, 13)


@pytest.mark.soak("hooks")
def test_killed_at_every_step_the_file_is_old_or_new(tmp_path, launcher_environment):
    storm(tmp_path, launcher_environment, 1)
