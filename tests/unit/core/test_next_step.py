"""What to do next is a command and its words: printed so that it runs, and read again where it was noted."""

import shlex

import pytest

from safekept.core.next_step import NextStep, commands_of, next_document, read_step, reworded, step_texts
from safekept.core.spelling import shell_words

CHAIN = NextStep("vault repair", (), "Keep it:", ",", NextStep("snapshot", ("--label", "a b"), "then"))


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (NextStep("status"), "`safekept status`"),
        (NextStep(""), "`safekept`"),
        (NextStep("vault key list", before="See them:"), "See them: `safekept vault key list`"),
        (NextStep("push", ("nas",), "Or", " later"), "Or `safekept push nas` later"),
        (CHAIN, "Keep it: `safekept vault repair`, then `safekept snapshot --label 'a b'`"),
    ],
)
def test_a_step_is_a_sentence_and_is_read_again_from_it(step, text):
    assert step.text() == str(step) == text
    assert read_step(text) == step


@pytest.mark.parametrize("name", ["my notes/a b.md", "it's", "-x", "caf\udce9", "\x1b[31m", "~", "$HOME"])
def test_every_argument_is_one_word_of_a_shell(name):
    line = NextStep("history", (name,)).line("./safekept")
    assert shell_words(line) == ["./safekept", "history", name]
    if name.isprintable():
        assert shlex.split(line)[-1] == name


def test_a_face_says_how_the_program_is_called():
    assert CHAIN.text("'/a b/safekept'").count("`'/a b/safekept' ") == 2
    assert step_texts(["Wait", NextStep("undo")], "./safekept") == ["Wait", "`./safekept undo`"]


def test_programs_get_the_commands_as_words():
    steps = ("Wait", CHAIN)
    commands = [
        {"verb": "vault repair", "arguments": []},
        {"verb": "snapshot", "arguments": ["--label", "a b"]},
    ]
    assert commands_of(steps) == commands
    assert next_document(steps) == {"next": ["Wait", CHAIN], "commands": commands}


def test_every_command_of_a_sentence_can_be_put_in_other_words():
    steps = ("Wait", NextStep("import", ("FILE",), "First", ",", NextStep("import", ("FILE", "-f"), "then")))
    worded = reworded(steps, lambda step: step.filled(FILE="/a b.zip"))
    assert step_texts(worded) == [
        "Wait",
        "First `safekept import '/a b.zip'`, then `safekept import '/a b.zip' -f`",
    ]


@pytest.mark.parametrize(
    "text", ["Wait", "Run `hermes backup`", "a`safekept undo`", "`safekept 'torn`", "safekept"]
)
def test_what_is_no_command_of_ours_stays_a_sentence(text):
    assert read_step(text) == text
