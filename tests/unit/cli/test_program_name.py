"""A printed command runs as it stands: it begins with a program that the shell finds."""

from __future__ import annotations

import re
import sys

import pytest

from safekept.cli.main import program
from support.commands.in_process import spoken
from support.projects.checkpoints import put


@pytest.mark.parametrize("called", ["/opt/tools/bin/safekept", "venv dir/bin/safekept"])
def test_an_installed_program_that_no_path_leads_to_is_named_by_its_path(monkeypatch, tmp_path, called):
    monkeypatch.delenv("SAFEKEPT_LAUNCHER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [called])
    assert program() == (f"'{called}'" if " " in called else called)
    put(str(tmp_path / "safekept"), "#!/bin/sh\n", 0o755)
    assert program() == "safekept"


@pytest.mark.parametrize("called", ["safekept", "/x/safekept/__main__.py", "-c", "/usr/bin/pytest"])
def test_whatever_else_it_was_called_by_it_is_safekept(monkeypatch, tmp_path, called):
    monkeypatch.delenv("SAFEKEPT_LAUNCHER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [called])
    assert program() == "safekept"


@pytest.mark.parametrize("command", ["status", "doctor", "craete"])
def test_every_command_on_a_screen_and_in_a_document_begins_with_the_launcher(monkeypatch, tmp_path, command):
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", "/opt/a checkout/safekept")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    say = spoken(monkeypatch, str(tmp_path))
    for words in ([command], [command, "--json"]):
        said = say(*words)
        printed = re.findall(r"`([^`\n]*safekept[^`\n]*)`", said.out + said.err)
        assert printed or "--json" in words
        assert all(one.startswith("'/opt/a checkout/safekept'") for one in printed), printed
