"""What is printed is true, and every printed command runs as printed."""

import contextlib
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys

import pytest

from support.archives import bad_archives as bad
from support.home.homes import differences, make_hermes_home, tree_facts

ROOT = (".",)


def printed_commands(text):
    """Every command in backticks, as a person would paste it."""
    return re.findall(r"`(safekept [^`]*)`", text)


def run_printed(command, environment, cwd):
    words = shlex.split(command)
    assert words[0] == "safekept"
    return subprocess.run(
        [sys.executable, "-m", "safekept", *words[1:]],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode=EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def incomplete(tmp_path, safekept):
    """A home, and an archive of it that lacks state.db because that was locked."""
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    archive = str(tmp_path / "incomplete.zip")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, os.path.join(home, "state.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout.readline() == b"held\n"
    done = safekept("backup", "--home", home, "-o", archive, env={"SAFEKEPT_DATABASE_DEADLINE": "0.3"})
    holder.communicate()
    assert done.returncode == 3, done.stderr
    return home, archive


def test_an_exact_import_never_removes_what_the_backup_could_not_read(incomplete, safekept):
    home, archive = incomplete
    done = safekept("import", archive, "--home", home, "--exact", "--force")
    assert os.path.exists(os.path.join(home, "state.db"))
    assert done.returncode == 3, done.stdout
    assert "Missing    state.db: " in done.stdout


def test_an_import_of_an_incomplete_archive_says_so_and_ends_with_3(incomplete, safekept, tmp_path):
    _, archive = incomplete
    done = safekept("import", archive, "--home", str(tmp_path / "fresh"))
    assert done.returncode == 3
    assert "Import complete" not in done.stdout
    assert "Imported what the archive holds" in done.stdout


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (["--no-secrets"], [".env", "auth.json"]),
        (["--profile", "coder"], ["SOUL.md", "memories/MEMORY.md", "state.db"]),
        (["--exclude", "/memories/"], ["memories/MEMORY.md"]),
    ],
)
def test_an_exact_import_removes_nothing_outside_what_the_archive_was_asked_to_hold(
    tmp_path, safekept, words, spared
):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    archive = str(tmp_path / "part.zip")
    assert safekept("backup", "--home", home, "-o", archive, *words).returncode == 0
    before = tree_facts(home, skip=ROOT)
    assert safekept("import", archive, "--home", home, "--exact", "--force").returncode == 0
    for path in spared:
        assert os.path.exists(os.path.join(home, path)), path
    assert differences(before, tree_facts(home, skip=ROOT)) == []


def test_the_restore_command_of_a_backup_runs_from_anywhere_and_meets_the_same_home(
    tmp_path, safekept, launcher_environment
):
    home = make_hermes_home(str(tmp_path / "elsewhere" / "my home"))
    done = safekept("backup", "--home", home, "-o", str(tmp_path / "an archive"))
    assert done.returncode == 0, done.stderr
    (command,) = printed_commands(done.stdout)
    again = run_printed(command, launcher_environment, "/")
    assert again.returncode == 0, again.stderr
    assert f"Import into {home}\n" in again.stdout


def test_the_command_that_agrees_to_a_plan_is_the_same_import(tmp_path, safekept, launcher_environment):
    home = make_hermes_home(str(tmp_path / "elsewhere" / "home"))
    archive = tmp_path / "iris.zip"
    assert safekept("backup", "--home", home, "-o", str(archive)).returncode == 0
    for name in ("SOUL.md", "config.yaml"):
        with open(os.path.join(home, name), "w") as file:
            file.write("changed")
    done = safekept("import", "iris.zip", "--home", home, "--only", "SOUL.md", cwd=str(tmp_path))
    assert done.returncode == 1
    see, agree = printed_commands(done.stderr)
    assert run_printed(see, launcher_environment, "/").returncode == 0
    assert run_printed(agree, launcher_environment, "/").returncode == 0
    with open(os.path.join(home, "SOUL.md")) as soul, open(os.path.join(home, "config.yaml")) as config:
        assert soul.read() != "changed" and config.read() == "changed"


def test_the_undo_command_of_an_import_meets_the_same_home(tmp_path, safekept, launcher_environment):
    home = make_hermes_home(str(tmp_path / "elsewhere" / "home"))
    archive = str(tmp_path / "iris.zip")
    assert safekept("backup", "--home", home, "-o", archive).returncode == 0
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    before = tree_facts(home, skip=ROOT)
    done = safekept("import", archive, "--home", home, "--force")
    undo = printed_commands(done.stdout)[-1]
    first = run_printed(undo, launcher_environment, "/")
    assert first.returncode == 0, first.stderr
    assert differences(before, tree_facts(home, skip=ROOT)) == []
    again, log, _ = printed_commands(first.stdout)
    assert run_printed(log, launcher_environment, "/").returncode == 0
    assert run_printed(again, launcher_environment, "/").returncode == 0


def test_a_data_directory_that_cannot_be_written_does_not_turn_success_into_failure(
    tmp_path, safekept, small_filesystem
):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    place = small_filesystem(64)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    archive = str(tmp_path / "iris.zip")
    done = safekept("backup", "--home", home, "-o", archive, env={"XDG_DATA_HOME": place})
    assert done.returncode == 0, done.stderr
    assert f"Note: the journal in {place}/safekept could not be written: Read-only file system" in done.stderr
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    before = tree_facts(home, skip=ROOT)
    assert safekept("import", archive, "--home", home, "-f", env={"XDG_DATA_HOME": place}).returncode == 0
    assert safekept("undo", "--home", home, env={"XDG_DATA_HOME": place}).returncode == 0
    assert differences(before, tree_facts(home, skip=ROOT)) == []


def test_links_out_of_the_home_in_a_foreign_archive_need_consent(tmp_path, safekept):
    archive = bad.tar_of(
        str(tmp_path / "theirs.tgz"),
        ("memories/MEMORY.md", b"x"),
        bad.link("memories/USER.md", "/etc/profile"),
    )
    fresh = str(tmp_path / "fresh")
    done = safekept("import", archive, "--home", fresh)
    assert done.returncode == 1
    assert "1 link out of the home would come from an archive made elsewhere" in done.stderr
    assert "memories/USER.md" in done.stdout
    assert not os.path.exists(fresh)


def test_json_is_never_mixed_with_a_question(tmp_path, launcher_environment):
    """At a terminal too, `--json` means a program is listening: it gets the error, not a prompt."""
    import pty

    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    archive = str(tmp_path / "iris.zip")
    run = [sys.executable, "-m", "safekept"]
    subprocess.run([*run, "backup", "-o", archive], env=launcher_environment, check=True, capture_output=True)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    parent, child = pty.openpty()
    try:
        done = subprocess.run(
            [*run, "import", archive, "--json"],
            env=launcher_environment,
            stdin=child,
            stderr=child,
            stdout=subprocess.PIPE,
            timeout=300,
        )
    finally:
        os.close(parent)
        os.close(child)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "consent-needed"


def test_ctrl_c_during_progress_gives_the_cursor_back(tmp_path, launcher_environment):
    """While it waits for a database that somebody has locked: it is not done before Ctrl-C comes."""
    import pty
    import signal

    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    locked = sqlite3.connect(os.path.join(home, "state.db"), isolation_level=None)
    locked.execute("pragma locking_mode=exclusive")
    locked.execute("begin exclusive")
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "safekept", "backup", "-o", str(tmp_path / "iris.zip")],
        env={**launcher_environment, "TERM": "xterm"},
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    screen = b""
    sent = False
    with contextlib.suppress(OSError):
        while True:
            screen += os.read(parent, 4096)
            if not sent and b"waiting for" in screen:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                sent = True
    os.close(parent)
    locked.close()
    assert process.wait(300) == 130
    assert sent and b"\x1b[?25l" in screen
    assert screen.rfind(b"\x1b[?25h") > screen.rfind(b"\x1b[?25l"), "the cursor stayed hidden"
    assert b"Interrupted; no half-written archive is left" in screen


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-o", "a.tar.zst"], "a.tar.zst"),
        (["-o", "a.zip"], "a.zip"),
        (["-o", "a", "--format", "tar.zst"], "a.tar.zst"),
        (["-o", "a.b"], "a.b.zip"),
    ],
)
def test_the_name_given_says_the_format(tmp_path, hermes_home, safekept, words, expected):
    done = safekept("backup", "--home", hermes_home, *words, cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert os.path.exists(tmp_path / expected)


def test_a_name_and_a_format_that_contradict_each_other_are_bad_usage(tmp_path, hermes_home, safekept):
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "a.zip"), "--format", "tar.zst")
    assert done.returncode == 2
    assert "--format tar.zst and a file name that ends in .zip do not go together" in done.stderr
    assert not os.path.exists(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("words", "help_of"),
    [
        (("ui", "--export"), "ui"),
        (("snapshot", "list", "--limit"), "snapshot list"),
        (("rollback", "--dir"), "rollback"),
    ],
)
def test_bad_usage_names_the_help_of_the_command_itself(safekept, words, help_of):
    said = safekept(*words)
    assert said.returncode == 2 and f"See `safekept {help_of} --help`" in said.stderr, said.stderr
