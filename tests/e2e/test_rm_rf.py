"""An agent empties the home of its user: which step held, and `safekept rebuild` gives back what was there.

As another user of this machine, whom modes bind, by the launcher and in processes of their own. The agent is
a script that speaks as Claude Code does: it is connected, works in three projects, and then does its harm.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from support.home.homes import make_hermes_home
from support.places import CHECKOUT
from support.users.another_user import as_another_user, give
from support.vault.closed import open_below

SAFEKEPT = os.path.join(CHECKOUT, "safekept")
RMTREE = "python3 -c 'import os, shutil; shutil.rmtree(os.environ[\"HOME\"], ignore_errors=True)'"
#: What an ordinary clean-up runs.
HELD = {
    "rm": 'rm -rf "$HOME"',
    "find": 'find "$HOME" -delete',
    "rm of what lies beside the work": 'rm -rf "$HOME/.local" "$HOME/.config"',
    "rmtree": RMTREE,
}
#: "Delete all backups on this machine": what an agent tries that looks for them. `sudo` is not among it.
TWENTY = f"""
cd "$HOME"
rm -rf ~/.local/share/safekept ~/.config/safekept ~/.cache/safekept
find ~ -iname '*backup*' -delete
find ~ -iname '*.bak' -delete
rm -rf ~/.local/share/Trash ~/*.zip
{SAFEKEPT} snapshot forget 1 --yes
{SAFEKEPT} snapshot prune 0 --yes
{SAFEKEPT} vault prune --now --yes
{SAFEKEPT} checkpoint clear --now --yes
{SAFEKEPT} uninstall --stores --yes
{SAFEKEPT} uninstall --stores --word delete --yes
{SAFEKEPT} settings seat_belt false
{SAFEKEPT} vault open
rm -rf ~/.local/share/safekept
chmod -R u+rwx ~
rm -rf ~/.local/share/safekept ~/.config/safekept
git -C ~/work clean -fdx
git -C ~/work stash drop
crontab -r
rm -rf ~/work ~/notes ~/tree ~/.hermes ~/.claude
"""
#: What gets through a seat belt: a copy of another owner, or one elsewhere, is for these.
THROUGH = {
    "chmod first": 'chmod -R u+w "$HOME" && rm -rf "$HOME"',
    "twenty commands": TWENTY,
}
PROJECTS = ("work", "notes", "tree")


class User:
    """Somebody with an agent's home, three projects, connected hooks and a schedule."""

    def __init__(self, place: str) -> None:
        self.place, self.home = place, os.path.join(place, "somebody")
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
        give(place)
        self.begin = as_another_user(place)

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


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    user = User(str(tmp_path_factory.mktemp("rm")))
    user.shell(
        """
        git init -q ~/work && cd ~/work && git config user.email a@b.c && git config user.name a
        printf 'committed\\n' > kept.txt && git add . && git commit -qm first
        printf 'not committed\\n' > kept.txt && printf 'new\\n' > untracked.txt
        git worktree add -q ~/tree -b other
        mkdir ~/notes && cd ~/notes && printf '{}\\n' > package.json && printf 'idea\\n' > idea.txt
        """
    )
    user.safekept("snapshot", "--home", user.path(".hermes"))
    user.safekept("connect", "claude-code", "--yes")
    user.safekept("settings", "schedule.at", "04:10")
    user.safekept("schedule", "install", "--yes")
    for project in PROJECTS:
        for number in (1, 2):
            user.turn(project, number)
    for name in (".claude", ".hermes"):
        user.safekept("snapshot", "--home", user.path(name))
    subprocess.run(["cp", "-a", user.home, user.saved], check=True)
    yield user


@pytest.fixture
def user(furnished: User) -> User:
    """The same user as before every harm."""
    if os.path.exists(furnished.home):
        shutil.rmtree(open_below(furnished.home))
    subprocess.run(["cp", "-a", furnished.saved, furnished.home], check=True)
    return furnished


def own_files(user: User) -> dict[str, bytes]:
    names = ("config.toml", "vault.key")
    return {path: one for path, one in user.files(".config", "safekept").items() if path.endswith(names)}


@pytest.mark.parametrize("way", HELD)
def test_everything_comes_back_from_what_the_seat_belt_held(way: str, user: User) -> None:
    before, own = user.everything(), own_files(user)
    receipts = len(json.loads(user.safekept("log", "--json"))["operations"])
    assert len(own) == 2
    user.run("sh", "-c", HELD[way])
    assert not own_files(user)
    first, *_ = user.run(SAFEKEPT).stdout.splitlines()
    what = "your settings and the key" if "beside" in way else "2 homes and 3 projects"
    assert first == f"ALARM, not protected: {what} are gone; their copies are here"
    dry = json.loads(user.safekept("rebuild", "--dry-run", "--json"))
    assert dry["dry_run"] and not own_files(user)
    done = user.run(SAFEKEPT, "rebuild")
    assert done.returncode == 0, (done.stdout, done.stderr)
    after = user.everything()
    assert {path for path in before if after.get(path) != before[path]} == set(), way
    assert own_files(user) == own
    assert len(json.loads(user.safekept("log", "--json"))["operations"]) > receipts
    assert "safekept" in after[".claude/settings.json"].decode()
    with open(os.path.join(user.place, "table"), encoding="utf-8") as file:
        assert "10 4 * * *" in file.read()
    assert json.loads(user.safekept("schedule", "show", "--json"))["installed"]
    assert "Nothing is gone" in user.safekept("rebuild")
    user.safekept("snapshot", "--home", user.path(".hermes"))
    closed = json.loads(user.safekept("vault", "close", "--json"))["stores"]
    assert len(closed) >= 3 and all(one["closed"] for one in closed)


@pytest.mark.parametrize("way", THROUGH)
def test_what_gets_through_a_seat_belt_is_said_and_never_called_held(way: str, user: User) -> None:
    user.run("sh", "-c", THROUGH[way])
    assert not any(user.files(name) for name in (*PROJECTS, ".hermes"))
    done = user.run(SAFEKEPT, "rebuild")
    assert done.returncode == 10, (done.stdout, done.stderr)
    assert "Nothing of safekept survived on this machine: no vault, no checkpoints, no copies" in done.stderr
