"""JSON edited as text: what is read is what `json` reads, and a change touches nothing but its own place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safekept.integrations.connecting.json_text import (
    NotJson,
    add_item,
    add_member,
    parse,
    remove_item,
    remove_member,
    replace,
)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
mappings = st.dictionaries(st.text(max_size=6), plain, max_size=5)
indents = st.sampled_from([None, 0, 1, 2, 4, "\t"])
tight = st.sampled_from([None, (",", ":")])


def spelled(
    value: object, indent: object, separators: object, newline: str = "\n", ascii_only: bool = True
) -> str:
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii_only)
    return text.replace("\n", newline)


@given(plain, indents, tight, st.booleans())
def test_what_is_read_is_what_json_reads(value, indent, separators, ascii_only):
    text = spelled(value, indent, separators, ascii_only=ascii_only)
    assert parse(text).plain() == json.loads(text)
    assert parse(f" \r\n\t{text}\n\n").plain() == json.loads(text)


@given(mappings, indents, tight, st.sampled_from(["\n", "\r\n"]), plain)
def test_a_member_added_and_removed_leaves_the_text_as_it_was(value, indent, separators, newline, more):
    value.pop("new", None)
    text = spelled(value, indent, separators, newline)
    longer = add_member(text, parse(text), "new", more)
    assert parse(longer).plain() == {**value, "new": more} == json.loads(longer)
    back = remove_member(longer, parse(longer), len(value))
    assert back == text


@given(st.lists(plain, max_size=4), indents, tight, plain)
def test_an_item_added_and_removed_leaves_the_text_as_it_was(items, indent, separators, more):
    text = spelled({"list": items, "after": 1}, indent, separators)
    longer = add_item(text, parse(text).find("list"), more)
    assert json.loads(longer) == {"list": [*items, more], "after": 1}
    assert remove_item(longer, parse(longer).find("list"), len(items)) == text


@given(st.lists(plain, min_size=1, max_size=4), st.data(), plain, indents)
def test_a_change_of_one_item_leaves_every_other_byte(items, data, more, indent):
    number = data.draw(st.integers(0, len(items) - 1))
    text = spelled({"list": items}, indent, None)
    node = parse(text).find("list").items[number]
    changed = replace(text, node, more)
    assert changed.startswith(text[: node.start]) and changed.endswith(text[node.end :])
    assert json.loads(changed)["list"] == [*items[:number], more, *items[number + 1 :]]
    left = remove_item(text, parse(text).find("list"), number)
    assert json.loads(left)["list"] == items[:number] + items[number + 1 :]


@given(st.text(alphabet='{}[]",:truefalsn0123-.eE\\u/ \n*#', max_size=30))
def test_whatever_json_refuses_is_refused_and_nothing_else(text):
    try:
        wanted = json.loads(text)
    except ValueError:
        with pytest.raises(NotJson):
            parse(text)
    else:
        if "Infinity" not in text and "NaN" not in text:
            assert parse(text).plain() == wanted


def test_spellings_of_others_survive():
    text = '{\n\t"n": 1.50e+03, "dup": 1,\n\t"dup": 2,\n\t"s": "\\u00e9\\/",   "list": [ 1,2 ]\n}'
    longer = add_member(text, parse(text), "ours", {"a": [1]})
    assert longer == text[:-2] + ',\n\t"ours": {"a": [1]}\n}'
    assert remove_member(longer, parse(longer), 5) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, // mine\n "b": 2}', "line 1: there is a comment"),
        ('{\n  /* mine */ "a": 1}', "line 2: there is a comment"),
        ('{"a": 1,}', "line 1: a name in quotes is missing"),
        ('{"a": [1,]}', "line 1: a value is missing"),
        ('{"a": NaN}', "line 1: a value is missing"),
        ('{"a": "x\ny"}', "line 1: a string is not closed or has a bad escape"),
        ('{"a"', "it ends too early"),
        ("{} {}", "line 1: there is more after the end"),
        ("[" * 300 + "]" * 300, "line 1: nested too deeply"),
        ("", "it ends too early"),
    ],
)
def test_the_reason_says_where(text, why):
    with pytest.raises(NotJson) as caught:
        parse(text)
    assert str(caught.value) == why
