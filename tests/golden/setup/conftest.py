"""What the tests of `setup` stand on: a cron that runs, and a user of two agents who is new here."""

from __future__ import annotations

import pytest

from support.users.first_hour import running_cron, two_agents


@pytest.fixture(scope="module", autouse=True)
def cron(tmp_path_factory):
    with running_cron(tmp_path_factory.mktemp("cron")):
        yield


@pytest.fixture
def new(tmp_path):
    return two_agents(tmp_path)
