"""One system call fails, any one: exit 0 is never a lie, nothing stored is lost, the next command works.

`strace --inject` fails the call. A seeded sample runs by default; `./test --soak faults -s` runs
thousands and prints which calls were hit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from conftest import missing_part, program
from support.commands.warm_commands import WarmCommands
from support.faults.scenarios import SCENARIOS, Scenario
from support.faults.survey import Survey
from support.keeper.keepers import running_keeper
from support.vault.closed import open_below

SAMPLE, FULL = 4, 420


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmCommands]:
    tried = subprocess.run(
        [program("strace"), "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, text=True
    )
    if tried.returncode:
        missing_part(f"strace may not trace here: {tried.stderr.strip()[-300:]}")
    with WarmCommands() as run:
        yield run


@pytest.fixture
def quick_place(tmp_path: object) -> Iterator[str]:
    """Worlds are made by the thousand, and every sync of theirs would wait for the disk of the machine."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 200 << 20:
        yield str(tmp_path)
        return
    with tempfile.TemporaryDirectory(prefix="safekept-faults-", dir=memory) as place:
        yield place
        open_below(place)


def storm(scenario: Scenario, base: str, warm: WarmCommands, count: int, seed: int) -> None:
    with running_keeper() if scenario.keeper else contextlib.nullcontext() as keeper:
        if keeper is not None:
            keeper.start()
        survey = Survey(scenario, base, warm, seed, keeper)
        for fault in survey.faults[:count]:
            survey.attempt(fault)
    print(survey.account())
    assert not survey.broken, f"{len(survey.broken)} of {count}:\n" + "\n".join(survey.broken[:20])
    # A storm that misses what it aims at proves nothing.
    assert survey.hits["one"] + survey.hits["several"] >= count * 0.5, survey.account()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_failed_call_is_never_called_success_and_the_next_command_works(scenario, quick_place, warm):
    storm(scenario, quick_place, warm, SAMPLE, seed=14)


@pytest.mark.soak("faults")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_hundreds_of_failed_calls_are_never_called_success(scenario, quick_place, warm):
    storm(scenario, quick_place, warm, FULL, seed=15)
