"""What can go wrong around a backup, each case with the words the user reads."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from conftest import missing_part
from support.commands.error_texts import error_code
from support.faults.kill_points import count_steps, run_killed
from support.home.homes import differences, make_hermes_home, tree_facts
from support.users.unprivileged import nobodys  # noqa: F401 - a fixture

#: The home directory itself is the user's: its own time changes whenever something in it does.
ROOT = (".",)

#: Becomes an ordinary user, once everything is imported: this machine's Python may lie in /root.
AS_NOBODY = """
import importlib, os, pkgutil, sys
import bz2, difflib, encodings.ascii, encodings.utf_8_sig, tempfile, traceback, concurrent.futures.thread
import ctypes, isal.igzip, isal.isal_zlib, lzma, ruamel.yaml, sqlite3, zstandard
import safekept
for module in pkgutil.walk_packages(safekept.__path__, "safekept."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
from safekept.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def run_as_nobody(words, environment, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):
        with contextlib.suppress(PermissionError):
            parent.chmod(parent.stat().st_mode | 0o055)
    command = [sys.executable, "-c", AS_NOBODY, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def account(done):
    return json.loads(done.stdout)


def lost(done, outcome):
    return {
        remark["path"]: remark["reason"]
        for remark in account(done)["remarks"]
        if remark["outcome"] == outcome
    }


def test_a_missing_home_says_where_it_was_looked_for(tmp_path, safekept):
    done = safekept("backup", "--home", str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert error_code(done.stderr) == "home-not-found"
    assert str(tmp_path / "nowhere") in done.stderr
    assert os.listdir(tmp_path / "user") in ([], [".local"])


def test_an_empty_home_is_no_backup(tmp_path, safekept):
    (tmp_path / "empty").mkdir()
    done = safekept("backup", "--home", str(tmp_path / "empty"), "-o", str(tmp_path / "out.zip"))
    assert done.returncode == 1
    assert error_code(done.stderr) == "home-empty"
    assert not (tmp_path / "out.zip").exists()


def test_an_unreadable_home_is_an_error_and_not_an_empty_archive(tmp_path, launcher_environment):
    if os.geteuid() != 0:
        missing_part("needs root, to become somebody else")
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    os.chmod(home, 0o700)
    public = tmp_path / "public"
    public.mkdir(mode=0o777)
    public.chmod(0o777)
    words = ["backup", "--home", home, "-o", str(public / "out.zip")]
    done = run_as_nobody(words, {**launcher_environment, "HOME": str(public)}, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert error_code(done.stderr) == "home-unreadable", done.stderr
    assert not (public / "out.zip").exists()


@pytest.mark.parametrize(
    "name", ["what?", "a#b", "100%25", "two\nlines", "sp ace", os.fsdecode(b"raw\xff\xfe")]
)
def test_homes_with_odd_names_come_back(tmp_path, safekept, name):
    home = make_hermes_home(str(tmp_path / "user" / name))
    before = tree_facts(home, skip=ROOT)
    archive = str(tmp_path / "out.zip")
    done = safekept("backup", "--home", home, "--layout", "hermes", "-o", archive)
    assert done.returncode == 0, done.stdout + done.stderr
    for lost_thing in ("SOUL.md", "state.db"):
        os.unlink(os.path.join(home, lost_thing))
    done = safekept("import", archive, "--home", home, "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    assert differences(before, tree_facts(home, skip=ROOT)) == []


def test_an_archive_written_into_the_home_does_not_hold_itself(hermes_home, safekept):
    inside = os.path.join(hermes_home, "mine.zip")
    for _ in range(2):
        done = safekept("backup", "--home", hermes_home, "-o", inside, "--json")
        assert done.returncode == 0, done.stderr
    assert lost(done, "excluded")["mine.zip"]
    assert not [name for name in os.listdir(hermes_home) if name.startswith(".safekept-tmp")]


def test_a_missing_output_directory_is_made_private(tmp_path, hermes_home, safekept):
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "new" / "deep" / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "deep" / "out.zip").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new" / "deep").stat().st_mode & 0o777 == 0o700


def test_an_output_directory_that_cannot_be_made_is_named(tmp_path, hermes_home, safekept):
    (tmp_path / "file").write_text("in the way")
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "file" / "out.zip"))
    assert done.returncode == 1
    assert error_code(done.stderr) == "output-not-writable"
    assert str(tmp_path / "file") in done.stderr


def test_a_file_that_is_not_ours_is_never_overwritten(tmp_path, hermes_home, safekept):
    (tmp_path / "photos.zip").write_bytes(b"PK precious")
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "photos.zip"))
    assert done.returncode == 1
    assert "is not an archive that safekept made" in done.stderr
    assert (tmp_path / "photos.zip").read_bytes() == b"PK precious"


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_a_full_disk_leaves_nothing_behind(hermes_home, safekept, small_filesystem, form):
    with open(os.path.join(hermes_home, "noise.bin"), "wb") as file:
        file.write(os.urandom(3_000_000))
    place = small_filesystem(1024)
    before = tree_facts(hermes_home, skip=ROOT)
    done = safekept("backup", "--home", hermes_home, "-o", f"{place}/out", "--format", form)
    assert done.returncode == 1, done.stdout + done.stderr
    assert error_code(done.stderr) == "no-room", done.stderr
    assert os.listdir(place) == []
    assert differences(before, tree_facts(hermes_home, skip=ROOT)) == []


def test_a_disk_too_small_for_an_import_leaves_the_home_as_it_was(
    tmp_path, hermes_home, safekept, small_filesystem
):
    with open(os.path.join(hermes_home, "noise.bin"), "wb") as file:
        file.write(os.urandom(3_000_000))
    archive = str(tmp_path / "out.zip")
    assert safekept("backup", "--home", hermes_home, "-o", archive).returncode == 0
    place = os.path.join(small_filesystem(2048), "home")
    make_hermes_home(place, awkward=False)
    before = tree_facts(place, databases="bytes")
    done = safekept("import", archive, "--home", place, "--force")
    assert done.returncode == 1, done.stdout
    assert error_code(done.stderr) == "no-room", done.stderr
    assert differences(before, tree_facts(place, databases="bytes")) == []


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode=EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked_for_ever(path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    try:
        yield holder.pid
    finally:
        holder.communicate()


def test_one_database_locked_for_ever_costs_only_itself(tmp_path, hermes_home, safekept):
    browser = os.path.join(hermes_home, "data", "browser.db")
    with contextlib.closing(sqlite3.connect(browser)) as connection:
        connection.execute("create table t(x)")
    archive = str(tmp_path / "out.zip")
    with locked_for_ever(browser) as pid:
        done = safekept(
            "backup",
            "--home",
            hermes_home,
            "-o",
            archive,
            "--json",
            env={"SAFEKEPT_DATABASE_DEADLINE": "0.5"},
        )
    assert done.returncode == 3, done.stdout + done.stderr
    reasons = lost(done, "locked")
    assert list(reasons) == ["data/browser.db"] and str(pid) in reasons["data/browser.db"], reasons
    assert account(done)["complete"] is False
    listing = subprocess.run(
        ["unzip", "-Z1", archive], capture_output=True, encoding="utf-8", errors="replace"
    ).stdout.splitlines()
    assert "state.db" in listing and "data/browser.db" not in listing


def damage(path):
    """Overwrite pages in the middle, as a bad disk does."""
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        for offset in range(4096 * 2, size - 4096, 4096 * 3):
            file.seek(offset)
            file.write(b"\xa5" * 4096)


def test_a_damaged_database_is_stored_as_it_is_and_never_pushes_out_a_sound_archive(
    tmp_path, hermes_home, safekept
):
    out = tmp_path / "out"
    out.mkdir()
    assert safekept("backup", "--home", hermes_home, "-o", f"{out}/", "--keep", "1").returncode == 0
    sound = os.listdir(out)
    damage(os.path.join(hermes_home, "state.db"))
    done = safekept("backup", "--home", hermes_home, "-o", f"{out}/", "--keep", "1", "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "state.db" in lost(done, "damaged")
    assert account(done)["damaged"] == ["state.db"]
    assert set(sound) < set(os.listdir(out)), "the sound archive is gone"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (bytes(95_000), "zero bytes"), (b"BoltDB" * 2000, "something else")],
)
def test_a_chat_database_that_is_none_any_more_is_said_loudly(
    tmp_path, hermes_home, safekept, content, words
):
    with open(os.path.join(hermes_home, "state.db"), "wb") as file:
        file.write(content)
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "out"), "--json")
    assert done.returncode == 3, done.stdout
    assert words in lost(done, "damaged")["state.db"]


def test_databases_on_a_read_only_filesystem_are_captured(tmp_path, safekept, small_filesystem):
    place = small_filesystem(8192)
    home = make_hermes_home(os.path.join(place, "home"), awkward=False)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    done = safekept("backup", "--home", home, "-o", str(tmp_path / "out.zip"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert account(done)["census"]["default"]["messages"] == 40


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_backup_cleans_up_at_once(tmp_path, hermes_home, launcher_environment, number, code):
    out = tmp_path / "out"
    out.mkdir()
    words = ["backup", "--home", hermes_home, "-o", f"{out}/iris.zip"]
    count_steps(words, launcher_environment, str(tmp_path / "steps"))  # the very first also makes our places
    total = count_steps(words, launcher_environment, str(tmp_path / "steps"))
    for step in (4, total // 3, total // 2, total - 6):
        shutil.rmtree(out)
        out.mkdir()
        done = run_killed(words, launcher_environment, step, number)
        assert done.returncode == code, (step, done.stderr)
        assert os.listdir(out) in ([], ["iris.zip"]), f"step {step} left {os.listdir(out)}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_import_puts_everything_back_at_once(
    tmp_path, hermes_home, launcher_environment, number, code
):
    archive = str(tmp_path / "iris.zip")
    assert (
        run_killed(["backup", "--home", hermes_home, "-o", archive], launcher_environment, 0).returncode == 0
    )
    with open(os.path.join(hermes_home, "SOUL.md"), "w") as file:
        file.write("changed since")
    os.unlink(os.path.join(hermes_home, "config.yaml"))
    before = tree_facts(hermes_home, skip=ROOT)
    words = ["import", archive, "--home", hermes_home, "--force"]
    total = count_steps(words, launcher_environment, str(tmp_path / "steps"))
    assert run_killed(["undo", "--home", hermes_home], launcher_environment, 0).returncode == 0
    assert differences(before, tree_facts(hermes_home, skip=ROOT)) == []
    after = {}
    seen = set()
    for step in (total // 4, total // 2, total - 30, total - 12, total - 4):
        done = run_killed(words, launcher_environment, step, number)
        seen.add(done.returncode)
        now = tree_facts(hermes_home, skip=ROOT)
        if differences(before, now):
            # The signal came after the last file was in place: then it is the new home, whole.
            assert os.path.exists(os.path.join(hermes_home, "config.yaml")), f"step {step}"
            assert differences(after or now, now) == [], f"step {step}"
            after = now
            assert run_killed(["undo", "--home", hermes_home], launcher_environment, 0).returncode == 0
            assert differences(before, tree_facts(hermes_home, skip=ROOT)) == [], f"step {step}"
    assert code in seen


def test_two_backups_in_the_same_second_give_two_whole_archives(tmp_path, hermes_home, launcher_environment):
    out = tmp_path / "out"
    out.mkdir()
    words = [sys.executable, "-m", "safekept", "backup", "--home", hermes_home, "-o", f"{out}/", "--json"]
    both = [
        subprocess.Popen(words, env=launcher_environment, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    documents = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0] * 4
    assert len({document["path"] for document in documents}) == 4
    for document in documents:
        assert subprocess.run(["unzip", "-tqq", document["path"]]).returncode == 0


def test_an_ordinary_user_can_back_up_and_import(nobodys, launcher_environment):  # noqa: F811
    if os.geteuid() != 0:
        missing_part("needs root, to become somebody else")
    user = pathlib.Path(nobodys)
    home = make_hermes_home(str(user / ".hermes"))
    for folder, folders, files in os.walk(user):
        for name in [".", *folders, *files]:
            os.chown(os.path.join(folder, name), 65534, 65534, follow_symlinks=False)
    before = tree_facts(home, skip=ROOT)
    environment = {**launcher_environment, "HOME": str(user)}

    def as_nobody(*words):
        return run_as_nobody(words, environment, user)

    done = as_nobody("backup", "--home", home, "-o", str(user / "out.zip"))
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(os.path.join(home, "memories"))
    done = as_nobody("import", str(user / "out.zip"), "--home", home, "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    assert differences(before, tree_facts(home, skip=ROOT)) == []


def test_what_root_writes_into_a_home_belongs_to_the_homes_owner(nobodys, tmp_path, safekept):  # noqa: F811
    if os.geteuid() != 0:
        missing_part("needs root")
    home = make_hermes_home(os.path.join(nobodys, ".hermes"))
    for folder, folders, files in os.walk(nobodys):
        for name in [".", *folders, *files]:
            os.chown(os.path.join(folder, name), 65534, 65534, follow_symlinks=False)
    archive = str(tmp_path / "out.zip")
    assert safekept("backup", "--home", home, "-o", archive).returncode == 0
    shutil.rmtree(os.path.join(home, "skills"))
    assert safekept("import", archive, "--home", home, "--force").returncode == 0
    owners = {
        os.lstat(os.path.join(folder, name)).st_uid
        for folder, _, files in os.walk(os.path.join(home, "skills"))
        for name in [".", *files]
    }
    assert owners == {65534}
