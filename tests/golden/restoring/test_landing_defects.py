"""What testers broke in an import, and what must come of it instead."""

import io
import json
import os
import subprocess
import tarfile
import zipfile

import pytest

from support.commands.error_texts import error_code
from support.commands.waiting import PATIENT
from support.home.homes import database_rows, differences, make_hermes_home, tree_facts

ROOT = (".",)


def damage(path):
    """Overwrite pages in the middle, as a bad disk does."""
    with open(path, "r+b") as file:
        for offset in range(4096 * 2, os.path.getsize(path) - 4096, 4096 * 3):
            file.seek(offset)
            file.write(b"\xa5" * 4096)


def plan_tells_that_the_database_stays(safekept, archive, home):
    """In the document and on the screen; and what would be replaced is what is counted in the question."""
    document = json.loads(safekept("import", archive, "--home", home, "--dry-run", "--json").stdout)
    plan = document["plan"]
    assert plan["damaged"] == ["state.db"]
    assert "state.db" not in [*plan["replace"], *plan["create"], *plan["same"]]
    assert f"{len(plan['replace'])} existing files would be replaced" in document["needs_consent"]
    shown = safekept("import", archive, "--home", home, "--dry-run").stdout
    stays = "  Stays      1 file (damaged in what would be restored; --allow-damaged takes it)\n"
    assert stays + "               state.db\n" in shown
    assert "  Damaged    state.db: " in shown and "Missing    state.db" not in shown


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_a_database_recorded_as_damaged_keeps_the_sound_one_and_lands_the_rest(
    tmp_path, hermes_home, safekept, form
):
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), seed=2)
    damage(os.path.join(other, "state.db"))
    archive = str(tmp_path / f"other.{form}")
    assert safekept("backup", "--home", other, "-o", archive, "--format", form).returncode == 3
    rows = database_rows(os.path.join(hermes_home, "state.db"))
    plan_tells_that_the_database_stays(safekept, archive, hermes_home)
    done = safekept("import", archive, "--home", hermes_home, "--force")
    assert done.returncode == 3, done.stderr
    stayed = "  Stayed     1 file (yours; what was stored of it is damaged)\n               state.db\n"
    assert stayed in done.stdout
    assert database_rows(os.path.join(hermes_home, "state.db")) == rows
    for name in ("SOUL.md", "profiles/coder/SOUL.md"):
        with open(os.path.join(other, name)) as theirs, open(os.path.join(hermes_home, name)) as ours:
            assert ours.read() == theirs.read()


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_a_database_recorded_as_damaged_lands_where_there_is_none(tmp_path, hermes_home, safekept, form):
    damage(os.path.join(hermes_home, "state.db"))
    archive = str(tmp_path / f"iris.{form}")
    assert safekept("backup", "--home", hermes_home, "-o", archive, "--format", form).returncode == 3
    fresh = str(tmp_path / "fresh" / ".hermes")
    done = safekept("import", archive, "--home", fresh, "--json")
    assert done.returncode in (0, 3), done.stderr
    assert "was already damaged when it was stored" in done.stdout
    with (
        open(os.path.join(hermes_home, "state.db"), "rb") as theirs,
        open(os.path.join(fresh, "state.db"), "rb") as ours,
    ):
        assert ours.read() == theirs.read()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty (0 bytes)"),
        (bytes(95_000), "is 95 KB of zero bytes"),
        (b"BoltDB" * 2000, "is 12 KB of something else"),
    ],
)
def test_an_archive_of_a_lost_chat_database_does_not_replace_a_sound_one(
    tmp_path, hermes_home, safekept, content, words
):
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), seed=2)
    with open(os.path.join(other, "state.db"), "wb") as file:
        file.write(content)
    archive = str(tmp_path / "other.zip")
    assert safekept("backup", "--home", other, "-o", archive).returncode == 3
    with open(os.path.join(hermes_home, "state.db"), "rb") as file:
        before = file.read()
    plan_tells_that_the_database_stays(safekept, archive, hermes_home)
    done = safekept("import", archive, "--home", hermes_home, "--force")
    assert done.returncode == 3, done.stdout
    assert f"  Damaged    state.db: state.db should be a database and {words}\n" in done.stdout
    assert "  Stayed     1 file (yours; what was stored of it is damaged)\n" in done.stdout
    with open(os.path.join(hermes_home, "state.db"), "rb") as file:
        assert file.read() == before
    with open(os.path.join(other, "SOUL.md")) as theirs, open(os.path.join(hermes_home, "SOUL.md")) as ours:
        assert ours.read() == theirs.read(), "the rest lands"


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_damaged_database_of_an_archive_replaces_a_sound_one_only_where_it_is_asked_for(
    tmp_path, hermes_home, safekept
):
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), seed=2)
    damage(os.path.join(other, "state.db"))
    archive = str(tmp_path / "other.zip")
    assert safekept("backup", "--home", other, "-o", archive).returncode == 3
    words = ("import", archive, "--home", hermes_home, "--allow-damaged")
    assert "state.db" in json.loads(safekept(*words, "--dry-run", "--json").stdout)["plan"]["replace"]
    assert safekept(*words, "--force").returncode == 3
    with (
        open(os.path.join(other, "state.db"), "rb") as theirs,
        open(os.path.join(hermes_home, "state.db"), "rb") as ours,
    ):
        assert ours.read() == theirs.read()


@pytest.mark.parametrize("option", ["--into", "--home"])
def test_nothing_is_restored_into_the_root_of_the_filesystem(
    tmp_path, hermes_home, safekept, safekept_process, option
):
    archive = str(tmp_path / "iris.zip")
    assert safekept("backup", "--home", hermes_home, "-o", archive).returncode == 0
    done = safekept_process("import", archive, option, "/", "--force", timeout=PATIENT)
    assert done.returncode == 1, done.stdout
    assert error_code(done.stderr) == "unsafe-target", done.stderr
    assert "`/` is the root of the filesystem" in done.stderr
    assert not os.path.exists("/.safekept") and not os.path.exists("/SOUL.md")


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_a_member_with_a_name_that_cannot_be_written_is_refused_whole(tmp_path, hermes_home, safekept, form):
    name = "n" * 300
    archive = str(tmp_path / f"foreign.{form}")
    members = {"config.yaml": b"model: x\n", "SOUL.md": b"soul", f"skills/{name}": b"x"}
    if form == "zip":
        with zipfile.ZipFile(archive, "w") as made:
            for member, data in members.items():
                made.writestr(member, data)
    else:
        with tarfile.open(archive, "w:gz") as made:
            for member, data in members.items():
                header = tarfile.TarInfo(member)
                header.size = len(data)
                made.addfile(header, io.BytesIO(data))
    before = tree_facts(hermes_home, skip=ROOT, databases="bytes")
    done = safekept("import", archive, "--home", hermes_home, "--force", "--layout", "hermes")
    assert done.returncode == 1, done.stdout
    assert error_code(done.stderr) == "archive-unsafe", done.stderr
    assert f"skills/{name[:40]}" in done.stderr and "a name of more than 255 bytes" in done.stderr
    assert "Traceback" not in done.stderr
    assert differences(before, tree_facts(hermes_home, skip=ROOT, databases="bytes")) == []


def test_a_home_on_a_read_only_disk_is_backed_up_and_an_import_there_is_refused(
    tmp_path, safekept, small_filesystem
):
    place = small_filesystem(16384)
    home = make_hermes_home(os.path.join(place, "home"), awkward=False)
    archive = str(tmp_path / "iris.zip")
    assert safekept("backup", "--home", home, "-o", archive).returncode == 0
    os.unlink(os.path.join(home, "SOUL.md"))
    assert safekept("import", archive, "--home", home, "--force").returncode == 0
    os.unlink(os.path.join(home, "SOUL.md"))
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    done = safekept("backup", "--home", home, "-o", str(tmp_path / "again.zip"))
    assert done.returncode == 0, done.stderr
    for words in (("import", archive, "--home", home, "--force"), ("undo", "--home", home)):
        done = safekept(*words)
        assert done.returncode == 1, done.stdout
        assert error_code(done.stderr) == "landing-not-permitted", done.stderr
        assert "Read-only file system" in done.stderr


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_dry_run_says_what_stands_in_the_way(tmp_path, hermes_home, safekept):
    archive = str(tmp_path / "iris.zip")
    assert safekept("backup", "--home", hermes_home, "-o", archive).returncode == 0
    os.rename(os.path.join(hermes_home, "cron"), tmp_path / "cron")
    os.symlink(tmp_path / "cron", os.path.join(hermes_home, "cron"))
    done = safekept("import", archive, "--home", hermes_home, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["obstacles"] == [
        f"`{hermes_home}/cron` is a link where a directory is needed; safekept never writes through links"
    ]
