"""What lands, lands exactly; what may not be touched is not touched; what fails changes nothing."""

import os
import stat

import pytest

from conftest import missing_part
from safekept.core.entries import BytesContent, Entry, EntryLost, Kind, Outcome, Remark
from safekept.core.errors import SafekeptError
from safekept.home.landing import landings, undo
from support.restoring.landings import TIME, directory, facts, file, landed, read, symlink, write
from support.users.unprivileged import nobodys  # noqa: F401 - a fixture


@pytest.fixture
def home(tmp_path):
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old: 1\n", 0o600)
    write(f"{home}/memories/MEMORY.md", "old memory")
    return home


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.needs("modes", "it looks at modes")
def test_bytes_modes_times_links_and_empty_directories_come_back(tmp_path, ordered):
    home = str(tmp_path / "new" / ".hermes")
    big = os.urandom(3 << 20)
    entries = [
        directory("skills", 0o750, TIME + 1),
        file("skills/run.sh", "#!/bin/sh\n", 0o755, TIME + 2),
        file("skills/early", "early", 0o640, 1),
        file("big", big, 0o600, TIME + 3),
        file("zero", b"", 0o644, TIME),
        file("sparse", bytes(5 << 20) + b"end", 0o644, TIME),
        file("all-zero", bytes(1 << 20), 0o644, TIME),
        directory("empty/below", 0o711, TIME + 4),
        symlink("link", "skills/run.sh", TIME + 5),
        symlink("dangling", "../../nowhere", TIME + 6),
        file("odd\nname \udcff%?#", "odd", 0o600, TIME),
        file("n" * 255, "long", 0o600, TIME),
    ]
    result = landed(home, entries, ordered=ordered)
    assert (result.created, result.replaced, result.same) == (10, 0, 0)
    found = facts(home)
    assert found["skills"] == ("directory", 0o750, TIME + 1)
    assert found["skills/run.sh"][:3] == ("file", 0o755, TIME + 2)
    assert found["skills/early"][:3] == ("file", 0o640, 1)
    assert found["empty/below"] == ("directory", 0o711, TIME + 4)
    assert found["link"] == ("symlink", "skills/run.sh", TIME + 5)
    assert found["dangling"] == ("symlink", "../../nowhere", TIME + 6)
    assert read(f"{home}/big") == big
    assert read(f"{home}/sparse") == bytes(5 << 20) + b"end"
    assert os.stat(f"{home}/sparse").st_blocks * 512 < 1 << 20, "a hole was filled"
    assert read(f"{home}/all-zero") == bytes(1 << 20)
    assert found["odd\nname \udcff%?#"][3] == 3
    assert found["n" * 255][3] == 4
    assert mode(home) == 0o700
    assert not os.path.exists(result.replaced_in.replace("replaced", "staged"))


def test_a_path_longer_than_the_kernel_takes_still_lands(home):
    path = "/".join(["d" * 200] * 25)  # 5,000 characters, more than PATH_MAX
    landed(home, [file(path, "deep")])
    descriptor = os.open(home, os.O_RDONLY)
    for name in path.split("/"):
        following = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = following
    assert os.read(descriptor, 10) == b"deep"
    os.close(descriptor)


@pytest.mark.needs("modes", "it looks at modes")
def test_special_bits_are_masked_and_secrets_are_private(home):
    landed(
        home,
        [
            file("tool", "x", 0o4755),
            file("group", "x", 0o2775),
            directory("sticky", 0o1777),
            file(".env", "KEY=1", 0o644),
            file("auth.json", "{}", 0o666),
            file("config.yaml", "x", 0o644),
        ],
    )
    assert mode(f"{home}/tool") == 0o755
    assert mode(f"{home}/group") == 0o775
    assert mode(f"{home}/sticky") == 0o777
    assert mode(f"{home}/.env") == mode(f"{home}/auth.json") == 0o600
    assert mode(f"{home}/config.yaml") == 0o644


def test_machine_bound_files_are_neither_written_nor_removed(home):
    write(f"{home}/gateway_state.json", "mine")
    write(f"{home}/gateway.pid", "412")
    before = facts(home)
    result = landed(
        home,
        [file("gateway_state.json", "theirs"), file("processes.json", "theirs"), file("SOUL.md", "x")],
        exact=True,
    )
    assert result.kept == 2
    assert facts(home)["gateway_state.json"] == before["gateway_state.json"]
    assert facts(home)["gateway.pid"] == before["gateway.pid"]
    assert not os.path.exists(f"{home}/processes.json")


def test_merge_keeps_what_the_source_does_not_have_and_exact_does_not(home):
    landed(home, [file("SOUL.md", "x")])
    assert os.path.exists(f"{home}/memories/MEMORY.md")
    result = landed(home, [file("SOUL.md", "x")], operation="op-2", exact=True)
    assert (result.removed, result.same) == (2, 1)
    assert sorted(facts(home)) == ["", "SOUL.md"]
    kept = f"{result.replaced_in}/home/.hermes"
    assert read(f"{kept}/memories/MEMORY.md") == b"old memory"
    assert read(f"{kept}/config.yaml") == b"old: 1\n"


@pytest.mark.needs("modes", "it looks at modes")
def test_only_leaves_everything_else_alone(home):
    before = facts(home)
    os.utime(f"{home}/memories", ns=(TIME, TIME))
    landed(
        home,
        [directory("memories", 0o700, TIME + 9), file("memories/USER.md", "u"), file("config.yaml", "new")],
        only=["memories/USER.md"],
    )
    after = facts(home)
    assert after["config.yaml"] == before["config.yaml"]
    assert mode(f"{home}/memories") == 0o755, "a directory above what was asked for is not restored itself"
    assert read(f"{home}/memories/USER.md") == b"u"


def test_identical_files_are_left_alone_inode_and_all(home):
    write(f"{home}/a", "same", 0o644)
    write(f"{home}/b", "same", 0o644)
    inodes = [os.stat(f"{home}/{name}").st_ino for name in "ab"]
    result = landed(home, [file("a", "same"), file("b", "same", hashed=False)])
    assert (result.same, result.replaced) == (2, 0)
    assert [os.stat(f"{home}/{name}").st_ino for name in "ab"] == inodes


def test_files_that_agree_in_everything_but_the_bytes_are_replaced(home):
    write(f"{home}/a", "same")
    write(f"{home}/b", "same")
    result = landed(home, [file("a", "Same"), file("b", "Same", hashed=False)])
    assert (result.same, result.replaced) == (0, 2)
    assert read(f"{home}/a") == read(f"{home}/b") == b"Same"


@pytest.mark.parametrize("old", ["file", "directory", "link"])
@pytest.mark.parametrize("new", ["file", "directory", "link"])
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"file-link", "link-link", "directory-link"})
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"link-directory", "link-file"})
def test_kind_conflicts_keep_the_whole_old_thing(home, old, new):
    if old == "file":
        write(f"{home}/thing", "old")
    elif old == "directory":
        write(f"{home}/thing/a/b", "old")
    else:
        os.symlink("config.yaml", f"{home}/thing")
    before = facts(home)
    entries = {
        "file": [file("thing", "new")],
        "directory": [directory("thing"), file("thing/child", "new")],
        "link": [symlink("thing", "memories")],
    }[new]
    if old == "link" and new == "directory":
        with pytest.raises(SafekeptError) as caught:
            landed(home, entries)
        assert caught.value.code == "landing-through-link"
        assert facts(home) == before
        return
    result = landed(home, entries)
    assert facts(home)["thing"][0] == {"link": "symlink"}.get(new, new)
    if (old, new) != ("directory", "directory"):
        kept = facts(f"{result.replaced_in}/home/.hermes")
        assert {path: fact for path, fact in kept.items() if path.startswith("thing")} == {
            path: fact for path, fact in before.items() if path.startswith("thing")
        }
        assert result.replaced == (1 if new != "directory" else 0)


def test_a_directory_with_machine_bound_files_is_not_moved_away(home):
    write(f"{home}/profiles/coder/gateway.pid", "412")
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("profiles", "a file")])
    assert caught.value.code == "machine-bound-in-the-way"
    assert "`profiles/coder/gateway.pid` belongs to this machine" in caught.value.what
    assert caught.value.kept == "The home is as it was"
    assert facts(home) == before


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_links_in_the_home_are_never_written_through(home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, f"{home}/skills")
    before = facts(str(tmp_path))
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new"), file("skills/a/run.md", "x")])
    error = caught.value
    assert error.code == "landing-through-link"
    assert (
        error.what
        == f"`{home}/skills` is a link where a directory is needed; safekept never writes through links"
    )
    assert error.kept == "The home is as it was"
    assert "Replace the link by a real directory" in error.advice()[0]
    assert facts(str(tmp_path)) == before


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_put_in_the_way_after_the_plan_is_not_followed_either(home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()

    def sabotage():
        os.rename(f"{home}/memories", f"{home}/memories-moved")
        os.symlink(outside, f"{home}/memories")
        return BytesContent(b"new memory")

    entry = Entry("memories/MEMORY.md", Kind.FILE, 0o644, TIME, 10, open=sabotage)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new"), entry])
    assert caught.value.code == "landing-through-link"
    assert os.listdir(outside) == []
    assert read(f"{home}/config.yaml") == b"old: 1\n"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_home_that_is_a_link_stays_one(tmp_path):
    real = tmp_path / "data" / "hermes"
    write(str(real / "config.yaml"), "old")
    os.symlink(real, tmp_path / ".hermes")
    result = landed(str(tmp_path / ".hermes"), [file("config.yaml", "new")])
    assert os.path.islink(tmp_path / ".hermes")
    assert read(str(real / "config.yaml")) == b"new"
    assert result.replaced_in.startswith(str(real) + ".safekept/")
    assert mode(str(real) + ".safekept") == 0o700


def test_the_work_area_goes_inside_where_the_parent_cannot_hold_it(home):
    write(home + ".safekept", "somebody's file of that name")
    result = landed(home, [file("config.yaml", "new")])
    assert result.replaced_in.startswith(f"{home}/.safekept/")
    assert read(home + ".safekept") == b"somebody's file of that name"
    assert mode(f"{home}/.safekept") == 0o700
    assert [past.operation for past in landings(home)] == ["op-1"]


def test_wrong_hash_short_content_and_lost_entries_leave_the_home_as_it_was(home):
    class Short(BytesContent):
        def __init__(self):
            super().__init__(b"abc")
            self.size = 10

    class Lost(BytesContent):
        def chunks(self):
            yield b"ab"
            raise EntryLost(Remark("lost", Outcome.UNREADABLE, "the archive is damaged here"))

    entries = [
        file("config.yaml", "fine"),
        Entry("hash", Kind.FILE, 0o644, TIME, 3, sha256="0" * 64, open=lambda: BytesContent(b"abc")),
        Entry("short", Kind.FILE, 0o644, TIME, 10, open=Short),
        Entry("lost", Kind.FILE, 0o644, TIME, 3, open=lambda: Lost(b"abc")),
    ]
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, entries)
    error = caught.value
    assert error.code == "restore-not-proven"
    assert error.what == (
        "3 of 4 restored things could not be proven: `hash`: its bytes do not have the recorded hash; "
        "`lost`: the archive is damaged here; `short`: 3 bytes came out where 10 were announced"
    )
    assert error.kept == "The home is as it was; what was staged has been removed"
    assert "Copy the file from its origin again" in error.advice()[1]
    assert facts(home) == before
    assert os.listdir(f"{home}.safekept/landings") == []


@pytest.mark.parametrize("where", [1, 2, 40])
def test_ctrl_c_while_staging_leaves_the_home_as_it_was(home, where):
    opened = 0

    def interrupt():
        nonlocal opened
        opened += 1
        if opened == where:
            raise KeyboardInterrupt
        return BytesContent(b"x" * 300_000)

    entries = [Entry(f"f{n}", Kind.FILE, 0o644, TIME, 300_000, open=interrupt) for n in range(40)]
    before = facts(home)
    with pytest.raises(KeyboardInterrupt):
        landed(home, entries)
    assert facts(home) == before
    assert os.listdir(f"{home}.safekept/landings") == []


@pytest.mark.parametrize("call", ["rename", "link", "mkdir", "chmod", "utime"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, PermissionError(13, "no"), OSError(5, "Input/output error")]
)
@pytest.mark.needs(
    "modes", "it looks at modes", only={"KeyboardInterrupt-chmod", "error1-chmod", "error2-chmod"}
)
def test_any_failure_of_the_swap_is_taken_back_at_once(home, monkeypatch, call, error):
    entries = [
        file("config.yaml", "new"),
        directory("memories", 0o700),
        file("memories/MEMORY.md", "new"),
        directory("fresh", 0o711, TIME),
        file("fresh/file", "new"),
    ]
    before = facts(home)
    real, calls = getattr(os, call), 0

    def failing(*arguments, **options):
        nonlocal calls
        inside = os.path.exists(f"{home}.safekept/landings/op-1/plan.jsonl")
        calls += inside
        if inside and calls == 2:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, failing)
    with pytest.raises((KeyboardInterrupt, SafekeptError)) as caught:
        landed(home, entries)
    monkeypatch.undo()
    assert facts(home) == before
    assert os.listdir(f"{home}.safekept/landings") == []
    if isinstance(caught.value, SafekeptError):
        assert caught.value.code == (
            "landing-not-permitted" if isinstance(error, PermissionError) else "landing-failed"
        )
        assert caught.value.kept == "The home is as it was"


def test_two_landings_in_one_home_do_not_meet(home):
    from safekept.home.landing.area import open_area

    with open_area(home).lock("import"), pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new")])
    assert caught.value.code == "already-running"
    assert f"Process {os.getpid()} (import)" in caught.value.what
    assert read(f"{home}/config.yaml") == b"old: 1\n"


@pytest.mark.needs("owners", "it gives files to another user")
def test_what_root_writes_belongs_to_the_owner_of_the_home(nobodys):  # noqa: F811
    if os.geteuid() != 0:
        missing_part("needs root")
    home = os.path.join(nobodys, ".hermes")
    write(f"{home}/config.yaml", "old: 1\n")
    for path in (home, f"{home}/config.yaml"):
        os.chown(path, 65534, 65534)
    result = landed(
        home, [file("a/b", "x"), symlink("l", "a"), file("config.yaml", "new"), directory("empty")]
    )
    for path in ("a", "a/b", "l", "config.yaml", "empty"):
        assert os.lstat(f"{home}/{path}").st_uid == 65534, path
    area = home + ".safekept"
    for place, names, files in os.walk(area):
        for name in (*names, *files):
            assert os.lstat(os.path.join(place, name)).st_uid == 65534, name
    assert result.replaced_in.startswith(area)


def test_a_home_that_is_a_file_is_refused(tmp_path):
    place = write(str(tmp_path / "file"), "not a directory")
    with pytest.raises(SafekeptError) as caught:
        landed(place, [file("config.yaml", "new")])
    assert caught.value.what == f"`{place}` is not a directory, so nothing can be restored into it"
    assert caught.value.kept == "Nothing was changed"
    assert read(place) == b"not a directory"


@pytest.mark.needs("modes", "it looks at modes")
def test_declared_places_outside_are_written_and_undone_with_the_rest(home, tmp_path):
    external = {
        "_external/.honcho": str(tmp_path / "user/.honcho"),
        "_external/.openviking/ovcli.conf": str(tmp_path / "user/.openviking/ovcli.conf"),
    }
    write(str(tmp_path / "user/.honcho/config.json"), "old")
    result = landed(
        home,
        [
            directory("_external"),
            directory("_external/.openviking"),
            file("_external/.honcho/config.json", "new", 0o4644),
            file("_external/.openviking/ovcli.conf", "conf", 0o644),
        ],
        external,
    )
    assert (result.created, result.replaced) == (1, 1)
    assert read(str(tmp_path / "user/.honcho/config.json")) == b"new"
    assert mode(str(tmp_path / "user/.honcho/config.json")) == 0o600
    assert mode(str(tmp_path / "user/.openviking/ovcli.conf")) == 0o600
    assert not os.path.exists(f"{home}/_external")
    undo(home)
    assert read(str(tmp_path / "user/.honcho/config.json")) == b"old"
    assert not os.path.exists(tmp_path / "user/.openviking")


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_declared_place_that_is_a_link_is_not_followed(home, tmp_path):
    os.mkdir(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "user/.honcho")
    with pytest.raises(SafekeptError) as caught:
        landed(
            home,
            [file("_external/.honcho/config.json", "new")],
            {"_external/.honcho": str(tmp_path / "user/.honcho")},
        )
    assert caught.value.code == "landing-through-link"
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_file_that_appears_during_the_landing_is_kept(home, monkeypatch):
    from safekept.home.landing.swap import swap as swapping

    real = swapping.Swap.carry_out

    def late(self, listener):
        write(f"{home}/SOUL.md", "made by the agent a moment ago")
        return real(self, listener)

    monkeypatch.setattr(swapping.Swap, "carry_out", late)
    result = landed(home, [file("SOUL.md", "from the archive")])
    assert read(f"{home}/SOUL.md") == b"from the archive"
    assert read(f"{result.replaced_in}/home/.hermes/SOUL.md") == b"made by the agent a moment ago"


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_a_file_found_the_same_that_changes_meanwhile_is_noticed(home):
    write(f"{home}/a", "same")

    def sabotage():
        write(f"{home}/a", "changed by the agent", 0o644, TIME + 5)
        return BytesContent(b"x")

    entries = [file("a", "same"), Entry("b", Kind.FILE, 0o644, TIME, 1, open=sabotage)]
    with pytest.raises(SafekeptError) as caught:
        landed(home, entries)
    assert caught.value.code == "home-changed" and caught.value.retry
    assert caught.value.what == "`a` was changed while the landing was being prepared"
    assert not os.path.exists(f"{home}/b")


@pytest.mark.needs("owners", "it gives files to another user")
def test_nothing_lands_in_a_directory_that_somebody_else_put_into_a_shared_place(tmp_path):
    """/tmp is everybody's: what lies there is ours only if we own it, every directory of it."""
    if os.geteuid() != 0:
        missing_part("needs root")
    home = str(tmp_path / "into")
    os.makedirs(f"{home}/memories")
    os.chown(f"{home}/memories", 65534, 65534)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("memories/MEMORY.md", "secret")])
    assert caught.value.code == "landing-in-foreign-directory"
    assert (
        caught.value.what
        == f"`{home}/memories` belongs to another user, and lies where others can put things"
    )
    assert caught.value.kept == "Nothing was written into it"
    assert os.listdir(f"{home}/memories") == []


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_work_area_of_somebody_else_is_not_used(tmp_path):
    if os.geteuid() != 0:
        missing_part("needs root")
    home = str(tmp_path / "into")
    for area in (home + ".safekept", f"{home}/.safekept"):
        os.makedirs(area)
        os.chown(area, 65534, 65534)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new")])
    assert caught.value.code == "area-not-ours"
    assert caught.value.kept == "It was not used, and nothing was changed"
    os.rmdir(f"{home}/.safekept")
    landed(home, [file("config.yaml", "new")])
    assert os.listdir(home + ".safekept") == [], "the one beside is not touched; the one inside is ours"
