"""A small, realistic Hermes home in a throwaway place, with an agent that keeps writing to it.

Run as a module, this file is that agent: it commits one message after another to `state.db` until
it is ended, the way a gateway does while people chat with it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time

_FILES = {
    "SOUL.md": "You are Iris. You keep the garden records of the Harbour Street allotments.\n",
    "config.yaml": "model:\n  provider: custom\n  default: local\nmemory:\n  provider: builtin\n"
    "agent:\n  max_turns: 40\nterminal:\n  cwd: ~/garden\n",
    ".env": "OPENAI_API_KEY=sk-demo-not-a-real-key\n",
    "memories/MEMORY.md": "Plot 12 floods in March.\n§\nSeeds are in the blue tin.\n§\nNew gate code.\n",
    "memories/USER.md": "Prefers metric units.\n§\nIs called Jo.\n",
    "skills/watering/SKILL.md": "---\nname: watering\n---\nWater at dawn, by plot number.\n",
    "skills/watering/scripts/plan.sh": "#!/bin/sh\necho water plots 1 to 12\n",
    "skills/hermes-agent/SKILL.md": "---\nname: hermes-agent\n---\nHow to look after myself.\n",
    "cron/jobs.json": json.dumps(
        {"jobs": [{"id": "frost", "schedule": "0 5 * * *", "prompt": "Warn if frost is forecast."}]}
    ),
    "pairing/telegram-approved.json": json.dumps({"4711": {"user_name": "jo"}}),
    "profiles/ledger/config.yaml": "model:\n  default: local\n",
    "profiles/ledger/SOUL.md": "You keep the accounts.\n",
    "profiles/ledger/memories/MEMORY.md": "Dues are paid in April.\n",
}

_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL, message_count INTEGER);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL, content TEXT, tool_name TEXT, tool_calls TEXT, timestamp REAL NOT NULL);
CREATE INDEX messages_by_session ON messages(session_id, timestamp);
CREATE VIRTUAL TABLE messages_fts USING fts5(
    content
);
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts(rowid, content) VALUES (
        new.id,
        COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')
    );
END;
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.id;
END;
CREATE TRIGGER messages_fts_update AFTER UPDATE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.id;
    INSERT INTO messages_fts(rowid, content) VALUES (
        new.id,
        COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')
    );
END;
"""

_WORDS = "beans frost gate plot water seeds rain compost spade April harvest fence tin rota".split()


def make_demo_home(home: str, messages: int = 4000) -> None:
    """Persona, memories, skills, jobs, a profile, and two databases."""
    from safekept.core.platform.filesystems import NO_SYMBOLIC_LINKS

    for path, text in _FILES.items():
        full = os.path.join(home, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    for secret in (".env", "pairing/telegram-approved.json"):
        os.chmod(os.path.join(home, secret), 0o600)
    os.chmod(os.path.join(home, "skills/watering/scripts/plan.sh"), 0o700)
    os.makedirs(os.path.join(home, "sessions"))  # empty, and must come back all the same
    try:
        os.symlink("SOUL.md", os.path.join(home, "PERSONA.md"))
    except OSError as error:
        if error.errno not in NO_SYMBOLIC_LINKS:
            raise
    os.utime(os.path.join(home, "skills/watering/SKILL.md"), ns=(0, 86_400_123_456_789))  # 2 January 1970
    for folder, count in (("", messages), ("profiles/ledger", messages // 20)):
        connection = sqlite3.connect(os.path.join(home, folder, "state.db"))
        connection.executescript("PRAGMA journal_mode=WAL;" + _SCHEMA)
        with connection:
            for number in range(count):
                _say(connection, number)
        connection.close()
        os.chmod(os.path.join(home, folder, "state.db"), 0o600)


def _say(connection: sqlite3.Connection, number: int) -> None:
    session = f"session-{number // 100}"
    text = " ".join(_WORDS[(number * step + step) % len(_WORDS)] for step in range(1, 24))
    connection.execute("INSERT OR IGNORE INTO sessions VALUES (?, 'telegram', ?, 0)", (session, time.time()))
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
        (session, "user" if number % 2 else "assistant", f"{number}: {text}", time.time()),
    )


def count_messages(home: str) -> int:
    """How many messages the home's own database holds."""
    connection = sqlite3.connect(os.path.join(home, "state.db"))
    try:
        return int(connection.execute("SELECT count(*) FROM messages").fetchone()[0])
    finally:
        connection.close()


def keep_chatting(database: str) -> None:
    """The agent: one committed message every few milliseconds, until ended."""
    connection = sqlite3.connect(database, isolation_level=None)
    number = connection.execute("SELECT max(id) FROM messages").fetchone()[0]
    print("chatting", flush=True)  # noqa: T201  (the parent waits for this line)
    while True:
        number += 1
        connection.execute("BEGIN IMMEDIATE")
        _say(connection, number)
        connection.execute("COMMIT")
        time.sleep(0.003)


if __name__ == "__main__":
    keep_chatting(sys.argv[1])
