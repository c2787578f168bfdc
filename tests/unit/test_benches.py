"""The benchmarks' own promises: what they report is what was measured, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from report.measure import measured
from report.promises import PROMISES, held
from support.places import CHECKOUT

BENCHMARKS = os.path.join(CHECKOUT, "benchmarks")

#: Holds 200 MB itself, then measures a command that holds next to nothing, and one that holds 60 MB.
LARGE = """
import sys
from report.measure import measured
mine = bytearray(200_000_000)
settings = {"PATH": "/usr/bin:/bin"}
small = measured(["sleep", "0.3"], settings).peak_bytes
keeper = "import time; kept = bytearray(60_000_000); time.sleep(0.3)"
large = measured([sys.executable, "-c", keeper], settings).peak_bytes
print(small, large)
"""


def test_a_command_is_not_charged_with_the_memory_of_the_benchmark():
    settings = {**os.environ, "PYTHONPATH": BENCHMARKS}
    done = subprocess.run([sys.executable, "-c", LARGE], env=settings, capture_output=True, text=True)
    small, large = map(int, done.stdout.split())
    assert 0 < small < 30_000_000, done.stdout
    assert 60_000_000 < large < 160_000_000, done.stdout


def test_the_memory_of_what_a_command_starts_is_counted():
    keeper = "kept = bytearray(40_000_000); import time; time.sleep(0.3)"
    script = f"{sys.executable} -c '{keeper}' & {sys.executable} -c '{keeper}'; wait"
    assert measured(["sh", "-c", script], {"PATH": os.environ["PATH"]}).peak_bytes > 60_000_000


def test_a_promise_of_one_case_comes_before_that_of_all():
    all_of_them = held("checkpoints", "one changed: times faster than Hermes", 6, of="40,000 files")
    assert not all_of_them.passed and all_of_them.target == 8
    assert held("checkpoints", "one changed: times faster than Hermes", 6, of="1,000 files").passed
    with pytest.raises(KeyError):
        held("vault", "a promise that nobody made", 1)


def test_every_benchmark_with_promises_is_there_and_run_by_all():
    from bench_all import QUICK

    assert set(PROMISES) == set(QUICK)
    for name in QUICK:
        assert os.path.exists(os.path.join(BENCHMARKS, f"bench_{name}.py")), name
