"""What `rollback` says where little can be done: damage, a full or read-only disk, nothing to change."""

from __future__ import annotations

import glob
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys

import pytest

from safekept.actions.projects.project import NoSuchDirectory
from safekept.checkpoints.checkpoints import Checkpoints
from safekept.checkpoints.rollback import run as rollback_run
from safekept.cli.words.lists import directory_of
from safekept.core.platform import descriptors
from support.projects.checkpoints import put
from support.projects.repositories import picture, shell


@pytest.fixture
def project(tmp_path):
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "main.py"), "one\n")
    return place


@pytest.fixture
def run(safekept, project):
    return lambda *words, **options: safekept(*words, **{"cwd": project, **options})


@pytest.fixture
def data(launcher_environment):
    return os.path.join(launcher_environment["HOME"], ".local", "share", "safekept", "checkpoints")


def read(*parts: str) -> str:
    with open(os.path.join(*parts)) as file:
        return file.read()


def turn(data: str, project: str, number: int, content: str) -> None:
    agent = Checkpoints(data)
    agent.new_turn("session", f"turn-{number}")
    agent.before([project], f"turn {number}", shell=True)
    put(os.path.join(project, "main.py"), content)
    agent.after(wait=True)


@pytest.mark.parametrize(
    "words", [["1", ""], ["1", " "], ["", "main.py"], ["1", "main.py", ""], ["--diff", "1", ""]]
)
def test_an_empty_file_name_is_refused_and_nothing_goes_back(run, project, data, words):
    turn(data, project, 1, "two\n")
    done = run("rollback", *words)
    assert done.returncode == 2 and "An empty name means no file" in done.stderr
    assert read(project, "main.py") == "two\n"


def test_after_going_back_the_list_says_where_you_are(run, project, data):
    turn(data, project, 1, "two\n")
    turn(data, project, 2, "three\n")
    assert "you are here" not in run("rollback").stdout
    assert run("rollback", "2").returncode == 0
    rows = json.loads(run("rollback", "--json").stdout)["checkpoints"]
    assert [(row["number"], row["here"]) for row in rows] == [(1, False), (2, True)]
    listed = run("rollback").stdout
    [line] = [line for line in listed.splitlines() if "you are here" in line]
    assert line.split()[0] == "2"
    assert f"Undo everything since one of them: `safekept rollback {rows[0]['id']}`" in listed
    assert "taken around a rollback, or with nothing changed after them (`safekept rollback --all`)" in listed
    put(os.path.join(project, "main.py"), "four\n")
    assert "you are here" not in run("rollback").stdout


def test_where_only_a_hidden_file_changed_since_you_are_not_here(run, project):
    put(os.path.join(project, ".gitignore"), "notes.txt\n")
    put(os.path.join(project, "notes.txt"), "mine\n")
    assert run("checkpoint").returncode == 0
    put(os.path.join(project, "main.py"), "two\n")
    put(os.path.join(project, "notes.txt"), "overwritten\n")
    went = run("rollback", "1")
    assert went.returncode == 0 and read(project, "notes.txt") == "mine\n", went.stdout + went.stderr
    assert "you are here" in run("rollback").stdout
    put(os.path.join(project, "notes.txt"), "another\n")
    assert "you are here" not in run("rollback").stdout
    put(os.path.join(project, "main.py"), "three\n")
    assert run("rollback", "1", "main.py").returncode == 0
    assert "you are here" not in run("rollback").stdout, "only one file went back"


def test_a_rollback_with_a_hidden_half_is_one_operation_by_its_short_id(run, project):
    put(os.path.join(project, ".gitignore"), "notes.txt\n")
    put(os.path.join(project, "notes.txt"), "mine\n")
    assert run("checkpoint").returncode == 0
    os.remove(os.path.join(project, "notes.txt"))
    put(os.path.join(project, "main.py"), "two\n")
    assert run("rollback", "1").returncode == 0
    short = run("log").stdout.splitlines()[1].split()[0]
    said = run("undo", "--dry-run", short)
    assert said.returncode == 0 and f"-{short}) in {project}" in said.stdout, said.stdout + said.stderr
    assert run("undo", short).returncode == 0
    assert read(project, "main.py") == "two\n" and not os.path.exists(os.path.join(project, "notes.txt"))


def test_the_list_says_where_hidden_files_changed_too(run, project):
    put(os.path.join(project, ".gitignore"), "notes.txt\n")
    put(os.path.join(project, "notes.txt"), "mine\n")
    assert run("checkpoint").returncode == 0
    put(os.path.join(project, "main.py"), "two\n")
    put(os.path.join(project, "new.py"), "new\n")
    assert "2 files +2 -1 " in run("rollback").stdout and "hidden files" not in run("rollback").stdout
    os.remove(os.path.join(project, "notes.txt"))
    assert "2 files +2 -1 and hidden files" in run("rollback").stdout
    rows = json.loads(run("rollback", "--json").stdout)["checkpoints"]
    assert [row["changes"]["hidden"] for row in rows] == [True]


def test_where_git_is_gone_too_the_list_says_that_hidden_files_changed(safekept, data, tmp_path):
    place = os.path.realpath(tmp_path / "bare")
    put(os.path.join(place, "main.py"), "one\n")
    put(os.path.join(place, ".gitignore"), ".env\ndata/\n")
    shell("git init -q -b main && git add . && git commit -qm first", place)
    put(os.path.join(place, ".env"), "KEY=1\n")
    put(os.path.join(place, "data", "app.txt"), "rows\n")
    assert safekept("checkpoint", cwd=place).returncode == 0
    shell("git clean -fdxq && rm -rf .git", place)
    agent = Checkpoints(data)
    agent.new_turn("session", "turn")
    agent.before([os.path.join(place, "main.py")], "before an edit")  # not looked at: no project is known now
    with_mark = json.loads(safekept("rollback", "--all", "--json", cwd=place).stdout)["checkpoints"]
    assert [row["full"] for row in with_mark] == [False, True]
    listed = safekept("rollback", cwd=place).stdout
    [line] = [line for line in listed.splitlines() if line.split()[:1] == ["1"]]
    assert "hidden files" in line and "0 files" not in line, listed
    [row] = [row for row in with_mark if row["full"]]
    assert row["changes"] == {"files": 0, "lines_added": 0, "lines_removed": 0, "more": False, "hidden": True}


def test_undoing_the_undo_of_a_rollback_says_that_it_is_done_again(run, project, data):
    turn(data, project, 1, "two\n")
    assert run("rollback", "1").returncode == 0
    first, second = run("undo").stdout, run("undo").stdout
    assert f"Went back to the point before the last rollback of {project}\n" in first
    assert f"Did the rollback of {project} again\n" in second and read(project, "main.py") == "one\n"
    third = run("undo").stdout
    assert third.startswith("Taking back the rollback that was done again of ")
    assert "Did the rollback" not in third and "Went back to the point before" in third
    assert read(project, "main.py") == "two\n"
    fourth = run("undo").stdout
    assert fourth.startswith("Taking back the undo of a rollback of ")
    assert f"Did the rollback of {project} again\n" in fourth and read(project, "main.py") == "one\n"


def test_after_an_undo_that_could_change_nothing_undo_means_the_rollback_still(
    run, project, data, monkeypatch
):
    turn(data, project, 1, "two\n")
    assert run("rollback", "1").returncode == 0
    with monkeypatch.context() as failing:
        failing.setattr(rollback_run, "make", lambda _ground, change: "no-such-name" if change.action else "")
        failed = run("undo")
    assert failed.returncode == 3 and "Changed your mind?" not in failed.stdout, failed.stdout
    assert read(project, "main.py") == "one\n"
    again = run("undo")
    assert again.returncode == 0 and again.stdout.startswith("Taking back the rollback of "), again.stdout
    assert read(project, "main.py") == "two\n"


def test_a_damaged_point_is_listed_as_such_and_the_others_work(run, project, data):
    packs: list[set[str]] = []
    for number in range(4):
        put(os.path.join(project, f"d{number}", "file"), f"{number}\n")
        turn(data, project, number, f"turn {number}\n" * 30)
        packs.append(set(glob.glob(os.path.join(data, "store", "objects", "pack", "*.pack"))))
    for pack in packs[1] - packs[0]:
        os.unlink(pack)
        os.unlink(pack[:-4] + "idx")
    turn(data, project, 9, "the last\n")
    listed = run("rollback")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("DAMAGED") >= 1 and "safekept checkpoint status" in listed.stdout
    rows = json.loads(run("rollback", "--json").stdout)["checkpoints"]
    bad = [row["id"] for row in rows if row["damaged"]]
    assert bad and all(row["number"] is None for row in rows if row["damaged"])
    status = run("checkpoint", "status")
    assert f"Damaged: {project}" in status.stdout and bad[0] in status.stdout
    assert json.loads(run("checkpoint", "status", "--json").stdout)["healthy"] is False
    refused = run("rollback", bad[0])
    assert refused.returncode == 1 and "checkpoint-damaged" in refused.stderr
    assert run("rollback", "1").returncode == 0
    assert read(project, "main.py") == "turn 3\n" * 30


def test_a_deleted_project_is_shown_and_comes_back_with_the_printed_command(
    safekept, run, project, data, tmp_path
):
    put(os.path.join(project, "sub", "x"), "x\n")
    turn(data, project, 1, "two\n")
    shutil.rmtree(project)
    shown = safekept("rollback", "--diff", "--dir", project, cwd=str(tmp_path))
    assert shown.returncode == 0 and "-two" in shown.stdout and "3 files changed" in shown.stdout
    status = safekept("checkpoint", "status", cwd=str(tmp_path)).stdout
    assert "Gone: " in status and "rollback 1 --dir" in status and "prune" not in status
    listed = safekept("rollback", "--dir", project, cwd=str(tmp_path)).stdout
    assert "which is gone" in listed and "Bring it back as it was last" in listed
    assert "(gone)" in safekept("rollback", "--all-projects", cwd=str(tmp_path)).stdout
    dry = safekept("rollback", "1", "--dir", project, "--dry-run", cwd=str(tmp_path))
    assert dry.returncode == 0 and not os.path.exists(project), "a dry run makes nothing"
    went = safekept("rollback", "1", "--dir", project, cwd=str(tmp_path))
    assert went.returncode == 0, went.stdout + went.stderr
    assert read(project, "main.py") == "two\n" and read(project, "sub", "x") == "x\n"


def test_of_a_deleted_project_the_repository_is_said_to_come_back_with_git_and_does(
    safekept, project, data, tmp_path
):
    shell("git init -q -b main && git add . && git commit -qm first", project)
    turn(data, project, 1, "two\n")
    before = picture(project)
    shutil.rmtree(project)
    went = safekept("rollback", "1", "--dir", project, cwd=str(tmp_path))
    assert went.returncode == 0, went.stdout + went.stderr
    assert "no checkpoint can bring that back" not in went.stdout
    said = " ".join(went.stdout.split())
    assert "Git .git is gone; it had 1 branch" in said and "not touched" in said
    printed = re.search(r"to bring that back, too: `([^`]+)`", said)
    again = words_of(printed.group(1))
    planned = json.loads(safekept(*again, "--dry-run", "--json", cwd=str(tmp_path)).stdout)["plan"]
    assert planned["gone"] == [], "with --git nothing is gone"
    without = [word for word in again if word != "--git"]
    planned = json.loads(safekept(*without, "--dry-run", "--json", cwd=str(tmp_path)).stdout)["plan"]
    assert [(one["path"], one["reason"]) for one in planned["gone"]] == [(".git", "with-git")]
    done = safekept(*again, cwd=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture(project) == before


def test_after_git_went_back_it_is_said_what_was_brought_back_and_not_what_is_gone(run, project):
    shell("git init -q -b main && git add . && git commit -qm first && git branch feature", project)
    assert run("checkpoint").returncode == 0
    shell("git branch -qD feature && git branch try && git commit -q --allow-empty -m second", project)
    planned = run("rollback", "1", "--git", "--dry-run").stdout
    assert "feature is gone, it was at " in planned and "try is new" in planned
    done = run("rollback", "1", "--git")
    first = shell("git rev-parse --short=7 main", project).stdout.strip()
    said = " ".join(done.stdout.split())
    assert f"Git brought back: feature at {first}; main at {first}" in said, said
    assert "taken away: try" in said, said
    assert "is gone" not in said and "is new" not in said
    again = " ".join(run("undo").stdout.split())
    assert "taken away: feature" in again and "brought back: main at " in again, again


@pytest.mark.parametrize(("stashes", "said"), [(0, ""), (1, ", 1 stash"), (2, ", 2 stashes")])
def test_a_repository_that_was_gone_is_said_to_be_back_with_its_branches_and_stashes(
    run, project, stashes, said
):
    shell("git init -q -b main && git add . && git commit -qm first && git branch feature", project)
    for number in range(stashes):
        put(os.path.join(project, "main.py"), f"stashed {number}\n")
        shell("git stash -q", project)
    assert run("checkpoint").returncode == 0
    shutil.rmtree(os.path.join(project, ".git"))
    done = run("rollback", "1", "--git")
    assert f"Git brought back: .git with 2 branches{said} " in " ".join(done.stdout.split()), done.stdout
    assert len(shell("git stash list", project).stdout.splitlines()) == stashes


def words_of(printed: str) -> list[str]:
    """The words of a printed command, after the program."""
    return shlex.split(printed)[1:]


def test_a_full_disk_is_said_and_clear_makes_room_on_it(
    run, project, small_filesystem, launcher_environment, data
):
    place = small_filesystem(600)
    os.makedirs(os.path.dirname(data))
    os.symlink(place, data)
    for number in range(3):
        turn(data, project, number, os.urandom(30_000).hex())
    with open(os.path.join(place, "filler"), "wb") as filler:
        with pytest.raises(OSError):
            while True:
                filler.write(b"x" * 4096)
                filler.flush()
        with pytest.raises(OSError):
            filler.close()
    put(os.path.join(project, "main.py"), os.urandom(50_000).hex())
    was = read(project, "main.py")
    listed = run("rollback")
    assert listed.returncode == 0 and "turn 2" in listed.stdout, listed.stderr
    refused = run("rollback", "1")
    assert refused.returncode == 1 and "undo-point-failed" in refused.stderr, refused.stderr
    assert "No space left" in refused.stderr and "Nothing was changed" in refused.stderr
    assert "safekept checkpoint prune" in refused.stderr
    assert read(project, "main.py") == was
    pruned = run("checkpoint", "prune", "--yes", "--retention-days", "0.0000001")
    assert pruned.returncode == 0, pruned.stderr
    cleared = run("checkpoint", "clear", "--yes")
    assert cleared.returncode == 0 and "Dropped" in cleared.stdout, cleared.stderr
    assert run("checkpoint").returncode == 0, "there is room again"


def test_a_read_only_store_is_read_and_what_would_write_says_so(run, project, small_filesystem, data):
    place = small_filesystem(2048)
    os.makedirs(os.path.dirname(data))
    os.symlink(place, data)
    turn(data, project, 1, "two\n")
    put(os.path.join(project, "main.py"), "three\n")
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    listed = run("rollback")
    assert listed.returncode == 0 and "turn 1" in listed.stdout, listed.stderr
    shown = run("rollback", "1", "--diff")
    assert shown.returncode == 0 and "-one" in shown.stdout and "+three" in shown.stdout, shown.stderr
    assert run("checkpoint", "status").returncode == 0
    refused = run("rollback", "1")
    assert refused.returncode == 1 and "undo-point-failed" in refused.stderr
    assert "Read-only" in refused.stderr and read(project, "main.py") == "three\n"
    assert "In the sandbox of an agent the store can only be read" in refused.stderr
    refused = run("checkpoint", "prune", "--yes")
    assert refused.returncode == 1 and "checkpoint-store-unusable" in refused.stderr
    assert "No checkpoint was dropped" in refused.stderr


def test_where_everything_stays_it_is_not_said_that_nothing_differs(run, project, data):
    turn(data, project, 1, "two\n")
    put(os.path.join(project, "main.py"), "mine\n")
    done = run("rollback", "1")
    assert done.stdout.startswith("Changed nothing for checkpoint")
    assert "No file was changed: 1 path differs and stays" in done.stdout
    assert "Nothing differs" not in done.stdout and "Kept yours main.py" in done.stdout


@pytest.mark.parametrize("words", [["1"], ["1", "main.py"]])
def test_what_is_kept_as_yours_is_followed_by_the_whole_command_that_takes_it_too(
    run, safekept, project, data, tmp_path, words
):
    turn(data, project, 1, "two\n")
    put(os.path.join(project, "main.py"), "mine\n")
    said = " ".join(run("rollback", *words).stdout.split())
    printed = re.search(r"Kept yours main\.py .*; to take them, too: `([^`]+)`", said)
    assert printed and read(project, "main.py") == "mine\n", said
    done = safekept(*words_of(printed.group(1)), cwd=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert read(project, "main.py") == "one\n"


def test_a_rollback_of_modes_alone_says_what_it_did(run, project):
    os.chmod(os.path.join(project, "main.py"), 0o644)
    run("checkpoint")
    os.chmod(os.path.join(project, "main.py"), 0o600)
    shown = run("rollback", "1", "--dry-run")
    assert "main.py: mode 0600 to 0644" in shown.stdout
    done = run("rollback", "1")
    assert "main.py: mode 0600 to 0644" in done.stdout and "Changed your mind?" in done.stdout
    assert os.stat(os.path.join(project, "main.py")).st_mode & 0o777 == 0o644


def test_neither_looking_nor_trying_leaves_anything_behind(run, project, data):
    run("checkpoint")
    put(os.path.join(project, "main.py"), "two\n")
    gone_back = json.loads(run("rollback", "1", "--json").stdout)["operation"]
    was = _stored(data)
    for number, words in enumerate(
        (
            ["rollback"],
            ["rollback", "1", "--diff"],
            ["rollback", "1", "--dry-run"],
            ["rollback", "--undo", "--dry-run", "--overwrite-mine"],
            ["undo", gone_back, "--dry-run"],
        )
    ):
        put(os.path.join(project, "main.py"), f"{number}\n")
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert _stored(data) == was, words
    planned = json.loads(run("rollback", "1", "--dry-run", "--json").stdout)
    assert planned["plan"]["undo"] is None, "there is no such point"


def _stored(data: str) -> dict[str, bytes]:
    """Every point and every object of the store."""
    found = {}
    for place in ("store/refs", "store/objects", "projects"):
        for folder, _, names in os.walk(os.path.join(data, place)):
            for name in names:
                if not name.endswith(".lock"):
                    with open(os.path.join(folder, name), "rb") as file:
                        found[os.path.join(folder, name)] = file.read()
    return found


def test_at_a_terminal_of_80_columns_nothing_wraps(project, launcher_environment, data):
    turn(data, project, 1, "two\n")
    agent = Checkpoints(data)
    agent.new_turn("a-session-with-a-name", "t")
    agent.before([project], "before a shell command that is quite long: " + "make " * 20, shell=True)
    put(os.path.join(project, "main.py"), "three\n")
    agent.after(wait=True)
    for words in (["rollback"], ["rollback", "1"]):
        lines = _at_terminal([*words], project, launcher_environment, 80)
        table = [line for line in lines if "before a shell" in line]
        assert table and all(len(line) <= 80 for line in table), table
        assert any(line.endswith("…") for line in table)


def _at_terminal(words: list[str], cwd: str, environment: dict[str, str], columns: int) -> list[str]:
    import fcntl
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**environment, "NO_COLOR": "1", "TERM": "dumb"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "safekept", *words]
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:
        pass  # the other end is closed
    finally:
        process.wait()
        os.close(leader)
    return shown.decode().replace("\r", "").split("\n")


def test_a_file_that_grew_beyond_the_limit_stays_and_the_way_to_the_old_one_is_said(run, project, data):
    turn(data, project, 1, "x" * (11 << 20))
    done = run("rollback", "1")
    assert done.returncode == 3 and "main.py: larger than the limit" in done.stdout
    assert "what stands there now is in none: move it away, then go back" in done.stdout
    os.rename(os.path.join(project, "main.py"), os.path.join(project, "..", "aside"))
    assert run("rollback", "1").returncode == 0
    assert read(project, "main.py") == "one\n"


def test_who_names_a_file_and_no_point_is_given_the_command(run, project, data):
    turn(data, project, 1, "two\n")
    refused = run("rollback", "main.py")
    assert refused.returncode == 1 and "`main.py` is neither a number nor the id" in refused.stderr
    found = re.search(r"If a file is meant: `\S+ (rollback \w+ main\.py)`", " ".join(refused.stderr.split()))
    assert found and run(*found[1].split()).returncode == 0 and read(project, "main.py") == "one\n"


def in_deleted(environment: dict[str, str], project: str, *commands: str, **more: str):
    """A shell that stands in the project while an agent deletes it, and then says the commands."""
    program = f"{shlex.quote(sys.executable)} -I -m safekept"
    said = "; ".join(f"{program} {command}" for command in commands)
    return subprocess.run(
        ["/bin/sh", "-c", f'cd "$1" && rm -rf "$1" && {{ {said}; }}', "sh", project],
        env={**environment, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_where_the_project_was_deleted_under_your_feet_rollback_brings_it_back(
    run, project, launcher_environment
):
    point = json.loads(run("checkpoint", "--json").stdout)["checkpoint"]["id"]
    listed = in_deleted(launcher_environment, project, "rollback", "checkpoint")
    assert f"Checkpoints of {project}, which is gone" in listed.stdout
    assert "did not foresee" not in listed.stderr and f"`{project}`" in listed.stderr
    os.mkdir(project)
    back = in_deleted(launcher_environment, project, f"rollback {point}", "checkpoint")
    assert f"Went back to checkpoint {point} of {project}\n" in back.stdout
    assert f"Your shell still stands in the directory that was deleted: `cd {project}`\n" in back.stdout
    assert re.search(rf"^Checkpoint \w+ of {re.escape(project)}$", back.stdout, re.M), back.stderr
    assert read(project, "main.py") == "one\n"


def test_where_nothing_says_which_directory_was_deleted_it_is_asked_for(tmp_path, monkeypatch):
    gone = str(tmp_path / "gone")
    os.mkdir(gone)
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    assert directory_of("") == gone and directory_of("below") == os.path.join(gone, "below")
    monkeypatch.setattr(descriptors, "path_of", lambda descriptor: "")
    monkeypatch.setenv("PWD", gone)
    assert directory_of("") == gone
    for unusable in ("", "gone", str(tmp_path)):  # the last is there: not the one that was deleted
        monkeypatch.setenv("PWD", unusable)
        with pytest.raises(NoSuchDirectory) as refused:
            directory_of("")
        assert "safekept rollback --dir DIR" in " ".join(refused.value.advice())
    assert directory_of(str(tmp_path)) == str(tmp_path)
