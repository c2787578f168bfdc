"""Real hosts: collected only by `./test --hosts`, and told at the end in one table with their versions."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import missing_part
from support.real_hosts.ground import Ground
from support.real_hosts.host import RealHost
from support.real_hosts.hosts import HOSTS
from support.real_hosts.installed import version_of
from support.real_hosts.model import serving
from support.real_hosts.table import lines
from support.vault.closed import open_below

#: A project with something for each kind of change.
FILES = {
    ".gitignore": "local.cfg\nbuild/\n",
    "README.md": "# The project\n",
    "src/app.py": "first\nsecond\nthird\n",
    "src/deep/inner.py": "inner\n",
    "notes.md": "notes of a person\n",
    "data/one.csv": "1\n",
    "data/two/three.csv": "3\n",
    "local.cfg": "key=old\n",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/hosts/"):
            item.add_marker(pytest.mark.timeout(3600))  # on a busy machine a host takes minutes to start


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if config.getoption("--hosts") else True


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> RealHost:
    return installed(request.param)


@pytest.fixture
def other_host(host: RealHost) -> RealHost:
    """The one that follows it in the table."""
    names = list(HOSTS)
    return installed(names[(names.index(host.name) + 1) % len(names)])


def installed(name: str) -> RealHost:
    if not version_of(HOSTS[name].package):
        missing_part(f"{HOSTS[name].package} is not installed; `./test --hosts` says why")
    return HOSTS[name]


@pytest.fixture
def grounds(tmp_path: Path) -> Iterator[Callable[..., Ground]]:
    """Makes a user and a project for these hosts, connected: `grounds(host)`."""
    with contextlib.ExitStack() as stack:

        def make(*hosts: RealHost, git: bool = True, connect: bool = True, root: str = "") -> Ground:
            ground = Ground(root or str(tmp_path), FILES, git)
            stack.callback(ground.end)
            models = [ground.model(host) for host in hosts]
            stack.enter_context(serving(models))
            for host in hosts:
                ground.add(host, connect)
            return ground

        yield make


@pytest.fixture
def outside() -> Iterator[str]:
    """A place that a sandbox leaves as it is: it opens /tmp, and replaces /dev/shm."""
    directory = tempfile.mkdtemp(dir="/var/tmp")
    yield directory
    ends = time.monotonic() + 120
    while os.path.lexists(directory):  # what works behind the last turn makes and closes stores until it ends
        assert time.monotonic() < ends, f"{directory} is not left alone"
        open_below(directory)
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.2)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for kind in terminalreporter.stats.values() for one in kind if hasattr(one, "when")]
    if reports and terminalreporter.config.getoption("--hosts"):
        terminalreporter.section("real hosts")
        for line in lines(reports):
            terminalreporter.write_line(line)
