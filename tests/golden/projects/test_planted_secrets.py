"""Secrets that are planted in a project are searched for everywhere: none is found outside of the project.

Searched are the checkpoint store (every object, unpacked), every other file of safekept's, everything that it
prints and answers, every error, and the arguments and environments of every process that it starts.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest

import safekept
from safekept.integrations.calls import Call
from safekept.integrations.chat.chat import Conversation, dispatch
from safekept.integrations.places import Place
from safekept.integrations.protect import protect
from support.commands.in_process import spoken
from support.projects.checkpoints import put
from support.projects.hidden_halves import git
from support.users.contexts import throwaway

MARK, IGNORED = "planted-9c1f4e", "data/notes.txt"
SECRETS = {
    ".env": f"TOKEN={MARK}-env\n",
    "config/.env.production": f"PASSWORD={MARK}-production\n",
    "certs/server.key": f"-----BEGIN PRIVATE KEY-----\n{MARK}-key\n",
    "id_rsa": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MARK}-ssh\n",
    IGNORED: f"{MARK}-ignored\n",
    "credentials.json": f'{{"token": "{MARK}-json"}}\n',
    ".aws/credentials": f"[default]\naws_secret_access_key = {MARK}-aws\n",
    ".ssh/config": f"# {MARK}-place\n",
    ".netrc": f"machine x login y password {MARK}-netrc\n",
    ".git-credentials": f"https://u:{MARK}-git@example.invalid\n",
    "deploy/kubeconfig.pem": f"{MARK}-pem\n" * 3,
    "deploy/.pgpass": f"*:*:*:u:{MARK}-pgpass\n",
}

_started: list[object] = []
_listening = [False]


def _hear(event: str, given: tuple[object, ...]) -> None:
    if _listening[0] and event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"):
        _started.append(given)


sys.addaudithook(_hear)


@pytest.fixture
def started() -> Iterator[list[object]]:
    """What was given to every process that this one starts."""
    _started.clear()
    _listening[0] = True
    yield _started
    _listening[0] = False


def plant(project: str, more: str = "") -> None:
    for name, text in SECRETS.items():
        put(os.path.join(project, name), text + more, 0o600)
    with sqlite3.connect(os.path.join(project, "data", "app.db")) as database:
        database.execute("create table if not exists t (x)")
        database.execute("insert into t values (?)", (f"{MARK}-row{more}",))
    database.close()


def objects_of(store: str) -> bytes:
    """Every object of a git repository, unpacked."""
    words = ["git", "--git-dir", store, "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(words, check=True, capture_output=True, env={"PATH": os.environ["PATH"]}).stdout


def test_no_planted_secret_is_found_anywhere(tmp_path, monkeypatch, started):
    here = throwaway(tmp_path)
    user, project = here.places.user_home, str(tmp_path / "project")
    put(os.path.join(project, "a.txt"), "visible\n")
    put(os.path.join(project, ".gitignore"), "data/\n")
    plant(project)
    git(project, "init", "-q")
    say = spoken(monkeypatch, user)
    said = []

    def run(*words: str, codes: tuple[int, ...] = (0,)) -> None:
        done = say(*words)
        assert done.code in codes, done
        said.append(done.out + done.err)

    run("checkpoint", project)
    place = Place.load({"HOME": user, "PATH": os.environ["PATH"]})
    words = {"directory": project, "session": "s", "turn": "t"}
    # An ignored file that a tool names is no secret: it is kept by its name, as every named file is.
    named = tuple(os.path.join(project, name) for name in SECRETS if name != IGNORED)
    for call in (
        Call("turn", "claude-code", **words),
        Call("before", "claude-code", "Write", paths=named, **words),
        Call("before", "claude-code", "Bash", shell=True, **words),
    ):
        said.append(json.dumps(protect(call, place).as_dict()))
    plant(project, "spoiled\n")
    put(os.path.join(project, "a.txt"), "changed\n")
    run("checkpoint", project, "--show", codes=(0, 3))
    for json_too in ((), ("--json",)):
        run("rollback", "--dir", project, *json_too)
        run("rollback", "1", "--diff", "--dir", project, *json_too)
        run("rollback", "1", "--dry-run", "--dir", project, *json_too)
        run("status", *json_too, codes=(0, 3, 4))
        run("doctor", *json_too, codes=(0, 3, 4))
    assert any(".env: " in text and "bytes then" in text for text in said), "names and sizes are shown"
    chat = Conversation(here, project)
    for line in ("/rollback", "/rollback diff 1", "/rollback diff 1 .env", "/rollback 1 --dry-run"):
        said.append(str(dispatch(chat, line)))
    checkpoints = safekept.Checkpoints(project)
    for told in (checkpoints.list(), checkpoints.diff(), checkpoints.rollback(dry_run=True)):
        said.append(repr(told))
    run("rollback", "1", "--dir", project)
    run("log", "--json")
    run("log")
    run("undo", "--dry-run", codes=(0, 3))
    run("ui", "--export", str(tmp_path / "page.html"))
    with open(tmp_path / "page.html") as file:
        said.append(file.read())
    with open(here.places.vault_key_file) as file:
        key = file.read()
    put(here.places.vault_key_file, "0" * len(key), 0o600)
    plant(project, "again\n")
    run("checkpoint", project, codes=(3,))
    run("rollback", "1", "--dir", project, codes=(1, 3))
    run("rollback", "1", ".env", "--dir", project, "--json", codes=(1, 3))
    put(here.places.vault_key_file, key, 0o600)
    with open(os.path.join(project, ".env")) as file:
        assert MARK in file.read(), "what is searched for is there to be found"

    mark = MARK.encode()
    for text in said:
        assert MARK not in text, text
    assert started and mark not in repr(started).encode()
    store = os.path.join(here.places.data_directory, "checkpoints", "store")
    unpacked = objects_of(store)
    assert b"visible\n" in unpacked and mark not in unpacked
    searched = 0
    for above, _, names in os.walk(user):
        for name in names:
            with open(os.path.join(above, name), "rb") as file:
                data = file.read()
            searched += 1
            assert mark not in data, os.path.join(above, name)
    assert searched > 20
