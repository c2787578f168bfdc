"""The census: what is counted, what is unknown, and that it costs no second read."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from safekept.home.census import count_document
from safekept.home.layout.rules import Count
from safekept.home.scan.scanning import Selection
from support.home.scanned import HERMES, consume, look, plant, plant_database, read
from support.users.unprivileged import as_nobody, nobodys

__all__ = ["nobodys"]

HOME = {
    "config.yaml": "model:\n  name: x\n  size: 3\ntools: [a, b]\nempty:\n",
    "memories/MEMORY.md": "one\n§\ntwo § still two\n§\n\n§\nthree",
    "memories/USER.md": "",
    "SOUL.md": "x",
    "skills/a/SKILL.md": "x",
    "skills/b/c/SKILL.md": "x",
    "skills/b/README.md": "x",
    "cron/jobs.json": '\ufeff{"jobs": [{"id": 1}, {"id": 2}]}',
    "platforms/pairing/telegram-approved.json": '{"1": {}, "2": {}}',
    "platforms/pairing/telegram-pending.json": '{"9": {}}',
    "profiles/coder/cron/jobs.json": "[1, 2, 3]",
    "profiles/empty": None,
}
NOTHING = dict.fromkeys((count.name for count in HERMES.counts), 0)


@pytest.fixture
def home(tmp_path: object) -> str:
    home = plant(tmp_path, HOME)
    plant_database(f"{home}/state.db", rows=5)
    return home


def census(home: str, selection: Selection | None = None) -> dict[str, dict[str, int | None]]:
    source = look(home, selection)
    consume(source)
    return source.census()


def test_everything_is_counted_per_profile(home: str) -> None:
    assert census(home) == {
        "default": {
            "sessions": 5,
            "messages": 10,
            "memories": 3,
            "skills": 2,
            "cron_jobs": 2,
            "settings": 5,
            "settings_sections": 3,
            "pairings": 2,
            "SOUL.md": 1,
            ".env": 0,
            "auth.json": 0,
        },
        "profiles/coder": {**NOTHING, "cron_jobs": 3},
        "profiles/empty": NOTHING,
    }


def test_consumers_may_read_from_several_threads(home: str) -> None:
    plant(home, {f"skills/s{number}/SKILL.md": "x" for number in range(300)})
    source = look(home)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, [entry for entry in source if entry.kind == "file"]))
    assert source.census()["default"]["skills"] == 302
    assert source.census()["default"]["messages"] == 10


def test_measuring_and_reading_again_do_not_count_twice(home: str) -> None:
    source = look(home)
    first = (consume(source), source.census())[1]
    source.measure()
    assert source.census() == first
    consume(source)
    assert source.census() == first


def test_what_was_not_read_is_unknown_and_never_zero(home: str) -> None:
    source = look(home)
    entries = {entry.path: entry for entry in source}
    for path, entry in entries.items():
        if entry.kind == "file" and path not in ("skills/a/SKILL.md", "state.db", "cron/jobs.json"):
            read(entry)
    counted = source.census()["default"]
    assert counted["skills"] is counted["sessions"] is counted["cron_jobs"] is None
    assert counted["memories"] == 3


@pytest.mark.parametrize(
    ("path", "content", "name"),
    [
        ("cron/jobs.json", "{", "cron_jobs"),
        ("cron/jobs.json", '{"jobs": 3}', "cron_jobs"),
        ("cron/jobs.json", '{"tasks": []}', "cron_jobs"),
        ("cron/jobs.json", b"\xff\xfe", "cron_jobs"),
        ("config.yaml", "a: [", "settings"),
        ("config.yaml", "- a list", "settings_sections"),
        ("memories/USER.md", b"\xff\xff", "memories"),
        ("platforms/pairing/x-approved.json", "3", "pairings"),
        ("state.db", b"not a database", "sessions"),
        ("memories/MEMORY.md", b"x" * (9 << 20), "memories"),
    ],
)
def test_what_is_not_understood_is_unknown_and_never_zero(
    home: str, path: str, content: str | bytes, name: str
) -> None:
    plant(home, {path: content})
    assert census(home)["default"][name] is None


def test_another_schema_is_unknown(home: str) -> None:
    import sqlite3

    connection = sqlite3.connect(f"{home}/state.db")
    connection.execute("DROP TABLE messages")
    connection.commit()
    connection.close()
    counted = census(home)["default"]
    assert counted["messages"] is None
    assert counted["sessions"] == 5


def test_a_home_without_a_database_has_no_sessions(home: str) -> None:
    os.unlink(f"{home}/state.db")
    assert census(home)["default"]["sessions"] == 0  # falling to zero is an alarm


def test_what_the_caller_left_out_is_unknown(home: str) -> None:
    counted = census(home, Selection(exclude=("/skills/a",)))["default"]
    assert counted["skills"] is None
    assert counted["memories"] == 3
    assert census(home, Selection(exclude=("/skills/a/notes.txt",)))["default"]["skills"] == 2
    assert census(home, Selection(exclude=("/cron/jobs.json",)))["default"]["cron_jobs"] is None
    assert census(home, Selection(exclude=("/profiles/coder/cron",)))["default"]["cron_jobs"] == 2


def test_a_quick_selection_knows_what_it_does_not_cover(home: str) -> None:
    counted = census(home, Selection(quick=True))["default"]
    assert counted == {**census(home)["default"], "skills": None}


def test_one_profile_is_counted_alone(home: str) -> None:
    assert census(home, Selection(profile="coder")) == {"profiles/coder": {**NOTHING, "cron_jobs": 3}}


def test_a_file_that_vanished_is_not_counted_and_nothing_is_unknown(home: str) -> None:
    source = look(home)
    entries = [entry for entry in source if entry.kind == "file"]
    os.unlink(f"{home}/skills/a/SKILL.md")
    for entry in entries:
        read(entry)
    assert source.census()["default"]["skills"] == 1


@pytest.mark.needs("owners", "it gives files to another user")
def test_an_unreadable_tree_makes_its_counts_unknown(nobodys: str) -> None:
    home = plant(nobodys, {"skills/a/SKILL.md": "x", "skills/b/SKILL.md": "x", "cron/jobs.json": "[1]"})
    os.chmod(f"{home}/skills/b", 0)
    counted = as_nobody(lambda: census(home))["default"]
    assert counted["skills"] is None
    assert counted["cron_jobs"] == 1


def test_repeated_parts_of_settings_are_counted_once() -> None:
    settings = Count("settings", (), "yaml")
    bomb = "a: &a [x, x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(9))
    assert count_document(bomb.encode(), settings) == 3
    assert count_document(b"a: &a {b: *a}", settings) == 0  # a loop ends
    assert count_document(b"a: 1\na: 2\n", settings) == 1  # the last one holds
    assert count_document(b"a: !!python/object/apply:os.system [ls]\n", settings) == 1  # and nothing is run
    assert count_document(b"[" * 100_000, settings) is None
    assert count_document(b"", settings) == 0
