"""Ways to lose work that git does not hold, each run by a shell behind the hook of Claude Code, and undone.

The hook is the command that `connect` writes, with a helper as users have one. After the first pass in the
background every way is the same: the hook before the command, the command, the hook after it, one `safekept
rollback 1`; then every byte, mode and time is compared, and the rows of the databases.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator

import pytest

from conftest import run_safekept
from support.commands.waiting import wait_until
from support.projects.checkpoints import put, tree_on_disk
from support.projects.hidden_halves import git

WAYS = {
    "git clean of what is ignored": "git clean -fdX",
    "git clean of everything": "git clean -fdx",
    "git clean in one directory": "cd data && git clean -fdx .",
    "a secret emptied": ": > .env",
    "a secret deleted": "rm .env config/.env.local",
    "a secret overwritten by its template": "cp .env.example .env",
    "a secret edited in place": "sed -i 's/KEY/WORSE/' .env",
    "a secret edited, its time put back": "touch -r .env t; sed -i s/KEY/YEK/ .env; touch -r t .env; rm t",
    "a secret that everybody may read": "chmod 777 .env config/.env.local",
    "a secret replaced by a link": "rm .env && ln -s config/.env.local .env",
    "a secret replaced by a directory": "rm .env && mkdir .env && touch .env/x",
    "a key shredded": "shred -u certs/server.key",
    "a database deleted with its log": "rm data/app.db*",
    "a live database deleted with its log": "rm data/live.db*",
    "rows deleted": "sqlite3 data/app.db 'delete from t'",
    "rows deleted from a live database": "sqlite3 data/live.db 'delete from t'",
    "a table dropped": "sqlite3 data/app.db 'drop table t'",
    "a database truncated": "truncate -s 0 data/app.db",
    "a database replaced": "rm data/app.db && sqlite3 data/app.db 'create table t (x)'",
    "the data directory deleted": "rm -rf data",
    "the data directory moved away": "mv data old-data",
    "uploads found and deleted": "find data -name '*.pdf' -delete",
    "an archive unpacked over files": "tar xf spoiled.tar",
    "uploads edited in place": "perl -pi -e 's/PDF/FDP/' data/uploads/*.pdf",
    "a large file truncated": "truncate -s 100 model.bin",
    "a large file deleted": "rm model.bin",
    "ignored files of one kind deleted": "rm -f *.pdf",
    "rules that hide everything, then damage": "echo '*' > .gitignore; echo bad > src/a.py; rm -rf data .env",
    "a marker planted, then damage": "touch data/pyvenv.cfg && rm -r data/uploads",
    "all that can be seen, and the rest": "find . -mindepth 1 -not -path './.git*' -delete",
    "everything replaced by a fresh checkout": "git stash -uaq && git stash drop -q",
}
DATABASES = ("data/app.db", "data/live.db")


class Shell:
    """One user, one project, and an agent that runs commands behind the hook."""

    def __init__(self, directory: str) -> None:
        self.project, self.fresh = os.path.join(directory, "project"), os.path.join(directory, "fresh")
        user = os.path.join(directory, "user")
        os.makedirs(user)
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self.environment = {**keep, "HOME": user, "PYTHONUTF8": "1", "NO_COLOR": "1"}
        for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
            self.environment |= {f"{name}_NAME": "a", f"{name}_EMAIL": "a@b.c"}
        self.calls = 0
        self._fill()
        assert self.safekept("connect", "claude-code", "--yes").returncode == 0
        with open(os.path.join(user, ".claude", "settings.json")) as file:
            self.hooks = json.load(file)["hooks"]
        self.tell("SessionStart", source="startup")
        self.tell("UserPromptSubmit", prompt="work")
        place = os.path.join(user, ".local/share/safekept/checkpoints/projects")
        wait_until(lambda: os.path.isdir(place) and self._kept(place), "the first pass")

    def _kept(self, place: str) -> bool:
        return any(os.path.exists(os.path.join(place, name, "hidden.jsonl")) for name in os.listdir(place))

    def _fill(self) -> None:
        for name in "abc":
            put(os.path.join(self.project, "src", f"{name}.py"), f"print('{name}')\n")
        put(os.path.join(self.project, ".gitignore"), "data/\n*.pdf\n/spoiled.tar\n")
        put(os.path.join(self.project, ".env"), "KEY=1\n" * 100, 0o600)
        put(os.path.join(self.project, ".env.example"), "KEY=\n")
        put(os.path.join(self.project, "config", ".env.local"), "LOCAL=1\n", 0o640)
        put(os.path.join(self.project, "certs", "server.key"), "-----KEY-----\n", 0o400)
        put(os.path.join(self.project, "model.bin"), os.urandom(11 << 20))
        for number in range(5):
            put(os.path.join(self.project, "data", "uploads", f"{number}.pdf"), b"%PDF" + os.urandom(3000))
        put(os.path.join(self.project, "paper.pdf"), b"%PDF" + os.urandom(3000))
        put(os.path.join(self.fresh, ".env"), "SPOILED=1\n")
        put(os.path.join(self.fresh, "data", "uploads", "0.pdf"), "spoiled\n")
        subprocess.run(
            ["tar", "cf", os.path.join(self.project, "spoiled.tar"), "-C", self.fresh, "."], check=True
        )
        for name in DATABASES:
            database = sqlite3.connect(os.path.join(self.project, name))
            if name == "data/live.db":
                database.execute("pragma journal_mode=wal")
            with database:
                database.execute("create table t (x)")
                database.executemany("insert into t values (?)", [(number,) for number in range(50)])
            database.close()
        git(self.project, "init", "-q")
        git(self.project, "add", "-A")
        git(self.project, "commit", "-qm", "all")

    def safekept(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_safekept(*words, environment=self.environment, cwd=self.project, timeout=300)

    def tell(self, event: str, **more: object) -> None:
        message = {"hook_event_name": event, "session_id": "s", "cwd": self.project, **more}
        for entry in self.hooks.get(event, ()):
            for hook in entry["hooks"]:
                done = subprocess.run(
                    ["sh", "-c", hook["command"]],
                    input=json.dumps(message).encode(),
                    env=self.environment,
                    cwd=self.project,
                    capture_output=True,
                    timeout=300,
                )
                assert done.returncode == 0, done.stderr

    def run(self, command: str) -> None:
        """A command of the agent's, with the hooks around it."""
        self.calls += 1
        told = {"tool_name": "Bash", "tool_use_id": str(self.calls), "tool_input": {"command": command}}
        self.tell("PreToolUse", **told)
        subprocess.run(["bash", "-c", command], env=self.environment, cwd=self.project, check=True)
        self.tell("PostToolUse", **told, tool_response={})

    def state(self) -> dict[str, object]:
        """Everything but git's own, each byte, mode and time; of databases their rows."""
        found: dict[str, object] = {
            path: facts
            for path, facts in tree_on_disk(self.project).items()
            if not path.startswith(DATABASES)
        }
        for name in DATABASES:
            found[name] = self._rows(name)
        return found

    def _rows(self, name: str) -> object:
        path = os.path.join(self.project, name)
        if not os.path.exists(path):
            return "gone"
        copy = os.path.join(self.fresh, "copy.db")
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        database = sqlite3.connect(copy)
        try:
            return database.execute("select x from t order by x").fetchall()
        except sqlite3.DatabaseError as error:
            return str(error)
        finally:
            database.close()
            for suffix in ("", "-wal", "-shm"):
                if os.path.exists(copy + suffix):
                    os.unlink(copy + suffix)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    found = Shell(str(tmp_path_factory.mktemp("lost")))
    try:
        yield found
    finally:
        found.safekept("helper", "stop")


@pytest.mark.parametrize("way", WAYS)
def test_what_a_command_destroyed_comes_back_whole(shell: Shell, way: str) -> None:
    before = shell.state()
    shell.run(WAYS[way])
    assert shell.state() != before, "the command destroyed nothing"
    done = shell.safekept("rollback", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert shell.state() == before
