# ruff: noqa: E501
"""Everything that reads what somebody else may have written, with inputs that nobody would write.

A sample for each target in `./test`; `./test --soak hostile` takes an hour for all of them, or as many seconds
as SAFEKEPT_TEST_FUZZ_SECONDS says. Whatever is not an error of ours, takes longer than ten seconds, grows
beyond 300 MB or changes something outside its directory fails, and the input is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import missing_part
from support.archives.seals import keyring
from support.commands.fair_time import communicate
from support.fuzz.targets import TARGETS
from support.places import CHECKOUT

FUZZ_SECONDS = float(os.environ.get("SAFEKEPT_TEST_FUZZ_SECONDS") or 3600)
#: For set-up, for a sample, and for an input that does not let itself be interrupted.
GRACE = 60.0


def fuzzed(target, seed, seconds, place):
    directory = os.path.join(place, "inside")
    os.mkdir(directory)
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}/src:{CHECKOUT}/tests", "HOME": directory}
    if target != "openpgp":
        return run_worker(target, seed, seconds, directory, environment)
    if shutil.which("gpg") is None:
        missing_part("gpg")
    with keyring() as ring:
        return run_worker(target, seed, seconds, directory, {**environment, **ring.environment})


def run_worker(target, seed, seconds, directory, environment):
    command = [
        sys.executable,
        os.path.join(CHECKOUT, "tests", "support", "fuzz", "worker.py"),
        target,
        str(seed),
        str(seconds),
    ]
    kept = os.path.join(directory, "input")
    process = subprocess.Popen(
        [*command, directory],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = communicate(process, b"", seconds + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        pytest.fail(f"{target}: hangs on {keep(target, kept)}")
    said = err.decode(errors="replace")[-3000:]
    assert process.returncode == 0, f"{target}: crashed on {keep(target, kept)}\n{said}"
    found = json.loads(out.splitlines()[-1])
    if "failure" in found:
        pytest.fail(f"{target}, seed {seed}: {found['failure']} on {keep(target, kept)}\n{found['detail']}")
    return found


def keep(target, path):
    """The input that did it, where the test's own directory does not take it along."""
    place = os.path.join(tempfile.gettempdir(), f"safekept-fuzz-{target}")
    shutil.copyfile(path, place)
    return place


#: Targets that answer whatever they are given, so that nothing is refused.
ANSWERING = {
    "hook", "sftp", "s3", "rest", "page", "keeper", "keeper-answers", "hidden", "marks", "vault-documents", "journal",
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_crashes_hangs_grows_or_writes_elsewhere(target, tmp_path):
    """Honest inputs are taken, so it is the real reader that is asked; of the changed ones some are refused."""
    found = fuzzed(target, 1, 0, str(tmp_path))
    assert found["honest"] >= 1 and found["inputs"] >= 10, found
    assert (found["refused"] > 0) == (target not in ANSWERING), found


@pytest.mark.soak("hostile")
@pytest.mark.parametrize("target", TARGETS)
def test_an_hour_of_inputs_crashes_nothing(target, tmp_path):
    seed = int(time.time())
    found = fuzzed(target, seed, FUZZ_SECONDS / len(TARGETS), str(tmp_path))
    print(f"\n{target}: seed {seed}, {found}")
    assert found["refused"] + found["accepted"] == found["inputs"]


def tried(what, place):
    directory = os.path.join(place, "inside")
    os.mkdir(directory)
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}/src:{CHECKOUT}/tests", "HOME": directory}
    script = os.path.join(CHECKOUT, "tests", "support", "fuzz", "trials.py")
    done = subprocess.run(
        [sys.executable, script, what, directory], env=environment, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_the_run_sees_every_way_to_change_something_elsewhere(tmp_path):
    found = tried("ways", str(tmp_path))
    assert len(found["tried"]) >= 18 and found["missed"] == found["wrong"] == []


def test_the_run_sees_a_landing_that_acts_on_a_forged_record(tmp_path):
    """By descriptors of directories, as landing works; what it would have replaced is as it was."""
    found = tried("landing", str(tmp_path))
    assert found["failure"] == "Outside", found
    assert str(tmp_path / "outside") in found["detail"]
