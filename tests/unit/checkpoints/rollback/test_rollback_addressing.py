"""Which checkpoint and which file is meant: numbers that undo the last change, ids beyond mistake."""

from __future__ import annotations

import os

import pytest

from safekept.checkpoints.checkpoint import NoSuchCheckpoint
from safekept.checkpoints.points.addressing import FileNotInCheckpoint, FileOutsideProject, find_checkpoint
from safekept.checkpoints.points.reconstructed_state import numbered
from safekept.checkpoints.rollback.undo_point import as_it_is
from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    made.write("a.txt", "0\n")
    made.write("sub/b.txt", "0\n")
    yield made
    made.store.close()


def turns(project, count):
    points = []
    for number in range(1, count + 1):
        points.append(project.before())
        project.write("a.txt", f"{number}\n")
        project.after()
    return points


def numbers(project):
    """The ids that the numbers mean now, number 1 first."""
    with as_it_is(project.store, project.path, project.settings) as (reading, live):
        return [point.id for point in numbered(reading, reading.checkpoints(project.path), live)]


def test_no_rollback_and_no_undo_moves_a_number(project):
    """Whoever says `1` twice means the same twice, and what he sees in the list."""
    points = [point.id for point in reversed(turns(project, 3))]
    for number, expected in enumerate((b"2\n", b"1\n", b"0\n"), 1):
        for _ in range(2):
            project.back(str(number))
            assert project.read("a.txt") == expected
            assert numbers(project) == points
    project.undo()
    assert numbers(project) == points


def test_after_a_rollback_of_the_only_file_number_1_is_what_it_was(project):
    first, second = turns(project, 2)
    project.back("1", "a.txt")
    assert project.read("a.txt") == b"1\n"
    assert numbers(project) == [second.id, first.id]
    assert project.back("1").plan.target.id == second.id


def test_a_point_after_which_nothing_changed_gets_no_number_by_rollbacks(project):
    first, second = turns(project, 2)
    project.before()  # nothing comes of it
    for word in ("1", "2", "1"):
        project.back(word)
        assert numbers(project) == [second.id, first.id]


def test_a_point_that_kept_nothing_is_no_way_back(project):
    project.write(".env", "SECRET\n")
    empty = project.take("before", named=[".env"])
    project.write(".env", "OTHER\n")
    project.write("a.txt", "more\n")
    assert empty.id not in numbers(project)


def test_a_point_after_which_nothing_changed_has_no_number(project):
    first, second = turns(project, 2)
    project.before()
    project.after()
    idle = project.before()
    live = project.take("undo")
    points = [point for point in project.store.checkpoints(project.path) if point.id != live.id]
    assert [point.id for point in numbered(project.store, points, live)] == [second.id, first.id]
    assert find_checkpoint(project.store, project.path, "1", live).id == second.id
    assert find_checkpoint(project.store, project.path, idle.id, live).id == idle.id


def test_only_before_and_manual_points_have_numbers(project):
    (first,) = turns(project, 1)
    manual = project.take("manual")
    project.write("a.txt", "more\n")
    project.take("undo")
    live = project.take("undo")
    points = [point for point in project.store.checkpoints(project.path) if point.id != live.id]
    assert [point.id for point in numbered(project.store, points, live)] == [manual.id, first.id]


def test_an_id_or_the_beginning_of_one_is_enough(project):
    first, second = turns(project, 2)
    live = project.take("undo")
    assert find_checkpoint(project.store, project.path, first.id, live).id == first.id
    short = next(
        first.id[:n]
        for n in range(4, 13)
        if not second.id.startswith(first.id[:n]) and not live.id.startswith(first.id[:n])
    )
    try:
        assert find_checkpoint(project.store, project.path, short, live).id == first.id
    except NoSuchCheckpoint as error:
        assert "is the beginning of" in error.what  # the after-mark was taken in the same millisecond


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--hard", "looks like an option"),
        ("-1", "looks like an option"),
        ("abc", "too short for an id"),
        ("HEAD~1", "neither a number nor the id"),
        ("../x", "neither a number nor the id"),
        ("refs/heads/main", "neither a number nor the id"),
        ("", "neither a number nor the id"),
        ("0", "numbered from 1 to 2"),
        ("3", "numbered from 1 to 2"),
        ("999", "numbered from 1 to 2"),
        ("zzzz", "neither a number nor the id"),
        ("vvvvvvvvvvvv", "it never had one, or it was dropped"),
        ("١", "neither a number nor the id"),
    ],
)
def test_a_word_that_means_no_checkpoint_is_refused_with_the_reason(project, word, said):
    turns(project, 2)
    was = project.tree()
    with pytest.raises(NoSuchCheckpoint) as caught:
        project.back(word)
    assert said in caught.value.what
    assert caught.value.kept == "Nothing was changed"
    assert any("`safekept rollback`" in step for step in caught.value.advice())
    assert project.tree() == was


def test_an_ambiguous_beginning_names_the_candidates(project):
    first, second = turns(project, 2)
    assert first.id[:4] == second.id[:4], "both were taken within the same hours"
    with pytest.raises(NoSuchCheckpoint) as caught:
        project.back(first.id[:4])
    assert "is the beginning of" in caught.value.what and second.id in caught.value.what


def test_another_projects_id_is_refused_and_its_project_named(project, tmp_path):
    other = Project(str(tmp_path), "other", store=project.store)
    other.write("secret.txt", "of the other\n")
    theirs = other.before()
    turns(project, 1)
    for given in (theirs.id, theirs):
        with pytest.raises(NoSuchCheckpoint) as caught:
            project.back(given)
        assert "belongs to another project" in caught.value.what and other.path in caught.value.what
    assert not project.exists("secret.txt")


def test_a_dropped_checkpoint_is_not_there(project):
    first, second = turns(project, 2)
    project.store.drop([first])
    with pytest.raises(NoSuchCheckpoint, match="dropped"):
        project.back(first.id)
    project.back(second)
    assert project.read("a.txt") == b"1\n"


def test_one_file_comes_back_and_the_others_stay(project):
    point = project.before()
    project.write("a.txt", "agent\n")
    project.write("sub/b.txt", "agent\n")
    result = project.back(point, "sub/b.txt")
    assert project.read("a.txt") == b"agent\n" and project.read("sub/b.txt") == b"0\n"
    assert result.restored == ["sub/b.txt"]


def test_a_file_is_meant_relative_to_where_the_person_stands_or_to_the_project(project):
    point = project.before()
    for given, cwd in (
        ("b.txt", project.full("sub")),
        ("sub/b.txt", "/"),
        ("../sub/b.txt", project.full("sub")),
        (project.full("sub/b.txt"), ""),
        ("sub", project.path),
        ("a.txt", project.full("sub")),
    ):
        point = project.before()
        project.write("a.txt", f"agent, {given}\n")
        project.write("sub/b.txt", f"agent, {given}\n")
        result = project.back(point, given, cwd=cwd)
        assert result.restored in (["sub/b.txt"], ["a.txt"])
        assert ("a.txt" in result.restored) == (given == "a.txt"), given


@pytest.mark.parametrize("given", ["../outside.txt", "/etc/passwd", "sub/../../x"])
def test_a_file_outside_the_project_is_refused(project, given):
    point = project.before()
    with pytest.raises(FileOutsideProject) as caught:
        project.back(point, given)
    assert "lies outside the project" in caught.value.what and caught.value.kept == "Nothing was changed"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_file_behind_a_link_that_leads_outside_is_refused(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    os.symlink(str(tmp_path / "elsewhere"), project.full("way"))
    point = project.before()
    with pytest.raises(FileNotInCheckpoint):
        project.back(point, "way/x.txt")


def test_an_unknown_file_is_refused_and_who_holds_it_is_said(project):
    holds = project.before()
    project.delete("sub/b.txt")
    without = project.before()
    with pytest.raises(FileNotInCheckpoint) as caught:
        project.back(without, "sub/b.txt")
    assert f"Checkpoint {without.id} knows nothing of `sub/b.txt`" in caught.value.what
    assert f"`safekept rollback {holds.id} sub/b.txt`" in caught.value.advice()[0]
    with pytest.raises(FileNotInCheckpoint) as caught:
        project.back(without, "never.txt")
    assert "No checkpoint of this project holds it" in caught.value.advice()[0]


def test_a_secret_asked_for_by_name_is_said_to_be_unsaved(project):
    project.write(".env", "SECRET\n")
    point = project.before()
    with pytest.raises(FileNotInCheckpoint, match="holds secrets, which are only kept encrypted"):
        project.back(point, ".env")


def test_the_users_own_changes_move_no_number_either(project):
    first, second = turns(project, 2)
    project.write("sub/b.txt", "user\n")
    result = project.back("1")
    assert result.plan.target.id == second.id and [left.path for left in result.kept] == ["sub/b.txt"]
    assert numbers(project) == [second.id, first.id]
    result = project.back("2")
    assert result.plan.target.id == first.id and project.read("a.txt") == b"0\n"
    assert project.read("sub/b.txt") == b"user\n"


def test_an_undone_rollback_gives_its_numbers_back(project):
    _, second = turns(project, 2)
    project.back("1")
    project.undo()
    assert project.read("a.txt") == b"2\n"
    assert project.back("1").plan.target.id == second.id


def test_new_turns_after_a_rollback_are_numbered_before_what_it_left(project):
    first, second = turns(project, 2)
    project.back("1")
    third = project.before()
    project.write("a.txt", "third\n")
    project.after()
    assert numbers(project) == [third.id, second.id, first.id]
    assert project.back("1").plan.target.id == third.id
    assert project.back("3").plan.target.id == first.id


def test_a_rollback_of_one_file_takes_no_numbers_away(project):
    first, second = turns(project, 2)
    project.back(first, "a.txt")
    live = project.take("undo")
    points = [point for point in project.store.checkpoints(project.path) if point.id != live.id]
    assert [point.id for point in numbered(project.store, points, live)][-1] in (first.id, second.id)
    assert project.back(second, overwrite_mine=True).complete


def test_a_rollback_that_was_taken_back_can_be_done_again_by_the_same_number(project):
    manual = project.take("manual")
    project.write("a.txt", "changed\n")
    project.back("1")
    project.undo()
    assert project.read("a.txt") == b"changed\n"
    # Nothing changed since the last mark, so that mark is the point of now.
    points = project.store.checkpoints(project.path)
    assert [point.id for point in numbered(project.store, points, points[0])] == [manual.id]
    project.back("1")
    assert project.read("a.txt") == b"0\n"
