"""The steps of a recording that are about projects: agents, checkpoints, rollbacks, what Hermes kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from recorder import Recorder

from support.users.fixed_place import HOME, PLACE, PROJECT, FixedPlace


def projects(recorder: Recorder) -> None:
    do, place = recorder.do, recorder.place
    do("connect", "claude-code", "--yes")
    do("connect", "codex", "--yes")
    do("connect", "--remove", "codex", "--yes")
    do("checkpoint", PROJECT, "--reason", "as it was")
    recorder.hook("SessionStart", source="startup", model="a-model")
    recorder.hook("UserPromptSubmit", prompt="tidy up", prompt_id="turn-1")
    recorder.tool(f"{PROJECT}/main.py", "print('second')\n", "turn-1")
    recorder.write("docs/guide.md", "# Guide\n\nby hand\n")
    recorder.hook("UserPromptSubmit", prompt="and more", prompt_id="turn-2")
    recorder.tool(f"{PROJECT}/main.py", "print('third')\n", "turn-2")
    do("rollback", "1", cwd=PROJECT)
    do("rollback", "--undo", cwd=PROJECT)
    do("rollback", "2", "main.py", cwd=PROJECT, code=(0, 3))
    do("checkpoint", PROJECT, f"{PROJECT}/main.py", "--session", "by-hand", "--turn", "one")
    do("run", "--quiet", "0.2", "--", "sh", "-c", "echo run > run.txt; sleep 1", cwd=PROJECT)
    # A file of the agent's own home, changed by its tool: a home point, and a way back to it.
    recorder.tool(f"{HOME}/SOUL.md", "# Soul\n\nWritten by a tool.\n", "turn-3")
    points = recorder.ask("rollback", "--all", "--dir", HOME)
    place.put(f"{PLACE}/points.json", json.dumps(points))
    do("rollback", "1", "--dir", HOME, code=(0, 3))
    place.put(f"{PLACE}/work/gone/pyproject.toml", "[project]\n")
    do("checkpoint", f"{PLACE}/work/gone")
    hermes_checkpoints(place)
    do("checkpoint", "adopt", code=(0, 3))
    do("checkpoint", "clear-legacy", "--yes")
    do("checkpoint", "clear", "--yes")
    do("undo", recorder.last("checkpoints-clear"))
    shutil.rmtree(place.at(f"{PLACE}/work/gone"))
    do("checkpoint", "prune", "--yes")


def hermes_checkpoints(place: FixedPlace) -> None:
    """A store as Hermes keeps it, and an older repository beside it."""
    base = place.at(f"{HOME}/checkpoints")
    tree = place.at(f"{PLACE}/work/of-hermes")
    os.makedirs(tree)
    with open(os.path.join(tree, "a.txt"), "w") as file:
        file.write("kept by Hermes\n")
    os.makedirs(base, exist_ok=True)
    for name, ref in (("store", "refs/hermes/0123456789abcdef"), ("fedcba9876543210", "refs/heads/main")):
        where = os.path.join(base, name)

        def git(*words: str, where: str = where) -> str:
            who = ["-c", "user.name=hermes", "-c", "user.email=hermes@local"]
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_DIR": where,
                "GIT_WORK_TREE": tree,
                "HOME": "/nowhere",
            }
            done = subprocess.run(
                ["git", *who, *words], env=environment, check=True, capture_output=True, text=True, cwd=tree
            )
            return done.stdout.strip()

        subprocess.run(["git", "init", "-q", "--bare", "--template=", "-b", "main", where], check=True)
        git("add", "-A")
        git("update-ref", ref, git("commit-tree", "-m", "before write", git("write-tree")))
        os.unlink(os.path.join(where, "index"))
        if name == "store":
            os.makedirs(os.path.join(where, "projects"))
            with open(os.path.join(where, "projects", "0123456789abcdef.json"), "w") as file:
                json.dump({"workdir": f"{PLACE}/work/of-hermes"}, file)
        else:
            with open(os.path.join(where, "HERMES_WORKDIR"), "w") as file:
                file.write(f"{PLACE}/work/of-hermes\n")
