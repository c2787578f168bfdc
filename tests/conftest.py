"""What every test may lean on: throwaway homes, the real programs, and storms on request.

A green run that skipped the real parts is not green. A missing real program is a loud skip on a
developer's machine, listed again at the end, and a failure where `CI=true`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import hypothesis
import pytest

import safekept.actions.vault.keys.keys as actions_keys
import safekept.vault.repo.keys as vault_keys
from support.commands.in_process import run_here
from support.home.homes import LiveWriter, make_hermes_home
from support.offsite.servers import (  # noqa: F401 - fixtures for every test
    adding_server,
    rclone_remotes,
    rest_server,
    s3_server,
    server_root,
    sftp_server,
)
from support.places import CHECKOUT
from support.platforms import needs
from support.platforms.without import KEPT, for_children_too
from support.users.fixtures import (  # noqa: F401 - `here`, `home`, `say` for every test
    a_user,
    their_command_line,
    their_home,
)
from support.vault.closed import open_below

HERMES = os.path.join(CHECKOUT, ".setup", "hermes", "bin", "hermes")
MISSING = "MISSING REAL PART: "
NO_CRONTAB = "no-crontab"
OF_THE_USER = ("HERMES_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="append", default=[], metavar="NAME", help="run that storm in full")
    parser.addoption("--hosts", action="store_true", help="run tests/hosts, beside real agents")


def pytest_configure(config: pytest.Config) -> None:
    """No test can reach the home of whoever runs it, in this process or in a child."""
    # Who starts us in the background may have Ctrl-C ignored, for us and for all that we start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, signal.default_int_handler)
    on_disk = config.getoption("--soak") or config.option.basetemp
    place = "" if on_disk else in_memory()
    place = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place or tempfile.gettempdir())
    # A directory for temporary files of its own, too: one that is everybody's shows what others leave there.
    scratch = tempfile.mkdtemp(prefix="safekept-tmp-", dir=place)
    with contextlib.suppress(PermissionError):  # a disk without modes
        os.chmod(scratch, 0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    home = tempfile.mkdtemp(prefix="safekept-test-home-")
    config.stash[HOME], config.stash[PROCESS] = scratch, os.getpid()
    os.environ["HOME"] = home
    for name in list(os.environ):
        if name.startswith("SAFEKEPT_TEST_") or name == KEPT:
            continue  # for the tests themselves
        if name in OF_THE_USER or name.startswith(("SAFEKEPT_", "HERMES_", "CODEX_", "CLAUDE_", "GEMINI_")):
            del os.environ[name]
    if shutil.which("crontab"):
        os.environ["PATH"] = f"{empty_crontab(scratch)}:{os.environ['PATH']}"
    for_children_too()
    # A hook leaves a helper behind for the next one; a test that wants one starts and stops it itself.
    os.environ["SAFEKEPT_HELPER"] = "0"


def empty_crontab(scratch: str) -> str:
    """A directory with a `crontab` that has no lines and takes none: a HOME of its own hides no real one."""
    directory = os.path.join(scratch, NO_CRONTAB)
    os.mkdir(directory, 0o755)
    path = os.path.join(directory, "crontab")
    with open(path, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\necho "no crontab for tests" >&2\nexit 1\n')
    os.chmod(path, 0o755)
    return directory


def in_memory() -> str:
    """Where files are kept in memory, if there is plenty; "" where there is not.

    Nothing here cuts the power, so waiting for a disk proves nothing, and was half of the time. A storm
    in full runs on the disk, and so does `./test --basetemp DIRECTORY`.
    """
    place = "/dev/shm"
    try:
        facts = os.statvfs(place)
        with open("/proc/meminfo", encoding="ascii") as file:
            available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return ""
    room = min(facts.f_bavail * facts.f_frsize, available << 10)
    usable = os.access(place, os.W_OK | os.X_OK) and not facts.f_flag & os.ST_NOEXEC
    return place if usable and room > ROOM_IN_MEMORY else ""


ROOM_IN_MEMORY = 6 << 30
#: As little as still counts as a passphrase and not as a generated key.
QUICK_PASSPHRASE = vault_keys.Cost(16384, 8, 1)
HOME = pytest.StashKey[str]()
PROCESS = pytest.StashKey[int]()

# How long an example takes says more about the machine than about us. In CI everybody has the same examples,
# so that a red run is the change's and not the dice's.
_PATIENT = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("here", **_PATIENT)
hypothesis.settings.register_profile("ci", derandomize=True, **_PATIENT)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


def pytest_unconfigure(config: pytest.Config) -> None:
    # A child that a test forked, and that got out of it, may not take everybody's directory away.
    if HOME in config.stash and config.stash[PROCESS] == os.getpid():
        open_below(config.stash[HOME])
        shutil.rmtree(config.stash[HOME], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--soak` no storm runs in full; with it, only the named storms run."""
    names = set(config.getoption("--soak"))
    known = {mark.args[0] for item in items for mark in item.iter_markers("soak")}
    if names - known:
        raise pytest.UsageError(
            f"no storm called {', '.join(sorted(names - known))}; there are: {sorted(known)}"
        )
    chosen, left = [], []
    for item in items:
        storms = {mark.args[0] for mark in item.iter_markers("soak")}
        (chosen if (storms & names or (not storms and not names)) else left).append(item)
        if storms:
            item.add_marker(pytest.mark.timeout(3600))
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = chosen
    missing = needs.lacking(config.stash[HOME])
    for item in items:
        needs.mark(item, missing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for kind in terminalreporter.stats.values() for one in kind if hasattr(one, "duration")]
    seconds = sum(one.duration for one in reports)
    terminalreporter.write_line(
        f"All tests, one after the other: {seconds // 60:.0f} min {seconds % 60:.0f} s"
    )
    missing = [
        (report.nodeid, str(report.longrepr[2]))
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple) and MISSING in str(report.longrepr[2])
    ]
    if missing:
        terminalreporter.section("THIS RUN DID NOT TOUCH THE REAL THING", red=True, bold=True)
        for test, reason in missing:
            terminalreporter.write_line(f"{test}: {reason.removeprefix('Skipped: ')}")
        terminalreporter.write_line("Run ./test as root, or install what it names, and run it again.")


def missing_part(what: str) -> None:
    """Skip loudly; fail where nothing may be skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(MISSING + what)
    pytest.skip(MISSING + what)


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing_part(f"{name} is not installed; `./test` says how")
    return str(found)


@pytest.fixture
def several_users() -> None:
    """For what only root can try: to be now one user and now another."""
    if os.geteuid() != 0:
        missing_part("needs root, to have several users")


@pytest.fixture(scope="session")
def hermes() -> str:
    """The real `hermes` 0.19.0. Run it with HOME and HERMES_HOME set to throwaway places."""
    if not os.access(HERMES, os.X_OK):
        missing_part("hermes-agent 0.19.0 is not installed; `workshop/prepare test` installs it")
    return HERMES


@pytest.fixture(scope="session")
def hermes_python(hermes: str) -> str:
    """The Python that can import the real Hermes's modules."""
    return os.path.join(os.path.dirname(hermes), "python")


@pytest.fixture(autouse=True)
def same_priority(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run of the schedule steps back for good; in this process every later test would go with it."""
    monkeypatch.setattr("safekept.schedule.machine.lower_priority", lambda: None)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "this test lowered the priority of all that follow"


@pytest.fixture(scope="session", autouse=True)
def derived_once() -> Iterator[None]:
    """Whoever opens a key file again in this process is given what was derived the first time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault_keys, "_derive", functools.lru_cache(4096)(vault_keys._derive))
        yield


@pytest.fixture(autouse=True)
def quick_passphrases(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process a passphrase costs a twelfth of what it costs people, but for `stretched` tests."""
    if request.node.get_closest_marker("stretched") is None:
        for module in (vault_keys, actions_keys):
            monkeypatch.setattr(module, "FOR_PASSPHRASE", QUICK_PASSPHRASE)


@pytest.fixture(autouse=True)
def nothing_stays_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a seat belt closed is opened before pytest removes the directory of the test."""
    place = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if place is not None:
        open_below(place)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_closed_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same for what tests share."""
    yield
    open_below(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def unzip() -> str:
    return program("unzip")


@pytest.fixture(scope="session")
def ssh() -> str:
    return program("ssh")


@pytest.fixture(scope="session")
def zstd() -> str:
    return program("zstd")


@pytest.fixture(scope="session")
def sqlite3_program() -> str:
    return program("sqlite3")


@pytest.fixture
def small_filesystem(tmp_path: object) -> Iterator[Callable[[int], str]]:
    """Mounts a filesystem of so many KiB: `small_filesystem(2048)` gives its directory."""
    mounted: list[str] = []

    def mount(kibibytes: int) -> str:
        if os.geteuid() != 0:
            missing_part("mounting a small filesystem needs root")
        place = os.path.join(str(tmp_path), f"small-{len(mounted)}")
        os.mkdir(place)
        command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k,mode=0755", "tmpfs", place]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            missing_part(f"a small filesystem could not be mounted: {result.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["mount", "-o", "remount,rw", place], capture_output=True)
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def hermes_home(tmp_path: object) -> str:
    """A small, realistic Hermes home at rest, with everything awkward in it."""
    home = os.path.join(str(tmp_path), "user", ".hermes")
    make_hermes_home(home)
    return home


@pytest.fixture
def live_writer() -> Iterator[Callable[..., LiveWriter]]:
    """Starts processes that commit to a database: `live_writer(path)`; all are ended afterwards."""
    with contextlib.ExitStack() as stack:
        yield lambda path, **options: stack.enter_context(LiveWriter(path, **options))


@pytest.fixture
def launcher_environment(tmp_path: object) -> dict[str, str]:
    """An environment for child processes in which nothing of this machine's user is visible."""
    user = os.path.join(str(tmp_path), "user")
    os.makedirs(user, exist_ok=True)
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "TMPDIR") if name in os.environ}
    return {**keep, "HOME": user, "PYTHONUTF8": "1", "NO_COLOR": "1"}


def run_safekept(
    *arguments: str, environment: dict[str, str], **options: object
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, as a user would call it."""
    command = [sys.executable, "-I", "-m", "safekept", *arguments]
    settings: dict[str, object] = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    settings.update(options)
    return subprocess.run(command, env=environment, **settings)  # type: ignore[call-overload]


@pytest.fixture
def safekept_process(launcher_environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `safekept` in a process of its own, in a throwaway environment."""
    return lambda *arguments, **options: run_safekept(
        *arguments, environment={**launcher_environment, **options.pop("env", {})}, **options
    )


@pytest.fixture
def safekept(launcher_environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same in this process, which is ten times as quick; with nothing of ours but the words."""

    def say(
        *words: str, env: dict[str, str] | None = None, cwd: object = None
    ) -> subprocess.CompletedProcess[str]:
        return run_here(*words, environment={**launcher_environment, **(env or {})}, directory=cwd)

    return say
