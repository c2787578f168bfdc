"""No mark between a point and the change that it was taken for: that change would count as the user's own."""

from __future__ import annotations

import threading

from safekept.integrations.marks import change_comes, changes_so_far, marking
from support.commands.waiting import PATIENT, wait_until


def test_a_mark_is_void_when_a_change_came_first():
    change_comes("data", "one")
    asked = changes_so_far("data", "one")
    with marking("data", "one", asked) as wanted:
        assert wanted
    change_comes("data", "one")
    with marking("data", "one", asked) as wanted:
        assert not wanted


def test_sessions_and_places_do_not_concern_each_other():
    asked = changes_so_far("data", "mine")
    change_comes("data", "theirs")
    change_comes("elsewhere", "mine")
    with marking("data", "mine", asked) as wanted:
        assert wanted


def test_a_mark_that_is_being_made_is_finished_before_the_next_change():
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def mark() -> None:
        with marking("data", "slow", changes_so_far("data", "slow")):
            begun.set()
            go_on.wait(PATIENT)
            order.append("mark")

    def change() -> None:
        change_comes("data", "slow")
        order.append("change")

    threads = [threading.Thread(target=mark), threading.Thread(target=change)]
    threads[0].start()
    assert begun.wait(PATIENT)
    threads[1].start()
    wait_until(lambda: changes_so_far("data", "slow"), "the change")
    go_on.set()
    for thread in threads:
        thread.join(PATIENT)
    assert order == ["mark", "change"]


def test_what_is_remembered_has_a_bound():
    from safekept.integrations import marks

    for number in range(3_000):
        change_comes("data", str(number))
    assert len(marks._orders) <= 1_001
