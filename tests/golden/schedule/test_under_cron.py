"""Under cron's own PATH, a night finds the agent where the person who set it up had it."""

from __future__ import annotations

import os
import subprocess

import pytest

from support.users.first_hour import Newcomer, running_cron

CRONS_PATH = "/usr/bin:/bin"


@pytest.fixture(scope="module", autouse=True)
def cron(tmp_path_factory):
    with running_cron(tmp_path_factory.mktemp("cron")):
        yield


def executable(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def test_the_agent_of_an_unusual_place_is_found_by_what_cron_starts(tmp_path):
    machine = Newcomer(tmp_path, profiles=())
    unusual = os.path.join(machine.user, "apps", "agent tools", "bin")
    hermes = executable(os.path.join(unusual, "hermes"), "#!/bin/sh\n")
    seen = os.path.join(machine.place, "seen")
    executable(os.path.join(machine.programs, "safekept"), f"#!/bin/sh\ncommand -v hermes > {seen}\n")
    path = f"{machine.programs}:{unusual}:{CRONS_PATH}"
    assert machine.run("schedule", "install", "--host", "cron", "--yes", PATH=path).returncode == 0
    started = [line for line in machine.crontab().splitlines() if not line.startswith("#")]
    assert len(started) == 2
    for line in started:
        command = line.split(" ", 5)[5].replace("\\%", "%")
        subprocess.run(["/bin/sh", "-c", command], env={"PATH": CRONS_PATH}, check=True)
        with open(seen, encoding="utf-8") as file:
            assert file.read().strip() == hermes
        os.unlink(seen)
