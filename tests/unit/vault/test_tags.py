"""What tags say, and that what cannot be understood is read in the way that keeps more."""

from __future__ import annotations

import dataclasses

import pytest

from safekept.vault import tags
from safekept.vault.errors import AmbiguousSnapshot, NoSuchSnapshot
from safekept.vault.format.go_text import parse_time
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.snapshots import one_of_each, pick, public_id, shown

DAY = 86400 * 10**9


def at(text):
    return parse_time(text)[0]


def snapshot(*words, id="", original="", time_ns=1, tree=b"t" * 32):
    return Snapshot(time_ns, tree, ("/h",), tags=words, id=id, original=original)


def test_the_words_of_a_snapshot_are_read_from_its_tags():
    one = snapshot("kind:pre-update", "label:a%2Cb 100%25", "layout:hermes", "state:sound", "incomplete")
    assert tags.kind_of(one) == "pre-update"
    assert tags.label_of(one) == "a,b 100%"
    assert tags.layout_of(one) == "hermes"
    assert tags.state_of(one) == "sound"
    assert tags.is_incomplete(one)
    assert not tags.is_incomplete(snapshot("kind:quick"))


@pytest.mark.parametrize("words", [(), ("nightly",), ("kind:",), ("kind:Not A Kind",), ("kindred",)])
def test_what_restic_made_is_of_the_kind_other(words):
    assert tags.kind_of(snapshot(*words)) == "other"
    assert tags.label_of(snapshot(*words)) == ""


@pytest.mark.parametrize("label", ["before the update", "a,b,%2C", "100 %", "%", "ünï 😀", "a:b", ""])
def test_a_label_comes_back_as_it_was_and_never_holds_a_comma(label):
    tag = tags.label_tag(label)
    assert "," not in tag
    assert tags.label_of(snapshot(tag)) == label


def test_a_label_with_control_characters_cannot_break_a_list():
    assert tags.label_of(snapshot(tags.label_tag("a\nb\x1b[31m"))) == "a b [31m"
    assert tags.label_of(snapshot(tags.label_tag("lone \udcff"))) == "lone ?"


def test_a_pin_holds_until_its_day_is_over_everywhere():
    one = snapshot("pin:2026-11-15")
    assert tags.pinned_until(one) == "2026-11-15"
    assert tags.is_pinned(one, at("2026-11-15T23:59:59Z"))
    assert tags.is_pinned(one, at("2026-11-16T11:59:59Z"))  # still the 15th west of the date line
    assert not tags.is_pinned(one, at("2026-11-16T12:00:00Z"))
    assert tags.is_pinned(snapshot("pin"), at("2999-01-01T00:00:00Z"))
    assert tags.pinned_until(snapshot("pinned", "spin")) is None


def test_of_two_pins_the_longer_one_counts():
    late = at("2030-01-01T00:00:00Z")
    assert tags.is_pinned(snapshot("pin:2026-11-15", "pin:2031-01-01"), late)
    assert tags.is_pinned(snapshot("pin:2026-11-15", "pin"), late)


def test_a_pin_that_cannot_be_understood_keeps_for_ever():
    assert tags.is_pinned(snapshot("pin:soon"), at("2999-01-01T00:00:00Z"))
    with pytest.raises(ValueError, match="not a day"):
        tags.pin_tag("soon")


def test_a_time_of_forgetting_comes_back_and_a_broken_one_forgets_nothing():
    now = at("2026-11-15T09:30:01Z")
    assert tags.moment_text(now + 5) == "2026-11-15T09:30:01Z"
    assert tags.forgotten_at(snapshot("pin", "forgotten:2026-11-15T09:30:01Z")) == now
    assert tags.forgotten_at(snapshot("forgotten:yesterday")) is None
    assert tags.forgotten_at(snapshot("forgotten")) is None


def test_a_mark_takes_the_place_of_the_tags_of_its_name_and_of_no_others():
    one = dataclasses.replace(
        snapshot("pin:2026-11-15", "proven:2026-11-15T09:30:01Z", "pinned"), marks={"pin": "2027-01-01"}
    )
    assert tags.pinned_until(one) == "2027-01-01"
    assert tags.proven_at(one) == at("2026-11-15T09:30:01Z")
    assert tags.pinned_until(dataclasses.replace(one, marks={"pin": None})) is None


# Finding one by what a person says


def test_the_public_id_stays_when_tags_are_rewritten():
    assert public_id(snapshot(id="a" * 64)) == "a" * 64
    assert public_id(snapshot(id="b" * 64, original="a" * 64)) == "a" * 64
    assert snapshot(id="b" * 64, original="a" * 64).short_id == "aaaaaaaa"


def test_a_snapshot_is_found_by_the_start_of_either_id_by_number_and_as_latest():
    old = snapshot(id="1a" * 32, original="c3" * 32, time_ns=1)
    new = snapshot(id="2b" * 32, time_ns=2)
    gone = snapshot("forgotten:2026-11-15T09:30:01Z", id="3c" * 32, time_ns=3)
    every, numbered = [old, new, gone], shown([old, new, gone])
    assert numbered == [new, old]
    assert pick(every, "1a1a") is old
    assert pick(every, "c3c3") is old
    assert pick(every, "latest") is new
    assert pick(every, "1", numbered=numbered) is new
    assert pick(every, "2", numbered=numbered) is old
    with pytest.raises(NoSuchSnapshot):
        pick(every, "2")  # a bare number is never taken for the start of an id
    assert pick(every, "2b") is new
    assert pick(every, "3c", forgotten=True) is gone


def test_a_forgotten_one_is_not_found_and_the_error_says_how_to_get_it_back():
    gone = snapshot("forgotten:2026-11-15T09:30:01Z", id="3c" * 32)
    with pytest.raises(NoSuchSnapshot, match="Snapshot 3c3c3c3c was forgotten") as caught:
        pick([gone], "3c3c")
    assert caught.value.advice() == ("Bring it back: `safekept snapshot forget --undo 3c3c3c3c`",)
    with pytest.raises(NoSuchSnapshot, match="no snapshots yet"):
        pick([gone], "latest")


def test_a_number_beyond_the_list_is_said_to_be_so():
    one = snapshot(id="a1" * 32)
    with pytest.raises(NoSuchSnapshot, match="no snapshot number 7; the oldest is number 1"):
        pick([one], "7", numbered=[one])
    assert pick([one], "a1", numbered=[one]) is one


def test_an_ambiguous_start_names_the_candidates():
    first, second = "ab" * 4 + "00" * 28, "ab" * 4 + "11" * 28
    with pytest.raises(AmbiguousSnapshot, match="2 snapshots start with `ab`") as caught:
        pick([snapshot(id=first, time_ns=1), snapshot(id=second, time_ns=2)], "ab")
    assert [step.split("`")[1] for step in caught.value.advice()] == [second[:10], first[:10]]
    assert caught.value.facts["candidates"] == [second, first]


# Two files of one snapshot


def test_two_files_of_one_snapshot_are_shown_once_and_the_one_that_keeps_more():
    first = snapshot("kind:quick", id="a" * 64)
    hidden = dataclasses.replace(
        first, tags=("forgotten:2026-11-15T09:30:01Z",), id="b" * 64, original="a" * 64
    )
    pinned = dataclasses.replace(first, tags=("pin",), id="c" * 64, original="a" * 64)
    for files in ([first, hidden], [hidden, first]):
        assert one_of_each(files) == ([first], [hidden])
    assert one_of_each([first, pinned]) == ([pinned], [first])
    assert one_of_each([hidden, pinned]) == ([pinned], [hidden])


def test_what_restic_rewrote_beside_the_original_is_a_snapshot_of_its_own():
    first = snapshot(id="a" * 64)
    rewritten = snapshot(id="b" * 64, original="a" * 64, tree=b"u" * 32)
    found, left = one_of_each([rewritten, first])
    assert left == []
    assert [public_id(item) for item in found] == ["a" * 64, "b" * 64]
    assert pick(found, "aa").id == "a" * 64
    assert pick(found, "bb").id == "b" * 64
