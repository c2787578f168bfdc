"""A place that has the same path and the same machine name wherever and whenever it is used.

Records name homes, projects and machines in full. What one checkout recorded can be used by another only
where those names are true again. So commands run in a mount namespace of their own, in which `/srv` is a
directory of the caller's, and the machine has a name of ours. Nothing outside changes, and many can do it at
once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.home.homes import database_rows, is_sqlite, tree_facts
from support.users.processes import wait_until_none_has

PLACE = "/srv"
HOST = "recorded-host"
USER = f"{PLACE}/user"
HOME = f"{USER}/.hermes"
PROJECT = f"{PLACE}/work/project"
DATA = f"{USER}/.local/share/safekept"
_INSIDE = f'hostname {HOST} && mount --bind "$1" {PLACE} && cd "$2" && shift 2 && exec "$@"'
#: Among the commands of `FixedPlace.ask`: keep the state of a directory under another name.
COPY = "copy a tree"
_MANY = """
import contextlib, io, json, subprocess, sys
from safekept.cli.main import run
answers = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    if words[0] == "copy a tree":
        subprocess.run(["cp", "-a", *words[1:]], check=True)
        answers.append((0, "null", ""))
        continue
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*words, "--json"])
    answers.append((code, out.getvalue(), err.getvalue()))
json.dump(answers, sys.stdout)
"""
_ENTER = ("unshare", "--mount", "--uts", "--propagation", "private")


def ways_in() -> list[str] | None:
    """How to begin a command that runs there; None where this machine lets nobody do that."""
    for words in (_ENTER, (*_ENTER, "--user", "--map-root-user")):
        probe = [*words, "sh", "-c", f"hostname {HOST} && mount --bind /tmp {PLACE}"]
        try:
            if subprocess.run(probe, capture_output=True).returncode == 0:
                return list(words)
        except OSError:
            return None
    return None


@dataclass
class FixedPlace:
    """`directory` as `/srv`, with the safekept of this Python on its PATH."""

    directory: str
    enter: list[str]
    python: str = sys.executable

    def at(self, path: str) -> str:
        """Where a path of the place is for everybody else."""
        assert path == PLACE or path.startswith(PLACE + "/"), path
        return self.directory + path.removeprefix(PLACE)

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.at(path), mode)

    def furnish(self) -> None:
        """The programs that the place brings along: safekept, and stand-ins for those of the machine."""
        self.put(
            f"{PLACE}/bin/safekept",
            f'#!/bin/sh\nexec {shlex.quote(self.python)} -I -m safekept "$@"\n',
            0o755,
        )
        self.put(f"{PLACE}/bin/notice", f"#!/bin/sh\ncat >>{PLACE}/notices\necho >>{PLACE}/notices\n", 0o755)
        table = f"{PLACE}/crontab"
        self.put(
            f"{PLACE}/bin/crontab",
            f"#!/bin/sh\ncase $1 in -l) cat {table} ;; -r) rm {table} ;; *) cat >{table} ;; esac\n",
            0o755,
        )

    def run(
        self,
        *words: str,
        cwd: str = USER,
        told: str = "",
        user: str = USER,
        more: Mapping[str, str] | None = None,
        program: list[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `safekept …` there, and wait for what a hook left running."""
        inside = ["sh", "-c", _INSIDE, "sh", self.directory, cwd]
        environment = {
            "PATH": f"{PLACE}/bin:{os.environ['PATH']}",
            "HOME": user,
            "NO_COLOR": "1",
            "PYTHONUTF8": "1",
            "SAFEKEPT_HELPER": "0",
            **(more or {}),
        }
        done = subprocess.run(
            [*self.enter, *inside, *(program or [f"{PLACE}/bin/safekept"]), *words],
            input=told,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env=environment,
        )
        if words[:1] == ("hook",):
            self._wait_until_quiet(user)
        return done

    def ask(self, *commands: list[str], user: str = USER) -> list[Any]:
        """What each of these commands answers with `--json`, all in one process. None of them may fail."""
        done = self.run(
            told=json.dumps(commands), user=user, cwd=user, program=[self.python, "-I", "-c", _MANY]
        )
        assert done.returncode == 0, done.stderr
        found = []
        for words, (code, out, err) in zip(commands, json.loads(done.stdout), strict=True):
            assert code in (0, 3, 4), f"safekept {' '.join(words)} ended with {code}\n{out}\n{err}"
            found.append(json.loads(out))
        return found

    def texts(self, path: str) -> dict[str, str]:
        """The files of a directory, by name."""
        return {name: _read(self.at(f"{path}/{name}")).decode() for name in sorted(os.listdir(self.at(path)))}

    def journal_states(self, user: str, verb: str) -> list[str]:
        """How the operations of this verb went on, by the lines of a user's journal."""
        lines = _read(self.at(f"{user}/.local/share/safekept/journal.jsonl")).splitlines()
        return [str(line["state"]) for line in map(json.loads, lines) if line["verb"] == verb]

    def copy(self, directory: str) -> FixedPlace:
        """The same place once more, to be changed."""
        subprocess.run(["cp", "-a", self.directory, directory], check=True)
        return FixedPlace(directory, self.enter, self.python)

    def _wait_until_quiet(self, user: str) -> None:
        """The mark after a turn is made by a process that nobody waits for; here somebody does."""
        place = os.stat(self.directory)

        def ours(process: str) -> bool:
            """By what it sees as `/srv`."""
            there = os.stat(f"{process}/root{PLACE}")
            return (there.st_dev, there.st_ino) == (place.st_dev, place.st_ino)

        wait_until_none_has(f"HOME={user}", ours)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def held(root: str, *, times: bool = True) -> dict[str, list[object]]:
    """What a tree holds, to be compared: bytes, modes, times, links; of databases their own rows."""
    facts = {name: list(fact) for name, fact in tree_facts(root, times=times, databases="bytes").items()}
    facts["."][2] = 0  # of the directory itself, which whoever made it there has changed
    for name in list(facts):
        path = os.path.join(root, name)
        if os.path.isfile(path) and not os.path.islink(path) and is_sqlite(path):
            facts[name] = ["database", facts[name][1], _own_rows(path)]
            for suffix in ("-wal", "-shm"):
                facts.pop(name + suffix, None)
    return {os.fsencode(name).decode("ascii", "backslashreplace"): fact for name, fact in facts.items()}


def _own_rows(path: str) -> str:
    """Without the tables of a search index: how those are laid out is SQLite's own affair."""
    rows = {name: found for name, found in database_rows(path).items() if "_fts" not in name}
    return hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()


def change_database(path: str, *statements: str) -> None:
    """Change a database of the place while nobody uses it, and leave no sidecar."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
