"""What went wrong in the field when checkpoints were taken, here and on Hermes 0.19.0's own manager.

Every scenario runs twice: with safekept, where it must pass, and with Hermes's `CheckpointManager`, where
it is a strict expected failure, so that a fix there shows here. Rows of facts/field-failures.md F that
are about the wiring of front ends (#11409, #69737, #79625, #68772) and container back ends (#113518) are
in test_field_failures_wiring.py; rows of F, H and I about other components (#97606: Windows; #13104:
reflinks; openclaw #72130) have no scenario of their own. `Checkpoints.before` is the one door all front
ends go through.
"""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

from safekept.checkpoints.checkpoints import Checkpoints
from safekept.checkpoints.store.store import Store
from support.projects.checkpoints import fsck, put
from support.users.unprivileged import NOBODY, as_nobody, nobodys

__all__ = ["nobodys"]

_DRIVER = """
import json, os, subprocess, sys
from tools.checkpoint_manager import CheckpointManager, _store_path, _project_hash, _ref_name, CHECKPOINT_BASE
manager = CheckpointManager(enabled=True, max_snapshots=50, max_total_size_mb=0)
for line in sys.stdin:
    order = json.loads(line)
    if order["do"] == "turn":
        manager.new_turn()
        answer = True
    elif order["do"] == "before":
        directory = order["directory"] or manager.get_working_dir_for_path(order["paths"][0])
        answer = manager.ensure_checkpoint(directory, order["reason"])
    elif order["do"] == "restore":
        newest = manager.list_checkpoints(order["project"])[0]["hash"]
        answer = manager.restore(order["project"], newest)["success"]
    else:
        store = _store_path(CHECKPOINT_BASE)
        name = _ref_name(_project_hash(order["project"])) + ":" + order["path"]
        shown = subprocess.run(["git", "--git-dir", str(store), "show", name], capture_output=True)
        answer = shown.stdout.hex() if shown.returncode == 0 else None
    print(json.dumps(answer), flush=True)
"""


class Ours:
    def __init__(self, place: str) -> None:
        self.store = os.path.join(place, "data", "checkpoints")
        self.checkpoints = Checkpoints(self.store)

    def new_turn(self) -> None:
        self.checkpoints.new_turn("s")

    def before_tool(self, path: str) -> None:
        self.done = self.checkpoints.before([path], "before write_file")

    def before_shell(self, project: str, command: str) -> None:
        self.done = self.checkpoints.before([project], f"before terminal: {command}", shell=True)

    def content(self, project: str, path: str) -> bytes | None:
        with Store.open(self.store) as store:
            points = store.checkpoints(project)
            state = store.state(points[0]) if points else {}
            return store.read(state[path].oid) if path in state else None

    def size(self) -> int:
        return tree_size(self.store)

    def close(self) -> None:
        if os.path.isdir(os.path.join(self.store, "store")):
            fsck(os.path.join(self.store, "store"))


class Hermes:
    def __init__(self, place: str, python: str) -> None:
        home = os.path.join(place, "hermes-user")
        os.makedirs(home)
        self.store = os.path.join(home, ".hermes", "checkpoints")
        environment = {"PATH": os.environ["PATH"], "HOME": home, "HERMES_HOME": os.path.join(home, ".hermes")}
        self._process = subprocess.Popen(
            [python, "-c", _DRIVER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _ask(self, **order: object) -> object:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def new_turn(self) -> None:
        self._ask(do="turn")

    def before_tool(self, path: str) -> None:
        self._ask(do="before", directory="", paths=[path], reason="before write_file")

    def before_shell(self, project: str, command: str) -> None:
        # Hermes asks its own list of patterns first.
        import re

        if re.search(r"(^|\s)(rm|rmdir|cp|install|mv|sed\s+-i|truncate|dd|shred)\s", command):
            self._ask(do="before", directory=project, paths=[], reason=f"before terminal: {command}")

    def content(self, project: str, path: str) -> bytes | None:
        answer = self._ask(do="show", project=project, path=path)
        return bytes.fromhex(answer) if isinstance(answer, str) else None

    def restore(self, project: str) -> object:
        return self._ask(do="restore", project=project)

    def size(self) -> int:
        return tree_size(self.store)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def tree_size(place: str) -> int:
    return sum(
        os.lstat(os.path.join(directory, name)).st_size
        for directory, _, names in os.walk(place)
        for name in names
    )


HERMES_FAILS = pytest.param(
    "hermes", marks=[pytest.mark.xfail(strict=True, reason="as reported of Hermes 0.19.0"), pytest.mark.real]
)


@pytest.fixture(params=["safekept", HERMES_FAILS])
def agent(request, tmp_path):
    """Takes checkpoints the way an agent has them taken: by safekept, or by Hermes."""
    if request.param == "hermes":
        made = Hermes(str(tmp_path), request.getfixturevalue("hermes_python"))
    else:
        made = Ours(str(tmp_path))
    made.new_turn()
    yield made
    made.close()


@pytest.fixture
def project(tmp_path) -> str:
    place = str(tmp_path / "project")
    put(f"{place}/pyproject.toml", "")
    put(f"{place}/main.py", "print(1)\n")
    return place


def git(place: str, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", "-C", place, *identity, *words], check=True, capture_output=True)


def test_the_driver_of_hermes_works(tmp_path, project, hermes_python):
    """The control: what is an expected failure below is not one because nothing works at all."""
    agent = Hermes(str(tmp_path), hermes_python)
    agent.new_turn()
    agent.before_tool(f"{project}/main.py")
    assert agent.content(project, "main.py") == b"print(1)\n"
    agent.new_turn()
    put(f"{project}/main.py", "print(2)\n")
    agent.before_shell(project, "rm main.py")
    assert agent.content(project, "main.py") == b"print(2)\n"
    assert agent.restore(project)
    agent.close()


@pytest.mark.parametrize(
    "command", ["/bin/rm main.py", "find . -delete", "python -c 'import os; os.unlink(\"main.py\")'"]
)
def test_69171_every_command_is_preceded_by_a_checkpoint(agent, project, command):
    agent.before_shell(project, command)
    assert agent.content(project, "main.py") == b"print(1)\n"


def test_v22_whatever_tool_names_a_file_has_it_saved(agent, project):
    """Hermes asks for `write_file` and `patch` only; here any tool names its paths. See also V-26."""
    put(f"{project}/build/notes.txt", "mine")
    agent.before_tool(f"{project}/build/notes.txt")
    assert agent.content(project, "build/notes.txt") == b"mine"


def test_v23_a_later_state_within_one_turn_is_captured(agent, project):
    agent.before_tool(f"{project}/main.py")
    put(f"{project}/main.py", "print(2)\n")
    agent.before_tool(f"{project}/main.py")
    assert agent.content(project, "main.py") == b"print(2)\n"


def test_34827_a_blocked_tool_does_not_use_up_the_turn(agent, project):
    agent.before_tool(f"{project}/main.py")  # blocked afterwards: nothing happened
    put(f"{project}/other.py", "written by somebody else meanwhile")
    agent.before_tool(f"{project}/other.py")
    assert agent.content(project, "other.py") == b"written by somebody else meanwhile"


def test_v24_a_nested_repository_without_a_commit_is_a_directory(agent, project):
    put(f"{project}/sub/work.txt", "nested")
    git(f"{project}/sub", "init", "-q")
    agent.before_tool(f"{project}/main.py")
    assert agent.content(project, "main.py") == b"print(1)\n"
    assert agent.content(project, "sub/work.txt") == b"nested"


def test_v25_a_nested_repository_with_commits_is_a_directory(agent, project):
    put(f"{project}/sub/work.txt", "committed")
    git(f"{project}/sub", "init", "-q")
    git(f"{project}/sub", "add", ".")
    git(f"{project}/sub", "commit", "-qm", "x")
    put(f"{project}/sub/work.txt", "not committed")
    agent.before_tool(f"{project}/main.py")
    assert agent.content(project, "sub/work.txt") == b"not committed"


@pytest.mark.parametrize(
    "name", ["ignored.txt", "build/out.js", "dist/app.js", "trace.log", "lib.so", "env/x.py"]
)
def test_v26_what_is_about_to_be_changed_is_saved_whatever_it_is(agent, project, name):
    put(f"{project}/.gitignore", "ignored.txt\n")
    put(f"{project}/{name}", "only copy")
    agent.before_tool(f"{project}/{name}")
    assert agent.content(project, name) == b"only copy"


def test_v27_bytes_in_are_bytes_out_under_hostile_attributes(agent, project):
    contents = {
        "crlf.txt": b"a\r\nb\r\n",
        "mixed.txt": b"a\r\nb\n",
        "id.txt": b"$Id: keepme $\n",
        "utf16.txt": "h\u00e9llo\r\n".encode("utf-16"),
        "large.bin": bytes(range(256)),
    }
    rules = "* text=auto eol=lf ident\nutf16.txt working-tree-encoding=UTF-16\n*.bin filter=lfs diff=lfs\n"
    put(f"{project}/.gitattributes", rules)
    for name, data in contents.items():
        put(f"{project}/{name}", data)
    agent.before_tool(f"{project}/main.py")
    assert {name: agent.content(project, name) for name in contents} == contents


def test_78888_an_unreadable_file_does_not_void_the_rest(nobodys, hermes_python):
    """Here only: it takes a user without rights, and Hermes's failure is shown beside."""
    project = os.path.join(nobodys, "project")
    put(f"{project}/pyproject.toml", "")
    put(f"{project}/main.py", "print(1)\n")
    put(f"{project}/cache/of-root", "x", 0o600)
    os.makedirs(f"{project}/private", mode=0o700)
    for name in ("", "cache", "main.py", "pyproject.toml"):
        os.chown(os.path.join(project, name), NOBODY, NOBODY)

    def ours() -> tuple[bytes | None, dict[str, str]]:
        agent = Ours(nobodys)
        agent.new_turn()
        agent.before_tool(f"{project}/main.py")
        with Store.open(agent.store) as store:
            skipped = store.skipped(store.checkpoints(project)[0])
        return agent.content(project, "main.py"), {item.path: item.reason for item in skipped}

    def theirs() -> bytes | None:
        agent = Hermes(nobodys, hermes_python)
        agent.new_turn()
        agent.before_tool(f"{project}/main.py")
        found = agent.content(project, "main.py")
        agent.close()
        return found

    content, reasons = as_nobody(ours)
    assert content == b"print(1)\n"
    assert reasons == {"cache/of-root": "unreadable", "private": "unreadable"}
    if os.access(os.path.dirname(hermes_python), os.X_OK) and as_nobody(
        lambda: os.access(hermes_python, os.X_OK)
    ):
        assert as_nobody(theirs) is None, "Hermes reads it now; this note is out of date"


def test_v28_modes_and_empty_directories_are_kept(agent, project):
    put(f"{project}/private.txt", "x", 0o600)
    os.makedirs(f"{project}/empty/inside")
    agent.before_tool(f"{project}/main.py")
    if isinstance(agent, Hermes):
        os.unlink(f"{project}/private.txt")
        os.removedirs(f"{project}/empty/inside")
        assert agent.restore(project)
        assert os.stat(f"{project}/private.txt").st_mode & 0o777 == 0o600
        assert os.path.isdir(f"{project}/empty/inside")
        return
    with Store.open(agent.store) as store:
        state = store.state(store.checkpoints(project)[0])
    assert state["private.txt"].mode == 0o600
    assert state["empty/inside"].kind == "directory"


def test_99526_a_file_in_a_shared_directory_is_all_that_is_saved(agent, tmp_path):
    """A stray file beside is none of ours: no marker above means no pass."""
    shared = str(tmp_path / "shared")
    put(f"{shared}/of-somebody-else", "private")
    put(f"{shared}/x.txt", "mine")
    agent.before_tool(f"{shared}/x.txt")
    assert agent.content(shared, "x.txt") == b"mine"
    assert agent.content(shared, "of-somebody-else") is None


def test_56606_excluded_files_do_not_count_against_the_limit(agent, project):
    base = f"{project}/node_modules"
    os.makedirs(base)
    for number in range(51_000):
        os.close(os.open(f"{base}/{number}", os.O_CREAT | os.O_WRONLY))
    agent.before_tool(f"{project}/main.py")
    assert agent.content(project, "main.py") == b"print(1)\n"


def test_107149_a_lock_left_by_a_killed_process_wedges_nothing(agent, project):
    agent.before_tool(f"{project}/main.py")
    agent.new_turn()
    locks = ["store/packed-refs.lock", "store/index.lock", "store/HEAD.lock"]
    if isinstance(agent, Hermes):
        index = os.path.join(agent.store, "store", "indexes")
        locks = [f"store/indexes/{name}.lock" for name in os.listdir(index)]
    for lock in locks:
        put(os.path.join(agent.store, lock), "")
    put(f"{project}/main.py", "print(2)\n")
    agent.before_tool(f"{project}/main.py")
    assert agent.content(project, "main.py") == b"print(2)\n"


@pytest.mark.soak("hooks")
def test_v29_cost_does_not_follow_the_size_of_the_tree(agent, project):
    """One changed file of 4,000: the time of a turn, beside one walk of the tree by Python."""
    for number in range(4_000):
        put(f"{project}/d{number // 40}/f{number}", str(number))
    agent.before_tool(f"{project}/main.py")
    best = 10.0
    for number in range(4):
        agent.new_turn()
        put(f"{project}/main.py", f"print({number})\n")
        begun = time.perf_counter()
        agent.before_tool(f"{project}/main.py")
        best = min(best, time.perf_counter() - begun)
    walks = []
    for _ in range(3):
        begun = time.perf_counter()
        for directory, _, names in os.walk(project):
            for name in names:
                os.lstat(os.path.join(directory, name))
        walks.append(time.perf_counter() - begun)
    assert best < 3 * min(walks) + 0.05


def test_v35_an_oversize_file_costs_nothing(agent, project):
    agent.before_tool(f"{project}/main.py")
    before = agent.size()
    for _ in range(2):
        agent.new_turn()
        put(f"{project}/large.bin", os.urandom(12 << 20))
        agent.before_tool(f"{project}/main.py")
    assert agent.size() - before < 1 << 20


def test_v36_the_store_is_open_to_its_owner_only(agent, project):
    agent.before_tool(f"{project}/main.py")
    open_to_others = [
        os.path.join(directory, name)
        for directory, folders, names in os.walk(agent.store)
        for name in [*folders, *names]
        if os.lstat(os.path.join(directory, name)).st_mode & 0o077
    ]
    assert os.lstat(agent.store).st_mode & 0o077 == 0
    assert open_to_others == []


def test_836_what_could_not_be_protected_is_said(project, tmp_path, monkeypatch):
    """#836, #824: errors went to a debug log and users believed that they were protected."""
    agent = Ours(str(tmp_path))
    agent.new_turn()
    put(f"{project}/.env", "KEY=1")
    agent.before_tool(f"{project}/.env")
    assert [(item.path, item.reason) for item in agent.done.skipped] == [(".env", "secret")]
    assert not agent.done.complete
