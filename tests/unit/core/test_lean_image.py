"""A lean image is a sound database with every row that cannot be rebuilt; a rebuild gives back the rest."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from contextlib import closing

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safekept.core.events import silent
from safekept.core.sqlite.hold.pin import pin
from safekept.core.sqlite.lean import pages as lean_pages
from safekept.core.sqlite.lean.lean import LeanFacts, NotRebuilt, lean, read_facts, rebuild
from safekept.core.sqlite.lean.request import LeanRequest, Recipe

WORDS = "harbour lantern copper violet thunder meadow saddle quartz ember willow falcon marble".split()
SPLIT = "CREATE VIRTUAL TABLE own USING fts5(body)"
FEED = (
    "CREATE TRIGGER own_insert AFTER INSERT ON note BEGIN INSERT INTO own(rowid, body) VALUES "
    "(new.id, coalesce(new.body, '') || ' ' || coalesce(new.tag, '')); END"
)
RECIPE = Recipe(
    "own", SPLIT, "note", "id", {"body": "coalesce(body, '') || ' ' || coalesce(tag, '')"}, (FEED,)
)
PLAIN = ("note", "side", "keyed", "settings")


def text(source: random.Random, most: int) -> str:
    return " ".join(source.choice(WORDS) for _ in range(source.randint(1, most)))


def build(
    path, *, page_size=4096, vacuum=0, rows=60, most=300, seed=1, tables=("own", "outside"), encoding="UTF-8"
):
    source = random.Random(seed)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA page_size = {page_size}")
        database.execute(f"PRAGMA auto_vacuum = {vacuum}")
        database.execute(f"PRAGMA encoding = '{encoding}'")
        database.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT, tag TEXT)")
        database.execute("CREATE TABLE side(a INTEGER, b BLOB)")
        database.execute("CREATE INDEX side_b ON side(b)")
        database.execute("CREATE TABLE keyed(k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
        database.execute("CREATE TABLE settings(name TEXT UNIQUE, value)")
        if "own" in tables:
            database.execute(SPLIT)
            database.execute(FEED)
        if "outside" in tables:
            database.execute(
                "CREATE VIRTUAL TABLE outside USING fts5"
                "(body, content='note', content_rowid='id', prefix='2 3')"
            )
        if "four" in tables:
            database.execute("CREATE VIRTUAL TABLE four USING fts4(content='note', body)")
        for number in range(rows):
            database.execute("BEGIN")
            body = text(source, most)
            rowid = database.execute(
                "INSERT INTO note(body, tag) VALUES(?, ?)", (body, WORDS[number % 12])
            ).lastrowid
            if "outside" in tables:
                database.execute("INSERT INTO outside(rowid, body) VALUES(?, ?)", (rowid, body))
            if "four" in tables:
                database.execute("INSERT INTO four(docid, body) VALUES(?, ?)", (rowid, body))
            database.execute(
                "INSERT INTO side VALUES(?, ?)", (number, source.randbytes(source.randint(0, 3000)))
            )
            database.execute("INSERT INTO keyed VALUES(?, ?)", (f"k{number}" * 30, text(source, 200)))
            database.execute("COMMIT")
        database.execute("DELETE FROM side WHERE a % 3 = 0")
        if "own" in tables:
            database.execute("INSERT INTO own(own, rank) VALUES('pgsz', 1000)")


def image_of(path, target, recipes=(RECIPE,), compared=None):
    pinned = pin(path, "x.db", os.path.dirname(path), 5.0, silent)
    try:
        seen, facts = lean(pinned, LeanRequest(tuple(recipes), compared or {}))
        with open(target, "wb") as file:
            for chunk in seen.chunks():
                file.write(chunk)
        assert os.path.getsize(target) == os.path.getsize(path)
        return facts
    finally:
        pinned.close()


def rows_of(path):
    with closing(sqlite3.connect(path)) as database:
        there = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
        wanted = [name for name in (*PLAIN, "own_config", "outside_config") if name in there]
        return {name: database.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in wanted}


def searches(path, tables):
    with closing(sqlite3.connect(path)) as database:
        return {
            (table, word): database.execute(
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank, rowid",
                (word,),
            ).fetchall()
            for table in tables
            for word in (*WORDS, "mea*", '"copper violet"')
        }


def sound(path):
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    with closing(apsw.Connection(path)) as database:
        assert list(database.execute("PRAGMA integrity_check")) == [("ok",)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    page_size=st.sampled_from([512, 1024, 4096, 16384, 65536]),
    vacuum=st.sampled_from([0, 1, 2]),
    rows=st.integers(0, 90),
    most=st.sampled_from([5, 300, 1500]),
    seed=st.integers(0, 10**6),
    tables=st.sets(st.sampled_from(["own", "outside"])),
    encoding=st.sampled_from(["UTF-8", "UTF-16le"]),
    walked=st.booleans(),
)
def test_a_lean_image_is_sound_whole_and_searchable_again(
    page_size, vacuum, rows, most, seed, tables, encoding, walked
):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        if walked:
            patch.setattr(lean_pages, "has_dbstat", lambda _: False)
        path, target = f"{directory}/a.db", f"{directory}/b.db"
        build(
            path,
            page_size=page_size,
            vacuum=vacuum,
            rows=rows,
            most=most,
            seed=seed,
            tables=tables,
            encoding=encoding,
        )
        facts = image_of(path, target)
        if not tables:
            assert facts == LeanFacts(0, ())
            return
        assert facts.kept == ()
        assert {one.table for one in facts.tables} == tables
        sound(target)
        assert rows_of(target) == rows_of(path)
        assert read_facts(facts.as_dict()) == facts
        with closing(sqlite3.connect(target, isolation_level=None)) as database:
            rebuild(database, facts)
        sound(target)
        assert rows_of(target) == rows_of(path)
        assert searches(target, tables) == searches(path, tables)
        if page_size <= 4096 and rows >= 20 and most > 5:
            assert facts.bytes > 0 and any(one.probes for one in facts.tables)


def refusal(path, table, recipes=(RECIPE,)):
    facts = image_of(path, path + ".lean", recipes)
    assert table not in {one.table for one in facts.tables}
    sound(path + ".lean")
    assert rows_of(path + ".lean") == rows_of(path)
    assert searches(path + ".lean", [table]) == searches(path, [table]), "it is all there"
    return dict(facts.kept)[table]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DROP TRIGGER own_insert", "a trigger that feeds it is missing or was changed"),
        (
            "CREATE TRIGGER more AFTER UPDATE ON note BEGIN DELETE FROM own WHERE rowid = old.id; END",
            "an unknown trigger writes to it",
        ),
        (
            "INSERT INTO own(rowid, body) VALUES(5000, 'typed in by hand')",
            "1 row is in it or in `note`, but not in both",
        ),
        ("DELETE FROM own WHERE rowid = 3", "1 row is in it or in `note`, but not in both"),
        (
            "UPDATE own SET body = 'other words' WHERE rowid = 3",
            "the text of 1 rows is not what `note` would give",
        ),
    ],
)
def test_a_table_that_is_not_exactly_derived_is_kept_and_says_why(tmp_path, change, reason):
    path = str(tmp_path / "a.db")
    build(path, rows=20)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(change)
    assert refusal(path, "own") == reason


def test_a_statement_one_column_off_is_not_the_known_one(tmp_path):
    path = str(tmp_path / "a.db")
    build(path, rows=20)
    other = Recipe(
        "own", "CREATE VIRTUAL TABLE own USING fts5(body, more)", "note", "id", RECIPE.columns, (FEED,)
    )
    assert refusal(path, "own", [other]) == "it was made in an unknown way"
    assert refusal(path, "own", []) == "it holds its own text, of unknown origin"


def test_an_fts4_table_is_kept_since_a_current_sqlite_would_call_an_empty_one_malformed(tmp_path):
    path = str(tmp_path / "a.db")
    build(path, rows=20, tables=("four",))
    assert (
        "fails the integrity check of a current SQLite" in dict(image_of(path, path + ".lean").kept)["four"]
    )
    with open(path, "rb") as before, open(path + ".lean", "rb") as after:
        assert before.read() == after.read()


def test_a_table_without_its_text_is_kept(tmp_path):
    path = str(tmp_path / "a.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE VIRTUAL TABLE bare USING fts5(body, content='')")
        database.execute("INSERT INTO bare(rowid, body) VALUES(1, 'harbour lantern')")
    facts = image_of(path, path + ".lean")
    assert dict(facts.kept) == {"bare": "its text is kept nowhere, so it cannot be rebuilt"}
    with open(path, "rb") as before, open(path + ".lean", "rb") as after:
        assert before.read() == after.read()


def test_a_table_with_content_elsewhere_that_is_out_of_step_is_kept(tmp_path):
    path = str(tmp_path / "a.db")
    build(path, rows=20)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE note SET body = 'other words' WHERE id = 1")
    assert refusal(path, "outside", []) == "it is out of step with `note`"


def test_an_index_damaged_in_the_source_is_rebuilt_by_the_restore(tmp_path):
    path, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    build(path, rows=80, tables=("own",))
    expected = searches(path, ["own"])
    with closing(sqlite3.connect(path)) as database:
        page = database.execute(
            "SELECT pageno FROM dbstat WHERE name = 'own_data' AND pagetype = 'leaf' LIMIT 1 OFFSET 3"
        ).fetchone()[0]
    with open(path, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    facts = image_of(path, target)
    assert [one.table for one in facts.tables] == ["own"]
    sound(target)
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        rebuild(database, facts)
    assert searches(target, ["own"]) == expected


def test_damage_in_what_is_kept_means_a_full_capture(tmp_path):
    path, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    build(path, rows=80)
    for walked in (False, True):
        with closing(sqlite3.connect(path)) as database:
            page = database.execute(
                "SELECT pageno FROM dbstat WHERE name = 'side' AND pagetype = 'leaf' LIMIT 1 OFFSET 3"
            ).fetchone()
        if page:
            with open(path, "r+b") as file:
                file.seek((page[0] - 1) * 4096)
                file.write(b"\x07" * 4096)
        with pytest.MonkeyPatch.context() as patch:
            if walked:
                patch.setattr(lean_pages, "has_dbstat", lambda _: False)
            facts = image_of(path, target)
        assert facts.bytes == 0 and facts.tables == () and "damaged" in facts.kept[0][1]
        with open(path, "rb") as before, open(target, "rb") as after:
            assert before.read() == after.read(), "every byte as it is"


def test_a_rebuild_that_finds_other_rows_is_refused_and_leaves_the_index_empty(tmp_path):
    path, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    build(path, rows=40, tables=("own",))
    facts = image_of(path, target)
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        database.execute("DROP TRIGGER own_insert")
        database.execute("UPDATE note SET body = 'nothing', tag = ''")
        with pytest.raises(NotRebuilt, match="finds 0 rows after the rebuild, and found"):
            rebuild(database, facts)
        assert database.execute("SELECT count(*) FROM own_docsize").fetchone() == (0,)
    sound(target)


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH '{path}.stolen' AS other",
        "DELETE FROM note",
        "INSERT INTO settings VALUES('x', 'y')",
        "CREATE TABLE more(x)",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
    ],
)
def test_statements_of_a_foreign_manifest_can_write_the_index_and_nothing_else(tmp_path, statement):
    path, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    build(path, rows=10, tables=("own",))
    facts = image_of(path, target).as_dict()
    facts["tables"][0]["rebuild"] = [statement.format(path=path)]
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
            rebuild(database, read_facts(facts))
    assert rows_of(target) == rows_of(path)
    assert sorted(os.listdir(tmp_path)) == ["a.db", "b.db"]


def test_the_page_of_the_lock_byte_and_the_pointer_maps_are_nobodys():
    shape = lean_pages.Shape(1024, 0, 3_000_000, 0, 0, True)
    assert shape.lock_page == (1 << 30) // 1024 + 1
    maps = list(shape.pointer_maps())
    assert shape.lock_page not in maps
    assert len(maps) == len(set(maps))
    for page in (3, 204, 208, 1_048_579, 2_999_999):
        holder, offset = shape.pointer_of(page)
        assert holder in maps and holder < page and 0 <= offset <= 1024 - 5
