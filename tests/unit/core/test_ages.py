"""One ladder of ages: what is older never looks younger, on whichever screen it stands."""

from __future__ import annotations

import os
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as any_

from safekept.cli.words.lists import ago
from safekept.core.ages import ago_text, seconds_text
from support.places import CHECKOUT

NOW = 1_800_000_000.0
UNITS = {"s": 1, "min": 60, "h": 3600, "days": 86_400}
#: What screens say of the same moment: status and its neighbours; the lists of points; ages without `ago`.
SCREENS = {
    "ago_text": lambda age: ago_text(NOW - age, NOW),
    "list": lambda age: ago(round((NOW - age) * 1e9), round(NOW * 1e9)),
    "seconds_text": lambda age: f"{seconds_text(age)} ago",
}
ages = any_.floats(0, 400 * 86_400)


def at_least(text):
    """How old a reader takes it to be, at least; a date is a minute long."""
    if found := re.fullmatch(r"([\d,]+) (s|min|h|days) ago", text):
        return int(found[1].replace(",", "")) * UNITS[found[2]]
    return NOW - time.mktime(time.strptime(text, "%Y-%m-%d %H:%M")) - 60


@given(ages, ages)
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("other", SCREENS)
def test_an_older_thing_never_looks_younger_on_any_screen(screen, other, first, second):
    young, old = sorted((first, second))
    # By less than a second both round to the same; beyond that, the order is that of the things.
    assert at_least(SCREENS[other](young)) <= old + 0.001
    assert at_least(SCREENS[screen](young)) <= at_least(SCREENS[screen](old)) + 0.001


@given(any_.floats(0, 48 * 3600 - 1))
def test_a_list_and_a_screen_say_the_same_age(age):
    assert len({say(age) for say in SCREENS.values()}) == 1


def test_what_a_clock_has_not_reached_is_no_age():
    assert ago_text(NOW + 60, NOW) == "0 s ago", "two clocks differ by a little"
    assert ago_text(NOW + 3600, NOW) == "in the future"
    assert ago(round((NOW + 3600) * 1e9), round(NOW * 1e9)).startswith("20"), "a list shows the date"


def test_there_is_no_second_ladder():
    """A tuple of units is how the second one came in."""
    ladder = re.compile(r'"s"[^\n]*"min"[^\n]*"h"|\{[^}]*/ ?(60|3600|86_?400|DAY)[^}]*\}[^"]* ago')
    found = []
    for directory, _, names in os.walk(os.path.join(CHECKOUT, "src", "safekept")):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    found += [os.path.relpath(path, CHECKOUT)] if ladder.search(file.read()) else []
    assert found == ["src/safekept/core/ages.py"]
