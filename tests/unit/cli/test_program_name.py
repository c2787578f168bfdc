"""A printed command runs as it stands: it begins with a program that the shell finds."""

from __future__ import annotations

import sys

import pytest

from checkpoint_support import put
from safekept.cli.main import program


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
