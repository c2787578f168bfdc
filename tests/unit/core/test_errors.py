"""An error cannot be raised without saying what was kept safe and what to do next."""

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep


class Example(SafekeptError):
    code = "example-for-tests"


@pytest.mark.parametrize("missing", ["kept", "next_steps"])
def test_an_error_without_its_answers_cannot_be_made(missing):
    answers = {"kept": "all of it", "next_steps": ("go on",)}
    del answers[missing]
    with pytest.raises(TypeError, match=missing):
        Example("something", **answers)


def test_an_error_class_without_a_code_or_with_a_taken_one_cannot_be_made():
    with pytest.raises(TypeError, match="needs a code"):
        type("Nameless", (SafekeptError,), {})
    with pytest.raises(TypeError, match="share the code example-for-tests"):
        type("Twin", (SafekeptError,), {"code": "example-for-tests"})


def test_the_same_facts_reach_every_face():
    error = Example(
        "it broke",
        kept="all of it",
        next_steps=("Look", NextStep("undo", ("a b",), "Back:")),
        paths={"b"},
        size=3,
    )
    assert error.as_dict() == {
        "code": "example-for-tests",
        "what": "it broke",
        "kept": "all of it",
        "next": ["Look", "Back: `safekept undo 'a b'`"],
        "commands": [{"verb": "undo", "arguments": ["a b"]}],
        "retry": False,
        "facts": {"paths": ["b"], "size": 3},
    }
    assert error.as_dict("./safekept")["next"] == ["Look", "Back: `./safekept undo 'a b'`"]
