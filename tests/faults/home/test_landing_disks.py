"""Full disks, mounts inside the home, filesystems without links, and directories that may not be written."""

import errno
import os
from functools import partial

import pytest

from conftest import missing_part
from safekept.core.entries import BytesContent, Entry, Kind
from safekept.core.errors import SafekeptError
from safekept.home.landing import recover, undo
from support.home.homes import differences
from support.restoring.landings import (
    TIME,
    database,
    database_bytes,
    directory,
    facts,
    file,
    killed_at,
    landed,
    read,
    symlink,
    texts,
    unprivileged,
    write,
)
from support.users.unprivileged import nobodys  # noqa: F401 - a fixture


def without_base(found):
    """A mount point's own time is not part of what is compared."""
    return {path: fact[:2] if fact[0] == "directory" else fact for path, fact in found.items()}


def test_a_disk_that_is_too_small_is_refused_before_staging(small_filesystem):
    place = small_filesystem(4096)
    home = f"{place}/.hermes"
    write(f"{home}/config.yaml", "old")
    before = facts(home)
    opened = []

    def content():
        opened.append(1)
        return BytesContent(bytes(5 << 20))

    with pytest.raises(SafekeptError) as caught:
        landed(home, [Entry("big", Kind.FILE, 0o644, TIME, 5 << 20, open=content)])
    error = caught.value
    assert error.code == "no-room"
    assert error.what.startswith(f"There is not enough room beside `{home}`: ")
    assert "bytes are needed" in error.what
    assert error.kept == "The home is as it was; what was staged has been removed"
    assert error.advice() == (
        "Make room on that disk, then run the command again",
        "Or restore onto another disk: `safekept import FILE --into DIR`",
    )
    assert not opened
    assert facts(home) == before


def test_a_disk_that_fills_up_while_staging_leaves_the_home_as_it_was(small_filesystem):
    place = small_filesystem(8192)
    home = f"{place}/.hermes"
    write(f"{home}/config.yaml", "old")
    before = facts(home)
    data = os.urandom(6 << 20)

    def content():
        write(f"{place}/somebody-else", os.urandom(5 << 20))
        return BytesContent(data)

    with pytest.raises(SafekeptError) as caught:
        landed(
            home, [file("config.yaml", "new"), Entry("big", Kind.FILE, 0o644, TIME, 1 << 20, open=content)]
        )
    assert caught.value.code == "no-room"
    assert caught.value.kept == "The home is as it was; what was staged has been removed"
    assert facts(home) == before
    assert os.listdir(f"{home}.safekept/landings") == []


def test_a_disk_that_fills_up_in_the_swap_is_taken_back(tmp_path, monkeypatch):
    home = str(tmp_path / ".hermes")
    for number in range(5):
        write(f"{home}/f{number}", "old")
    before = facts(home)
    real, calls = os.rename, []

    def failing(*arguments, **options):
        if os.path.exists(f"{home}.safekept/landings/op-1/plan.jsonl"):
            calls.append(1)
            if len(calls) == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file(f"f{number}", "new") for number in range(5)])
    assert caught.value.code == "no-room"
    assert facts(home) == before


def test_a_home_that_is_a_mount_point_is_landed_in(small_filesystem):
    home = small_filesystem(16384)
    write(f"{home}/config.yaml", "old")
    os.mkdir(f"{home}/empty")
    old = without_base(facts(home))
    result = landed(home, [file("config.yaml", "new"), file("a/b", "c")])
    assert result.replaced_in.startswith(f"{home}/.safekept/")
    assert read(f"{home}/config.yaml") == b"new"
    assert os.path.ismount(home)
    again = landed(home, [file("config.yaml", "new")], operation="op-2", exact=True)
    assert (again.removed, again.same) == (1, 1), "the work area or a file of it was taken for content"
    undo(home)
    undo(home, "op-1")
    assert without_base(facts(home)) == old


def mounted_home(tmp_path, small_filesystem):
    """A home whose `skills` and `db` are another filesystem."""
    home = str(tmp_path / "user" / ".hermes")
    other = small_filesystem(16384)
    write(f"{home}/config.yaml", "old")
    os.makedirs(f"{home}/skills")
    assert os.system(f"mount --bind {other} {home}/skills") == 0
    write(f"{home}/skills/a.md", "old a", 0o640, TIME - 5)
    write(f"{home}/skills/tree/x/y", "old tree", 0o600, TIME - 6)
    write(f"{home}/skills/gone", "only old", 0o600, TIME - 7)
    os.symlink("a.md", f"{home}/skills/link")
    os.utime(f"{home}/skills/link", ns=(TIME, TIME), follow_symlinks=False)
    database(f"{home}/skills/notes.db", 10, log=3)
    for path in ("tree/x", "tree", ""):
        os.utime(os.path.join(home, "skills", path), ns=(TIME - 8, TIME - 8))
    return home


def mounted_entries(scratch):
    return [
        file("config.yaml", "new"),
        file("skills/a.md", "new a", 0o640, TIME - 5),  # agrees in all but the bytes
        file("skills/tree", "a file now"),
        file("skills/fresh/b.md", "b"),
        symlink("skills/link", "fresh"),
        file("skills/notes.db", database_bytes(scratch)),
    ]


@pytest.mark.needs("proc or programs", "it asks what is mounted")
@pytest.mark.needs("modes", "it looks at modes")
def test_a_mount_inside_the_home_is_landed_in_and_undone(tmp_path, small_filesystem):
    home = mounted_home(tmp_path, small_filesystem)
    os.mkdir(tmp_path / "scratch")
    try:
        old = facts(home)
        landed(home, mounted_entries(str(tmp_path / "scratch")), exact=True)
        new = facts(home)
        assert read(f"{home}/skills/a.md") == b"new a"
        assert read(f"{home}/skills/tree") == b"a file now"
        assert not os.path.exists(f"{home}/skills/gone")
        assert texts(f"{home}/skills/notes.db")[0] == "new 0"
        undo(home)
        assert facts(home) == old
        undo(home)
        assert facts(home) == new
    finally:
        os.system(f"umount --lazy {home}/skills")


@pytest.mark.needs("proc or programs", "it asks what is mounted")
@pytest.mark.needs("modes", "it looks at modes")
def test_a_landing_killed_inside_a_mount_is_taken_back(tmp_path, small_filesystem):
    os.mkdir(tmp_path / "scratch")
    entries = mounted_entries(str(tmp_path / "scratch"))
    home = mounted_home(tmp_path, small_filesystem)
    try:
        old = facts(home)
        landed(home, entries, operation="first", exact=True)  # makes the work area, which later ones find
        undo(home)
        total = killed_at(0, lambda: landed(home, entries, operation="whole", exact=True))
        undo(home)
        assert facts(home) == old
        for step in range(20, total, 9):
            work = partial(landed, home, entries, operation=f"op-{step}", exact=True)
            assert killed_at(step, work) == -1
            killed_at(step % 23 + 1, lambda: recover(home))
            recover(home)
            if os.path.exists(f"{home}.safekept/landings/op-{step}/landed.jsonl"):
                undo(home)
            assert differences(old, facts(home)) == [], f"step {step} of {total}"
            assert not os.path.exists(f"{home}.safekept/landings/op-{step}/set-aside"), f"step {step}"
    finally:
        os.system(f"umount --lazy {home}/skills")


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_name_that_the_filesystem_refuses_costs_that_entry_alone(tmp_path, monkeypatch):
    """exFAT refuses `a:b` as not there, and bytes that are no text as EILSEQ."""
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old")
    real = os.open
    raw = os.fsdecode(b"raw-\xff")

    def refusing(path, *arguments, **options):
        if path in ("a:b", raw):
            code = errno.ENOENT if path == "a:b" else errno.EILSEQ
            raise OSError(code, os.strerror(code))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    wanted = [file("config.yaml", "new"), directory("a:b"), file("a:b/in it", "x"), file(raw, "y")]
    result = landed(home, wanted)
    assert read(f"{home}/config.yaml") == b"new" and os.listdir(home) == ["config.yaml"]
    assert [(one.path, one.outcome.value, one.reason) for one in result.remarks] == [
        (path, "unreadable", "this filesystem cannot hold such a name") for path in ("a:b", "a:b/in it", raw)
    ]


def test_a_filesystem_without_symbolic_links_gets_everything_else(tmp_path, monkeypatch):
    """exFAT has none: one link of a home must not cost the rest of it."""
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old")

    def no_symlinks(*arguments, **options):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "symlink", no_symlinks)
    result = landed(home, [file("config.yaml", "new"), symlink("persona", "SOUL.md"), file("SOUL.md", "me")])
    assert read(f"{home}/config.yaml") == b"new" and read(f"{home}/SOUL.md") == b"me"
    assert sorted(os.listdir(home)) == ["SOUL.md", "config.yaml"]
    assert [(one.path, one.outcome.value, one.reason) for one in result.remarks] == [
        ("persona", "unreadable", "this filesystem has no symbolic links")
    ]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_filesystems_without_links_are_landed_in(tmp_path, monkeypatch):
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old", 0o600)
    write(f"{home}/tree/x", "old tree")
    database(f"{home}/state.db", 10)
    os.mkdir(tmp_path / "scratch")
    old = facts(home)

    def no_links(*arguments, **options):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    entries = [
        file("config.yaml", "new"),
        file("tree", "file"),
        file("state.db", database_bytes(str(tmp_path / "scratch"))),
    ]
    landed(home, entries)
    assert read(f"{home}/config.yaml") == b"new"
    undo(home)
    assert facts(home) == old

    def fail_late(self):
        raise KeyboardInterrupt

    from safekept.home.landing.swap import swap as swapping

    monkeypatch.setattr(swapping.Swap, "_check_holders", fail_late)
    with pytest.raises(KeyboardInterrupt):
        landed(home, entries, operation="op-2")
    assert facts(home) == old


@pytest.fixture
def nobodys_home(nobodys):  # noqa: F811
    return os.path.join(nobodys, ".hermes")


@pytest.mark.needs("owners", "it gives files to another user")
def test_read_only_directories_are_landed_in_and_stay_read_only(nobodys_home):
    home = nobodys_home
    with unprivileged():
        write(f"{home}/sealed/inside", "old", 0o444)
        write(f"{home}/untouched/inside", "old", 0o444)
        for name in ("sealed", "untouched"):
            os.utime(f"{home}/{name}", ns=(TIME, TIME))
            os.chmod(f"{home}/{name}", 0o555)
        old = facts(home)
        entries = [
            file("sealed/inside", "new"),
            file("sealed/more", "more"),
            directory("fresh", 0o500),
            file("fresh/a", "a", 0o400),
        ]
        landed(home, entries)
        assert read(f"{home}/sealed/inside") == b"new"
        assert facts(home)["sealed"][1] == 0o555
        assert facts(home)["fresh"][1] == 0o500
        undo(home)
        assert facts(home) == old
        undo(home)
        assert read(f"{home}/sealed/more") == b"more"


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_home_that_may_not_be_written_is_refused_by_name(nobodys_home):
    home = nobodys_home
    if os.geteuid() != 0:
        missing_part("needs root to make a file of somebody else")
    write(f"{home}/config.yaml", "root's own", 0o644)
    os.chmod(home, 0o755)
    before = facts(home)
    with unprivileged(), pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new")])
    error = caught.value
    assert error.code == "landing-not-permitted"
    assert "cannot be written: " in error.what
    assert error.kept == "The home is as it was"
    assert error.advice() == (
        "Run the command as the user that the home belongs to, or mend the permissions",
    )
    assert facts(home) == before
