"""Checkpoints for an agent: named files at every call, passes once a turn, and never an exception."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from conftest import missing_part
from safekept.checkpoints.checkpoints import NO_GIT, Checkpoints
from safekept.checkpoints.state import read_state
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import TakeSettings
from support.commands.waiting import PATIENT
from support.projects.checkpoints import contents_in_store, fsck, put, tree_on_disk


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    put(f"{place}/.git/HEAD", "ref: refs/heads/main\n")
    put(f"{place}/a.py", "1")
    put(f"{place}/b.py", "1")
    return place


@pytest.fixture
def agent(tmp_path):
    made = Checkpoints(str(tmp_path / "data"), settings=TakeSettings(durable=False))
    made.new_turn("session", "1")
    yield made
    assert made.wait(PATIENT)


def points(agent, project):
    with Store.open(agent.directory) as store:
        return store.checkpoints(project)


def newest(agent, project):
    with Store.open(agent.directory) as store:
        return contents_in_store(store, store.checkpoints(project)[0])


def test_a_full_pass_once_per_turn_and_named_files_at_every_call(agent, project):
    agent.before([f"{project}/a.py"], "before write_file")
    put(f"{project}/a.py", "2")
    put(f"{project}/b.py", "2")
    done = agent.before([f"{project}/a.py"], "before patch")
    assert not done.taken[0].checkpoint.full
    assert newest(agent, project) == {"a.py": b"2", "b.py": b"1"}
    agent.new_turn("session", "2")
    done = agent.before([f"{project}/a.py"], "before patch")
    assert done.taken[0].checkpoint.full
    assert newest(agent, project) == {"a.py": b"2", "b.py": b"2"}
    assert [(point.turn, point.kind) for point in points(agent, project)] == [
        ("2", "before"),
        ("1", "before"),
        ("1", "before"),
    ]


def test_every_shell_command_is_preceded_by_a_full_pass(agent, project):
    agent.before([f"{project}/a.py"])
    for number in range(3):
        put(f"{project}/b.py", f"by shell {number}")
        done = agent.before([project], f"before terminal: make {number}", shell=True)
        assert done.taken[0].checkpoint.full
        assert newest(agent, project)["b.py"] == f"by shell {number}".encode()


def test_processes_of_one_turn_share_the_pass(agent, project):
    """Hooks are a process per call: the turn is known from the project's state."""
    agent.before([f"{project}/a.py"], session="s", turn="9")
    put(f"{project}/a.py", "2")
    put(f"{project}/b.py", "2")
    other = Checkpoints(agent.directory, settings=agent.settings)
    done = other.before([f"{project}/a.py"], session="s", turn="9")
    assert not done.taken[0].checkpoint.full


def test_an_after_mark_says_what_the_turn_left(agent, project):
    agent.before([f"{project}/a.py"], "before write_file")
    put(f"{project}/a.py", "by the agent")
    agent.after("session", "1")
    assert agent.wait(PATIENT)
    kinds = [point.kind for point in points(agent, project)]
    assert kinds == ["after", "before"]
    assert newest(agent, project)["a.py"] == b"by the agent"
    assert agent.after("session", "1", wait=True).taken == [], "a turn is marked once"


def test_the_mark_of_a_turn_whose_calls_were_processes_of_their_own(agent, project, tmp_path):
    """Hooks know of each other by the project's state; a mark covers named files without a marker too."""
    loose = put(str(tmp_path / "loose" / "x.txt"), "1")
    agent.before([f"{project}/a.py", loose], session="s", turn="9")
    put(f"{project}/a.py", "by the agent")
    put(loose, "by the agent")
    other = Checkpoints(agent.directory, settings=agent.settings)
    assert len(other.after("s", "9", wait=True).taken) == 2
    assert newest(agent, project)["a.py"] == b"by the agent"
    assert newest(agent, os.path.dirname(loose)) == {"x.txt": b"by the agent"}
    assert {point.kind for point in points(agent, project)} == {"before", "after"}
    assert other.after("s", "9", wait=True).taken == [], "once"
    assert other.after("s", "8", wait=True).taken == []


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_failure_is_a_value_and_is_kept_for_status(agent, project, tmp_path):
    agent.before([f"{project}/a.py"])
    put(f"{project}/a.py", "2")
    packs = os.path.join(agent.directory, "store", "objects", "pack")
    shutil.rmtree(packs)
    put(packs + "-elsewhere/x", "")
    os.symlink("/proc/self/fdinfo", packs)  # a directory in which nothing can be made
    done = agent.before([f"{project}/a.py"])
    assert [failure.code for failure in done.failures] == ["checkpoint-store-unusable"]
    assert not done.complete
    with Store.open(agent.directory) as store:
        state = read_state(store.project_directory(project))
    assert state.last_failure["code"] == "checkpoint-store-unusable"
    assert state.last_success["checkpoint"]
    os.unlink(packs)
    done = agent.before([f"{project}/a.py"])
    assert (done.failures, done.complete) == ([], True)


@pytest.mark.parametrize("what", ["deleted", "file", "link", "moved"])
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"link"})
def test_a_project_that_goes_while_it_runs_is_a_value(agent, project, what, tmp_path):
    agent.before([f"{project}/a.py"])
    shutil.move(project, f"{tmp_path}/elsewhere") if what == "moved" else shutil.rmtree(project)
    if what == "file":
        put(project, "now a file")
    elif what == "link":
        put(str(tmp_path / "other" / "a.py"), "other")
        os.symlink(str(tmp_path / "other"), project)
    agent.after(wait=True)
    done = agent.before([f"{project}/a.py"], "before write_file")
    assert all(failure.code != "internal-error" for failure in done.failures)
    left = points(agent, project)
    assert left[-1].full, "what was taken before is still there"
    if what in ("deleted", "moved"):
        assert newest(agent, project) == {"b.py": b"1"}, "and that the named file is gone is known, too"
    fsck(os.path.join(agent.directory, "store"))


def test_a_disappearing_project_directory_during_the_mark_is_recorded(agent, project):
    agent.before([f"{project}/a.py"])
    shutil.rmtree(project)
    done = agent.after(wait=True)
    assert [failure.code for failure in done.failures] == ["project-gone"]


def test_without_a_marker_only_the_named_file_is_taken(agent, tmp_path):
    place = str(tmp_path / "loose")
    put(f"{place}/mine.txt", "1")
    put(f"{place}/other.txt", "1")
    agent.before([f"{place}/mine.txt", f"{place}/new.txt"])
    assert newest(agent, place) == {"mine.txt": b"1"}
    with Store.open(agent.directory) as store:
        state = store.state(store.checkpoints(place)[0])
    assert state.knows("new.txt") and not state.knows("other.txt")
    agent.before([place], shell=True)
    assert newest(agent, place) == {"mine.txt": b"1"}, "no command makes a project of it"


def test_a_command_without_a_project_is_said_to_be_unprotected(agent, tmp_path, project):
    place = str(tmp_path / "loose")
    put(f"{place}/mine.txt", "1")
    done = agent.before([place], "make", shell=True)
    assert not done.complete and (done.taken, done.failures) == ([], [])
    assert [(item.path, item.reason) for item in done.skipped] == [(place, "unmarked")]
    assert len(done.notices) == 1 and f"`{place}` is no project" in done.notices[0]
    assert agent.after(wait=True).taken == [] and points(agent, place) == []
    again = agent.before([place], "make", shell=True)
    assert not again.complete and again.notices == [], "said once, and true every time"
    with Store.open(agent.directory) as store:
        state = read_state(store.project_directory(place))
    assert "only files that a tool names" in str(state.unprotected["what"])
    put(f"{place}/Makefile", "")
    done = agent.before([place], "make", shell=True)
    assert done.complete and done.taken[0].checkpoint.full
    with Store.open(agent.directory) as store:
        assert read_state(store.project_directory(place)).unprotected == {}


def test_a_file_made_in_a_new_directory_stays_in_one_project(agent, tmp_path):
    place = str(tmp_path / "loose")
    put(f"{place}/a", "0")
    for text in ("v1", "v2"):
        agent.before([f"{place}/sub/new"])
        put(f"{place}/sub/new", text)
    agent.after(wait=True)
    with Store.open(agent.directory) as store:
        assert store.projects() == [f"{place}/sub"]
        after, second, first = store.checkpoints(f"{place}/sub")
        assert contents_in_store(store, after) == {"new": b"v2"}
        assert contents_in_store(store, second) == {"new": b"v1"}
        assert store.state(first).knows("new") and not store.state(first)
        assert not os.path.exists(f"{place}/sub/nothing")


def test_two_sessions_at_work_have_a_point_each(agent, project):
    other = Checkpoints(agent.directory, settings=agent.settings)
    other.new_turn("other", "1")
    agent.before([f"{project}/a.py"], "of the first")
    done = other.before([f"{project}/b.py"], "of the second")
    assert done.taken[0].checkpoint is not None
    put(f"{project}/a.py", "by the first")
    agent.after(wait=True)
    put(f"{project}/b.py", "by the second")
    other.after(wait=True)
    found = [(point.session, point.kind) for point in reversed(points(agent, project))]
    assert found == [("session", "before"), ("other", "before"), ("session", "after"), ("other", "after")]


def test_hooks_of_two_sessions_both_find_their_turn_to_mark(agent, project):
    for session in ("one", "two"):
        hook = Checkpoints(agent.directory, settings=agent.settings)
        hook.before([f"{project}/a.py"], session=session, turn="7")
        put(f"{project}/a.py", session)
    for session in ("one", "two"):
        hook = Checkpoints(agent.directory, settings=agent.settings)
        assert len(hook.after(session, "7", wait=True).taken) == 1
        assert hook.after(session, "7", wait=True).taken == []


def test_files_of_several_projects_go_to_their_own(agent, project, tmp_path):
    second = str(tmp_path / "second")
    put(f"{second}/package.json", "{}")
    done = agent.before([f"{project}/a.py", f"{second}/package.json", "/nonexistent/workspace/x.py"])
    assert len(done.taken) == 2
    assert [(item.path, item.detail) for item in done.skipped] == [
        ("/nonexistent/workspace/x.py", "is not on this machine")
    ]
    assert newest(agent, second) == {"package.json": b"{}"}


def test_relative_paths_are_those_of_the_tools_directory(agent, project, tmp_path, monkeypatch):
    """#68195: a path resolved against the process's own directory saved another tree."""
    monkeypatch.chdir(tmp_path)
    agent.before(["a.py"], directory=project)
    assert newest(agent, project)["a.py"] == b"1"


def test_too_many_files_fall_back_to_named_ones_and_say_so_once(tmp_path, project):
    agent = Checkpoints(str(tmp_path / "data"), settings=TakeSettings(max_files=1, durable=False))
    agent.new_turn("s", "1")
    done = agent.before([f"{project}/a.py"])
    assert newest(agent, project) == {"a.py": b"1"}
    assert len(done.notices) == 1 and "only named files are taken" in done.notices[0]
    put(f"{project}/a.py", "2")
    assert agent.before([f"{project}/a.py"]).notices == []
    with Store.open(agent.directory) as store:
        state = read_state(store.project_directory(project))
        assert "more than 1 files" in str(state.limited["what"])
        assert not store.state(store.checkpoints(project)[0]).knows("b.py")


def test_without_git_there_is_one_notice_and_no_error(agent, project, monkeypatch):
    monkeypatch.setattr("safekept.checkpoints.checkpoints.find_git", lambda: None)
    monkeypatch.setattr("safekept.checkpoints.scan.ignore.find_git", lambda: None)
    done = agent.before([f"{project}/a.py"])
    assert (done.notices, done.failures) == ([NO_GIT], [])
    put(f"{project}/a.py", "2")
    assert agent.before([f"{project}/a.py"]).notices == []


def test_worktrees_and_submodules_are_ordinary_directories(agent, tmp_path):
    main = str(tmp_path / "main")
    put(f"{main}/a.py", "1")
    git = ["git", "-C", main, "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*git[:3], "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    tree = str(tmp_path / "tree")
    subprocess.run([*git, "worktree", "add", "-q", tree], check=True, capture_output=True)
    before = tree_on_disk(main, without=())
    agent.before([f"{main}/a.py", f"{tree}/a.py"])
    assert newest(agent, main) == newest(agent, tree) == {"a.py": b"1"}
    assert tree_on_disk(main, without=()) == before
    with Store.open(agent.directory) as store:
        about = store.about(store.checkpoints(tree)[0])
        assert str(about["git_head"]).endswith("refs/heads/tree")


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_write_through_a_link_finds_what_it_leads_to_saved(agent, project, tmp_path):
    target = put(str(tmp_path / "elsewhere" / "target.txt"), "content")
    os.symlink(target, f"{project}/link.txt")
    agent.before([f"{project}/link.txt"])
    with Store.open(agent.directory) as store:
        assert store.state(store.checkpoints(project)[0])["link.txt"].kind == "symlink"
    assert newest(agent, os.path.dirname(target)) == {"target.txt": b"content"}


@pytest.mark.needs("case", "its names differ in case only")
def test_names_that_differ_in_case_only_are_two_files(agent, project):
    put(f"{project}/Name.txt", "upper")
    put(f"{project}/name.txt", "lower")
    agent.before([f"{project}/a.py"])
    content = newest(agent, project)
    assert (content["Name.txt"], content["name.txt"]) == (b"upper", b"lower")


def test_nul_and_options_in_names_are_no_trouble(agent, project):
    done = agent.before(["bad\0name", f"{project}/--help", f"{project}/-rf"])
    assert done.failures == []
    put(f"{project}/--help", "x")
    agent.before([f"{project}/--help"])
    assert newest(agent, project)["--help"] == b"x"


def test_the_project_itself_is_never_written(agent, project):
    before = tree_on_disk(project, without=())
    agent.before([f"{project}/a.py"])
    agent.after(wait=True)
    assert tree_on_disk(project, without=()) == before


def under_a_mount(project, program, *words):
    """What a program says where an empty read-only directory lies over `.codex`, as in Codex's sandbox."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        missing_part("needs a mount namespace")
    os.makedirs(f"{project}/.codex", exist_ok=True)
    mount = 'mount -t tmpfs -o ro,size=4k none "$1/.codex" && exec "$2" -c "$3" "$4" "$1"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"]
    done = subprocess.run(
        [*command, project, sys.executable, program, *words], capture_output=True, text=True
    )
    if "unshare failed" in done.stderr or "permission denied" in done.stderr:
        missing_part("no mounts here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_directory_that_a_sandbox_mounts_over_the_project_is_no_change(agent, project, tmp_path):
    """Codex's `workspace-write` lays an empty read-only directory over `.codex`, where the agent's own
    `rollback 1` took that for the last change, and undid nothing else."""
    agent.before([project], "before Bash: rm a.py", shell=True)
    os.unlink(f"{project}/a.py")
    agent.before([project], "before Bash: rollback", shell=True)
    inside = (
        "import sys\n"
        "from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back\n"
        "from safekept.checkpoints.store.store import Store\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    roll_back(store, plan_rollback(store, sys.argv[2], '1'))\n"
    )
    under_a_mount(project, inside, agent.directory)
    with open(f"{project}/a.py", encoding="utf-8") as file:
        assert file.read() == "1"


def test_a_directory_that_a_sandbox_mounts_is_nothing_hidden(project, tmp_path):
    """The same of the hidden half: the two looks see one thing."""
    inside = (
        "import sys\n"
        "from safekept.checkpoints.scan.hidden import HiddenLimits\n"
        "from safekept.checkpoints.store.store import Store\n"
        "from safekept.checkpoints.take.taken import TakeSettings\n"
        "from safekept.checkpoints.take.taking import take\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    took = take(store, sys.argv[2], settings=TakeSettings(hidden=HiddenLimits(), durable=False))\n"
        "    print(took.hidden.id)\n"
    )
    put(f"{project}/.gitignore", "local.cfg\n")
    put(f"{project}/local.cfg", "key\n")
    outside = subprocess.run(
        [sys.executable, "-c", inside, str(tmp_path / "one"), project], capture_output=True, text=True
    )
    assert outside.returncode == 0, outside.stderr
    assert outside.stdout.strip()
    assert under_a_mount(project, inside, str(tmp_path / "two")) == outside.stdout
