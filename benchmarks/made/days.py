"""One day in the life of a home: what an agent adds and changes between two snapshots.

0.5 % new messages through Hermes's own schema and triggers, 300 messages updated in place, 50
files edited, and a transcript that grew. No full-text merge is asked for: those days are another
benchmark's. The database stays in write-ahead mode, as a running agent leaves it.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3

from made.datasets import Language, message

NEW_MESSAGES = 0.005
UPDATES = 300
FILES = 50


def live_one_day(home: str, number: int, language: Language) -> None:
    """Change a home as day `number` does; the same number makes the same changes."""
    rng = random.Random(number)
    _talk(os.path.join(home, "state.db"), number, rng, language)
    _edit_files(home, number, rng, language)


def _talk(database: str, number: int, rng: random.Random, language: Language) -> None:
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as connection:
        count, last = connection.execute("select count(*), max(id) from messages").fetchone()
        session = f"day-{number:04}"
        connection.execute(
            "insert into sessions(id, source, model, title, started_at)"
            " values (?, 'cli', 'some/model', ?, ?)",
            (session, f"{language.text(5)} {session}", 1_790_000_000 + number),
        )
        # A turn is a transaction of its own, as an agent commits them.
        for turn in range(int(count * NEW_MESSAGES)):
            connection.execute(
                "insert into messages(session_id, role, content, tool_calls, timestamp)"
                " values (?, ?, ?, ?, ?)",
                message(language, session, turn),
            )
        for _ in range(UPDATES):
            connection.execute(
                "update messages set token_count = ? where id = ?",
                (rng.randrange(5000), rng.randrange(1, last + 1)),
            )


def _edit_files(home: str, number: int, rng: random.Random, language: Language) -> None:
    skills = os.path.join(home, "skills")
    groups = sorted(os.listdir(skills))
    for _ in range(FILES):
        group = os.path.join(skills, rng.choice(groups))
        skill = os.path.join(group, rng.choice(sorted(os.listdir(group))))
        with open(os.path.join(skill, rng.choice(sorted(os.listdir(skill)))), "a") as file:
            file.write(f"\n{language.text(40)}\n")
    with open(os.path.join(home, "sessions", "session-00000.jsonl"), "a") as file:
        file.write(f"{language.text(2000)}\n")
    with open(os.path.join(home, "memories", "MEMORY.md"), "a") as file:
        file.write(f"\n§\n{language.text(30)} {number}\n")
