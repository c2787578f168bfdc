"""What nobody waits for is done in order, once, and surely; and never while somebody waits."""

from __future__ import annotations

import threading

import pytest

from safekept.integrations.helper import later
from safekept.integrations.helper.later import LaterWork
from support.commands.waiting import PATIENT


@pytest.fixture
def work(monkeypatch):
    monkeypatch.setattr(later, "_LONGEST_WAIT", PATIENT)
    found = LaterWork()
    yield found
    assert found.end(PATIENT)


def done(work: LaterWork) -> None:
    assert work.end(PATIENT)


def test_it_is_done_in_order_and_one_of_two_alike_is_enough(work):
    did: list[str] = []
    with work.serving():  # nothing begins meanwhile
        for name in ("a", "b", "a", "c"):
            work.add(name, lambda name=name: did.append(name))
    done(work)
    assert did == ["b", "a", "c"], "the later one of two alike counts"


def test_nothing_begins_while_somebody_waits_for_an_answer(work):
    began = threading.Event()
    with work.serving():
        work.add("mark", began.set)
        assert not began.wait(0.05)
        assert work.pending == 1
    assert began.wait(PATIENT)


def test_it_is_not_put_off_for_ever(work, monkeypatch):
    monkeypatch.setattr(later, "_LONGEST_WAIT", 0.01)
    began = threading.Event()
    with work.serving():
        work.add("mark", began.set)
        assert began.wait(PATIENT)


def test_an_exception_of_one_piece_is_not_the_next_ones(work):
    did = threading.Event()

    def fall() -> None:
        raise ValueError("of no concern to others")

    work.add("one", fall)
    work.add("two", did.set)
    assert did.wait(PATIENT)


def test_whoever_comes_after_the_end_or_beyond_the_bound_does_it_himself(work, monkeypatch):
    monkeypatch.setattr(later, "_MOST", 2)
    did: list[str] = []
    with work.serving():
        for name in ("a", "b", "c"):
            work.add(name, lambda name=name: did.append(name))
        assert did == ["c"]
    done(work)
    work.add("d", lambda: did.append("d"))
    assert did == ["c", "a", "b", "d"]


def test_the_end_waits_for_what_is_there(work):
    did: list[int] = []
    with work.serving():
        for number in range(50):
            work.add(number, lambda number=number: did.append(number))
    done(work)
    assert did == list(range(50))
