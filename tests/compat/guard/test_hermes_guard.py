"""The real Hermes under guard: what its own commands do to a home is no loss, and what it loses is named."""

from __future__ import annotations

import json
import os

import pytest

from conftest import run_safekept
from support.home.homes import make_hermes_home


@pytest.fixture
def home(launcher_environment, hermes_python):
    user = launcher_environment["HOME"]
    return make_hermes_home(
        os.path.join(user, ".hermes"), awkward=False, profiles=(), hermes_python=hermes_python
    )


def test_what_the_real_hermes_does_to_a_home_is_no_loss(hermes, home, launcher_environment):
    """A migration of its settings rewrites `config.yaml`; starting it makes files and opens databases."""
    report = os.path.join(launcher_environment["HOME"], "report.json")
    for words, kind in (
        (["config", "migrate"], "pre-update"),
        (["claw", "migrate", "--dry-run"], "pre-migration"),
    ):
        done = run_safekept(
            "guard", "--report", report, "--", hermes, *words, environment=launcher_environment
        )
        assert done.returncode == 0, done.stderr
        assert "; nothing was lost (" in done.stderr
        with open(report) as file:
            document = json.load(file)
        assert document["kind"] == kind
        assert document["check"]["notes"] == [], "nothing the real one does is unknown either"
