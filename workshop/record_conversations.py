"""Writes tests/recorded/conversations anew: what real agents keep of two conversations, made small.

    SAFEKEPT_TEST_HOSTS=$(workshop/prepare hosts) .venv/bin/python workshop/record_conversations.py

Each agent is driven as `./test --hosts` does it. Long texts are cut, lines that say nothing of a conversation
are left out, and the user is called `/home/user`; everything else is as the program wrote it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from typing import Any

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(CHECKOUT, "tests"))

from support.real_hosts.deeds import Edit, Read, Shell  # noqa: E402
from support.real_hosts.ground import Ground  # noqa: E402
from support.real_hosts.hosts import HOSTS  # noqa: E402
from support.real_hosts.model import serving  # noqa: E402

TARGET = os.path.join(CHECKOUT, "tests", "recorded", "conversations")
#: agent -> its home below the user's, and which of it is recorded
HOMES = {
    "claude-code": (".claude", ("projects",)),
    "codex": (".codex", ("sessions",)),
    "gemini": (".gemini", ("tmp", "projects.json")),
    "opencode": (".local/share/opencode", ("opencode.db",)),
}
_LONGEST = 300
#: Kinds of lines that are long and say nothing of a conversation.
_LEFT_OUT = ("attachment", "api-request", "api-request-shape", "api-request-blob", "world_state", "event_msg")


def record(agent: str, root: str) -> None:
    """Two conversations, the first of two turns."""
    host = HOSTS[agent]
    ground = Ground(root, {"src/app.py": "first\nsecond\nthird\n"}, True)
    model = ground.model(host)
    with serving([model]):
        ground.add(host, False)
        app = os.path.join(ground.project, "src/app.py")
        first = model.plays("first", [Read(app)], [Edit(app, "second", "SECOND")], "remember kumquats")
        ground.turn(host, first)
        ground.turn(host, model.plays("again", [Shell("echo hello")], "yes"), again=True)
        ground.turn(host, model.plays("other", [Shell("echo other")], "other done"))
    home, names = HOMES[agent]
    for name in names:
        _copy(ground.user, os.path.join(ground.user, home, name), os.path.join(TARGET, agent, name))


def _copy(user: str, source: str, target: str) -> None:
    if os.path.isdir(source):
        for name in sorted(os.listdir(source)):
            _copy(
                user,
                os.path.join(source, name),
                os.path.join(target, name.replace(_slug(user), "-home-user")),
            )
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if source.endswith(".db"):
        with closing(sqlite3.connect(source)) as connection:
            text = "\n".join(_statements(connection))
        target += ".sql"
    elif source.endswith(".jsonl"):
        with open(source, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        kept = (_short(one) for one in records if one.get("type") not in _LEFT_OUT)
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept)
    else:
        with open(source, encoding="utf-8") as file:
            text = file.read()
    with open(target, "w", encoding="utf-8") as file:
        file.write(text.replace(user, "/home/user").replace(_slug(user), "-home-user"))


def _statements(connection: sqlite3.Connection) -> list[str]:
    """The tables and the rows of conversations; not what the program wrote of its own making."""
    tables = ("project", "session", "message", "part", "todo", "workspace", "event_sequence", "event")
    found = [
        str(row[0]) + ";"
        for table in tables
        for row in connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    ]
    for table in tables:
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall():
            values = ", ".join(
                connection.execute("SELECT quote(?)", (_cell(one),)).fetchone()[0] for one in row
            )
            found.append(f"INSERT INTO {table} VALUES ({values});")
    return [*found, ""]


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(_short(json.loads(value)))
    return value


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[:_LONGEST] + "…"
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list) else value


def _slug(user: str) -> str:
    """How Claude Code calls a directory."""
    return user.replace("/", "-").replace(".", "-").replace("_", "-")


def main() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    for agent in HOMES:
        with tempfile.TemporaryDirectory(prefix="record-") as root:
            record(agent, root)


if __name__ == "__main__":
    main()
