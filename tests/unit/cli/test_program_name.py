"""A printed command runs as it stands: it begins with a program that the shell finds."""

from __future__ import annotations

import sys

import pytest

from checkpoint_support import put
from holdfast.cli.main import program


@pytest.mark.parametrize("called", ["/opt/tools/bin/holdfast", "venv dir/bin/holdfast"])
def test_an_installed_program_that_no_path_leads_to_is_named_by_its_path(monkeypatch, tmp_path, called):
    monkeypatch.delenv("HOLDFAST_LAUNCHER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [called])
    assert program() == (f"'{called}'" if " " in called else called)
    put(str(tmp_path / "holdfast"), "#!/bin/sh\n", 0o755)
    assert program() == "holdfast"


@pytest.mark.parametrize("called", ["holdfast", "/x/holdfast/__main__.py", "-c", "/usr/bin/pytest"])
def test_whatever_else_it_was_called_by_it_is_holdfast(monkeypatch, tmp_path, called):
    monkeypatch.delenv("HOLDFAST_LAUNCHER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [called])
    assert program() == "holdfast"
