"""The command line in this process: as a user would call it, without the price of a new interpreter."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from safekept.cli.main import run


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


def spoken(monkeypatch: pytest.MonkeyPatch, user: str) -> Callable[..., Said]:
    """Runs `safekept …` for a user whose home directory this is, standing in it."""
    monkeypatch.setenv("HOME", user)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(user)

    def say(*words: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([os.fspath(word) for word in words])
        return Said(code, out.getvalue(), err.getvalue())

    return say
