"""A rollback killed at any step is finished or taken back whole by the next command; nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

from safekept.checkpoints.rollback.rollback import recover
from support.projects.rollbacks import Project, Tree

#: Like `support.faults.kill_points`, for the library: each change to a filesystem is a step, our renames too.
_CHILD = """
import os, signal, sys
limit, counter, data, place, point, what = int(sys.argv[1]), sys.argv[2], *sys.argv[3:7]
done = 0
NAMES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime", "os.symlink",
         "os.truncate", "os.chown"}

def step():
    global done
    done += 1
    if done == limit:
        os.kill(os.getpid(), 9)

def hook(event, arguments):
    if event in NAMES:
        step()
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        step()

def counted_in(owner, name, after=False):
    real = getattr(owner, name)
    def counted(*arguments, **options):
        step()
        answer = real(*arguments, **options)
        if after:
            step()
        return answer
    setattr(owner, name, counted)

for name in ("write", "pwrite", "writev", "fsync", "fdatasync", "copy_file_range"):
    counted_in(os, name)
from safekept.core.platform import renaming
from safekept.checkpoints.rollback.rollback import plan_rollback, recover, roll_back
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import TakeSettings
counted_in(renaming, "_rename", after=True)
sys.addaudithook(hook)
settings = TakeSettings(max_file_size=1 << 20)
store = Store.open(data)
if what == "recover":
    recover(store, place, settings=settings)
else:
    roll_back(store, plan_rollback(store, place, point, settings=settings), settings=settings)
store.close()
if counter != "-":
    with open(counter, "w") as file:
        file.write(str(done))
"""


def run(project: Project, point: str, at: int, what: str = "rollback", counter: str = "-") -> int:
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(at), counter, project.store.directory, project.path, point, what],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert child.returncode in (0, -signal.SIGKILL), child.stderr
    return child.returncode


def make(place: str) -> tuple[Project, str, Tree, Tree]:
    """A project, the point to go back to, its tree then and its tree now."""
    project = Project(place)
    for number in range(3):
        project.write(f"src/{number}.py", f"one {number}\n")
    project.write("gone/deep/x.txt", "x\n")
    project.write("turns.txt", "a file\n", mode=0o600)
    os.symlink("src", project.full("link"))
    os.mkdir(project.full("hollow"))
    then = project.tree()
    point = project.before()
    for number in range(3):
        project.write(f"src/{number}.py", f"two {number}\n")
    project.delete("gone")
    project.delete("link")
    project.write("link/now/dir.txt", "a directory now\n")
    os.rmdir(project.full("hollow"))
    project.write("hollow", "a file now\n")
    project.write("fresh/made.txt", "made since\n")
    os.chmod(project.full("turns.txt"), 0o644)
    project.write(".env", "SECRET\n")
    then[".env"] = project.tree()[".env"]
    return project, point.id, then, project.tree()


def judge(project: Project, point: str, then: Tree, now: Tree) -> str:
    """After a kill: one command recovers, and what is there is the old tree or the new one."""
    known = {one.id for one in project.store.checkpoints(project.path)}
    recovered = recover(project.store, project.path, settings=project.settings)
    tree = project.tree()
    assert tree in (then, now), sorted(set(tree.items()) ^ set(now.items()))
    assert project.leftovers() == []
    assert recover(project.store, project.path) is None
    assert point in known
    if recovered is not None:
        assert tree == (then if recovered.how == "finished" else now), recovered
    result = project.back(point)  # and goes on working
    assert project.tree() == then and result.complete
    project.undo()
    if tree == now:
        assert project.tree() == now
    project.fsck()
    return recovered.how if recovered else ("done" if tree == then else "nothing")


def storm(tmp_path: object, points: int, seed: int) -> dict[str, int]:
    project, point, _, _ = make(os.path.join(str(tmp_path), "count"))
    counter = os.path.join(str(tmp_path), "counter")
    assert run(project, point, 0, counter=counter) == 0
    project.store.close()
    with open(counter, encoding="utf-8") as file:
        steps = int(file.read())
    chosen = random.Random(seed).sample(range(1, steps + 1), min(points, steps))
    seen: dict[str, int] = {}
    for number in sorted(chosen):
        project, point, then, now = make(os.path.join(str(tmp_path), str(number)))
        run(project, point, number)
        how = judge(project, point, then, now)
        seen[how] = seen.get(how, 0) + 1
        project.store.close()
    return seen


def test_a_rollback_killed_at_any_step_is_finished_or_taken_back(tmp_path):
    seen = storm(tmp_path, 14, 4)
    assert seen.get("finished", 0) and sum(seen.values()) == 14, seen


@pytest.mark.soak("checkpoints")
def test_a_rollback_killed_at_every_step_is_finished_or_taken_back(tmp_path):
    seen = storm(tmp_path, 1000, 0)
    assert seen["finished"] > 20 and seen["taken back"] > 5, seen


def test_a_recovery_that_is_killed_too_is_recovered(tmp_path):
    project, point, then, now = make(os.path.join(str(tmp_path), "count"))
    counter = os.path.join(str(tmp_path), "counter")
    run(project, point, 0, counter=counter)
    project.store.close()
    with open(counter, encoding="utf-8") as file:
        steps = int(file.read())
    for number in range(int(steps * 0.5), int(steps * 0.75), max(1, steps // 20)):
        project, point, then, now = make(os.path.join(str(tmp_path), str(number)))
        run(project, point, number)
        for again in (3, 9, 20):
            run(project, point, again, what="recover")
        judge(project, point, then, now)
        project.store.close()


def test_files_that_the_user_changed_between_kill_and_recovery_are_kept(tmp_path):
    project, point, _, _ = make(os.path.join(str(tmp_path), "count"))
    counter = os.path.join(str(tmp_path), "counter")
    run(project, point, 0, counter=counter)
    project.store.close()
    with open(counter, encoding="utf-8") as file:
        steps = int(file.read())
    checked = 0
    for number in range(int(steps * 0.4), int(steps * 0.9), max(1, steps // 12)):
        project, point, _, _ = make(os.path.join(str(tmp_path), f"edit-{number}"))
        run(project, point, number)
        project.write("src/1.py", "the user, in between\n")
        project.write("fresh/mine.txt", "the user, in between\n")
        recovered = recover(project.store, project.path, settings=project.settings)
        assert project.read("src/1.py") == b"the user, in between\n", number
        assert project.read("fresh/mine.txt") == b"the user, in between\n", number
        assert project.leftovers() == []
        checked += recovered is not None
        project.store.close()
    assert checked > 2
