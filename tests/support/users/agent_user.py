"""Somebody with an agent that empties the home: as another user of this machine, whom modes bind.

By the launcher and in processes of their own. The agent is a script that speaks as Claude Code does: it is
connected and works in three projects.
"""

from __future__ import annotations

import json
import os
import subprocess

from support.home.homes import make_hermes_home
from support.places import CHECKOUT
from support.users.another_user import as_another_user, give
from support.users.processes import wait_until_none_has

SAFEKEPT = os.path.join(CHECKOUT, "safekept")
#: One with uncommitted work, one that is not in git, one that is a worktree of the first.
PROJECTS = ("work", "notes", "tree")
#: A user without a name, and not the one whom the keeper of a test becomes.
AGENT = 61_003


class AgentUser:
    """Somebody with an agent's home, three projects, connected hooks and a schedule."""

    def __init__(self, place: str) -> None:
        self.place, self.home, self.keeper = place, os.path.join(place, "somebody"), ""
        self.programs, self.saved = os.path.join(place, "bin"), os.path.join(place, "saved")
        for path in (self.home, self.programs, self.path(".claude")):
            os.makedirs(path)
        make_hermes_home(self.path(".hermes"), profiles=(), awkward=False)
        self.put(".claude/settings.json", "{}\n")
        table = os.path.join(place, "table")
        self.put(
            os.path.join(self.programs, "crontab"),
            f'#!/bin/sh\ncase "$1" in -l) cat {table} 2>/dev/null || {{ echo no crontab >&2; exit 1; }};;\n'
            f"-) cat > {table};;\n-r) rm -f {table};; esac\n",
            0o755,
        )
        give(place, AGENT)
        self.begin = as_another_user(place, user=AGENT)

    def path(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        path = self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def run(self, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": self.home,
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "LANG": "C.UTF-8",
            "SAFEKEPT_HELPER": "0",
            "SAFEKEPT_KEEPER_SOCKET": self.keeper,
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        return subprocess.run(
            [*self.begin, *words],
            **{"env": environment, "cwd": "/", "input": told, "timeout": 300},
            capture_output=True,
            text=True,
        )

    def shell(self, script: str) -> None:
        done = self.run("sh", "-ec", script)
        assert done.returncode == 0, (script, done.stderr)

    def safekept(self, *words: str, code: int = 0) -> str:
        done = self.run(SAFEKEPT, *words)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def turn(self, project: str, number: int) -> None:
        """One turn of the agent: it changes files, and ends."""
        about = {"session_id": project, "prompt_id": f"{project}-{number}", "cwd": self.path(project)}
        about |= {"transcript_path": self.path(".claude", "t.jsonl"), "permission_mode": "default"}
        tool = {"tool_name": "Bash", "tool_input": {"command": "make it so"}, "tool_use_id": "one"}
        self.hook({**about, "hook_event_name": "UserPromptSubmit", "prompt": "go on"})
        self.hook({**about, "hook_event_name": "PreToolUse", **tool})
        change = f"echo turn {number} >> agent.txt && mkdir -p src && echo x > src/{number}.py"
        self.shell(f"cd ~/{project} && {change}")
        self.hook({**about, "hook_event_name": "PostToolUse", **tool, "tool_response": {"stdout": ""}})
        self.hook({**about, "hook_event_name": "Stop", "stop_hook_active": False})

    def hook(self, event: dict[str, object]) -> None:
        done = self.run(SAFEKEPT, "hook", "claude-code", told=json.dumps(event))
        assert (done.returncode, done.stdout) == (0, ""), done

    def files(self, *below: str) -> dict[str, bytes]:
        found = {}
        for parent, names, files in os.walk(self.path(*below)):
            names[:] = [name for name in names if name != ".git"]
            for name in files:
                if name == ".git" or name.endswith(("-wal", "-shm")):
                    continue
                with open(os.path.join(parent, name), "rb") as file:
                    found[os.path.relpath(os.path.join(parent, name), self.home)] = file.read()
        return found

    def everything(self) -> dict[str, bytes]:
        parts = (*PROJECTS, ".hermes", ".claude")
        return {path: content for part in parts for path, content in self.files(part).items()}

    def repository(self) -> str:
        """What git knows of the first project and its worktree."""
        looks = (["log", "--all", "--format=%H %s"], ["status", "--porcelain"], ["stash", "list"])
        return "\n".join(self.run("git", "-C", self.path("work"), *words).stdout for words in looks)

    def furnish(self) -> None:
        """Three projects, two homes with snapshots, a connected agent with two turns in each, a schedule."""
        self.shell(
            """
            git init -q ~/work && cd ~/work && git config user.email a@b.c && git config user.name a
            printf '.env\\n' > .gitignore && printf 'TOKEN=secret\\n' > .env
            printf 'committed\\n' > kept.txt && git add . && git commit -qm first
            printf 'stashed\\n' > kept.txt && git stash -q
            printf 'not committed\\n' > kept.txt && printf 'new\\n' > untracked.txt
            git worktree add -q ~/tree -b other
            mkdir ~/notes && cd ~/notes && printf '{}\\n' > package.json && printf 'idea\\n' > idea.txt
            """
        )
        self.safekept("snapshot", "--home", self.path(".hermes"))
        self.safekept("connect", "claude-code", "--yes")
        self.safekept("settings", "schedule.at", "04:10")
        self.safekept("schedule", "install", "--yes")
        for project in PROJECTS:
            for number in (1, 2):
                self.turn(project, number)
        wait_until_none_has(f"HOME={self.home}")  # what git hides is kept behind the turn
        for name in (".claude", ".hermes"):
            self.safekept("snapshot", "--home", self.path(name))
        wait_until_none_has(f"HOME={self.home}")
        subprocess.run(["cp", "-a", self.home, self.saved], check=True)

    def own_files(self) -> dict[str, bytes]:
        names = ("config.toml", "vault.key")
        return {path: one for path, one in self.files(".config", "safekept").items() if path.endswith(names)}
