"""`import safekept`: costs nothing, prints nothing, asks nobody, and keeps the promises of the commands."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest

import safekept
from support.home.homes import differences, make_hermes_home, tree_facts
from support.projects.checkpoints import put

SOURCE = pathlib.Path(safekept.__file__)


@pytest.fixture
def user(tmp_path, monkeypatch) -> pathlib.Path:
    """A user who stands in his project."""
    place = tmp_path / "user"
    monkeypatch.setenv("HOME", str(place))
    make_hermes_home(str(place / ".hermes"), profiles=(), awkward=False)
    put(str(place / "work" / "pyproject.toml"), "[project]\n")
    put(str(place / "work" / "a.txt"), "one\n")
    monkeypatch.chdir(place / "work")
    return place


@pytest.fixture
def home(user) -> pathlib.Path:
    return user / ".hermes"


@pytest.fixture
def project(user) -> pathlib.Path:
    return user / "work"


def journal(user: pathlib.Path) -> list[dict[str, object]]:
    path = user / ".local" / "share" / "safekept" / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


# ── the package ────────────────────────────────────────────────────────────────────────────────────


def test_importing_it_imports_nothing_else():
    script = (
        "import sys\nbefore = set(sys.modules)\nimport safekept\n"
        "print(sorted(set(sys.modules) - before), safekept.__version__)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parents[1])}
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"['safekept'] {safekept.__version__}\n"


def test_every_name_can_be_had_and_no_other():
    for name in safekept.__all__:
        assert getattr(safekept, name) is not None
        assert name in dir(safekept)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        safekept.no_such_name
    assert inspect.ismodule(__import__("safekept.checkpoints")), "rooms are still modules"


def test_a_type_checker_sees_the_very_names_that_are_given():
    tree = ast.parse(SOURCE.read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*seen, "__version__"} == set(safekept.__all__)
    for name, module in seen.items():
        assert getattr(safekept, name) is getattr(sys.modules[str(module)], name), name
    assert (SOURCE.parent / "py.typed").exists()


def test_options_are_given_by_name():
    free = {"snapshot": 1, "snapshots": 1, "restore": 2, "backup": 1, "import_archive": 1, "history": 1}
    free |= {"status": 1, "undo": 1, "guard": 0}
    for name, count in free.items():
        parameters = inspect.signature(inspect.unwrap(getattr(safekept, name))).parameters.values()
        by_name = [one.kind is one.KEYWORD_ONLY for one in parameters]
        assert by_name == [False] * count + [True] * (len(by_name) - count), name


# ── homes ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_restore_is_planned_agreed_to_and_taken_back(user, home, capfd):
    taken = safekept.snapshot(label="whole")
    assert taken.complete
    assert taken.missing == ()
    assert safekept.snapshots()[0].id == taken.id
    soul = home / "SOUL.md"
    was = soul.read_text()
    soul.write_text("Somebody else.")
    broken = tree_facts(str(home), databases="ignore")

    planned = safekept.restore(taken.id, [pathlib.Path("SOUL.md")], dry_run=True)
    assert not planned.done
    assert planned.plan.replace == ("SOUL.md",)
    assert planned.plan.changes == 1
    with pytest.raises(safekept.SafekeptError) as refused:
        safekept.restore(taken.id, ["SOUL.md"])
    assert refused.value.code == "consent-needed"
    assert refused.value.kept == "Nothing was changed"
    assert refused.value.advice() == ("See the plan with dry_run=True, and agree to it with yes=True",)
    assert tree_facts(str(home), databases="ignore") == broken

    done = safekept.restore(taken.id, ["SOUL.md"], yes=True)
    assert (done.done, done.replaced, done.complete) == (True, 1, True)
    assert soul.read_text() == was
    would = safekept.undo(dry_run=True)
    assert (would.undoes, would.done, would.returns) == (done.operation, False, ("SOUL.md",))
    assert soul.read_text() == was
    assert safekept.undo(home=home).done
    assert soul.read_text() == "Somebody else."
    assert len(safekept.history(soul)) == 2, "what the restore replaced is a version, too"
    assert capfd.readouterr() == ("", "")
    assert {line["facts"]["actor"] for line in journal(user)} == {"api"}  # type: ignore[index]


def test_a_home_moves_in_one_file(user, home, tmp_path):
    before = tree_facts(str(home))
    preview = safekept.backup(tmp_path / "home.tar.zst", dry_run=True)
    assert not preview.done
    assert not (tmp_path / "home.tar.zst").exists()
    archive = safekept.backup(tmp_path / "home.tar.zst")
    assert archive.complete
    assert archive.files == preview.files
    assert safekept.import_archive(archive.path, into=tmp_path / "copy", dry_run=True).plan.create
    assert not (tmp_path / "copy").exists()
    done = safekept.import_archive(archive.path, into=tmp_path / "copy")
    assert done.done
    after = tree_facts(str(tmp_path / "copy"))
    del before["."], after["."]  # the directory itself is the one that was named
    assert differences(before, after) == []
    (home / "SOUL.md").write_text("changed")
    with pytest.raises(safekept.SafekeptError) as refused:
        safekept.import_archive(archive.path)
    assert refused.value.code == "consent-needed"
    assert (home / "SOUL.md").read_text() == "changed"


def test_settings_are_those_of_the_command_line(user, home, tmp_path, monkeypatch):
    put(str(user / ".config" / "safekept" / "config.toml"), f'[vault]\npath = "{tmp_path}/elsewhere"\n')
    safekept.snapshot(quick=True)
    assert (tmp_path / "elsewhere" / "config").exists()
    monkeypatch.setenv("SAFEKEPT_HOME", str(tmp_path / "none"))
    with pytest.raises(safekept.SafekeptError) as missing:
        safekept.snapshot()
    assert missing.value.code == "home-not-found"
    put(str(user / ".config" / "safekept" / "config.toml"), "nonsense = 1\n")
    with pytest.raises(safekept.SafekeptError) as bad:
        safekept.status()
    assert bad.value.code == "bad-setting"


# ── guard ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_loss_is_raised_with_the_command_that_brings_it_back(user, home):
    with pytest.raises(safekept.LossFound) as found, safekept.guard() as guarded:
        (home / "SOUL.md").unlink()
        os.truncate(home / "state.db", 0)
    assert guarded.checked
    assert len(guarded.findings) >= 1
    error = found.value
    assert error.code == "loss-found"
    assert "After the guarded code: " in error.what
    assert f"Snapshot {guarded.snapshot[:8]}" in error.kept
    assert error.advice() == (f"Bring it back: `{guarded.restore_command}`",)
    words = guarded.restore_command.split()
    assert words[:3] == ["safekept", "snapshot", "restore"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--yes"],  # as printed it shows its plan first
        env={**os.environ, "PYTHONPATH": str(SOURCE.parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert os.path.getsize(home / "state.db") > 0


def test_what_the_block_raises_passes_through_unchanged_and_the_check_is_made(user, home):
    mine = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised, safekept.guard() as guarded:
        (home / "state.db").unlink()
        raise mine
    assert raised.value is mine
    assert guarded.checked
    assert guarded.findings
    assert guarded.restore_command
    last = journal(user)[-1]
    assert last["state"] == "incomplete"
    assert last["facts"]["raised"] == "ValueError"  # type: ignore[index]


def test_a_loss_can_be_told_or_mended_instead_of_raised(user, home):
    with safekept.guard(raises=False) as guarded:
        (home / "state.db").unlink()
    assert guarded.findings
    assert not (home / "state.db").exists()
    safekept.restore("latest", ["state.db"], yes=True)
    with safekept.guard(auto_restore=True) as guarded:
        os.truncate(home / "state.db", 0)
    assert guarded.restored == ("state.db",)
    assert os.path.getsize(home / "state.db") > 0


def test_no_block_runs_unprotected(user, home, monkeypatch):
    put(str(user / ".config" / "safekept" / "config.toml"), f'[vault]\npath = "{user}/file/vault"\n')
    put(str(user / "file"), "not a directory")
    ran = []
    with pytest.raises(safekept.SafekeptError) as refused, safekept.guard():
        ran.append("no")
    assert refused.value.code == "not-protected"
    assert "was not run" in refused.value.kept
    assert ran == []
    with safekept.guard(anyway=True) as guarded:
        ran.append("yes")
    assert ran == ["yes"]
    assert not guarded.checked
    assert guarded.unchecked


# ── projects ───────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_kept_and_the_users_own_edits_stay(user, project):
    checkpoints = safekept.Checkpoints(project)
    with checkpoints.turn("s", "t1") as turn:
        kept = turn.before(["a.txt", project / "new.txt"], reason="before write_file")
        assert kept.complete
        (project / "a.txt").write_text("agent\n")
        shell = turn.before_shell(reason="before make")
        assert shell.complete
        (project / "made.txt").write_text("made\n")
    (project / "mine.txt").write_text("mine\n")
    (project / "made.txt").write_text("mine now\n")
    points = checkpoints.list(session="s")
    assert [point.turn for point in points] == ["t1"] * len(points)
    first = points[-1]
    plan = checkpoints.rollback(first.id, dry_run=True)
    assert not plan.done
    assert ("a.txt", "restore") in {(step.path, step.action) for step in plan.steps}
    done = checkpoints.rollback(first.id)
    assert done.done
    assert (project / "a.txt").read_text() == "one\n"
    assert (project / "made.txt").read_text() == "mine now\n"
    assert "made.txt" in {one.path for one in done.left}
    assert checkpoints.undo().done
    assert (project / "a.txt").read_text() == "agent\n"


def test_two_turns_are_two_points(user, project):
    checkpoints = safekept.Checkpoints()  # where the program stands
    for number in range(2):
        with checkpoints.turn("s") as turn:
            assert turn.before(["a.txt"]).complete
            (project / "a.txt").write_text(f"{number}\n")
    assert [point.number for point in checkpoints.list()] == [1, 2]
    assert checkpoints.diff(2).files == ("a.txt",)
    assert "-one" in str(checkpoints.diff(2))
    assert checkpoints.rollback(2).complete
    assert (project / "a.txt").read_text() == "one\n"


def test_a_turn_never_stops_an_agent(user, project):
    """The store is a file: nothing can be kept. The agent is told, and goes on."""
    put(str(user / ".local" / "share" / "safekept" / "checkpoints"), "in the way")
    with safekept.Checkpoints(project).turn("s") as turn:
        kept = turn.before(["a.txt"])
        (project / "a.txt").write_text("two\n")
    assert not kept.complete
    assert kept.failures
    mine = KeyError("mine")
    with pytest.raises(KeyError) as raised, safekept.Checkpoints(project).turn("s"):
        raise mine
    assert raised.value is mine


def test_a_misspelt_word_is_said_before_anything_is_done(user):
    def guarded() -> None:
        with safekept.guard(kind="pre-upgrade"):
            raise AssertionError("the block ran")

    for call in (
        lambda: safekept.snapshot(kind="hourly"),
        lambda: safekept.backup(format="rar"),
        guarded,
    ):
        with pytest.raises(safekept.SafekeptError) as refused:
            call()
        assert refused.value.code == "bad-argument"
        assert "none of: " in refused.value.what
        assert refused.value.kept == "Nothing changed"
    assert not (user / ".local").exists()


def test_files_of_the_home_are_kept_in_the_same_timeline(user, home, project):
    checkpoints = safekept.Checkpoints(project)
    soul, skill = home / "SOUL.md", home / "skills" / "new" / "SKILL.md"
    was = soul.read_text()
    with checkpoints.turn("s", "t") as turn:
        kept = turn.before([soul, skill, "a.txt"], reason="before skill_manage")
        assert kept.complete, kept
        assert len(kept.checkpoints) == 2
        soul.write_text("Somebody else.")
        put(str(skill), "new")
        (project / "a.txt").write_text("two\n")
    points = checkpoints.list(session="s")
    assert sorted(point.kind for point in points) == ["before", "home"]
    point = next(point for point in points if point.kind == "home")
    assert point.project == str(home)
    plan = checkpoints.rollback(point.id, dry_run=True)
    assert soul.read_text() == "Somebody else."
    assert {(step.path, step.action) for step in plan.steps} >= {("SOUL.md", "restore")}
    done = checkpoints.rollback(point.id)
    assert done.complete
    assert soul.read_text() == was
    assert not skill.exists()
    assert (project / "a.txt").read_text() == "two\n", "the project is another point"
    safekept.undo(done.operation)
    assert soul.read_text() == "Somebody else."


def changed_home(checkpoints, home, project) -> tuple[str, str]:
    """A turn that changed a file of the home and one of the project; the points, the home's first."""
    with checkpoints.turn("s", "t") as turn:
        turn.before([home / "SOUL.md", "a.txt"], reason="before a change of both")
        (home / "SOUL.md").write_text("Somebody else.")
        (project / "a.txt").write_text("two\n")
    points = {point.kind: point.id for point in checkpoints.list(session="s")}
    return points["home"], points["before"]


def test_every_id_of_the_list_has_a_difference(user, home, project):
    checkpoints = safekept.Checkpoints(project)
    at_home, _ = changed_home(checkpoints, home, project)
    for point in checkpoints.list():
        assert checkpoints.diff(point.id).checkpoint == point.id
    found = checkpoints.diff(at_home)
    assert (found.project, found.files) == (str(home), ("SOUL.md",))
    assert "+Somebody else." in str(found)


def test_undo_takes_the_last_rollback_back_whatever_it_was_of(user, home, project):
    checkpoints = safekept.Checkpoints(project)
    at_home, in_project = changed_home(checkpoints, home, project)
    assert checkpoints.rollback(in_project).done
    assert checkpoints.rollback(at_home).done
    planned = checkpoints.undo(dry_run=True)
    assert not planned.done and (planned.project, planned.steps[0].path) == (str(home), "SOUL.md")
    done = checkpoints.undo()
    assert done.done and done.complete and done.operation
    assert (home / "SOUL.md").read_text() == "Somebody else."
    assert (project / "a.txt").read_text() == "one\n", "the older rollback stands"
    assert checkpoints.undo().project == str(project)
    assert (project / "a.txt").read_text() == "two\n"


def test_a_bare_undo_takes_back_what_was_done_where_the_program_stands(user, home, project, monkeypatch):
    safekept.snapshot()
    checkpoints = safekept.Checkpoints(project)
    _, in_project = changed_home(checkpoints, home, project)
    rolled_back = checkpoints.rollback(in_project)
    monkeypatch.chdir(user)
    newer = safekept.restore(paths=["SOUL.md"], yes=True)
    monkeypatch.chdir(project)
    planned = safekept.undo(dry_run=True)
    assert (planned.undoes, planned.newer_elsewhere) == (rolled_back.operation, newer.operation)
    assert safekept.undo().undoes == rolled_back.operation
    assert (project / "a.txt").read_text() == "two\n"
    assert (home / "SOUL.md").read_text() != "Somebody else.", "the home was left alone"
    monkeypatch.chdir(user)
    assert safekept.undo(newer.operation).newer_elsewhere == ""


def test_a_turn_obeys_the_switch(user, project, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_CHECKPOINTS", "0")
    with safekept.Checkpoints(project).turn("s") as turn:
        for kept in (turn.before(["a.txt"]), turn.before_shell()):
            assert kept.off
            assert not kept.complete
            assert kept.checkpoints == ()
    assert safekept.Checkpoints(project).list() == []
    assert safekept.Checkpoints(project).take("asked for").kind == "manual", "what is asked for is done"


def test_errors_are_the_same_typed_errors(user, project):
    with pytest.raises(safekept.SafekeptError) as none:
        safekept.Checkpoints(project).rollback()
    assert none.value.code == "no-checkpoints"
    assert none.value.kept == "Nothing was changed"
    with pytest.raises(safekept.SafekeptError) as nowhere:
        safekept.Checkpoints(user / "no such").take()
    assert nowhere.value.code == "no-such-directory"


def test_a_single_name_is_meant_whole_and_never_letter_by_letter(user, home, project):
    """`files="a.txt"` read as letters would name `.`, which is everything."""
    checkpoints = safekept.Checkpoints(project)
    put(str(project / "b.txt"), "one\n")
    point = checkpoints.take("by hand")
    put(str(project / "a.txt"), "two\n")
    put(str(project / "b.txt"), "two\n")
    assert checkpoints.diff(point.id, files="a.txt").files == ("a.txt",)
    checkpoints.rollback(point.id, files=project / "a.txt")
    checkpoints.rollback(point.id, files="a.txt")
    assert ((project / "a.txt").read_text(), (project / "b.txt").read_text()) == ("one\n", "two\n")
    with checkpoints.turn("s") as turn:
        assert turn.before("b.txt").complete
    whole = safekept.snapshot()
    assert safekept.snapshot(exclude="*.log").files in (whole.files, (whole.files or 0) - 1)
    assert safekept.restore(paths="SOUL.md", dry_run=True).plan.same == 1


def test_a_path_that_is_none_is_refused_in_words(user):
    with pytest.raises(safekept.SafekeptError, match="holds a NUL character") as found:
        safekept.snapshot("a\0b")
    assert found.value.code == "bad-argument"
    with safekept.Checkpoints(user / "work").turn("s") as turn:  # where nothing is ever raised
        assert not turn.before(["a\0b"]).complete
        assert not turn.before_shell("a\0b").complete


def test_a_program_that_stands_nowhere_gets_its_files_back(user, home, project):
    gone = project / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    safekept.snapshot()
    (home / "SOUL.md").unlink()
    assert safekept.restore(paths=["SOUL.md"], yes=True).created == 1
    assert [one.now for one in safekept.history("SOUL.md")] == [True]
