"""SQLite databases of a project, by their header: one committed state in, every committed row back."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take

WRITER = """
import os, sqlite3, sys
path, mode, end = sys.argv[1:]
rows = sqlite3.connect(path)
rows.execute(f"pragma journal_mode={mode}")
rows.execute("create table t(x)")
rows.executemany("insert into t values (?)", [(number,) for number in range(500)])
rows.commit()
if end == "killed":
    rows.execute("insert into t values (-1)")
    os.kill(os.getpid(), 9)
if end == "open":
    rows.execute("insert into t values (-1)")
    print("ready", flush=True)
    sys.stdin.read()
"""


def rows_of(path):
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("select x from t order by x")]
    finally:
        connection.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("end", ["closed", "killed", "open"])
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_every_committed_row_comes_back_and_no_other(mode, end, tmp_path):
    """Closed, left by a killed writer with its log, or held with a transaction that was never committed."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    path = str(project / "rows.of.any.name")
    words = [sys.executable, "-I", "-c", WRITER, path, mode, end]
    writer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with writer, Store.open(str(tmp_path / "store")) as store:
        if end == "open":
            writer.stdout.readline()
        else:
            writer.wait()
        taken = take(store, str(project), kind="manual")
        assert not taken.skipped and not taken.remarks
        writer.kill()
        writer.wait()
        for harm in (delete_rows, remove, truncate):
            harm(path)
            plan = plan_rollback(store, str(project), taken.checkpoint, overwrite_mine=True)
            done = roll_back(store, plan)
            assert done.complete and not done.left, harm
            assert rows_of(path) == list(range(500)), harm


def delete_rows(path):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("delete from t")
    connection.close()


def remove(path):
    for suffix in ("", "-wal", "-shm", "-journal"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def truncate(path):
    with open(path, "wb"):
        pass
