"""A fresh checkout sets itself up: once, whole, quietly, wherever it stands and however it is called."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from support.places import CHECKOUT

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what a clone holds, in a directory with a blank in its name."""
    place = str(tmp_path_factory.mktemp("fresh clone") / "safe kept")
    locks = ("requirements.lock", "requirements-mcp.lock", "requirements-ui.lock")
    wanted = ("safekept", "workshop", "src", *locks)
    os.mkdir(place)
    for name in wanted:
        source, target = os.path.join(CHECKOUT, name), os.path.join(place, name)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, ignore=ignore) if os.path.isdir(source) else shutil.copy2(
            source, target
        )
    return place


def call(
    checkout: str, *words: str, program: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program or os.path.join(checkout, "safekept"), *words],
        env={**os.environ, **environment},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_killed_set_up_is_made_anew_and_two_at_once_wait_for_each_other(checkout):
    stamp = os.path.join(checkout, ".venv", "safekept.lock")
    first = subprocess.Popen(
        [os.path.join(checkout, "safekept"), "--version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 600
    while not os.path.exists(os.path.join(checkout, ".venv", "bin", "pip")):
        assert time.monotonic() < deadline, "the set-up does not start"
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not os.path.exists(stamp), "the set-up was over before it could be killed"

    together = [
        subprocess.Popen(
            [os.path.join(checkout, "safekept"), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    results = [process.communicate(timeout=600) for process in together]
    assert [process.returncode for process in together] == [0, 0], results
    assert all(re.match(r"safekept \d+\.\d+", output) for output, _ in results)
    assert sorted(said.count("setting up") for _, said in results) == [0, 1], "one set-up, one wait"


def test_a_later_call_is_quiet_and_sets_nothing_up(checkout):
    call(checkout, "--version")

    def facts():
        found = {}
        for directory, _, names in os.walk(checkout):
            for name in names:
                path = os.path.join(directory, name)
                found[path] = os.lstat(path).st_mtime_ns
        return found

    before = facts()
    result = call(checkout, "--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert facts() == before


def test_it_works_through_links_and_beside_misleading_variables(checkout, tmp_path):
    link = tmp_path / "first link"
    link.symlink_to(os.path.join(checkout, "safekept"))
    relative = tmp_path / "second link"
    relative.symlink_to("first link")
    (tmp_path / "click.py").write_text("raise SystemExit('a stranger was imported')\n")
    result = call(
        checkout, "--version", program=str(relative), PYTHONPATH=str(tmp_path), PYTHONHOME="/nowhere"
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_it_still_works_after_the_checkout_was_moved(checkout):
    moved = checkout + " moved"
    os.rename(checkout, moved)
    try:
        result = call(moved, "--version")
        assert (result.returncode, result.stderr) == (0, "")
    finally:
        os.rename(moved, checkout)


def test_it_runs_with_nothing_but_what_the_lock_names(checkout):
    listed = subprocess.run(
        [os.path.join(checkout, ".venv", "bin", "python"), "-I", "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    with open(os.path.join(checkout, "requirements.lock"), encoding="utf-8") as file:
        locked = {line.split()[0].lower().replace("_", "-") for line in file if "==" in line}
    installed = {line.lower().replace("_", "-").replace("ruamel.", "ruamel-") for line in listed}
    assert {line for line in installed - locked if not line.startswith(("pip==", "setuptools=="))} == set()


def test_without_a_new_enough_python_it_says_what_to_install(checkout, tmp_path):
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    for name in ("sh", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    with open(os.path.join(checkout, "workshop", "prepare"), encoding="utf-8") as file:
        script = file.read()
    (tmp_path / "prepare").write_text(script.replace("/usr/bin/python3 /usr/local/bin/python3", ""))
    result = subprocess.run(
        ["/bin/sh", str(tmp_path / "prepare"), "run"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr
    assert "Nothing was changed" in result.stderr


def test_hooks_and_prompts_take_the_lean_way_and_fall_back_to_the_whole_program(checkout, tmp_path):
    place = {"HOME": str(tmp_path), "SAFEKEPT_HELPER": "0"}
    silent = call(checkout, "hook", "claude-code", **place)
    assert (silent.returncode, silent.stdout) == (0, "")
    prompt = call(checkout, "status", "--short", **place)
    assert (prompt.returncode, prompt.stdout) == (
        0,
        "safekept: Not protected: no agent's home was found here, and none is kept\n",
    )
    document = call(checkout, "status", "--short", "--json", **place)
    assert '"not-protected"' in document.stdout, "options go the ordinary way, with its packages"
    assert "Usage: safekept hook" in call(checkout, "hook", "--help", **place).stdout


def test_the_mcp_server_sets_up_what_it_needs_by_its_first_start(checkout, tmp_path):
    first = call(checkout, "mcp", HOME=str(tmp_path))  # a client that goes at once
    assert first.returncode == 0, first.stderr
    assert "installing what the MCP server needs" in first.stderr and first.stdout == ""
    again = call(checkout, "mcp", HOME=str(tmp_path))
    assert again.returncode == 0 and "installing" not in again.stderr


def test_the_page_sets_up_what_it_needs_by_its_first_start(checkout, tmp_path):
    words = ("ui", "--socket", str(tmp_path / "none" / "page.sock"))  # no such directory: it ends at once
    wrong = call(checkout, "ui", "--export", HOME=str(tmp_path))
    assert wrong.returncode == 2 and "installing" not in wrong.stderr, wrong.stderr
    first = call(checkout, *words, HOME=str(tmp_path))
    assert "installing what the page needs" in first.stderr and "cannot be a socket" in first.stderr
    again = call(checkout, *words, HOME=str(tmp_path))
    assert again.returncode == 1 and "installing" not in again.stderr
