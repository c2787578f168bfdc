"""Ways in which updates, cleaners and agents have damaged homes; run as a program: `damages.py NAME HOME`.

Each is an incident of `facts/field-failures.md` E, or its near relative. Only the standard library: this is
what a guarded command does, in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable

DAMAGES: dict[str, Callable[[str], None]] = {}


def damage(function: Callable[[str], None]) -> Callable[[str], None]:
    DAMAGES[function.__name__.replace("_", "-")] = function
    return function


def _overwrite(path: str, data: bytes, at: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def _jobs(home: str, change: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> None:
    path = os.path.join(home, "cron", "jobs.json")
    with open(path) as file:
        document = json.load(file)
    document["jobs"] = change(document["jobs"])
    with open(path, "w") as file:
        json.dump(document, file)


@damage
def zeroed_database(home: str) -> None:
    path = os.path.join(home, "state.db")
    _overwrite(path, bytes(os.path.getsize(path)))


@damage
def emptied_database(home: str) -> None:
    os.truncate(os.path.join(home, "state.db"), 0)


@damage
def page_corruption(home: str) -> None:
    """Scribbles over pages in the middle: the file opens, and is not sound."""
    path = os.path.join(home, "state.db")
    size = os.path.getsize(path)
    for part in (3, 4, 5, 6, 7):
        _overwrite(path, b"\xa5" * 4096, size * part // 10 // 4096 * 4096)


@damage
def broken_schema(home: str) -> None:
    """The first page is scribbled over behind its header: no table can be read any more."""
    _overwrite(os.path.join(home, "state.db"), b"\xa5" * 3900, 110)


@damage
def replaced_database(home: str) -> None:
    with open(os.path.join(home, "state.db"), "wb") as file:
        file.write(b"<html>502 Bad Gateway</html>\n" * 20)


@damage
def deleted_database(home: str) -> None:
    os.unlink(os.path.join(home, "state.db"))


@damage
def deleted_sessions(home: str) -> None:
    with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        connection.execute("delete from messages where session_id != 'session-0'")
        connection.execute("delete from sessions where id != 'session-0'")
        connection.commit()


@damage
def emptied_cron(home: str) -> None:
    _jobs(home, lambda jobs: [])


@damage
def deleted_cron(home: str) -> None:
    os.unlink(os.path.join(home, "cron", "jobs.json"))


@damage
def partly_emptied_cron(home: str) -> None:
    _jobs(home, lambda jobs: jobs[:1])


@damage
def exchanged_cron_job(home: str) -> None:
    """One job is gone and another came: the count is the same."""
    _jobs(home, lambda jobs: [*jobs[1:], {**jobs[0], "id": "stranger", "name": "stranger"}])


@damage
def replaced_prompts(home: str) -> None:
    _jobs(home, lambda jobs: [{**job, "prompt": job["name"]} for job in jobs[:2]] + jobs[2:])


@damage
def collapsed_config(home: str) -> None:
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write("model:\n  provider: auto\n")


@damage
def unreadable_config(home: str) -> None:
    _overwrite(os.path.join(home, "config.yaml"), b"{[ not yaml: ]")


@damage
def lost_pairings(home: str) -> None:
    with open(os.path.join(home, "pairing", "telegram-approved.json"), "w") as file:
        file.write("{}")


@damage
def deleted_pairings(home: str) -> None:
    shutil.rmtree(os.path.join(home, "pairing"))


@damage
def vanished_skills(home: str) -> None:
    for name in ("keeper", "autonomous-ai-agents"):
        shutil.rmtree(os.path.join(home, "skills", name))


@damage
def all_skills(home: str) -> None:
    shutil.rmtree(os.path.join(home, "skills"))


@damage
def truncated_memories(home: str) -> None:
    path = os.path.join(home, "memories", "MEMORY.md")
    with open(path) as file:
        entries = file.read().split("\n§\n")
    with open(path, "w") as file:
        file.write("\n§\n".join(entries[:1]) + "\n")


@damage
def consolidated_memories(home: str) -> None:
    """As many entries as before, and hardly a word left in them."""
    with open(os.path.join(home, "memories", "USER.md"), "w") as file:
        file.write("\n§\n".join(["short"] * 6) + "\n")


@damage
def deleted_memories(home: str) -> None:
    shutil.rmtree(os.path.join(home, "memories"))


@damage
def emptied_persona(home: str) -> None:
    os.truncate(os.path.join(home, "SOUL.md"), 0)


@damage
def deleted_secrets(home: str) -> None:
    for name in (".env", "auth.json"):
        os.unlink(os.path.join(home, name))


@damage
def lost_key(home: str) -> None:
    with open(os.path.join(home, ".env"), "w") as file:
        file.write("# OPENROUTER_API_KEY=\n")


@damage
def damaged_profile(home: str) -> None:
    """Everything in the profile, which the main home's owner does not look at."""
    profile = os.path.join(home, "profiles", "coder")
    emptied_database(profile)
    emptied_cron(profile)
    truncated_memories(profile)


@damage
def deleted_profile(home: str) -> None:
    shutil.rmtree(os.path.join(home, "profiles", "coder"))


@damage
def deleted_plugins(home: str) -> None:
    for name in ("plugins", "hooks"):
        shutil.rmtree(os.path.join(home, name))


@damage
def deleted_transcripts(home: str) -> None:
    shutil.rmtree(os.path.join(home, "sessions"))


@damage
def wiped_home(home: str) -> None:
    for name in os.listdir(home):
        path = os.path.join(home, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    with open(os.path.join(home, "hermes"), "w") as file:
        file.write('#!/bin/sh\nexec hermes "$@"\n')


@damage
def deleted_home(home: str) -> None:
    shutil.rmtree(home)


@damage
def everything_at_once(home: str) -> None:
    zeroed_database(home)
    replaced_prompts(home)
    collapsed_config(home)
    lost_pairings(home)
    vanished_skills(home)
    truncated_memories(home)


if __name__ == "__main__":
    DAMAGES[sys.argv[1]](sys.argv[2])
