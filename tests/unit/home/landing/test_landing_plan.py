"""A plan says exactly what would be done, and making one changes nothing."""

import errno
import os

import pytest

from safekept.core.errors import SafekeptError
from support.restoring.landings import TIME, directory, facts, file, plan, symlink, write


@pytest.fixture
def home(tmp_path):
    home = str(tmp_path / ".hermes")
    write(f"{home}/config.yaml", "old: 1\n")
    write(f"{home}/same.md", "same")
    write(f"{home}/gateway_state.json", "{}")
    write(f"{home}/extra/note.md", "only here")
    return home


@pytest.mark.needs("modes", "it looks at modes")
def test_plan_sorts_every_entry_and_changes_nothing(home, tmp_path):
    before = facts(str(tmp_path))
    made = plan(
        home,
        [
            file("config.yaml", "new: 1\n"),
            file("same.md", "same"),
            file("gateway_state.json", "{}"),
            file("SOUL.md", "fresh"),
            file("plugins/x/__init__.py", "import os"),
            directory("empty"),
            file("_external/.honcho/config.json", "{}"),
        ],
        {"_external/.honcho": str(tmp_path / ".honcho")},
    )
    assert made.create == ["SOUL.md", "_external/.honcho/config.json", "plugins/x/__init__.py"]
    assert made.replace == ["config.yaml"]
    assert made.same == ["same.md"]
    assert made.kept == ["gateway_state.json"]
    assert made.remove == []
    assert made.outside == [str(tmp_path / ".honcho/config.json")]
    assert made.executable == ["plugins/x/__init__.py"]
    assert made.links == [] and made.held == []
    assert made.bytes == sum(map(len, ("new: 1\n", "same", "fresh", "import os", "{}")))
    assert made.needed >= made.bytes
    assert facts(str(tmp_path)) == before


def test_plan_as_a_document_has_every_list(home):
    document = plan(home, [file("SOUL.md", "x")]).as_dict()
    assert document["create"] == ["SOUL.md"]
    assert set(document) >= {
        "replace",
        "same",
        "kept",
        "remove",
        "outside",
        "executable",
        "held",
        "needed_bytes",
    }


@pytest.mark.parametrize("change", ["data", "mode", "time", "kind"])
def test_a_file_is_the_same_only_if_everything_is(home, change):
    entry = {
        "data": file("same.md", "other"),
        "mode": file("same.md", "same", mode=0o600),
        "time": file("same.md", "same", mtime_ns=TIME + 1),
        "kind": symlink("same.md", "same"),
    }[change]
    assert plan(home, [entry]).replace == ["same.md"]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_exact_removes_what_a_backup_would_hold_and_nothing_else(home):
    write(f"{home}/hermes-agent/main.py", "code")
    write(f"{home}/backups/old.zip", "zip")
    write(f"{home}/cron.pid", "412")
    write(f"{home}/.safekept/landings/x/plan.jsonl", "ours")
    os.mkfifo(f"{home}/pipe")
    made = plan(home, [file("config.yaml", "new")], exact=True)
    assert made.remove == ["extra/note.md", "same.md"]
    assert made.removals.directories == ["extra"]


def test_exact_never_removes_what_is_spared_nor_the_directories_that_hold_it(home):
    write(f"{home}/extra/deep/lost.md", "could not be read when the backup was made")
    os.mkdir(f"{home}/void")
    entries = [directory("skills"), file("config.yaml", "new")]
    bare = plan(home, entries, exact=True)
    assert bare.remove == ["extra/deep/lost.md", "extra/note.md", "same.md"]
    assert bare.removals.directories == ["void", "extra/deep", "extra"]
    made = plan(home, entries, exact=True, spare=lambda path: path in ("extra/deep/lost.md", "void"))
    assert made.remove == ["extra/note.md", "same.md"]
    assert made.removals.directories == []


def test_exact_spares_a_directory_as_a_whole_where_the_predicate_says_so(home):
    write(f"{home}/extra/deep/more.md", "x")
    made = plan(home, [file("config.yaml", "new")], exact=True, spare=lambda path: path.startswith("extra"))
    assert made.remove == ["same.md"]
    assert made.removals.directories == []


def test_exact_says_what_it_could_not_look_at(home, monkeypatch):
    """A directory that cannot be listed may hold what has to go: it stays, and that is said."""
    write(f"{home}/extra/deep/more.md", "x")
    real = os.scandir

    def failing(place):
        if isinstance(place, int) and os.readlink(f"/proc/self/fd/{place}").endswith("/extra"):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return real(place)

    monkeypatch.setattr(os, "scandir", failing)
    made = plan(home, [file("config.yaml", "new")], exact=True)
    assert made.remove == ["same.md"]
    assert made.unseen == [
        (
            "extra",
            "cannot be read: Operation not permitted, so what an exact restore would remove there stays",
        )
    ]
    assert plan(home, [file("config.yaml", "new")], exact=True, only=["config.yaml"]).unseen == []
    assert plan(home, [file("config.yaml", "new")]).unseen == []


def test_exact_with_only_removes_only_there(home):
    made = plan(home, [file("extra/other.md", "x")], exact=True, only=["extra"])
    assert made.remove == ["extra/note.md"]


def test_exact_onto_nothing_removes_nothing(tmp_path):
    os.mkdir(tmp_path / "empty")
    for name in ("empty", "missing"):
        assert plan(str(tmp_path / name), [file("SOUL.md", "x")], exact=True).remove == []


@pytest.mark.parametrize("wanted", ["skills", "skills/", "./skills", "{home}/skills"])
def test_only_takes_a_directory_whole(home, wanted):
    entries = [
        directory("skills"),
        file("skills/a.md", "a"),
        file("skills/b/c.md", "c"),
        file("SOUL.md", "x"),
    ]
    made = plan(home, entries, only=[wanted.replace("{home}", home)])
    assert made.create == ["skills/a.md", "skills/b/c.md"]


def test_only_a_name_that_begins_alike_is_not_taken(home):
    made = plan(home, [file("skill", "a"), file("skills/b", "b")], only=["skill"])
    assert made.create == ["skill"]


def test_only_something_that_is_not_there_is_an_error(home):
    with pytest.raises(SafekeptError) as caught:
        plan(home, [file("SOUL.md", "x")], only=["SOUL.md", "nothing.md"])
    error = caught.value
    assert error.code == "nothing-matches"
    assert error.what == "There is nothing called `nothing.md` in what is to be restored"
    assert error.kept == "Nothing was changed"
    assert error.advice() == ("List what it holds: `safekept import FILE --dry-run --json`",)


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        (["soul.md"], ["SOUL.md", "profiles/writer/SOUL.md"]),
        (["MEMORY.md"], ["memories/MEMORY.md"]),
        (["memory"], ["memories/MEMORY.md"]),
        (["Memories/memory.MD"], ["memories/MEMORY.md"]),
        (["writer"], ["profiles/writer"]),
        (["emories"], ["memories"]),
        (["memories/MEMROY.md"], ["memories/MEMORY.md"]),
        (["profile/wirter"], ["profiles/writer"]),
        (["notes"], []),
        (["soul.md", "nothing.md"], []),
    ],
)
def test_a_name_that_is_nearly_there_is_offered_and_nothing_is_taken(home, wanted, near):
    entries = [
        directory("profiles"),
        directory("profiles/writer"),
        file("profiles/writer/SOUL.md", "w"),
        file("SOUL.md", "x"),
        directory("memories"),
        file("memories/MEMORY.md", "m"),
    ]
    with pytest.raises(SafekeptError) as caught:
        plan(home, entries, only=wanted)
    *offered, last = caught.value.advice()
    assert offered == [f"Did you mean: `safekept import FILE --only {path}`" for path in near]
    assert last == "List what it holds: `safekept import FILE --dry-run --json`"


def test_the_best_of_each_of_several_names_is_offered_in_one_command(home):
    entries = [file("SOUL.md", "x"), file("a/MEMORY.md", "m"), file("b/MEMORY.md", "m"), file("c.md", "c")]
    with pytest.raises(SafekeptError) as caught:
        plan(home, entries, only=["soul.md", "c.md", "MEMORY.md"])
    offered = "Did you mean: `safekept import FILE --only SOUL.md --only c.md --only a/MEMORY.md`"
    assert caught.value.advice()[:-1] == (offered,)


def test_of_many_names_that_are_nearly_there_the_three_highest_up_are_offered(home):
    entries = [file(f"{'d/' * depth}SKILL.md", "x") for depth in range(9, 0, -1)]
    with pytest.raises(SafekeptError) as caught:
        plan(home, entries, only=["skill.md"])
    assert [line.split()[-1] for line in caught.value.advice()[:-1]] == [
        "d/SKILL.md`",
        "d/d/SKILL.md`",
        "d/d/d/SKILL.md`",
    ]


def test_places_outside_that_nobody_declared_are_refused_by_name(home, tmp_path):
    entries = [
        directory("_external"),
        file("_external/.bashrc", "evil"),
        file("_external/.ssh/authorized_keys", "evil"),
        file("_external/.honchos/x", "evil"),
        file("_external/.honcho/config.json", "fine"),
    ]
    with pytest.raises(SafekeptError) as caught:
        plan(home, entries, {"_external/.honcho": str(tmp_path / ".honcho")})
    error = caught.value
    assert error.code == "import-outside-home"
    assert error.what == (
        "3 files would be written outside the home, to places that this layout does not declare: "
        "`_external/.bashrc`, `_external/.ssh/authorized_keys`, `_external/.honchos/x`"
    )
    assert error.kept == "Nothing was changed"
    assert "safekept import FILE --into DIR" in error.advice()[1]
    assert not os.path.exists(tmp_path / ".honcho")


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([file("../x", "")], "is not a plain path below the home"),
        ([file("a/../../x", "")], "is not a plain path below the home"),
        ([file("/etc/x", "")], "is not a plain path below the home"),
        ([file("a//b", "")], "is not a plain path below the home"),
        ([file("a\0b", "")], "is not a plain path below the home"),
        ([file("a", "1"), file("a", "2")], "appears twice"),
        ([file("a", "1"), file("a/b", "2")], "lies below `a`, which is not a directory"),
        ([symlink("a", "/etc"), file("a/b", "2")], "lies below `a`, which is not a directory"),
    ],
)
def test_names_that_leave_the_home_or_contradict_are_refused(home, entries, why):
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        plan(home, entries)
    assert caught.value.code == "unsafe-entry"
    assert why in caught.value.what
    assert caught.value.kept == "Nothing was changed"
    assert facts(home) == before


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_where_a_directory_is_needed_is_named_in_the_plan(home, tmp_path):
    os.mkdir(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", f"{home}/skills")
    made = plan(home, [directory("skills"), file("skills/a/run.md", "x"), file("SOUL.md", "x")])
    assert made.links == [f"{home}/skills"]
    assert made.create == ["SOUL.md"]


def test_our_own_members_of_an_archive_do_not_land(home):
    made = plan(home, [file(".safekept/manifest.json", "{}"), file("SOUL.md", "x")])
    assert made.create == ["SOUL.md"]


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_what_would_refuse_the_landing_is_said_by_the_plan(home, tmp_path, monkeypatch):
    from safekept.home.landing import plan as planning

    assert plan(home, [file("SOUL.md", "x")]).obstacles == []
    os.mkdir(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", f"{home}/skills")
    monkeypatch.setattr(planning, "free_bytes", lambda path: 1_000_000)
    made = plan(home, [file("skills/a.md", "x"), file("SOUL.md", "x" * 5000)])
    assert made.obstacles == [
        f"`{home}/skills` is a link where a directory is needed; safekept never writes through links",
        f"There is not enough room beside `{home}`: 2,105,344 bytes are needed, 1,000,000 are free",
    ]
    assert made.as_dict()["obstacles"] == made.obstacles
