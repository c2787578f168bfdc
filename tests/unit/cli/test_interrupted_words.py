"""Whoever presses Ctrl-C is told what is true of that very command."""

from __future__ import annotations

import io
import sys

import click
import pytest

from safekept.cli.console import Console
from safekept.cli.groups import LazyGroup
from safekept.cli.interrupted import STANDS, Interrupted, tell_interrupted
from safekept.cli.main import cli
from support.commands.in_process import run_here


def commands(group, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_command_says_what_stands_when_it_is_interrupted():
    assert set(STANDS) == set(commands(cli))


@pytest.mark.parametrize(
    ("words", "called", "said"),
    [
        (("push", "usb"), "push", "Interrupted; what arrived there stays, and the next push goes on"),
        (("pull", "usb"), "pull", "Interrupted; what was fetched stays, and counts only once all of it is"),
        (("vault", "key", "list"), "vault key list", "Interrupted; nothing was changed"),
        (("--check",), "status", "Interrupted; nothing was changed"),
        (("snapshot", "--quick"), "snapshot create", "the next snapshot uses what was stored by then"),
    ],
)
def test_the_words_are_those_of_the_command_that_ran(tmp_path, monkeypatch, words, called, said):
    def cut(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("safekept.settings.loading.load_settings", cut)
    monkeypatch.setattr("safekept.cli.options.load_settings", cut)
    ended = run_here(*words, environment={"HOME": str(tmp_path)}, directory=str(tmp_path))
    assert ended.returncode == 130 and LazyGroup.called == called
    assert said in ended.stderr and "Traceback" not in ended.stderr, ended.stderr


@pytest.mark.parametrize(("terminal", "start"), [("xterm", "\r\x1b[K"), ("dumb", "")])
def test_what_a_terminal_shows_for_ctrl_c_does_not_stand_before_the_words(monkeypatch, terminal, start):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    tell_interrupted(Console(as_json=False), Interrupted.when("Nothing was changed"))
    assert screen.getvalue() == f"{start}Interrupted; nothing was changed\n"
