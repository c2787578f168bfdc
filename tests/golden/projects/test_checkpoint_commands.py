"""`checkpoint`, `rollback` and `checkpoints` as a person meets them: what they print and refuse."""

from __future__ import annotations

import glob
import json
import os
import pwd
import re
import shlex

import pytest

from safekept.checkpoints.checkpoints import Checkpoints
from support.projects.checkpoints import put


@pytest.fixture
def project(tmp_path):
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "src", "main.py"), "one\n")
    put(os.path.join(place, ".env"), "SECRET=1\n")
    return place


@pytest.fixture
def run(safekept, project):
    """Runs `safekept` in the project."""
    return lambda *words, **options: safekept(*words, **{"cwd": project, **options})


def broken(project: str) -> None:
    put(os.path.join(project, "src", "main.py"), "broken\n")
    put(os.path.join(project, "made.txt"), "made\n")


def read(*parts: str) -> str:
    with open(os.path.join(*parts)) as file:
        return file.read()


def printed_commands(text: str) -> list[list[str]]:
    return [shlex.split(call)[1:] for call in re.findall(r"`(safekept [^`]+)`", text)]


def test_a_checkpoint_says_what_it_kept_and_the_printed_command_goes_back(run, project):
    done = run("checkpoint", "--reason", "before the refactoring")
    assert done.returncode == 0, done.stderr
    assert re.match(rf"Checkpoint [0-9a-v]{{12}} of {project}\n", done.stdout)
    assert "  Hidden     1 file, 9 B: ignored files, secrets and large files, encrypted\n" in done.stdout
    broken(project)
    (back,) = printed_commands(done.stdout)
    went = run(*back)
    assert went.returncode == 0, went.stderr
    assert read(project, "src", "main.py") == "one\n"
    assert not os.path.exists(os.path.join(project, "made.txt"))


def test_a_checkpoint_names_what_the_visible_half_leaves_out_and_of_many_the_first(run, project):
    put(os.path.join(project, ".gitignore"), "*.dat\n")
    for name in "edcba":
        put(os.path.join(project, "logs", f"{name}.dat"), "")
    done = run("checkpoint")
    assert "  Hidden     6 files, 9 B: ignored files, secrets and large files, encrypted\n" in done.stdout
    document = json.loads(run("checkpoint", "--json", "--reason", "again").stdout)
    assert document["left_out"]["ignored"] == ["logs/a.dat", "logs/b.dat", "logs/c.dat"]
    assert document["left_out"]["secret"] == [".env"] and document["not_stored"]["ignored"] == 5


def test_the_printed_command_works_from_another_directory(safekept, project, tmp_path):
    done = safekept("checkpoint", project, cwd=str(tmp_path))
    broken(project)
    (back,) = printed_commands(done.stdout)
    assert safekept(*back, cwd=str(tmp_path)).returncode == 0
    assert read(project, "src", "main.py") == "one\n"


def test_rollback_lists_shows_does_and_undoes(run, project):
    run("checkpoint", "--reason", "before the refactoring", "--session", "s-77")
    broken(project)
    listed = run("rollback")
    assert re.search(
        r"^  1  [0-9a-v]{12}  \d+ (s|min) ago +2 files \+2 -1 +s-77 +before the refactoring$",
        listed.stdout,
        re.M,
    )
    shown = run("rollback", "1", "--diff")
    assert "-one\n+broken\n" in shown.stdout and "2 files changed since checkpoint" in shown.stdout
    planned = run("rollback", "1", "--dry-run")
    assert "Restores   src/main.py" in planned.stdout and "Removes    made.txt" in planned.stdout
    assert planned.stdout.endswith("Nothing was changed\n") and read(project, "made.txt") == "made\n"
    went = run("rollback", "1")
    assert went.stdout.startswith("Went back to checkpoint ")
    assert "Restored   src/main.py" in went.stdout and "Removed    made.txt" in went.stdout
    assert "Untouched" not in went.stdout, "the hidden half holds the secret"
    (operation,) = re.findall(r"Changed your mind\? `safekept undo (\S+)`", went.stdout)
    assert read(project, ".env") == "SECRET=1\n"
    assert re.search(r"^  1  [0-9a-v]{12} ", run("rollback").stdout, re.M), "it is still number 1"
    undone = run("undo", operation)
    assert undone.returncode == 0, undone.stderr
    told = rf"Taking back the rollback of \d+ (s|min) ago \({operation}\) in {project}\n"
    assert re.match(told, undone.stdout)
    assert read(project, "src", "main.py") == "broken\n" and read(project, "made.txt") == "made\n"


def test_one_file_comes_back_alone_and_a_subdirectory_is_enough(run, project):
    run("checkpoint")
    broken(project)
    done = run("rollback", "1", "main.py", cwd=os.path.join(project, "src"))
    assert done.returncode == 0, done.stderr
    assert read(project, "src", "main.py") == "one\n" and read(project, "made.txt") == "made\n"


def test_10505_from_a_directory_without_checkpoints_those_below_and_above_are_listed(safekept, run, project):
    run("checkpoint")
    above = safekept("rollback", cwd=os.path.dirname(project))
    assert above.returncode == 0 and f"Below it   {project}" in above.stdout
    inner = os.path.join(project, "nested")
    put(os.path.join(inner, "package.json"), "{}")
    below = safekept("rollback", cwd=inner)
    assert f"Around it  {project}" in below.stdout
    refused = safekept("rollback", "1", cwd=inner)
    assert refused.returncode == 1
    assert "There are no checkpoints of" in refused.stderr and "Nothing was changed" in refused.stderr
    assert f"`safekept rollback --dir {project}`" in refused.stderr


def test_all_projects_are_one_timeline(safekept, run, project, tmp_path):
    other = os.path.realpath(tmp_path / "other")
    put(os.path.join(other, "go.mod"), "")
    run("checkpoint", "--reason", "first")
    safekept("checkpoint", other, "--reason", "second")
    lines = safekept("rollback", "--all-projects", cwd=str(tmp_path)).stdout.splitlines()
    assert [("second" in line, "first" in line) for line in lines[1:3]] == [(True, False), (False, True)]
    again = safekept("checkpoint", "list", cwd=str(tmp_path)).stdout.splitlines()
    assert [line.split()[0] for line in again[1:3]] == [line.split()[0] for line in lines[1:3]]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["rollback", "9"], 1, "There is no checkpoint 9"),
        (["rollback", "--undo", "--diff"], 2, "--undo takes back a whole rollback"),
        (["rollback", "--undo"], 1, "There is nothing to undo"),
        (["rollback", "1", "/etc/passwd"], 1, "lies outside the project"),
        (["rollback", "-x"], 2, "No such option"),
        (["checkpoint", "/nowhere/at/all"], 1, "There is no directory `/nowhere/at/all`"),
        (["checkpoint", "/"], 1, "is not a project"),
        (["checkpoint", "/tmp"], 1, "is not a project"),
        (["checkpoint", "/etc"], 1, "is not a project"),
        (["checkpoint", "/proc/self"], 1, "is not a project"),
        (["checkpoint", "prune", "--retention-days", "-1"], 2, "not in the range"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_changes(run, project, words, code, says):
    run("checkpoint")
    broken(project)
    done = run(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and ("Nothing " in done.stderr)
    assert read(project, "src", "main.py") == "broken\n"


def test_the_home_directory_is_never_a_project(safekept, launcher_environment):
    home = launcher_environment["HOME"]
    put(os.path.join(home, "package.json"), "{}")
    done = safekept("checkpoint", home)
    assert done.returncode == 1 and "not-a-project" in done.stderr


def test_the_home_of_another_user_is_never_a_project(safekept):
    other = pwd.getpwuid(0).pw_dir
    done = safekept("checkpoint", other)
    assert done.returncode == 1 and f"`{other}` is not a project" in done.stderr


def test_the_history_of_a_nested_repository_is_said_not_to_be_kept(run, project):
    put(os.path.join(project, ".git", "HEAD"), "ref: refs/heads/main\n")
    put(os.path.join(project, "lib", ".git", "HEAD"), "ref: refs/heads/main\n")
    put(os.path.join(project, "lib", "x.py"), "1")
    done = run("checkpoint")
    assert "lib/.git: its files are kept, its own history is not" in done.stdout
    assert done.stdout.count(".git") == 1, "the project's own goes without saying"
    assert json.loads(run("checkpoint", "--json").stdout)["repositories"] == ["lib/.git"]


def test_status_shows_damage_and_commands_that_nothing_protects(run, project, tmp_path, launcher_environment):
    run("checkpoint")
    data = os.path.join(launcher_environment["HOME"], ".local", "share", "safekept", "checkpoints")
    agent = Checkpoints(data)
    put(str(tmp_path / "loose" / "x"), "1")
    agent.before([str(tmp_path / "loose")], "make", shell=True)
    assert "Damage" not in run("checkpoint", "status").stdout
    for path in glob.glob(os.path.join(data, "store", "objects", "pack", "*.pack")):
        os.chmod(path, 0o600)
        os.truncate(path, 50)
    put(os.path.join(project, "src", "main.py"), "two\n")
    again = run("checkpoint")
    assert again.returncode == 0 and "everything is read again" in again.stdout
    shown = run("checkpoint", "status").stdout
    assert "1 pack of the store cannot be trusted" in shown
    assert f"Commands not protected: {tmp_path}/loose is no project" in shown
    facts = json.loads(run("checkpoint", "status", "--json").stdout)
    assert len(facts["damaged_packs"]) == 1 and facts["healthy"] is False


def test_prune_and_clear_ask_and_refuse_where_nobody_can_answer(run, project):
    for number in range(3):
        put(os.path.join(project, "src", "main.py"), f"{number}\n")
        run("checkpoint")
    for words, count in ((["prune", "--retention-days", "0.0000001"], "2"), (["clear"], "3")):
        refused = run("checkpoint", *words)
        assert refused.returncode == 1 and "consent-needed" in refused.stderr
        assert f"{count} checkpoints would be dropped" in refused.stderr
        dry, agree = printed_commands(refused.stderr)
        assert run(*dry).stdout.endswith("Nothing was changed\n")
        done = run(*agree)
        assert done.returncode == 0 and f"Dropped {count} checkpoints" in done.stdout, done.stdout
        if words == ["prune", "--retention-days", "0.0000001"]:
            put(os.path.join(project, "src", "main.py"), "again\n")
            run("checkpoint")
            put(os.path.join(project, "src", "main.py"), "and again\n")
            run("checkpoint")
    assert "There are no checkpoints" in run("checkpoint", "list").stdout
    assert read(project, "src", "main.py") == "and again\n"


def test_status_shows_sizes_limits_projects_and_failures(run, project, launcher_environment):
    run("checkpoint")
    shown = run("checkpoint", "status")
    assert shown.stdout.startswith("1 checkpoint of 1 project\n")
    assert "Keeps      200 per project, 30 days, and always the newest of each" in shown.stdout
    data = os.path.join(launcher_environment["HOME"], ".local", "share", "safekept", "checkpoints")
    put(
        os.path.join(data, "maintenance.json"),
        json.dumps({"started": 1.0, "ended": 1.0, "failures": 3, "error": "OSError: no space"}),
    )
    shown = run("checkpoint", "status")
    assert "Upkeep     FAILED 3 times in a row" in shown.stdout and "OSError: no space" in shown.stdout
    found = json.loads(run("checkpoint", "status", "--json").stdout)
    assert (found["healthy"], found["maintenance"]["failures"]) == (False, 3)
    identity = os.listdir(os.path.join(data, "projects"))[0]
    put(
        os.path.join(data, "projects", identity, "state.json"),
        json.dumps(
            {"project": project, "last_failure": {"time_ns": 2**62, "code": "x", "what": "the disk is full"}}
        ),
    )
    shown = run("checkpoint", "status")
    assert f"Not protected: {project}: the disk is full" in shown.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["checkpoint"],
        ["rollback"],
        ["rollback", "--all"],
        ["rollback", "--all-projects"],
        ["rollback", "1", "--diff"],
        ["rollback", "1", "--dry-run"],
        ["rollback", "1"],
        ["checkpoint", "status"],
        ["checkpoint", "list"],
        ["checkpoint", "prune", "--dry-run"],
        ["checkpoint", "clear", "--dry-run"],
        ["checkpoint", "clear-legacy", "--dry-run"],
        ["rollback", "nonsense!"],
    ],
)
def test_every_command_gives_one_json_document(run, project, words):
    run("checkpoint")
    broken(project)
    done = run(*words, "--json")
    assert isinstance(json.loads(done.stdout), dict)


def test_a_rollback_is_written_in_the_journal(run, project, launcher_environment):
    run("checkpoint")
    broken(project)
    run("rollback", "1")
    journal = read(launcher_environment["HOME"], ".local", "share", "safekept", "journal.jsonl")
    verbs = [(json.loads(line)["verb"], json.loads(line)["state"]) for line in journal.splitlines()]
    assert verbs == [("checkpoint", "done"), ("rollback", "done")]


def test_an_escape_in_a_name_or_reason_does_not_reach_the_terminal(run, project):
    put(os.path.join(project, "evil\x1b[31m.txt"), "x")
    run("checkpoint", "--reason", "a\x1b]0;title\x07b")
    put(os.path.join(project, "evil\x1b[31m.txt"), "y")
    for words in (["rollback"], ["rollback", "1", "--diff"], ["rollback", "1"]):
        assert "\x1b" not in run(*words).stdout
