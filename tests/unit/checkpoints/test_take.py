"""Taking checkpoints: what is in one is what was on disk, and nothing is taken twice or read for nothing."""

from __future__ import annotations

import itertools
import os
import socket
import sqlite3
import subprocess
import tempfile
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.scan.trust import read_record
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import ProjectGone, TakeSettings, TooManyFiles, take
from support.projects.checkpoints import (
    contents_in_store,
    fsck,
    put,
    run_plain_git,
    settle,
    tree_in_store,
    tree_on_disk,
)


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    return str(place)


def taken(store: Store, project: str, **options) -> Checkpoint:
    point = take(store, project, **options).checkpoint
    assert point is not None
    return point


AWKWARD = [
    *b"a b.txt A .meta .meta~ safekept%00 .gitignore~ git~1 .gitmodules .gitattributes -rf".split(),
    *(b"new\nline", b"back\\slash", b"\xff\xfe", b"x\\.git", b"\xe2\x80\x8c.git", b"sp ace", b"tab\t"),
    b"e\xcc\x81",
]
NAMES = st.one_of(
    st.sampled_from(AWKWARD),
    st.binary(min_size=1, max_size=8).filter(
        lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
    ),
).filter(lambda raw: raw.lower() != b".git")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "link", "mkdir", "remove", "mode", "touch"]),
        PATHS,
        st.binary(max_size=64),
    ),
    min_size=1,
    max_size=12,
)


def apply(project: bytes, edit: tuple[str, bytes, bytes]) -> None:
    what, path, data = edit
    full = os.path.join(project, path)
    try:
        if what == "mkdir":
            os.makedirs(full, exist_ok=True)
            return
        if what == "remove":
            if os.path.isdir(full) and not os.path.islink(full):
                subprocess.run([b"rm", b"-rf", b"--", full], check=True)
            else:
                os.unlink(full)
            return
        if what == "mode":
            if not os.path.islink(full):
                os.chmod(full, 0o700 | (len(data) & 0o77))
            return
        if what == "touch":
            os.utime(full, ns=(1, 10**18 + len(data)), follow_symlinks=False)
            return
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if what == "link":
            os.symlink(data.replace(b"\0", b"") or b"x", full)
        else:
            with open(full, "wb") as file:
                file.write(data)
    except OSError:
        pass  # not every edit is possible where it falls


#: Every name is stored here: no rule leaves out what the edits make.
EVERYTHING = TakeSettings(use_ignore=False, durable=False, exclusions=("!*",))


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@pytest.mark.parametrize("telling", [True, False], ids=["local", "network"])
@given(rounds=st.lists(EDITS, min_size=1, max_size=4))
def test_every_checkpoint_is_the_tree_that_was_there(telling, rounds):
    """Random trees of any names, edited between checkpoints: each state reads back exactly.

    Also where a directory's times are not to be trusted, as on network filesystems.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not telling:
            patch.setattr("safekept.checkpoints.scan.walk.directory_times_are_reliable", lambda device: False)
        follow_edits(rounds)


def follow_edits(rounds):
    with tempfile.TemporaryDirectory() as place:
        project = os.path.join(place, "project")
        os.mkdir(project)
        with Store.open(os.path.join(place, "data")) as store:
            expected = []
            for edits in rounds:
                for edit in edits:
                    apply(os.fsencode(project), edit)
                point = take(store, project, settings=EVERYTHING, always=True).checkpoint
                on_disk = tree_on_disk(project)
                state = store.state(point)
                assert tree_in_store(store, point) == {
                    path: item for path, item in on_disk.items() if not hidden(path, state)
                }
                expected.append((point, tree_in_store(store, point)))
            for point, tree in expected:
                assert tree_in_store(store, point) == tree
            for (one, first), (two, second) in itertools.pairwise(expected):
                changed = {path for path, _, _ in store.difference(one, two)}
                assert changed == {
                    path for path in first.keys() | second.keys() if first.get(path) != second.get(path)
                }
            fsck(store)


def hidden(path, state):
    while path:
        if path in state.skipped:
            return True
        path = os.path.dirname(path)
    return False


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_nothing_changed_takes_nothing(store, project):
    put(f"{project}/a", b"1")
    first = taken(store, project)
    settle(project)
    take(store, project)  # what was too fresh to be trusted is read once more
    again = take(store, project)
    assert (again.checkpoint, again.read) == (None, 0)
    assert again.latest == first
    assert len(store.checkpoints(project)) == 1


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_only_what_changed_is_read(store, project):
    for number in range(50):
        put(f"{project}/d{number % 5}/f{number}", str(number))
    settle(project)
    taken(store, project)
    settle(project)
    take(store, project)
    put(f"{project}/d3/f13", "else")
    done = take(store, project)
    assert (done.read, done.checkpoint is not None) == (1, True)
    assert contents_in_store(store, done.checkpoint)["d3/f13"] == b"else"


def test_what_is_read_again_for_being_fresh_is_not_stored_again(store, project, monkeypatch):
    monkeypatch.setattr("safekept.checkpoints.scan.content.settled", lambda *times: False)
    for number in range(30):
        put(f"{project}/f{number}", os.urandom(4000))
    first = take(store, project)
    put(f"{project}/new", "small")
    second = take(store, project)
    assert second.read == 31
    assert second.written < 10_000 < first.written
    fsck(store)


def test_a_rewrite_of_same_size_within_one_tick_is_seen(store, project):
    """Racily clean: a file changed right after it was read may look exactly the same."""
    path = f"{project}/a"
    for number in range(40):
        put(path, f"{number:04}")
        point = taken(store, project, settings=TakeSettings(durable=False))
        status = os.stat(path)
        put(path, f"{number + 5000:04}")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        later = taken(store, project, settings=TakeSettings(durable=False))
        assert contents_in_store(store, point) == {"a": f"{number:04}".encode()}
        assert contents_in_store(store, later) == {"a": f"{number + 5000:04}".encode()}


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_times_alone_make_no_checkpoint_but_are_in_the_next(store, project):
    put(f"{project}/d/a", "1")
    put(f"{project}/e/b", "1")
    taken(store, project)
    settle(project)
    take(store, project)
    os.utime(f"{project}/d/a", ns=(5, 5))
    assert take(store, project).checkpoint is None
    put(f"{project}/e/b", "2")
    point = taken(store, project)
    assert store.state(point)["d/a"].mtime_ns == 5
    assert tree_in_store(store, point) == tree_on_disk(project)


@pytest.mark.needs("modes", "it looks at modes")
def test_a_mode_alone_makes_a_checkpoint(store, project):
    path = put(f"{project}/a", "1", 0o644)
    taken(store, project)
    os.chmod(path, 0o600)
    assert store.state(taken(store, project))["a"].mode == 0o600


def test_a_checkpoint_can_be_read_with_git_show(store, project):
    put(f"{project}/src/a.py", "print()\n")
    point = taken(store, project, reason="before write_file", session="s1", turn="7")
    (ref,) = run_plain_git(store, "for-each-ref", "--format=%(refname)").stdout.decode().split()
    assert ref.endswith(f"/{point.id}")
    assert run_plain_git(store, "show", f"{ref}:files/src/a.py").stdout == b"print()\n"
    log = run_plain_git(store, "log", "--format=%s", ref).stdout.decode()
    assert log == "before write_file\n"
    assert b'"turn": "7"' in run_plain_git(store, "show", f"{ref}:about.json").stdout
    fsck(store)


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_git_can_pack_the_store_and_everything_is_still_read(store, project):
    for number in range(60):
        put(f"{project}/d{number % 7}/f{number}", f"line {number}\n" * 50)
    points = [taken(store, project)]
    for number in range(6):
        put(f"{project}/d1/f1", b"line 1\n" * (51 + number))
        points.append(taken(store, project))
    expected = [tree_in_store(store, point) for point in points]
    assert run_plain_git(store, "repack", "-a", "-d", "-f", "--depth=10").returncode == 0
    assert run_plain_git(store, "pack-refs", "--all").returncode == 0
    with Store.open(store.directory) as again:
        assert again.checkpoints(project) == points[::-1]
        assert [tree_in_store(again, point) for point in points] == expected
        assert contents_in_store(again, points[3])["d1/f1"] == b"line 1\n" * 53
        # The cache outlives the packs it was written with.
        settle(project)
        take(again, project)
        assert take(again, project).read == 0
    fsck(store)


def test_named_files_are_taken_where_the_rules_hide_them(store, project):
    put(f"{project}/.gitignore", "ignored.txt\n")
    put(f"{project}/ignored.txt", "mine")
    put(f"{project}/dist/out.js", "built")
    put(f"{project}/debug.log", "log")
    put(f"{project}/.env", "KEY=1")
    put(f"{project}/id_rsa", "secret")
    point = taken(store, project)
    assert set(contents_in_store(store, point)) == {".gitignore"}
    named = [f"{project}/{name}" for name in ("ignored.txt", "dist/out.js", "debug.log", ".env", "id_rsa")]
    done = take(store, project, named=named)
    assert {item.path: item.reason for item in done.skipped} == {".env": "secret", "id_rsa": "secret"}
    assert contents_in_store(store, done.checkpoint).keys() == {
        ".gitignore",
        "ignored.txt",
        "dist/out.js",
        "debug.log",
    }
    # Once named they stay known, through full passes too.
    put(f"{project}/dist/out.js", "rebuilt")
    put(f"{project}/dist/other.js", "never named")
    later = taken(store, project)
    assert contents_in_store(store, later)["dist/out.js"] == b"rebuilt"
    assert "dist/other.js" not in store.state(later)
    assert not store.state(later).knows("dist/other.js")
    assert store.state(later).knows("dist/out.js")
    fsck(store)


def test_a_named_file_that_is_not_there_is_known_to_be_absent(store, project):
    done = take(store, project, named=[f"{project}/new.txt"], walked=False)
    state = store.state(done.checkpoint)
    assert state.knows("new.txt") and "new.txt" not in state
    assert not state.knows("other.txt")
    put(f"{project}/new.txt", "1")
    put(f"{project}/other.txt", "1")
    later = take(store, project, named=["new.txt"], walked=False)
    assert set(store.state(later.checkpoint)) == {"new.txt"}


def test_a_named_take_costs_its_file_and_keeps_the_rest(store, project):
    for number in range(30):
        put(f"{project}/d{number % 3}/f{number}", str(number))
    taken(store, project)
    put(f"{project}/d1/f1", "named")
    put(f"{project}/d2/f2", "not named")
    done = take(store, project, named=["d1/f1"])
    assert (done.read, done.checkpoint.full) == (1, False)
    content = contents_in_store(store, done.checkpoint)
    assert (content["d1/f1"], content["d2/f2"]) == (b"named", b"2")
    full = taken(store, project)
    assert tree_in_store(store, full) == tree_on_disk(project)
    fsck(store)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_files_outside_the_project_are_refused_by_name(store, project, tmp_path):
    put(str(tmp_path / "other" / "x"), "1")
    os.symlink(str(tmp_path / "other"), f"{project}/way")
    put(f"{project}/a", "1")
    done = take(store, project, named=["../other/x", "way/x", "a"])
    assert [(item.path, item.reason) for item in done.skipped] == [
        ("../other/x", "outside"),
        ("way/x", "outside"),
    ]
    assert set(contents_in_store(store, done.checkpoint)) == {"a"}


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_what_is_left_out_is_listed_with_its_reason(store, project):
    put(f"{project}/.git/config", "[core]")
    put(f"{project}/node_modules/x/index.js", "1")
    put(f"{project}/big.bin", b"x" * 2000)
    put(f"{project}/app.pyc", "1")
    put(f"{project}/.env.example", "KEY=")
    put(f"{project}/.env.local", "KEY=1")
    os.mkfifo(f"{project}/pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(project)
        listening.bind("sock")
        os.chdir(here)
        done = take(store, project, settings=TakeSettings(max_file_size=1000))
    reasons = {item.path: item.reason for item in store.skipped(done.checkpoint)}
    assert reasons == {
        ".git": "git",
        "node_modules": "excluded",
        "big.bin": "oversize",
        "app.pyc": "excluded",
        ".env.local": "secret",
        "pipe": "special",
        "sock": "special",
    }
    assert done.counts == {"git": 1, "excluded": 2, "oversize": 1, "secret": 1, "special": 2}
    assert set(contents_in_store(store, done.checkpoint)) == {".env.example"}
    state = store.state(done.checkpoint)
    assert not state.knows("node_modules/x/index.js") and not state.knows("big.bin")
    assert state.knows("never/there")
    put(f"{project}/big.bin", b"small now")
    assert contents_in_store(store, taken(store, project))["big.bin"] == b"small now"


def test_no_byte_of_an_oversize_file_is_stored(store, project):
    path = put(f"{project}/a", b"1")
    with open(f"{project}/five-gigabytes", "wb") as file:
        file.truncate(5 << 30)
    taken(store, project)
    put(path, b"2")
    taken(store, project)
    size = run_plain_git(store, "count-objects", "-v").stdout.decode()
    assert "size-pack: " in size and int(size.split("size-pack: ")[1].split()[0]) < 20


def test_an_unlimited_size_streams_large_files(store, project):
    with open(f"{project}/large", "wb") as file:
        file.write(os.urandom(1 << 20) * 40)
    point = taken(store, project, settings=TakeSettings(max_file_size=0))
    assert tree_in_store(store, point) == tree_on_disk(project)
    assert store.size_of(store.state(point)["large"].oid) == 40 << 20
    fsck(store)


def test_ignore_rules_apply_below_and_a_change_applies_at_once(store, project):
    put(f"{project}/.gitignore", "*.tmp\n/cache-here/\n")
    put(f"{project}/sub/.gitignore", "!keep.tmp\n")
    for name in ("a.tmp", "sub/keep.tmp", "sub/drop.tmp", "cache-here/x", "sub/cache-here/x", "src/a.py"):
        put(f"{project}/{name}", name)
    point = taken(store, project)
    rules = {".gitignore", "sub/.gitignore"}
    assert set(contents_in_store(store, point)) - rules == {"sub/keep.tmp", "sub/cache-here/x", "src/a.py"}
    reasons = {item.path: item.reason for item in store.skipped(point)}
    assert reasons == {"a.tmp": "ignored", "sub/drop.tmp": "ignored", "cache-here": "ignored"}
    put(f"{project}/.gitignore", "src/\n")
    done = take(store, project)
    assert set(contents_in_store(store, done.checkpoint)) - rules == {
        "a.tmp",
        "sub/keep.tmp",
        "sub/drop.tmp",
        "cache-here/x",
        "sub/cache-here/x",
    }
    os.unlink(f"{project}/.gitignore")
    assert "src/a.py" in contents_in_store(store, taken(store, project))


def test_rules_of_the_repository_itself_are_asked_without_running_it(store, project):
    """`info/exclude` counts; a hostile configuration does not get to run anything."""
    subprocess.run(["git", "init", "-q", project], check=True)
    put(f"{project}/.git/info/exclude", "private\n")
    put(f"{project}/private", "1")
    put(f"{project}/public", "1")
    put(f"{project}/.gitignore", "x\n")
    trap = f"{project}/trap"
    put(
        f"{project}/.git/config",
        f'[core]\n\tfsmonitor = "touch {trap}; false"\n\thooksPath = {project}\n'
        f'[filter "x"]\n\tclean = touch {trap}\n\tprocess = touch {trap}\n[core]\n\tpager = touch {trap}\n',
    )
    put(f"{project}/.gitattributes", "* filter=x\n")
    point = taken(store, project)
    assert set(contents_in_store(store, point)) == {"public", ".gitignore", ".gitattributes"}
    assert not os.path.exists(trap)
    put(f"{project}/.git/info/exclude", "public\n")
    assert "private" in contents_in_store(store, taken(store, project))


def test_without_git_a_checkpoint_is_taken_and_says_what_could_not_be_asked(store, project, monkeypatch):
    monkeypatch.setattr("safekept.checkpoints.scan.ignore.find_git", lambda: None)
    put(f"{project}/.gitignore", "x\n")
    put(f"{project}/x", "1")
    done = take(store, project)
    assert "x" in contents_in_store(store, done.checkpoint)
    assert done.remarks == ("git is not on this machine: the rules of .gitignore were not applied",)


def test_the_file_limit_counts_what_would_be_stored(store, project):
    for number in range(30):
        put(f"{project}/node_modules/m{number}.js", "1")
        put(f"{project}/d{number}/.keep", "")
    limits = TakeSettings(max_files=30)
    assert take(store, project, settings=limits).checkpoint.files == 30
    put(f"{project}/one-more", "1")
    with pytest.raises(TooManyFiles) as caught:
        take(store, project, settings=limits)
    assert "more than 30 files" in caught.value.what
    assert "Nothing was taken" in caught.value.kept
    done = take(store, project, named=["one-more"], settings=limits)
    assert "one-more" in store.state(done.checkpoint)


def test_the_store_is_never_taken_into_itself(project):
    put(f"{project}/a", "1")
    with Store.open(f"{project}/state/safekept") as store:
        for number in range(3):
            put(f"{project}/a", str(number))
            point = taken(store, project)
            assert set(contents_in_store(store, point)) == {"a"}


def test_a_database_at_rest_and_a_live_one_are_one_state(store, project):
    rest = sqlite3.connect(f"{project}/rest.db")
    rest.execute("create table t (x)")
    rest.execute("insert into t values (1)")
    rest.commit()
    rest.close()
    live = sqlite3.connect(f"{project}/live.sqlite")
    live.execute("pragma journal_mode=wal")
    live.execute("create table t (x)")
    live.commit()
    try:
        point = taken(store, project)
        live.execute("insert into t values (42)")
        live.commit()
        later = taken(store, project)
        content = contents_in_store(store, later)
        assert set(content) == {"rest.db", "live.sqlite"}
        assert {item.path: item.reason for item in store.skipped(later)} == {
            "live.sqlite-wal": "sidecar",
            "live.sqlite-shm": "sidecar",
        }
        for data, rows in (
            (contents_in_store(store, point)["live.sqlite"], []),
            (content["live.sqlite"], [42]),
        ):
            copy = put(f"{store.directory}/copy.db", data)
            opened = sqlite3.connect(copy)
            assert [row[0] for row in opened.execute("select x from t")] == rows
            opened.close()
        # Whoever holds the database in this very process still holds its locks.
        live.execute("begin immediate")
        put(f"{project}/other", "1")
        taken(store, project)
        other = sqlite3.connect(f"{project}/live.sqlite", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("begin immediate")
        other.close()
        live.rollback()
    finally:
        live.close()
    fsck(store)


def test_two_worktrees_share_what_they_have_in_common(store, tmp_path):
    for number in range(150):
        for tree in ("one", "two"):
            put(str(tmp_path / tree / f"d{number % 5}" / f"f{number}"), f"{number}" * 500)
    put(str(tmp_path / "two" / "own"), "of its own")
    first = take(store, str(tmp_path / "one"))
    second = take(store, str(tmp_path / "two"))
    assert second.written < first.written / 2
    assert tree_in_store(store, second.checkpoint) == tree_on_disk(str(tmp_path / "two"))
    fsck(store)
    # What is shared is still counted on when it goes.
    counted_on = [read_record(store.project_directory(str(tmp_path / tree))) for tree in ("one", "two")]
    assert len(store.objects.pack_names()) == 2
    assert counted_on[0].packs.keys() < counted_on[1].packs.keys() == store.objects.pack_names()


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_project_that_is_no_directory_is_an_error_with_words(store, tmp_path):
    put(str(tmp_path / "file"), "1")
    os.symlink(str(tmp_path), str(tmp_path / "link"))
    for name in ("missing", "file", "link"):
        with pytest.raises(ProjectGone) as caught:
            take(store, str(tmp_path / name))
        assert name in caught.value.what and "Nothing was taken" in caught.value.kept


def test_a_hundred_thousand_would_be_as_flat_as_a_hundred(store, project):
    """The cost of a named file does not grow with the folders that are not on its way."""
    for number in range(300):
        put(f"{project}/d{number}/f", "1")
    taken(store, project)
    put(f"{project}/d7/f", "2")
    size = os.path.getsize(f"{store.project_directory(project)}/cache")
    take(store, project, named=["d7/f"])
    assert os.path.getsize(f"{store.project_directory(project)}/cache") - size < size / 3


def test_an_object_in_two_packs_is_found_when_either_goes(store, project):
    """Maintenance joins packs while others read: what was seen in the old one is in the new one."""
    put(f"{project}/a", "1")
    point = taken(store, project)
    expected = tree_in_store(store, point)
    packs = store.objects.pack_directory
    (first,) = store.objects.pack_names()
    data = {suffix: open_bytes(os.path.join(packs, first + suffix)) for suffix in (".pack", ".idx")}
    for gone, left in ((first, "pack-" + "0" * 40), ("pack-" + "0" * 40, "pack-" + "f" * 40)):
        for suffix, content in data.items():
            put(os.path.join(packs, left + suffix), content)
        store.objects.close()
        assert tree_in_store(store, point) == expected  # both are known now
        for suffix in data:
            os.unlink(os.path.join(packs, gone + suffix))
        store.objects.refresh()
        assert tree_in_store(store, point) == expected


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("back_ns", [3600 * 10**9, 3 * 10**9, 1])
def test_points_stay_in_order_when_the_clock_is_set_back(store, project, monkeypatch, back_ns):
    clock = [time.time_ns()]
    monkeypatch.setattr("safekept.checkpoints.take.taking.time.time_ns", lambda: clock[0])
    made = []
    for number in range(40):
        put(f"{project}/a", f"{number}")
        made.append(taken(store, project))
        clock[0] -= back_ns if number % 7 == 3 else 0
    ids = [point.id for point in made]
    assert ids == sorted(set(ids))
    assert [point.id for point in store.checkpoints(project)] == ids[::-1]
    assert [point.time_ns for point in made] == sorted({point.time_ns for point in made})
