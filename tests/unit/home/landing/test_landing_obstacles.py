"""What stands in the way of a landing is said by name, and the home is as it was."""

import contextlib
import os
import shutil
import sqlite3
import subprocess

import pytest

from conftest import missing_part
from safekept.core.errors import SafekeptError
from safekept.home.landing import recover, undo
from support.restoring.landings import (
    database,
    database_bytes,
    directory,
    facts,
    file,
    holding,
    killed_at,
    landed,
    plan,
    read,
    symlink,
    texts,
    write,
)


@pytest.fixture
def home(tmp_path):
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old: 1\n", 0o600)
    write(f"{home}/notes/e", "old")
    return home


@pytest.fixture
def read_only(small_filesystem):
    """A home on a filesystem of its own, and a way to make that read-only."""
    place = small_filesystem(16384)
    home = f"{place}/user/.hermes"
    write(f"{home}/config.yaml", "old: 1\n", 0o600)
    return home, lambda: subprocess.run(["mount", "-o", "remount,ro", place], check=True)


def test_recovery_passes_a_read_only_home_where_nothing_is_pending(read_only):
    home, freeze = read_only
    landed(home, [file("config.yaml", "new")])
    freeze()
    assert recover(home) == []


def test_recovery_of_a_read_only_home_in_the_middle_of_a_landing_is_refused_by_name(read_only):
    home, freeze = read_only
    work = f"{home}.safekept/landings/op-1"
    entries = [file("config.yaml", "new"), file("SOUL.md", "new")]
    for step in range(1, 200):
        assert killed_at(step, lambda: landed(home, entries)) == -1, "no kill left it half way"
        if os.path.exists(f"{work}/plan.jsonl") and read(f"{home}/config.yaml") == b"new":
            break
        recover(home)
    freeze()
    with pytest.raises(SafekeptError) as caught:
        recover(home)
    assert caught.value.code == "landing-not-permitted"
    assert f"`{home}.safekept/" in caught.value.what and "Read-only file system" in caught.value.what
    assert caught.value.kept == f"Nothing was changed; what that landing replaced is in `{work}/replaced`"


def test_leftovers_that_never_touched_the_home_do_not_block_a_read_only_one(read_only):
    home, freeze = read_only
    landed(home, [file("config.yaml", "new")])
    os.makedirs(f"{home}.safekept/landings/op-2/staged")
    freeze()
    assert recover(home) == []


@pytest.mark.parametrize("area", [False, True])
def test_landing_on_a_read_only_place_is_refused(read_only, area):
    home, freeze = read_only
    if area:
        landed(home, [file("config.yaml", "first")], operation="op-0")
    freeze()
    for work in (lambda: landed(home, [file("config.yaml", "new")]), *([lambda: undo(home)] if area else [])):
        with pytest.raises(SafekeptError) as caught:
            work()
        assert caught.value.code == "landing-not-permitted"
        assert caught.value.what.endswith("cannot be written: Read-only file system")
        assert caught.value.kept == "The home is as it was"


@pytest.mark.parametrize("place", ["/", "//", "/.."])
def test_the_root_of_the_filesystem_is_no_home(place):
    with pytest.raises(SafekeptError) as caught:
        plan(place, [file("SOUL.md", "x")])
    assert caught.value.code == "unsafe-target"
    assert caught.value.what == "`/` is the root of the filesystem; nothing is ever restored into it"
    assert caught.value.kept == "Nothing was changed"
    assert caught.value.advice() == ("Name a directory of its own: `safekept import FILE --into DIR`",)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_to_the_root_of_the_filesystem_is_no_home_either(tmp_path):
    os.symlink("/", tmp_path / "root")
    with pytest.raises(SafekeptError) as caught:
        plan(str(tmp_path / "root"), [file("SOUL.md", "x")])
    assert caught.value.code == "unsafe-target"


@pytest.mark.parametrize("name", ["n" * 256, "ü" * 128, f"deep/{'n' * 300}/x"])
def test_a_name_that_no_filesystem_takes_is_refused_by_name(home, name):
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("SOUL.md", "x"), file(name, "x")])
    assert caught.value.code == "unsafe-entry"
    longest = max(len(part.encode()) for part in name.split("/"))
    assert caught.value.what == f"`{name}` has a name of {longest} bytes; 255 is the most that can be written"
    assert caught.value.kept == "Nothing was changed"
    assert "Do not trust" not in caught.value.advice()[0]
    assert facts(home) == before


def test_names_of_255_bytes_land(home):
    landed(home, [file("n" * 255, "x"), directory("d" * 255), symlink("l" * 255, "t")])
    assert read(f"{home}/{'n' * 255}") == b"x"


def vanish(monkeypatch, path, before):
    """Remove a path at the last instant before `before` of the swap does its work."""
    from safekept.home.landing.swap import swap as swapping

    real = getattr(swapping.Swap, before)

    def vanishing(self, *arguments):
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)
        return real(self, *arguments)

    monkeypatch.setattr(swapping.Swap, before, vanishing)


@pytest.mark.parametrize("before", ["_put", "_into_place"])
def test_a_directory_that_vanishes_under_a_landing_is_named_whole(home, monkeypatch, before):
    config = facts(home)["config.yaml"]
    vanish(monkeypatch, f"{home}/notes", before)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new"), file("notes/e", "new"), file("zz", "new")])
    assert caught.value.code == "home-changed"
    assert f"`{home}/notes/e`" in caught.value.what
    assert caught.value.retry
    assert facts(home)["config.yaml"] == config
    assert not os.path.exists(f"{home}/zz")
    assert recover(home) == []


def test_a_directory_made_anew_while_a_landing_is_taken_back_gets_its_files_again(home, monkeypatch):
    from safekept.home.landing.swap import swap as swapping
    from safekept.home.landing.swap import takeback

    real, times = takeback._Back._return, []

    def newly_made(self, step, path):
        if path.endswith("notes/e") and not times:
            times.append(1)
            shutil.rmtree(f"{home}/notes")
            os.mkdir(f"{home}/notes")
        real(self, step, path)

    def fail(self):
        raise OSError(5, "Input/output error", "disk")

    monkeypatch.setattr(takeback._Back, "_return", newly_made)
    monkeypatch.setattr(swapping.Swap, "_check_holders", fail)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new"), file("notes/e", "new")])
    assert times and caught.value.code == "landing-failed"
    assert read(f"{home}/notes/e") == b"old" and read(f"{home}/config.yaml") == b"old: 1\n"


def test_a_file_that_vanishes_in_the_very_instant_it_is_replaced_is_no_failure(home, monkeypatch):
    vanish(monkeypatch, f"{home}/notes/e", "_note_change")
    landed(home, [file("notes/e", "new")])
    assert read(f"{home}/notes/e") == b"new"
    monkeypatch.undo()
    undo(home)
    assert not os.path.exists(f"{home}/notes/e")


def test_a_database_that_vanishes_in_the_very_instant_it_is_replaced_is_no_failure(
    home, tmp_path, monkeypatch
):
    database(f"{home}/state.db", 3, journal="delete")
    vanish(monkeypatch, f"{home}/state.db", "_note_change")
    landed(home, [file("state.db", database_bytes(str(tmp_path)))])
    assert texts(f"{home}/state.db")[0] == "new 0"


@pytest.fixture
def mounted(home, tmp_path):
    """`config.yaml` as a container has it: a mount of its own."""
    if os.geteuid() != 0:
        missing_part("mounting needs root")
    write(str(tmp_path / "volume.yaml"), "mounted: 1\n")
    made = subprocess.run(
        ["mount", "--bind", str(tmp_path / "volume.yaml"), f"{home}/config.yaml"], capture_output=True
    )
    if made.returncode:
        missing_part("mounting a file is not possible here")
    yield f"{home}/config.yaml"
    subprocess.run(["umount", f"{home}/config.yaml"], check=True)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.needs("proc or programs", "it asks what is mounted", only={"True-True", "True-False"})
def test_a_file_that_is_a_mount_point_is_named_and_nothing_changes(home, mounted, monkeypatch, exact, known):
    if not known:  # a system that does not list its mounts: the kernel's refusal is understood
        for name in ("plan", "desired_state"):
            monkeypatch.setattr(f"safekept.home.landing.{name}.mount_points", frozenset)
    before = facts(home)
    entries = [file("SOUL.md", "new"), file("notes/e", "new")]
    if not exact:
        entries.append(file("config.yaml", "new"))
    if known:
        sentence = f"`{mounted}` is a mount point, and can be neither replaced nor moved away"
        assert plan(home, entries, exact=exact).obstacles == [sentence]
    with pytest.raises(SafekeptError) as caught:
        landed(home, entries, exact=exact)
    assert caught.value.code == "landing-not-permitted"
    assert caught.value.what.startswith(f"`{mounted}` is a mount point")
    assert caught.value.kept == "The home is as it was"
    assert facts(home) == before


def test_a_mount_point_that_is_the_same_already_is_no_obstacle(home, mounted):
    result = landed(home, [file("SOUL.md", "new"), file("config.yaml", "mounted: 1\n")])
    assert (result.created, result.same) == (1, 1)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (b"", "it is empty, and only a database can be restored while a program has it open"),
        (
            bytes(8192),
            "it is not a database, and only a database can be restored while a program has it open",
        ),
        (None, "it is a link, and what that program has open lies behind it"),
    ],
)
@pytest.mark.needs(
    "symlinks",
    "it makes symbolic links",
    only={"None-it is a link, and what that program has open lies behind it"},
)
def test_a_held_target_that_is_no_database_is_refused_with_a_true_sentence(home, tmp_path, there, why):
    place = f"{home}/state.db"
    if there is None:
        place = database(str(tmp_path / "elsewhere.db"))
        os.symlink(place, f"{home}/state.db")
    else:
        write(place, there)
    before = facts(home)
    with open(place, "rb") as opened:  # any descriptor of another process counts
        holder = subprocess.Popen(["sleep", "600"], stdin=opened)
    try:
        with pytest.raises(SafekeptError) as caught:
            landed(home, [file("state.db", database_bytes(str(tmp_path)))])
    finally:
        holder.kill()
        holder.wait()
    assert caught.value.code == "held-database"
    assert caught.value.what.endswith(why)
    assert "opened while the landing was under way" not in caught.value.what
    assert facts(home) == before


def mode_of(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("pragma journal_mode").fetchone()[0]


def wal_bytes(tmp_path):
    path = str(tmp_path / "made-wal.db")
    return read(database(path, 20, text="new", journal="wal"))


def test_a_held_database_keeps_its_journal_mode_through_landing_and_undo(home, tmp_path):
    database(f"{home}/state.db", 10, journal="delete")
    with holding(f"{home}/state.db"):
        landed(home, [file("state.db", wal_bytes(tmp_path))])
        assert texts(f"{home}/state.db")[0] == "new 0"
        assert undo(home).remarks == []
        assert texts(f"{home}/state.db")[0] == "old 0"
    assert mode_of(f"{home}/state.db") == "delete"


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_an_undo_that_cannot_switch_the_journal_mode_back_says_so(home, tmp_path):
    database(f"{home}/state.db", 10, journal="delete")
    landed(home, [file("state.db", wal_bytes(tmp_path))])
    with holding(f"{home}/state.db"):
        result = undo(home)
        assert texts(f"{home}/state.db")[0] == "old 0"
    assert [(remark.path, remark.outcome.value) for remark in result.remarks] == [("state.db", "noted")]
    assert result.remarks[0].reason == (
        "its journal mode was delete and is wal now; it cannot be switched while a program has it open"
    )


@pytest.mark.needs("modes", "it looks at modes")
def test_a_directory_that_may_not_be_written_is_named_whole(tmp_path):
    """Inside a landing names are relative to open directories; `1` is a name that nobody knows."""
    from safekept.home.landing.area import not_permitted
    from safekept.home.landing.swap.moving import rename
    from safekept.home.landing.tree import LandingTree
    from support.users.unprivileged import as_nobody

    for name in ("staged", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "staged" / "1").write_text("new")
    (tmp_path / "staged").chmod(0o777)

    def try_it():
        with (
            LandingTree(str(tmp_path / "staged")) as source,
            LandingTree(str(tmp_path / "home")) as destination,
        ):
            try:
                rename(source, "1", destination, "SOUL.md")
            except OSError as error:
                return not_permitted(error, str(tmp_path / "home"), "kept").what
        return "moved"

    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o055)
    (tmp_path / "home").chmod(0o555)
    assert as_nobody(try_it) == f"`{tmp_path}/home/SOUL.md` cannot be written: Permission denied"
    relative = PermissionError(13, "Permission denied", "1")
    assert not_permitted(relative, "/the/home", "").what == "`/the/home` cannot be written: Permission denied"


@pytest.mark.parametrize(
    ("case", "left"),
    [(True, {"notes.md": "Notes.md", "sub": "Sub"}), (False, {"cafe\u0301": "caf\u00e9"})],
)
@pytest.mark.needs("case", "it looks for either name by itself")
def test_of_two_names_that_the_disk_takes_for_one_the_first_lands_and_the_other_is_named(
    home, monkeypatch, case, left
):
    """The disk is played here; `faults/test_case_blind_disk.py` has a real one."""
    from safekept.core.platform.filesystems import Folding

    twins = [
        file("Notes.md", "upper"),
        file("notes.md", "lower"),
        file("caf\u00e9", "1"),
        file("cafe\u0301", "2"),
        file("sub", "a file"),
        directory("Sub"),
        file("Sub/in it", "kept"),
    ]
    with monkeypatch.context() as patch:
        folding = Folding(case=case, forms=not case)
        patch.setattr("safekept.home.landing.disk_names.folding_of", lambda *_: folding)
        result = landed(home, twins)
    assert {one.path: one.reason for one in result.remarks} == {
        path: f"this disk takes its name and `{other}` for one" for path, other in left.items()
    }
    assert not any(os.path.lexists(f"{home}/{path}") for path in left)
    assert read(f"{home}/Notes.md") == b"upper" and read(f"{home}/Sub/in it") == b"kept"
    landed(home, twins, operation="op-2")
    assert read(f"{home}/Notes.md") == b"upper" and read(f"{home}/cafe\u0301") == b"2"
