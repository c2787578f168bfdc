"""What testers broke in an import, and what must come of it instead."""

import json
import os

import pytest

from homes import database_rows, differences, make_hermes_home, tree_facts

ROOT = (".",)


def damage(path):
    """Overwrite pages in the middle, as a bad disk does."""
    with open(path, "r+b") as file:
        for offset in range(4096 * 2, os.path.getsize(path) - 4096, 4096 * 3):
            file.seek(offset)
            file.write(b"\xa5" * 4096)


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_a_database_recorded_as_damaged_keeps_the_sound_one_and_lands_the_rest(
    tmp_path, hermes_home, holdfast, form
):
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), seed=2)
    damage(os.path.join(other, "state.db"))
    archive = str(tmp_path / f"other.{form}")
    assert holdfast("backup", "--home", other, "-o", archive, "--format", form).returncode == 3
    rows = database_rows(os.path.join(hermes_home, "state.db"))
    done = holdfast("import", archive, "--home", hermes_home, "--force", "--json")
    assert done.returncode in (0, 3), done.stderr
    assert "the sound one of the home was kept" in done.stdout
    assert database_rows(os.path.join(hermes_home, "state.db")) == rows
    for name in ("SOUL.md", "profiles/coder/SOUL.md"):
        with open(os.path.join(other, name)) as theirs, open(os.path.join(hermes_home, name)) as ours:
            assert ours.read() == theirs.read()


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_a_database_recorded_as_damaged_lands_where_there_is_none(tmp_path, hermes_home, holdfast, form):
    damage(os.path.join(hermes_home, "state.db"))
    archive = str(tmp_path / f"iris.{form}")
    assert holdfast("backup", "--home", hermes_home, "-o", archive, "--format", form).returncode == 3
    fresh = str(tmp_path / "fresh" / ".hermes")
    done = holdfast("import", archive, "--home", fresh, "--json")
    assert done.returncode in (0, 3), done.stderr
    assert "was already damaged when it was stored" in done.stdout
    with (
        open(os.path.join(hermes_home, "state.db"), "rb") as theirs,
        open(os.path.join(fresh, "state.db"), "rb") as ours,
    ):
        assert ours.read() == theirs.read()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (bytes(95_000), "is 95,000 bytes of zeros"), (b"BoltDB" * 2000, "is not a database")],
)
def test_an_archive_of_a_lost_chat_database_does_not_replace_a_sound_one(
    tmp_path, hermes_home, holdfast, content, words
):
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), seed=2)
    with open(os.path.join(other, "state.db"), "wb") as file:
        file.write(content)
    archive = str(tmp_path / "other.zip")
    assert holdfast("backup", "--home", other, "-o", archive).returncode == 3
    before = tree_facts(hermes_home, skip=ROOT, databases="bytes")
    done = holdfast("import", archive, "--home", hermes_home, "--force", "--json")
    assert done.returncode == 1, done.stdout
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "restore-not-proven"
    assert f"`state.db`: the database is damaged: it {words}" in error["what"]
    assert differences(before, tree_facts(hermes_home, skip=ROOT, databases="bytes")) == []
