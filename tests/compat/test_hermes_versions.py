"""Homes of Hermes 0.13 to 0.19, made by the real versions, and the layouts that came after them.

The homes were recorded by `workshop/record_hermes_homes.py`; `./test --soak hermes-versions` makes them again
with the packages from PyPI and compares. What is newer than what PyPI has is rebuilt by its description
(`support/home/newer_hermes.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tarfile
import zipfile
from contextlib import closing

import pytest

from support.home.newer_hermes import NEWER, made_newer
from support.places import CHECKOUT, TESTS

RECORDED = os.path.join(TESTS, "recorded", "hermes-homes")
REAL = ("0.13.0", "0.15.2", "0.17.0", "0.18.2", "0.19.0")


def unpacked(version, place):
    with tarfile.open(os.path.join(RECORDED, f"{version}.tar.xz")) as archive:
        archive.extractall(place, filter="data")
    return os.path.join(place, "home")


@pytest.fixture(params=[*REAL, *NEWER])
def home(request, here):
    version = request.param if request.param in REAL else REAL[-1]
    place = os.path.join(here.places.user_home, ".hermes")
    os.rename(unpacked(version, here.places.user_home), place)
    if request.param in NEWER:
        made_newer(os.path.join(place, "state.db"), request.param)
    return place


def done(said):
    assert said.code == 0, said.out + said.err
    return said.out


def rows(home):
    """All rows of all tables; not how full-text indexes are kept inside."""
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        return {
            name: sorted(map(repr, connection.execute(f'select * from "{name}"').fetchall()))
            for (name,) in names
            if not name.startswith(("messages_fts", "sqlite_"))
        }


def found(home, *words):
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        return {
            (table, word): connection.execute(
                f"select count(*) from {table} where {table} match ?", (word,)
            ).fetchone()[0]
            for table in ("messages_fts", "messages_fts_trigram")
            for word in words
        }


def files(home):
    """Every file but the database and what safekept keeps beside it, to the byte."""
    kept = {}
    for above, directories, names in os.walk(home):
        directories[:] = [name for name in directories if name != ".safekept"]
        for name in names:
            path = os.path.join(above, name)
            if not name.startswith("state.db"):
                with open(path, "rb") as file:
                    kept[os.path.relpath(path, home)] = file.read()
    return kept


WORDS = ("kumquats", "quetzalcoatl", "feathers", "platypus")


def state(home):
    return rows(home), found(home, *WORDS), files(home)


def test_a_snapshot_brings_the_home_back_and_a_drill_proves_it(home, here, say):
    before = state(home)
    done(say("snapshot"))
    shutil.rmtree(home)
    done(say("restore", "latest", "--wait", "--yes"))
    assert state(home) == before
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        # The agent's own writes go on.
        connection.execute(
            "insert into messages (session_id, role, content, timestamp) values ('tip', 'user', 'axolotl', 1)"
        )
        connection.commit()
    assert set(found(home, "axolotl").values()) == {1}
    done(say("drill"))


def test_an_archive_goes_to_another_machine(home, here, say, tmp_path):
    before = state(home)
    archive, elsewhere = str(tmp_path / "archive.zip"), str(tmp_path / "elsewhere" / ".hermes")
    done(say("backup", "-o", archive))
    done(say("import", archive, "--home", elsewhere))
    assert state(elsewhere) == before


def test_a_conversation_comes_back(home, here, say):
    """With a tool's answer, of cron, and with a prompt that was collected meanwhile: each was refused."""
    before = rows(home), found(home, *WORDS)
    done(say("snapshot"))
    with closing(sqlite3.connect(os.path.join(home, "state.db"), isolation_level=None)) as connection:
        for session in ("tip", "cron_1"):
            connection.execute("delete from messages where session_id = ?", (session,))
            connection.execute("delete from sessions where id = ?", (session,))
        if "system_prompts" in before[0]:
            connection.execute("delete from system_prompts")
    assert found(home, "quetzalcoatl")["messages_fts", "quetzalcoatl"] == 0
    for session in ("tip", "cron_1"):
        told = json.loads(done(say("sessions", "restore", session, "--json")))
        assert told["messages"] == {"tip": 3, "cron_1": 1}[session]
    assert (rows(home), found(home, *WORDS)) == before


@pytest.mark.parametrize("home", ["layout 3"], indirect=True)
def test_a_profile_that_comes_back_is_no_longer_marked_as_deleted(home, here, say):
    done(say("snapshot"))
    shutil.rmtree(os.path.join(home, "profiles", "coder"))
    marks = os.path.join(home, "profiles", ".deleted")
    os.mkdir(marks)
    for name in ("coder", "other"):
        with open(os.path.join(marks, name), "w", encoding="utf-8") as file:
            file.write("{}")
    done(say("restore", "latest", "profiles/coder", "--yes"))
    assert os.listdir(marks) == ["other"]
    done(say("undo"))
    assert sorted(os.listdir(marks)) == ["coder", "other"]


@pytest.mark.parametrize("home", ["layout 3"], indirect=True)
def test_no_secret_of_a_newer_hermes_is_in_what_leaves_them_out(home, here, say, tmp_path):
    for name in ("vault/vault.key", "vault/vault.json.enc", "proxy/ca.key", "proxy/tokens.json"):
        path = os.path.join(home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("hunter2-7f3c9a")
    archive = str(tmp_path / "archive.zip")
    done(say("backup", "-o", archive, "--no-secrets"))
    with zipfile.ZipFile(archive) as packed:
        assert "state.db" in packed.namelist()
        assert not [one for one in packed.namelist() if b"hunter2" in packed.read(one)]


@pytest.mark.soak("hermes-versions")
@pytest.mark.parametrize("version", REAL)
def test_the_recorded_homes_are_what_the_real_versions_make(version, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(CHECKOUT, "workshop"))
    from record_hermes_homes import make_home

    make_home(version, str(tmp_path / "made"))
    recorded, made = unpacked(version, str(tmp_path)), str(tmp_path / "made")
    assert files(made).keys() == files(recorded).keys()
    schema = "select type, name, sql from sqlite_master order by 1, 2"
    said = "select session_id, role, content, tool_name from messages order by id"
    for question in (schema, said, "select id, source, title from sessions order by 1"):
        assert asked(made, question) == asked(recorded, question)


def asked(home, question):
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        return connection.execute(question).fetchall()
