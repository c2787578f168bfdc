"""The command line in this process: as a user would call it, without the price of a new interpreter."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from safekept.cli.main import run


def run_here(
    *words: str, environment: Mapping[str, str], directory: object = None
) -> subprocess.CompletedProcess[str]:
    """`safekept …` in this environment and directory, with no input, as a process would answer."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in "ab")
    before, here, said = dict(os.environ), os.getcwd(), sys.argv
    with open(os.devnull, encoding="utf-8") as nothing:
        stdin, sys.stdin = sys.stdin, nothing
        try:
            _surround(environment)
            os.chdir(os.fspath(directory) if directory is not None else here)  # type: ignore[call-overload]
            sys.argv = ["safekept", *words]
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run([os.fspath(word) for word in words])
        finally:
            sys.stdin, sys.argv = stdin, said
            os.chdir(here)
            _surround(before)
    texts = [stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in (out, err)]
    return subprocess.CompletedProcess(["safekept", *words], code, *texts)


def _surround(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


class Screen(io.StringIO):
    """What a terminal shows."""

    def isatty(self) -> bool:
        return True


def spoken(
    monkeypatch: pytest.MonkeyPatch, user: str, columns: int = 0, rows: int = 0
) -> Callable[..., Said]:
    """Runs `safekept …` for a user whose home directory this is, standing in it; with `columns` and `rows`
    the answer goes to a terminal of that size, else to a pipe."""
    monkeypatch.setenv("HOME", user)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(user)
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(rows))

    def say(*words: str) -> Said:
        out, err = Screen() if columns else io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([os.fspath(word) for word in words])
        return Said(code, out.getvalue(), err.getvalue())

    return say
