"""The repository goes back by every face as it does on the command line: chat, MCP and Python."""

from __future__ import annotations

import os

import pytest

import safekept
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.projects.points import Points, WholeRepositoryOnly
from safekept.integrations.chat.chat import Conversation, dispatch
from safekept.integrations.plan_tokens import of_rollback
from support.projects.checkpoints import put
from support.projects.hidden_halves import git
from support.projects.repositories import asked
from support.users.contexts import throwaway


@pytest.fixture
def project(tmp_path, monkeypatch) -> str:
    here = throwaway(tmp_path)
    monkeypatch.setenv("HOME", here.places.user_home)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = str(tmp_path / "project")
    put(os.path.join(found, "a.txt"), "one\n")
    git(found, "init", "-q", "-b", "main")
    git(found, "add", "-A")
    git(found, "commit", "-qm", "first")
    git(found, "branch", "feature")
    take_checkpoint(here, found, CheckpointPolicy())
    git(found, "branch", "-D", "feature")
    put(os.path.join(found, "a.txt"), "two\n")
    return found


def branches(project: str) -> str:
    return asked(project, "branch", "--list", "feature")[0].strip()


def test_in_a_chat(project, tmp_path):
    chat = Conversation(throwaway(tmp_path), project)
    planned = dispatch(chat, "/rollback 1 --git --dry-run")
    assert planned.ok and "Git: feature is gone, it was at " in planned.text, planned.text
    assert "would go back" in planned.text and not branches(project)
    without = dispatch(chat, "/rollback 1 --dry-run").text
    assert "not touched; --git brings it back, too" in without
    done = dispatch(chat, "/rollback 1 --git")
    assert done.ok and "Git: brought back: feature at " in done.text, done.text
    assert branches(project) == "feature"
    refused = dispatch(chat, "/rollback 1 a.txt --git")
    assert not refused.ok and "goes back as a whole" in refused.text


def test_in_python(project):
    checkpoints = safekept.Checkpoints(project)
    assert checkpoints.rollback(git=True, dry_run=True).done is False and not branches(project)
    assert checkpoints.rollback(git=True).complete
    assert branches(project) == "feature"
    checkpoints.undo()
    assert not branches(project)


def test_the_token_of_a_plan_is_about_what_moves_in_git_too(project, tmp_path):
    """Over MCP and on the page a person agrees to a plan; one that moves a branch as well is another."""
    with Points(throwaway(tmp_path), project) as points:
        target = points.resolve("1")
        plain, whole = points.plan(target), points.plan(target, git=True)
        assert of_rollback(plain) != of_rollback(whole) == of_rollback(points.plan(target, git=True))
        git(project, "tag", "later")
        assert of_rollback(points.plan(target, git=True)) != of_rollback(whole)
        with pytest.raises(WholeRepositoryOnly):
            points.apply(target, ["a.txt"], git=True)
