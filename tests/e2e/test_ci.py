"""What continuous integration runs: all tests, then the real agents, and a word where those cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from support.places import CHECKOUT

#: Each says how it was called, and ends as it is told to.
TEST = '#!/bin/sh\necho "test $*"\n[ -z "$*" ] || exit "$HOSTS_END"\nexit "$END"\n'
PREPARE = '#!/bin/sh\necho "npm is not installed" >&2\necho "$PLACE"\n'


@pytest.fixture
def run(tmp_path):
    def say(installed: bool, end: int = 0, hosts_end: int = 0) -> subprocess.CompletedProcess[str]:
        os.makedirs(tmp_path / ".ci")
        os.makedirs(tmp_path / "workshop")
        shutil.copy(os.path.join(CHECKOUT, ".ci", "run"), tmp_path / ".ci" / "run")
        for path, text in ((tmp_path / "test", TEST), (tmp_path / "workshop" / "prepare", PREPARE)):
            path.write_text(text)
            path.chmod(0o755)
        if installed:
            (tmp_path / "installed.json").write_text("{}")
        more = {"PLACE": str(tmp_path), "END": str(end), "HOSTS_END": str(hosts_end), "CI": "true"}
        return subprocess.run(
            [tmp_path / ".ci" / "run"], env={**os.environ, **more}, capture_output=True, text=True
        )

    return say


@pytest.mark.parametrize("end", [0, 1])
def test_real_agents_follow_and_a_failing_scenario_fails(run, end):
    said = run(installed=True, hosts_end=end)
    assert said.stdout == "test \ntest --hosts\n" and said.returncode == end


def test_what_cannot_be_had_is_said_and_fails_nothing(run):
    said = run(installed=False)
    assert said.stdout.startswith("test \nLEFT OUT: ./test --hosts") and said.returncode == 0
    assert "npm is not installed" in said.stderr


def test_failing_tests_fail_whatever_agents_there_are(run):
    assert run(installed=True, end=1).returncode == 1
