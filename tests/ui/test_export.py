"""One file to send: everything in it, nothing loaded, nothing of anybody else's replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from support.ui.months import month
from support.ui.served import SOURCE


def export(user: str, file: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": user,
        "HERMES_HOME": os.path.join(user, ".hermes"),
        "PYTHONPATH": os.path.abspath(SOURCE),
    }
    words = [sys.executable, "-m", "safekept", "ui", "--export", file]
    return subprocess.run(words, env=environment, cwd=user, capture_output=True, text=True)


def test_today_and_proof_are_one_file_that_loads_nothing(tmp_path):
    state = month(tmp_path)
    file = os.path.join(state.user, "page.html")
    done = export(state.user, file)
    assert done.returncode == 0 and "Written:" in done.stdout, done.stderr
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    assert "Protected if the machine is lost" in text and "Restores that were tried" in text
    assert "<script" not in text and "<form" not in text and "<a " not in text
    assert re.findall(r"(?:src|href)=|url\(|@import", text) == []
    assert len(text) < 300_000
    assert export(state.user, file).returncode == 0, "its own is replaced"
    other = os.path.join(state.user, "mine.html")
    with open(other, "w", encoding="utf-8") as opened:
        opened.write("<p>mine")
    refused = export(state.user, other)
    assert refused.returncode == 1 and "It was not touched" in refused.stderr
    with open(other, encoding="utf-8") as opened:
        assert opened.read() == "<p>mine"
    nowhere = export(state.user, os.path.join(state.user, "none", "page.html"))
    assert nowhere.returncode == 1 and "Nothing was written" in nowhere.stderr
