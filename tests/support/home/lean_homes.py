"""Homes with the chat database of the real Hermes: its own schema, filled in bulk, then through its API."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
from contextlib import closing

WORDS = [
    a + b + c
    for a in ("bar", "dol", "fen", "gry", "kel", "lum", "mor", "pex", "quil", "sab", "tor", "vim")
    for b in ("a", "e", "io", "u")
    for c in ("dan", "fix", "lor", "mist", "nock")
]
#: Hermes asks its trigram index for these.
FOREIGN = "記憶の庭園 夜明けの港 青い手紙 静かな川 図書館の鍵".split()

_RUN = "import sys, pathlib, json, hermes_state\n"
MAKE = (
    _RUN
    + """
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
db.create_session("spoken", "cli", model="some/model")
for n, text in enumerate(json.load(sys.stdin)):
    name = "terminal" if n % 5 == 0 else None
    db.append_message("spoken", ("user", "assistant")[n % 2], text, tool_name=name)
db.close()
"""
)
#: Commits one message after the other through Hermes's API until its standard input closes.
TALK = (
    _RUN
    + """
import select
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
db.create_session("live", "cli", model="some/model")
n = 0
while n < 3 or not select.select([sys.stdin], [], [], 0.01)[0]:
    n += 1
    db.append_message("live", ("user", "assistant")[n % 2], f"live turn {n} {sys.argv[2].split()[n % 7]}")
    print(n, flush=True)
db.close()
"""
)
#: Opens a database as Hermes does, with every way of repairing it taken away, and searches.
SEARCH = (
    _RUN
    + """
def refuse(*_, **__):
    raise AssertionError("Hermes had to repair it")
for name in ("_rebuild_fts_indexes", "rebuild_fts", "_try_runtime_fts_rebuild", "_drop_fts_triggers"):
    assert hasattr(hermes_state.SessionDB, name), name
    setattr(hermes_state.SessionDB, name, refuse)
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
asked = json.load(sys.stdin)
out = [[row["id"] for row in db.search_messages(query, limit=6)] for query in asked["queries"]]
for text in asked["new"]:
    if not db.get_session("later"):
        db.create_session("later", "cli")
    db.append_message("later", "user", text)
    out.append([row["session_id"] for row in db.search_messages(text.split()[-1], limit=5)])
db.close()
print(json.dumps(out))
"""
)


def hermes_runs(python: str, script: str, *words: str, told: object = None) -> str:
    nowhere = os.path.dirname(words[0])
    environment = {"PATH": os.environ["PATH"], "HOME": nowhere, "HERMES_HOME": nowhere}
    done = subprocess.run(
        [python, "-I", "-c", script, *words],
        env=environment,
        input=json.dumps(told),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def prose(rng: random.Random, words: int) -> str:
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    return f"{text} {rng.choice(FOREIGN)}" if rng.random() < 0.3 else text


def make_lean_home(home: str, python: str, messages: int, *, spoken: int = 40, seed: int = 1) -> str:
    """A home whose state.db has so many messages, the last `spoken` of them said through Hermes's API."""
    rng = random.Random(seed)
    os.makedirs(os.path.join(home, "memories"))
    for name, text in (
        ("config.yaml", "model: {}\n"),
        ("SOUL.md", "a calm hand\n"),
        ("memories/MEMORY.md", "x"),
    ):
        with open(os.path.join(home, name), "w") as file:
            file.write(text)
    database = os.path.join(home, "state.db")
    hermes_runs(python, MAKE, database, told=[])
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("pragma synchronous=off")
        connection.execute("begin")
        connection.execute("insert into sessions(id, source, started_at) values ('bulk', 'cli', 1)")
        connection.executemany(
            "insert into messages(session_id, role, content, tool_calls, timestamp)"
            " values ('bulk', ?, ?, ?, ?)",
            (
                (
                    ("user", "assistant")[n % 2],
                    None if n % 97 == 0 else prose(rng, rng.randrange(4, 40 if n % 50 else 900)),
                    json.dumps([{"id": n, "name": rng.choice(WORDS)}]) if n % 7 == 0 else None,
                    1_780_000_000.0 + n,
                )
                for n in range(messages - spoken)
            ),
        )
        connection.execute("commit")
        connection.execute("delete from messages where id % 211 = 0")
        connection.execute("update messages set token_count = 7 where id % 100 = 3")
    hermes_runs(
        python, MAKE.replace('"spoken"', '"said"'), database, told=[prose(rng, 20) for _ in range(spoken)]
    )
    return home


def queries(count: int, seed: int = 7) -> list[str]:
    rng = random.Random(seed)
    kinds = (
        lambda: rng.choice(WORDS),
        lambda: f"{rng.choice(WORDS)} {rng.choice(WORDS)}",
        lambda: f'"{rng.choice(WORDS)} {rng.choice(WORDS)}"',
        lambda: f"{rng.choice(WORDS)[:4]}*",
        lambda: rng.choice(FOREIGN),
        lambda: rng.choice(FOREIGN)[:3],
        lambda: f"{rng.choice(WORDS)} OR {rng.choice(WORDS)}",
        lambda: "terminal",
    )
    return [kinds[n % len(kinds)]() for n in range(count)]


def searches(python: str, database: str, count: int, new: tuple[str, ...] = ()) -> list[list[object]]:
    """What Hermes finds, in its order."""
    found: list[list[object]] = json.loads(
        hermes_runs(python, SEARCH, database, told={"queries": queries(count), "new": list(new)})
    )
    return found


def rows(database: str, *tables: str) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return {
            name: connection.execute(f"select * from {name} order by rowid").fetchall() for name in tables
        }
