"""Rows of facts/field-failures.md about going back: each by its name, on safekept and on Hermes 0.19.0.

Where a row can be run on Hermes's CheckpointManager, the same scenario runs there as a strict expected
failure. Rows without a run of their own here, and why:

- #95491, #95207, #111861, #112882: introduced and fixed after 0.19.0, whose restore removes nothing and
  has no ledger; run on safekept only.
- #103995, #104932: 0.19.0 restores such names; its half of the row is the size cap (see the tests of taking).
- #10505, #90459, #90986, #10633, #10714, #101743, V-32, #22841: lists and grammar of front ends; see the
  tests of the commands and of the dispatcher. The part of V-32 that is about ids is here.
- #78603, #90029, #40987, #4564, #115493, #92883, #94249, hermes-studio #2709: the conversation, which the
  host moves, not the checkpoint store.
- hermes-webui #466/#1405: another project's web server.
- #97714, #44658, #109331, #96962, #63366: the curator of skills, another component; the promise (copy,
  swap, delete last) is proven in tests/faults/projects/test_rollback_kill.py.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from support.projects.hermes_checkpoints import Hermes, Safekept, System
from support.projects.rollbacks import Project, tree_of


def on_both(why: str) -> pytest.MarkDecorator:
    """Runs on safekept, and on Hermes, where it must fail for the reason given."""
    failing = pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"Hermes 0.19.0: {why}")
    return pytest.mark.parametrize(
        "system", ["safekept", pytest.param("hermes", marks=failing)], indirect=True
    )


def on_both_sound() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("system", ["safekept", "hermes"], indirect=True)


@pytest.fixture
def system(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[System]:
    made: System
    if request.param == "hermes":
        settings = getattr(request.function, "settings", {})
        python = request.getfixturevalue("hermes_python")
        made = Hermes(python, os.path.join(str(tmp_path), "user"), **settings)
    else:
        made = Safekept(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def project(tmp_path: object) -> str:
    place = os.path.realpath(os.path.join(str(tmp_path), "project"))
    os.mkdir(place)
    write(place, "main.py", "one\n")
    write(place, "pyproject.toml", "")
    return place


def write(project: str, path: str, data: str | bytes, mode: int | None = None) -> None:
    full = os.path.join(project, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    if mode is not None:
        os.chmod(full, mode)


def read(project: str, path: str) -> bytes:
    with open(os.path.join(project, path), "rb") as file:
        return file.read()


def git(place: str, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words],
        cwd=place,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": place, "GIT_CONFIG_NOSYSTEM": "1"},
    )


@on_both_sound()
def test_the_harness_itself_goes_back_on_both(system, project):
    point = system.take(project)
    write(project, "main.py", "two\n")
    system.turn_over(project)
    system.back(project, point)
    assert read(project, "main.py") == b"one\n"


@on_both("a nested repository without a commit aborts the whole checkpoint")
def test_v24_a_nested_repository_without_a_commit_is_an_ordinary_directory(system, project):
    os.mkdir(os.path.join(project, "sub"))
    git(os.path.join(project, "sub"), "init")
    write(project, "sub/work.txt", "uncommitted\n")
    point = system.take(project)
    write(project, "sub/work.txt", "clobbered\n")
    system.back(project, point)
    assert read(project, "sub/work.txt") == b"uncommitted\n"


@on_both("a nested repository is stored as a bare link to its commit")
def test_v25_the_content_of_a_nested_repository_comes_back(system, project):
    os.mkdir(os.path.join(project, "sub"))
    git(os.path.join(project, "sub"), "init")
    write(project, "sub/work.txt", "committed\n")
    git(os.path.join(project, "sub"), "add", "-A")
    git(os.path.join(project, "sub"), "commit", "-m", "x")
    write(project, "sub/work.txt", "uncommitted work\n")
    point = system.take(project)
    write(project, "sub/work.txt", "clobbered\n")
    system.back(project, point)
    assert read(project, "sub/work.txt") == b"uncommitted work\n"


@on_both("ignored and excluded files are never saved, and restore reports success")
def test_v26_an_ignored_file_that_a_tool_names_comes_back(system, project):
    write(project, ".gitignore", "generated.txt\n")
    write(project, "generated.txt", "precious\n")
    write(project, "dist/app.js", "precious\n")
    system.take(project)
    write(project, "main.py", "first write of the turn\n")
    system.before_call(project, "generated.txt", "dist/app.js")
    write(project, "generated.txt", "clobbered\n")
    write(project, "dist/app.js", "clobbered\n")
    system.back(project, system.list(project)[0][0])
    assert read(project, "generated.txt") == b"precious\n"
    assert read(project, "dist/app.js") == b"precious\n"


@on_both("one checkpoint per turn: later states of it are never captured")
def test_v23_the_second_write_of_a_turn_can_be_undone_alone(system, project):
    write(project, "other.py", "one\n")
    system.take(project)
    write(project, "main.py", "two\n")
    system.before_call(project, "main.py")
    write(project, "main.py", "three\n")
    system.back(project, system.list(project)[0][0])
    assert read(project, "main.py") == b"two\n"


@on_both("the project's .gitattributes are applied")
def test_v27_bytes_in_are_bytes_out_whatever_gitattributes_say(system, project):
    write(project, ".gitattributes", "* text=auto ident\n")
    write(project, "crlf.txt", b"a\r\nb\r\n")
    write(project, "ident.txt", b"$Id: keepme $\n")
    point = system.take(project)
    write(project, "crlf.txt", b"x")
    write(project, "ident.txt", b"x")
    system.back(project, point)
    assert read(project, "crlf.txt") == b"a\r\nb\r\n" and read(project, "ident.txt") == b"$Id: keepme $\n"


@on_both("git keeps one bit of a mode, and no empty directories")
def test_v28_modes_times_and_empty_directories_come_back(system, project):
    write(project, "key.txt", "private\n", mode=0o600)
    os.mkdir(os.path.join(project, "empty"))
    os.utime(os.path.join(project, "key.txt"), ns=(10**18, 10**18))
    point = system.take(project)
    os.unlink(os.path.join(project, "key.txt"))
    os.rmdir(os.path.join(project, "empty"))
    system.back(project, point)
    facts = os.stat(os.path.join(project, "key.txt"))
    assert stat.S_IMODE(facts.st_mode) == 0o600 and os.path.isdir(os.path.join(project, "empty"))
    assert facts.st_mtime_ns == 10**18


@on_both("restores the whole tree over the user's own later edits")
def test_80751_the_users_own_later_edits_stay(system, project):
    write(project, "notes.txt", "notes\n")
    point = system.take(project)
    write(project, "main.py", "the agent's\n")
    system.turn_over(project)
    write(project, "notes.txt", "hours of the user's work\n")
    system.back(project, point)
    assert read(project, "main.py") == b"one\n"
    assert read(project, "notes.txt") == b"hours of the user's work\n"


@on_both("`git checkout <c> -- .` removes nothing")
def test_64477_files_made_since_the_checkpoint_go(system, project):
    point = system.take(project)
    write(project, "made/by/agent.py", "made\n")
    was = tree_of(project)
    system.back(project, point)
    assert not os.path.exists(os.path.join(project, "made"))
    system.undo(project)
    assert {path: was[path] for path in was if ".git" not in path} == tree_of(project)


@on_both("says that a pre-rollback snapshot was saved although it was not")
def test_56606_no_restore_without_an_undo_point_that_is_there(system, project):
    point = system.take(project)
    write(project, "main.py", "the only copy of an afternoon\n")
    os.mkdir(os.path.join(project, "sub"))
    git(os.path.join(project, "sub"), "init")  # from now on Hermes cannot take one
    write(project, "sub/x.txt", "x\n")
    system.back(project, point)
    system.undo(project)
    assert read(project, "main.py") == b"the only copy of an afternoon\n"


@on_both("an id is looked up in the shared store, whose project does not matter")
def test_v30_another_projects_id_is_refused(system, project, tmp_path):
    other = os.path.realpath(str(tmp_path / "other"))
    os.mkdir(other)
    write(other, "secret.txt", "of the other\n")
    theirs = system.take(other)
    system.take(project)
    write(project, "main.py", "two\n")
    try:
        system.back(project, theirs)
    except Exception as error:
        assert "belongs to another project" in str(error)
    assert not os.path.exists(os.path.join(project, "secret.txt"))
    assert read(project, "main.py") == b"two\n"


def capped(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def mark(function: Callable[..., None]) -> Callable[..., None]:
        function.settings = {"max_snapshots": count}  # type: ignore[attr-defined]
        return function

    return mark


@on_both("pruning rewrites every commit: new ids, all times now")
@capped(3)
def test_v31_ids_and_times_never_change(system, project):
    seen = {}
    for number in range(5):
        write(project, "main.py", f"{number}\n")
        system.take(project)
        for id, when, _ in system.list(project):
            assert seen.setdefault(id, when) == when
        time.sleep(1.1 if system.name == "hermes" else 0)
    if system.name == "safekept":
        store = system.project(project).store
        store.drop(store.checkpoints(project)[3:])
    for id, when, _ in system.list(project):
        assert seen.get(id) == when
    assert len({when for _, when, _ in system.list(project)}) == len(system.list(project))


@on_both("the pre-rollback snapshot prunes the point that is to be restored")
@capped(3)
def test_47612_the_oldest_point_can_be_gone_back_to_at_the_cap(system, project):
    for number in range(3):
        write(project, "main.py", f"{number}\n")
        system.take(project)
    write(project, "main.py", "now\n")
    oldest = system.list(project)[-1][0]
    system.back(project, oldest)
    assert read(project, "main.py") == b"0\n"


@pytest.mark.parametrize("system", ["safekept"], indirect=True)
def test_95491_a_file_over_the_cap_is_never_taken_for_one_made_since(system, project):
    mine = system.project(project)
    write(project, "grown.log.txt", "small\n")
    point = system.take(project)
    write(project, "grown.log.txt", b"x" * (2 << 20))
    write(project, "large.bin", b"y" * (2 << 20))
    result = mine.back(point)
    assert len(read(project, "grown.log.txt")) == 2 << 20 and os.path.exists(
        os.path.join(project, "large.bin")
    )
    assert {left.path: left.reason for left in result.left} == {"grown.log.txt": "oversize"}


@pytest.mark.parametrize("system", ["safekept"], indirect=True)
def test_111861_112882_the_users_edits_stay_whichever_way_the_files_are_named(system, project):
    mine = system.project(project)
    write(project, "sub/a.txt", "one\n")
    write(project, "sub/b.txt", "one\n")
    point = system.take(project)
    write(project, "sub/a.txt", "agent\n")
    system.turn_over(project)
    write(project, "sub/b.txt", "user\n")
    for files, cwd in (
        (["sub"], ""),
        (["."], os.path.join(project, "sub")),
        ([os.path.join(project, "sub")], "/"),
    ):
        mine.back(point, *files, cwd=cwd)
        assert read(project, "sub/b.txt") == b"user\n", files


@pytest.mark.parametrize("system", ["safekept"], indirect=True)
def test_103995_names_of_any_bytes_come_back(system, project):
    names = ["naïve.txt", " leading", "tab\there", "new\nline", '"quoted"', os.fsdecode(b"caf\xe9")]
    for name in names:
        write(project, name, name.encode("utf-8", "surrogateescape"))
    point = system.take(project)
    for name in names:
        write(project, name, "clobbered")
    system.back(project, point)
    assert [read(project, name) for name in names] == [os.fsencode(name) for name in names]


def test_v32_an_id_of_digits_only_is_not_taken_for_a_number(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("a.txt", "one\n")
    monkeypatch.setattr("safekept.checkpoints.take.taking.new_checkpoint_id", lambda time_ns: "012345678901")
    digits = project.before()
    monkeypatch.undo()
    project.write("a.txt", "two\n")
    project.before()
    project.write("a.txt", "three\n")
    for word in (digits.id, digits.id[:6]):
        project.back(word)
        assert project.read("a.txt") == b"one\n"
    project.store.close()


@pytest.mark.parametrize(
    "word", ["--hard", "-p", "HEAD", "x; rm -rf /", "../../etc/passwd", "$(id)", "a" * 64]
)
def test_7944_an_id_is_never_handed_to_git_as_a_word(tmp_path, word):
    project = Project(str(tmp_path))
    project.write("a.txt", "one\n")
    project.before()
    project.write("a.txt", "two\n")
    with pytest.raises(Exception, match=r"is not the id|nor the id|has no checkpoint"):
        project.back(word)
    assert project.read("a.txt") == b"two\n"
    project.store.close()


def test_80572_setuid_is_never_given_back_to_replaced_bytes(tmp_path):
    project = Project(str(tmp_path))
    project.write("tool", "#!/bin/sh\n", mode=0o4755)
    point = project.before()
    project.write("tool", "changed\n")
    project.back(point)
    assert stat.S_IMODE(os.stat(project.full("tool")).st_mode) == 0o755
    project.store.close()


def test_14367_a_changed_gitignore_does_not_expose_what_it_protected(tmp_path):
    project = Project(str(tmp_path))
    project.write(".gitignore", "outputs/\n")
    project.write("outputs/result.bin", "the only copy\n")
    point = project.before()
    project.write(".gitignore", "")
    project.write("main.py", "changed\n")
    result = project.back(point)
    assert project.read("outputs/result.bin") == b"the only copy\n"
    assert project.read(".gitignore") == b"outputs/\n"
    assert any(left.path == "outputs/result.bin" and left.reason == "then-left-out" for left in result.left)
    project.store.close()


def test_28078_going_back_in_one_session_keeps_what_another_wrote_into_its_own_files(tmp_path):
    project = Project(str(tmp_path))
    project.write("a.txt", "one\n")
    project.write("b.txt", "one\n")
    project.before("a.txt")
    project.write("a.txt", "session A\n")
    project.before("b.txt")
    project.write("b.txt", "session B\n")
    project.back("1")
    assert project.read("a.txt") == b"session A\n" and project.read("b.txt") == b"one\n"
    project.store.close()
