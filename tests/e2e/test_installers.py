"""pip, pipx and uv install the wheel with everything that it needs from PyPI, and upgrade it in place."""

from __future__ import annotations

import json
import os
import sys

import pytest

from support.commands.wheels import Source, run
from support.home.homes import make_hermes_home

pytestmark = [pytest.mark.soak("install"), pytest.mark.real]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheels")
    source = Source(str(place / "source"))
    commits = [source.commit()]
    found = [source.build(str(place / "one"))]
    commits.append(source.commit())
    found.append(source.build(str(place / "two")))
    return found, commits, source.build(str(place / "sdist"), "sdist")


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """pipx and uv themselves, of today."""
    place = str(tmp_path_factory.mktemp("tools") / "venv")
    run(sys.executable, "-m", "venv", place)
    run(os.path.join(place, "bin", "pip"), "install", "-q", "pipx", "uv")
    return os.path.join(place, "bin")


def installer(kind: str, home: str, tools: str):
    """The words that install a wheel, and where the program is then."""
    if kind == "pip":
        run(sys.executable, "-m", "venv", os.path.join(home, "venv"))
        pip = (os.path.join(home, "venv", "bin", "pip"), "install", "-q", "--force-reinstall")
        return pip, os.path.join(home, "venv", "bin", "safekept")
    words = {
        "pipx": (os.path.join(tools, "pipx"), "install", "--force", "--python", sys.executable),
        "uv": (os.path.join(tools, "uv"), "tool", "install", "--force", "--python", sys.executable),
    }[kind]
    return words, os.path.join(home, ".local", "bin", "safekept")


@pytest.mark.parametrize("kind", ["pip", "pipx", "uv"])
def test_it_installs_with_its_extra_works_whole_and_is_upgraded_in_place(kind, wheels, tools, tmp_path):
    (one, two), commits, _ = wheels
    home = str(tmp_path / "user")
    make_hermes_home(os.path.join(home, ".hermes"), profiles=(), awkward=False)
    os.makedirs(os.path.join(home, ".claude"))
    words, program = installer(kind, home, tools)
    here = {"HOME": home, "PATH": f"{os.path.dirname(program)}:{tools}:/usr/bin:/bin", "NO_COLOR": "1"}
    # uv trusts what this machine trusts, as pip does; how to reach the network is said by the environment.
    here |= {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    here |= {name: value for name, value in os.environ.items() if name.startswith(("SSL_", "PIP_", "UV_"))}
    run(*words, f"{one}[mcp]", environment=here)

    def safekept(*words: str) -> str:
        return run(program, *words, cwd=home, environment={**here, "SAFEKEPT_HELPER": "0"})

    assert commits[0][:12] in safekept("--version")
    assert json.loads(safekept("snapshot", "--json"))["complete"] is True
    assert json.loads(safekept("drill", "--json"))["ok"] is True
    safekept("connect", "claude-code", "--yes")
    timer = safekept("schedule", "install", "--host", "cron", "--dry-run", "--json")
    with open(os.path.join(home, ".claude", "settings.json"), encoding="utf-8") as file:
        assert f'"{program} hook claude-code"' in file.read()
    assert program in timer
    assert "safekept" in safekept("mcp", "--help")
    python = os.path.join(os.path.dirname(os.path.realpath(program)), "python")
    run(python, "-c", "import mcp.server.mcpserver")
    if kind == "pipx":
        assert os.path.exists(os.path.join(home, ".local", "share", "man", "man1", "safekept.1"))
    run(*words, two, environment=here)
    assert commits[1][:12] in safekept("--version"), "the same name, the new code"
    connected = {one["host"]: one for one in json.loads(safekept("connect", "--json"))["hosts"]}
    assert [one["trouble"] for one in connected["claude-code"]["places"]] == [None]


def test_a_wheel_that_pip_builds_from_the_source_archive_knows_its_commit(wheels, tmp_path):
    _, commits, archive = wheels
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(str(tmp_path / "venv" / "bin" / "pip"), "install", "-q", archive)
    assert commits[1][:12] in run(str(tmp_path / "venv" / "bin" / "safekept"), "--version")
