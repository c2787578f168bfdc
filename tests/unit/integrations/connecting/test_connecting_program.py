"""The command that is written: the whole path of what was called, by the name that stays."""

from __future__ import annotations

import os
import sys

import pytest

from safekept.integrations.connecting.program import (
    NoLastingProgram,
    Program,
    calls_us,
    runs,
    split_line,
    this_program,
)
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.hosts.connected import program_in
from support.users.contexts import throwaway


def test_a_launcher_is_named_in_full_wherever_it_was_called_from(tmp_path):
    program = program_in(tmp_path, "check out")
    here = os.path.dirname(program.words[0])
    assert this_program({"SAFEKEPT_LAUNCHER": "./safekept"}, here) == program
    assert this_program({"SAFEKEPT_LAUNCHER": "../check out/safekept"}, here) == program
    assert this_program({"SAFEKEPT_LAUNCHER": program.words[0]}, "/") == program
    assert this_program({"SAFEKEPT_LAUNCHER": "safekept", "PATH": here}, "/") == program


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_is_kept_since_it_stays_when_its_target_moves(tmp_path):
    program = program_in(tmp_path)
    link = str(tmp_path / "safekept")
    os.symlink(program.words[0], link)
    assert this_program({"SAFEKEPT_LAUNCHER": link}, "/").words == (link,)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_an_installed_program_is_named_as_it_is_on_the_path(tmp_path, monkeypatch):
    installed = program_in(tmp_path, "environment/bin").words[0]
    monkeypatch.setattr(sys, "argv", [installed])
    assert this_program({"PATH": ""}, "/").words == (installed,)
    os.mkdir(tmp_path / "local")
    os.symlink(installed, tmp_path / "local" / "safekept")
    assert this_program({"PATH": str(tmp_path / "local")}, "/").words == (
        str(tmp_path / "local" / "safekept"),
    )
    other = program_in(tmp_path, "another")
    assert this_program({"PATH": os.path.dirname(other.words[0])}, "/").words == (installed,)


def test_a_launcher_that_is_not_there_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-m"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = this_program({"SAFEKEPT_LAUNCHER": str(tmp_path / "gone"), "PATH": ""}, "/")
    assert found.words == (str(tmp_path / "python"), "-I", "-m", "safekept")


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_path_that_is_not_text_is_refused(tmp_path):
    directory = os.path.join(str(tmp_path), os.fsdecode(b"\xff"))
    program = program_in(directory)
    with pytest.raises(NoLastingProgram) as caught:
        this_program({"SAFEKEPT_LAUNCHER": program.words[0]}, "/")
    assert "\\xff" in caught.value.what and caught.value.kept == "Nothing was changed"


@pytest.mark.parametrize(
    ("path", "passing"),
    [
        ("/home/u/.cache/uv/archive-v0/Xy/bin/safekept", True),
        ("/home/u/.cache/uv/environments-v2/safekept-1/bin/safekept", True),
        ("/home/u/.local/pipx/.cache/a1/bin/safekept", True),
        ("/home/u/.local/bin/safekept", False),
        ("/home/u/.local/share/uv/tools/safekept/bin/safekept", False),
    ],
)
def test_a_program_in_a_cache_is_known_to_pass(path, passing):
    assert Program((path,)).passing is passing


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("/a/safekept hook codex", True),
        ("'/a b/safekept' hook codex", True),
        ("/usr/bin/python3 -I -m safekept hook codex", True),
        ("safekept hook codex", True),
        ("safekept hook gemini", False),
        ("/a/safekept-wrapper hook codex", False),
        ("safekept status", False),
        ("echo safekept hook codex && rm x", False),
        ("safekept hook codex --more", False),
        ("safekept hook codex || exit 1", True),
        ("safekept hook codex || exit 0", True),
        ("safekept hook codex || exit 2", False),
        ("safekept hook codex && exit 1", False),
        ("|| exit 1", False),
        ("'unclosed hook codex", False),
        ("", False),
    ],
)
def test_an_entry_is_ours_by_its_command(line, ours):
    assert calls_us(split_line(line), "codex") is ours


def test_what_is_not_a_line_is_nobodys_command():
    for value in (None, 3, ["safekept"], {}):
        assert split_line(value) == ()


@pytest.mark.needs("modes", "it looks at modes")
def test_a_program_runs_only_where_it_is_and_may(tmp_path):
    program = program_in(tmp_path)
    assert runs(program.hook("codex")) and not runs(())
    os.chmod(program.words[0], 0o644)
    assert not runs(program.words)


def test_who_sets_up_from_a_cache_that_is_cleared_is_told_so(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    say = spoken(monkeypatch, here.places.user_home)
    (program,) = program_in(tmp_path, "archive-v0/x/bin").words
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", program)
    told = "This safekept lies in a cache that is cleared from time to time"
    said = say("setup", "--dry-run")
    assert said.code == 0 and f"Note: {told}" in said.err
    said = say("schedule", "install", "--host", "cron", "--dry-run")
    assert said.code == 0 and told in said.out
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", program_in(tmp_path, "bin").words[0])
    assert told not in say("setup", "--dry-run").err
