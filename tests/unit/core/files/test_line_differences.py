"""Two texts are compared as `difflib` does it, and no text can make that take for ever."""

from __future__ import annotations

import difflib
import random

import pytest

from safekept.actions.snapshots.contents import patch
from safekept.core.files import line_differences
from safekept.core.files.line_differences import changes, unified


def text(seed, length, words):
    chosen = random.Random(seed)
    return [str(chosen.randrange(words)) for _ in range(length)]


@pytest.mark.parametrize("words", [2, 5, 50, 10_000])
def test_it_says_what_difflib_says(words):
    for seed in range(40):
        old, new = text(seed, seed * 3, words), text(-seed, 3 * abs(20 - seed), words)
        assert changes(old, new) == difflib.SequenceMatcher(None, old, new).get_opcodes()
        expected = difflib.unified_diff(old, new, "a/x", "b/x", lineterm="")
        assert list(unified(old, new, "a/x", "b/x")) == list(expected)
        assert list(unified(old, old, "a/x", "b/x")) == []


def rebuilt(old, new):
    """The new text out of the old one and the changes, which must cover both."""
    found, at = [], 0
    for kind, start, end, new_start, new_end in changes(old, new):
        assert (start, new_start) == (at, len(found)) and (start < end or new_start < new_end)
        found += old[start:end] if kind == "equal" else new[new_start:new_end]
        at = end
    assert at == len(old)
    return found


def test_beyond_its_steps_the_middle_is_another_text(monkeypatch):
    monkeypatch.setattr(line_differences, "_MOST_STEPS", 0)
    for old, new in ((["a", "x", "y", "b"], ["a", "z", "b"]), (["a", "b"], ["a", "x", "b"]), (["a"], ["b"])):
        assert rebuilt(old, new) == new and rebuilt(new, old) == old
    assert changes(["a", "x", "b"], ["a", "z", "b"])[1] == ("replace", 1, 2, 1, 2)
    assert changes(["a", "a"], ["a", "a", "a"]) == [("equal", 0, 2, 0, 2), ("insert", 2, 2, 2, 3)]
    assert rebuilt([], ["a"]) == ["a"] and rebuilt(["a"], []) == [] and rebuilt([], []) == []


def test_a_text_that_is_made_for_it_does_not_take_hours():
    """As many lines as four megabytes can have, none of them so frequent that it is passed over."""
    lines = (random.Random(seed).choices(range(0x100, 0x1F0), k=1_000_000) for seed in (1, 2))
    old, new = ("\n".join(map(chr, one)) for one in lines)
    shown = patch("x", old, new)
    assert shown[-1] == "(cut after 4,000 lines)"
