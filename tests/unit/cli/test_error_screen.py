"""An error on the screen: the sentence first, what was kept, what to do, and the code small at the end."""

from __future__ import annotations

import click
import pytest

from safekept.cli import console
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep


class Example(SafekeptError):
    code = "example-on-a-screen"


def example(what="There is no vault at `/srv/vault`"):
    steps = (NextStep("vault init", before="Make one:"), "If it lies on a drive, see that it is mounted")
    return Example(what, kept="Nothing changed", next_steps=steps)


@pytest.fixture(params=[0, 80, 120])
def columns(request, monkeypatch):
    monkeypatch.setattr(console, "width_beside", lambda: request.param)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return request.param


def test_the_sentence_stands_first_and_the_code_last(columns):
    assert click.unstyle(console.error_text(example())) == (
        "There is no vault at `/srv/vault`\n"
        "\n"
        "  Kept       Nothing changed\n"
        "  Next       Make one: `safekept vault init`\n"
        "             If it lies on a drive, see that it is mounted\n"
        "  Error      example-on-a-screen"
    )


def test_the_sentence_is_strong_the_code_is_faint_and_nothing_is_red(columns):
    text = console.error_text(example())
    assert text.startswith(click.style("There is no vault at `/srv/vault`", bold=True))
    assert text.endswith(click.style("  Error      example-on-a-screen", dim=True))
    assert click.style("x", fg="red").partition("x")[0] not in text


def test_a_list_below_the_sentence_stays_a_list(columns):
    text = click.unstyle(console.error_text(example("Several homes are meant:\none\ntwo")))
    assert text.startswith("Several homes are meant:\n  one\n  two\n\n  Kept ")


def test_no_line_is_longer_than_the_screen(columns):
    text = click.unstyle(console.error_text(example("A long sentence " * 12 + "\n" + "and its list " * 12)))
    lines = text.split("\n")
    assert not columns or max(map(len, lines)) <= columns
    assert lines[0].startswith("A long sentence ") and lines[-1] == "  Error      example-on-a-screen"
    shown = " ".join(text.split("\n\n")[0].split())
    assert shown == " ".join(("A long sentence " * 12 + "and its list " * 12).split()), "no word is lost"


def test_wrong_words_on_the_command_line_look_the_same(columns, capsys):
    console.Console(as_json=False).usage(click.UsageError("No such option: --fast"))
    shown = click.unstyle(capsys.readouterr().err)
    assert shown.startswith(
        "No such option: --fast\n\n  Kept       Nothing changed\n  Next       See `safekept"
    )
    assert shown.endswith("\n  Error      usage\n")
