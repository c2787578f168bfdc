"""The interpreter of Hermes is found behind whatever the shell finds under its name, also our own script."""

from __future__ import annotations

import os

import pytest

from safekept.actions.drill.checks.interpreter import find_python, is_there
from safekept.integrations.hermes.update_wrapper import guard_updates
from support.users.contexts import throwaway


def executable(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def here(tmp_path):
    """A user whose `~/bin` comes first on the PATH, and Hermes installed elsewhere."""
    context = throwaway(tmp_path)
    bin_ = os.path.join(context.places.user_home, "bin")
    os.makedirs(bin_)
    return context.changed(environment={"PATH": f"{bin_}:/usr/bin:/bin"})


@pytest.fixture
def installed(tmp_path):
    """Hermes in a virtual environment of its own; its interpreter."""
    python = executable(tmp_path / "opt" / "venv" / "bin" / "python")
    executable(tmp_path / "opt" / "venv" / "bin" / "hermes", f"#!{python}\nimport hermes_cli\n")
    return python


def found(here):
    return find_python("", "hermes-agent", here.caller.environment)


@pytest.mark.parametrize("kind", ["link", "script", "copy"])
def test_the_agent_is_found_before_and_behind_the_script_that_guards_updates(here, installed, tmp_path, kind):
    launcher = os.path.join(os.path.dirname(installed), "hermes")
    own = os.path.join(here.places.user_home, "bin", "hermes")
    if kind == "link":
        os.symlink(launcher, own)
    elif kind == "script":
        executable(type(tmp_path)(own), f'#!/bin/bash\nexport X=1\nexec "{launcher}" "$@"\n')
    else:
        with open(launcher) as file:
            executable(type(tmp_path)(own), file.read())
    assert found(here) == installed
    guard_updates(here, ("/usr/bin/safekept",))
    with open(own) as file:
        assert "Written by safekept" in file.read()
    assert found(here) == installed
    assert is_there("", "hermes-agent", here.caller.environment)


def test_scripts_that_start_each_other_are_no_agent_and_no_end_of_the_search(here, tmp_path):
    own = os.path.join(here.places.user_home, "bin", "hermes")
    executable(type(tmp_path)(own), f'#!/bin/sh\nexec {own} "$@"\n')
    assert found(here) == ""


@pytest.mark.parametrize("line", ['exec \'unclosed "$@"', 'exec "$@"', "exec", 'exec relative "$@"'])
def test_a_line_that_names_no_program_is_passed_over(here, tmp_path, line):
    own = os.path.join(here.places.user_home, "bin", "hermes")
    executable(type(tmp_path)(own), f"#!/bin/sh\n{line}\n")
    assert found(here) == ""
