"""Whose change it was: the agent's turns are undone, the user's own edits stay."""

from __future__ import annotations

import os

import pytest

from safekept.checkpoints.take.taking import take
from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    for name in ("agent.txt", "mine.txt", "both.txt", "later.txt"):
        made.write(name, f"{name} as it was\n")
    yield made
    made.store.close()


def mine(result):
    return sorted(left.path for left in result.left if left.reason == "mine")


def test_what_the_user_changed_after_the_turn_is_kept_and_listed(project):
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.write("both.txt", "agent\n")
    project.after()
    project.write("mine.txt", "user\n")
    project.write("both.txt", "user after agent\n")
    project.write("new-of-mine.txt", "user\n")
    project.delete("later.txt")
    result = project.back(point)
    assert mine(result) == ["both.txt", "later.txt", "mine.txt", "new-of-mine.txt"]
    assert project.read("agent.txt") == b"agent.txt as it was\n"
    assert project.read("both.txt") == b"user after agent\n"
    assert project.exists("new-of-mine.txt") and not project.exists("later.txt")
    assert result.complete
    assert "changed by you" in str(result.kept[0])


def test_overwrite_mine_takes_them_too_and_undo_gives_them_back(project):
    was = project.tree()
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.after()
    project.write("mine.txt", "user\n")
    edited = project.tree()
    result = project.back(point, overwrite_mine=True)
    assert project.tree() == was and not result.left
    project.undo()
    assert project.tree() == edited


def test_without_an_after_mark_every_covered_file_is_restored(project):
    was = project.tree()
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.write("mine.txt", "anybody\n")
    result = project.back(point)
    assert project.tree() == was and not result.left


def test_an_edit_between_two_turns_is_kept_although_the_second_turn_saw_it(project):
    point = project.before()
    project.write("agent.txt", "agent, first turn\n")
    project.after()
    project.write("mine.txt", "user between the turns\n")
    project.before()
    project.write("later.txt", "agent, second turn\n")
    project.after()
    result = project.back(point)
    assert mine(result) == ["mine.txt"]
    assert project.read("mine.txt") == b"user between the turns\n"
    assert project.read("agent.txt") == b"agent.txt as it was\n"
    assert project.read("later.txt") == b"later.txt as it was\n"


def test_what_the_agent_wrote_over_the_users_edit_is_the_agents(project):
    point = project.before()
    project.after()
    project.write("both.txt", "user\n")
    project.before()
    project.write("both.txt", "agent over it\n")
    project.after()
    result = project.back(point)
    assert mine(result) == [] and project.read("both.txt") == b"both.txt as it was\n"


def test_a_later_turn_without_an_after_mark_is_still_the_agents(project):
    point = project.before()
    project.write("agent.txt", "first turn\n")
    project.after()
    project.before()
    project.write("later.txt", "second turn, killed before its mark\n")
    result = project.back(point)
    assert mine(result) == [] and project.read("later.txt") == b"later.txt as it was\n"


def test_a_manual_point_in_between_does_not_make_the_users_edit_the_agents(project):
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.after()
    project.take("manual")
    project.write("mine.txt", "user\n")
    result = project.back(point)
    assert mine(result) == ["mine.txt"]


def test_going_back_to_a_manual_point_restores_everything_since(project):
    project.before()
    project.after()
    point = project.take("manual")
    project.write("mine.txt", "user\n")
    project.back(point)
    assert project.read("mine.txt") == b"mine.txt as it was\n"


def test_what_a_rollback_itself_wrote_is_nobodys_edit(project):
    oldest = project.before()
    project.write("agent.txt", "first turn\n")
    project.after()
    second = project.before()
    project.write("agent.txt", "second turn\n")
    project.after()
    project.back(second)
    assert project.read("agent.txt") == b"first turn\n"
    result = project.back(oldest)
    assert mine(result) == [] and project.read("agent.txt") == b"agent.txt as it was\n"


def test_an_edit_after_a_rollback_is_the_users_and_undo_keeps_it(project):
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.after()
    project.back(point)
    project.write("mine.txt", "user, after the rollback\n")
    result = project.undo()
    assert [(left.path, left.reason) for left in result.kept] == [("mine.txt", "since")]
    assert project.read("mine.txt") == b"user, after the rollback\n"
    assert project.read("agent.txt") == b"agent\n"


def test_a_kept_edit_stays_kept_at_the_next_rollback(project):
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.after()
    project.write("mine.txt", "user\n")
    project.back(point)
    result = project.back(point)
    assert mine(result) == ["mine.txt"] and result.done == []


def test_looking_at_a_plan_and_going_away_does_not_make_the_users_edit_the_agents(project):
    from safekept.checkpoints.rollback.rollback import plan_rollback

    point = project.before()
    project.write("agent.txt", "agent\n")
    project.after()
    project.write("mine.txt", "user\n")
    plan_rollback(project.store, project.path, point, settings=project.settings)
    project.write("mine.txt", "user again\n")
    assert mine(project.back(point)) == ["mine.txt"]


def test_touching_a_file_does_not_make_it_the_users(project):
    point = project.before()
    project.write("agent.txt", "agent\n")
    project.after()
    os.utime(project.full("agent.txt"))
    result = project.back(point)
    assert mine(result) == [] and project.read("agent.txt") == b"agent.txt as it was\n"


def test_a_named_file_call_is_undone_alone(project):
    project.before()
    project.write("agent.txt", "first write of the turn\n")
    project.before("both.txt", "made.txt")
    project.write("both.txt", "second write\n")
    project.write("made.txt", "second write\n")
    result = project.back("1")
    assert project.read("agent.txt") == b"first write of the turn\n"
    assert project.read("both.txt") == b"both.txt as it was\n" and not project.exists("made.txt")
    assert sorted(result.restored + result.removed) == ["both.txt", "made.txt"]
    project.back("2")
    assert project.read("agent.txt") == b"agent.txt as it was\n"


def test_going_back_to_a_named_call_undoes_every_later_one_too(project):
    project.before()
    project.write("agent.txt", "one\n")
    project.before("both.txt")
    project.write("both.txt", "two\n")
    project.before("later.txt")
    project.write("later.txt", "three\n")
    project.back("2")
    assert project.read("agent.txt") == b"one\n"
    assert project.read("both.txt") == b"both.txt as it was\n"
    assert project.read("later.txt") == b"later.txt as it was\n"


def test_a_file_whose_name_later_became_a_directory_comes_back_by_a_named_call(project):
    project.write("thing", "a file\n")
    project.before()
    point = project.before("thing")
    project.delete("thing")
    project.before("thing/inside")
    project.write("thing/inside", "of a directory\n")
    project.before()
    project.back(point, overwrite_mine=True)
    assert project.read("thing") == b"a file\n"


@pytest.mark.parametrize("ended", [False, True])
def test_a_mark_of_one_session_does_not_end_the_turn_of_another(project, ended):
    project.write("a", "0")
    project.write("b", "0")
    one = by(project, "before", "one")
    by(project, "before", "two")
    project.write("a", "1")
    by(project, "after", "one")
    project.write("b", "1 by the other agent")
    if ended:
        by(project, "after", "two")
    result = project.back(one)
    assert mine(result) == []
    assert project.read("a") == b"0" and project.read("b") == b"0"


def test_when_both_sessions_have_ended_what_follows_is_the_users(project):
    project.write("a", "0")
    project.write("b", "0")
    one = by(project, "before", "one")
    by(project, "before", "two")
    project.write("a", "1")
    by(project, "after", "one")
    by(project, "after", "two")
    project.write("b", "user")
    result = project.back(one)
    assert mine(result) == ["b"] and project.read("b") == b"user" and project.read("a") == b"0"


def test_a_turn_that_never_ended_is_over_when_its_session_begins_the_next(project):
    project.write("a", "0")
    project.write("b", "0")
    by(project, "before", "one", turn="killed")
    first = by(project, "before", "two")
    project.write("a", "1")
    by(project, "before", "one", turn="next")
    by(project, "after", "one", turn="next")
    by(project, "after", "two")
    project.write("b", "user")
    assert mine(project.back(first)) == ["b"]


def by(project, kind, session, turn="turn"):
    taken = take(
        project.store,
        project.path,
        kind=kind,
        session=session,
        turn=f"{turn} of {session}",
        settings=project.settings,
        always=True,
    )
    return taken.checkpoint
