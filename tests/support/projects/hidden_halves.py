"""A throwaway user with one project of which much is hidden, and the verbs that tests of it need."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from dataclasses import replace

from safekept.actions.base.context import UserContext
from safekept.actions.base.own_places import own_places
from safekept.actions.projects.checkpoint import CheckpointPolicy, CheckpointTaken, take_checkpoint
from safekept.actions.projects.hidden.record import kept_looks
from safekept.actions.projects.hidden.repository import open_hidden
from safekept.actions.projects.rollback import RollbackOutcome, RollbackRequest, rollback
from safekept.checkpoints.scan.hidden_left import HiddenLimits
from safekept.checkpoints.take.taking import TakeSettings
from safekept.vault.snapshots import list_snapshots
from support.platforms.needs import where_the_disk_can
from support.projects.checkpoints import put
from support.users.contexts import throwaway

PASSWORD = "hunter2-7f3c9a"  # planted, to be searched for
RULES = "data/\n*.pdf\nnode_modules/\ntarget/\n"


class HiddenWorld:
    """`project` holds one visible file; what is hidden comes from `fill`."""

    def __init__(self, directory: object, **limits: object) -> None:
        self.context: UserContext = throwaway(directory)
        self.project = os.path.join(str(directory), "project")
        put(os.path.join(self.project, "a.txt"), "visible\n")
        put(os.path.join(self.project, ".gitignore"), RULES)
        git(self.project, "init", "-q")
        self.limits(**limits)

    def limits(self, **limits: object) -> None:
        hidden = replace(HiddenLimits(avoid=tuple(own_places(self.context))), **limits)
        self.policy = CheckpointPolicy(take=TakeSettings(hidden=hidden, durable=False))

    def path(self, name: str) -> str:
        return os.path.join(self.project, name)

    def put(self, name: str, content: bytes | str = b"", mode: int | None = None) -> str:
        return put(self.path(name), content, mode)

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb") as file:
            return file.read()

    def fill(self) -> None:
        """Secrets, ignored files and a database, each as projects have them."""
        self.put(".env", f"PASSWORD={PASSWORD}\n", 0o600)
        self.put("keys/server.pem", f"-----{PASSWORD}-----\n", 0o400)
        self.put("data/notes/one.txt", "one\n")
        self.put("report.pdf", b"%PDF" + bytes(range(256)))
        self.rows("data/app.db", "create table t (x); insert into t values (1), (2), (3)")
        with where_the_disk_can():
            os.symlink("notes/one.txt", self.path("data/link"))
        os.makedirs(self.path("data/empty"))

    def rows(self, name: str, script: str = "") -> list[object]:
        """Run a script in a database of the project; afterwards every row of its table."""
        connection = sqlite3.connect(self.path(name))
        try:
            with connection:
                connection.executescript(script)
            return [row[0] for row in connection.execute("select x from t order by x")]
        finally:
            connection.close()

    def take(self, reason: str = "") -> CheckpointTaken:
        return take_checkpoint(self.context, self.project, self.policy, reason=reason)

    def rollback(self, target: str = "1", *files: str, **more: object) -> RollbackOutcome:
        request = RollbackRequest(self.project, target, files, settings=self.policy.take, **more)
        return rollback(self.context, request)

    def undo(self) -> RollbackOutcome:
        return self.rollback("", undo=True)

    def snapshots(self) -> list[str]:
        """The ids of all snapshots of hidden halves."""
        with open_hidden(self.context) as repository:
            return [one.id for one in list_snapshots(repository)[0]]

    def looks(self) -> int:
        return len(kept_looks(self.context, self.project).looks)


def git(directory: str, *words: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }
    subprocess.run(["git", *words], cwd=directory, env=environment, check=True, capture_output=True)
