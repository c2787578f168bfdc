"""A conversation that safekept brought back: the real Hermes reads it, finds it and resumes it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from support.commands.in_process import spoken
from support.users.contexts import throwaway
from support.vault.snapshots import take

MAKE = """
import sys, pathlib, hermes_state
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
db.create_session("root", "cli", model="some/model")
for n in range(4):
    db.append_message("root", ("user", "assistant")[n % 2], f"root turn {n} about kumquats")
db.end_session("root", "compression")
db.create_session("tip", "cli", model="some/model", parent_session_id="root")
db.append_message("tip", "user", "where did we leave the quetzalcoatl essay?")
calls = [{"id": "1", "function": {"name": "read_file"}}]
db.append_message("tip", "assistant", "at the serpent", tool_calls=calls)
db.set_session_title("tip", "The essay")
db.create_session("other", "telegram")
db.append_message("other", "user", "unrelated platypus")
db.close()
"""

LOSE = """
import sys, pathlib, hermes_state
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
assert db.delete_session("tip") and db.delete_session("root")
db.create_session("newer", "cli")
for n in range(3):
    db.append_message("newer", "user", f"newer {n}")
print(len(db.search_messages("quetzalcoatl")))
db.close()
"""

JUDGE = """
import sys, pathlib, json, hermes_state
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
out = {
    "said": [m["content"] for m in db.get_messages_as_conversation("tip")],
    "root": [m["content"] for m in db.get_messages("root")],
    "found": [m["session_id"] for m in db.search_messages("quetzalcoatl")],
    "title": db.get_session_title("tip"),
    "lineage": db.get_conversation_root("tip"),
    "others": [m["content"] for name in ("newer", "other") for m in db.get_messages(name)],
}
db.append_message("tip", "user", "let us go on with the axolotl")
out["after"] = [m["session_id"] for m in db.search_messages("axolotl")]
db.close()
print(json.dumps(out))
"""


def hermes_says(hermes_python: str, script: str, database: str, nowhere: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": nowhere, "HERMES_HOME": nowhere}
    done = subprocess.run(
        [hermes_python, "-I", "-c", script, database], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("taken", [False, True], ids=["ids free", "ids taken"])
def test_hermes_reads_searches_and_resumes_a_conversation_that_came_back(
    tmp_path, monkeypatch, hermes_python, taken
):
    here = throwaway(tmp_path)
    say = spoken(monkeypatch, here.places.user_home)
    home, nowhere = os.path.join(here.places.user_home, ".hermes"), str(tmp_path / "nowhere")
    os.makedirs(home)
    os.makedirs(nowhere)
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write("model: {}\n")
    database = os.path.join(home, "state.db")
    hermes_says(hermes_python, MAKE, database, nowhere)
    take(here, home)
    assert hermes_says(hermes_python, LOSE, database, nowhere).strip() == "0"
    if taken:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("update messages set id = 1 where content = 'newer 0'")
            connection.commit()
    done = say("sessions", "restore", "tip")
    assert done.code == 0, done.err
    assert "  Parents    1 session came with it: root\n" in done.out
    assert ("got new ones" in done.out) is taken
    judged = json.loads(hermes_says(hermes_python, JUDGE, database, nowhere))
    assert judged["said"] == ["where did we leave the quetzalcoatl essay?", "at the serpent"]
    assert judged["root"] == [f"root turn {n} about kumquats" for n in range(4)]
    assert judged["found"] == ["tip"]
    assert judged["title"] == "The essay" and judged["lineage"] == "root"
    assert sorted(judged["others"]) == ["newer 0", "newer 1", "newer 2", "unrelated platypus"]
    assert judged["after"] == ["tip"], "the agent's own writes go on"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("pragma foreign_key_check").fetchall() == []
        for name in ("messages_fts", "messages_fts_trigram"):
            connection.execute(f"insert into {name}({name}) values ('integrity-check')")
