"""One system call fails, any one: exit 0 is never a lie, nothing stored is lost, the next command works.

`strace --inject` fails the call. A seeded sample runs by default; `./test --soak faults -s` runs
thousands and prints which calls were hit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import missing_part, program
from fault_scenarios import SCENARIOS, Scenario
from fault_survey import Survey
from warm_commands import WarmCommands

SAMPLE, FULL = 4, 420


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmCommands]:
    import subprocess

    tried = subprocess.run(
        [program("strace"), "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, text=True
    )
    if tried.returncode:
        missing_part(f"strace may not trace here: {tried.stderr.strip()[-300:]}")
    with WarmCommands() as run:
        yield run


def storm(scenario: Scenario, base: object, warm: WarmCommands, count: int, seed: int) -> None:
    survey = Survey(scenario, str(base), warm, seed)
    for fault in survey.faults[:count]:
        survey.attempt(fault)
    print(survey.account())
    assert not survey.broken, f"{len(survey.broken)} of {count}:\n" + "\n".join(survey.broken[:20])
    # A storm that misses what it aims at proves nothing.
    assert survey.hits["one"] + survey.hits["several"] > count * 0.8, survey.account()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_failed_call_is_never_called_success_and_the_next_command_works(scenario, tmp_path, warm):
    storm(scenario, tmp_path, warm, SAMPLE, seed=14)


@pytest.mark.soak("faults")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_hundreds_of_failed_calls_are_never_called_success(scenario, tmp_path, warm):
    storm(scenario, tmp_path, warm, FULL, seed=15)
