"""Work whose time is over ends in order, wherever it was: the stores are whole and the next run goes on.

The limit is a signal that reaches the main thread at any moment of a real step, as the end of
`schedule.time_limit` does; the process ends soon after, as a run does.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback

import pytest

from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.schedule.run import OutOfTime, time_limit
from safekept.actions.schedule.steps import RunRequest, Work, perform
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.keys.kit_record import acknowledge_kit
from safekept.actions.vault.opening import open_vault
from safekept.archive.sealing.age.keys import AgeIdentity
from safekept.schedule.tasks import Plan, Task
from safekept.vault.care.checking import check
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway

SAMPLE, FULL = 5, 120


def test_a_limit_that_is_not_reached_changes_nothing():
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]
    with time_limit(60.0):
        done = True
    assert done
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]) == before


def test_a_timer_that_ran_before_goes_on_afterwards():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    outer = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with time_limit(60.0):
            time.sleep(0.01)
        while not rung:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *outer)


def test_what_forgives_errors_does_not_forgive_the_end_of_the_time():
    with pytest.raises(OutOfTime), time_limit(0.05):
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.01)


def test_a_limit_that_rings_where_python_drops_what_is_raised_rings_again():
    class Slow:
        def __del__(self) -> None:
            time.sleep(0.3)

    hook, began = sys.unraisablehook, time.monotonic()
    with pytest.raises(OutOfTime), time_limit(0.05):
        Slow()
        time.sleep(30)
    assert time.monotonic() - began < 20 and sys.unraisablehook is hook


def test_a_thread_that_is_not_the_main_one_has_no_limit():
    ended = []

    def work() -> None:
        with time_limit(0.01):
            time.sleep(0.1)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


def storm(tmp_path, kind: str, count: int, seed: int) -> int:
    """Cut one kind of step short again and again, each time let it end well afterwards; how often it was."""
    here = throwaway(
        tmp_path,
        environment={"PATH": os.environ["PATH"]},
        destinations=(DestinationSetting("disk", f"file:{tmp_path}/disk", same_disk=True),),
    )
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    request = RunRequest(seal=(str(AgeIdentity.generate().recipient),))
    subject = "disk" if kind == "push" else home
    with open_vault(here, create=True) as repository:
        write_kit(here, repository, str(tmp_path / "kit.txt"))
        acknowledge_kit(here, repository)
    rng = random.Random(seed)
    cut = 0

    def step(which: str, limit: float = 0.0) -> None:
        with time_limit(limit):
            target = subject if which == kind else home
            perform(Work(here, Plan(), request, time.time()), Task(which, target))

    step("snapshot")
    began = time.monotonic()
    step(kind)
    usual = max(time.monotonic() - began, 0.02)
    for number in range(count):
        with open(os.path.join(home, "memories", "MEMORY.md"), "a", encoding="utf-8") as file:
            file.write(f"- {number} {rng.random()}\n")
        if kind == "push":
            shutil.rmtree(tmp_path / "disk")
            os.mkdir(tmp_path / "disk")
            (tmp_path / "disk" / "safekept-destination").write_text("")
        cut += in_a_child(lambda limit=rng.uniform(0.001, usual): step(kind, limit))
        step(kind)  # nothing that was left behind is in the way
    with open_vault(here) as repository:
        assert check(repository, read_data=1.0).damage == []
    return cut


def in_a_child(work) -> bool:
    """Run it in a process of its own; whether its time was over before it was done."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except OutOfTime:
            code = 3
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 3), code
    return code == 3


@pytest.mark.parametrize("kind", ["snapshot", "archive", "push"])
def test_a_step_that_is_cut_short_leaves_whole_stores(tmp_path, kind):
    storm(tmp_path, kind, SAMPLE, seed=6)


@pytest.mark.soak("schedule")
@pytest.mark.parametrize("kind", ["snapshot", "archive", "push"])
def test_many_steps_that_are_cut_short_leave_whole_stores(tmp_path, kind):
    assert storm(tmp_path, kind, FULL, seed=60) > FULL // 10
