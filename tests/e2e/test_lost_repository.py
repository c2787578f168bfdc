"""Ways to lose what only git holds, each run for real by a shell under the hook of Claude Code.

After each of them one `safekept rollback N --git` brings tree, refs, HEAD, index, stashes and settings back,
byte by byte as git shows them; undoing it brings back where the rollback found them.
"""

from __future__ import annotations

import json
import os

import pytest

from safekept.actions.projects.project import checkpoint_directory
from safekept.actions.projects.rollback import checkpoint_store
from safekept.checkpoints.store.repositories.taking import keep_whole
from support.bad_agent.deeds import Action
from support.bad_agent.doors import hook_doors
from support.bad_agent.hosts import HOSTS, Speech
from support.commands.waiting import wait_until
from support.projects.checkpoints import tree_on_disk
from support.projects.repositories import git, make_repository, picture, shell

pytestmark = pytest.mark.real

WAYS = {
    "reset --hard": "git reset -q --hard HEAD~2",
    "checkout .": "git checkout -q HEAD -- .",
    "restore --staged and all": "git restore --staged --worktree .",
    "stash drop": "git stash drop -q stash@{1}",
    "stash clear": "git stash clear",
    "stash pop": "git checkout -qf HEAD && git stash pop -q",
    "branch -D": "git branch -qD feature",
    "branch -M over another": "git checkout -q feature -f && git branch -M main",
    "branch -f": "git branch -f feature HEAD~1",
    "tag -d": "git tag -d v1 light",
    "commit --amend": "git commit -qam amended --amend",
    "commit of everything": "git add -A && git commit -qm all",
    "rebase gone wrong": "git stash -q; git rebase -q --onto HEAD~2 HEAD~1 feature; printf x > src/app.py;"
    " git add -A; git -c core.editor=true rebase --continue",
    "rebase left half way": "git stash -q; git checkout -q -b clash HEAD~1; printf clash > src/app.py;"
    " git commit -qam clash; git rebase -q main",
    "merge left half way": "git stash -q; git checkout -q -b clash HEAD~1; printf clash > src/app.py;"
    " git commit -qam clash; git merge -q main",
    "filter-branch": "git stash -q; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f"
    " --index-filter 'git rm -q --cached --ignore-unmatch src/app.py' main feature",
    "gc --prune=now after a reset": "git reset -q --hard HEAD~1 && git branch -qD feature && git stash clear"
    " && git reflog expire --expire=now --all && git gc -q --prune=now",
    "update-ref -d": "git update-ref -d refs/heads/main",
    "orphan branch": "git checkout -q --orphan empty && git rm -rqf .",
    "remote removed": "git remote remove origin",
    "rm -rf .git": "rm -rf .git",
    "rm -rf of what is in .git": "rm -rf .git/*",
    "rm -rf of all refs": "rm -rf .git/refs .git/packed-refs",
    "rm -rf of the objects": "rm -rf .git/objects",
    "rm of the packs and half the objects": "rm -rf .git/objects/pack .git/objects/[0-9]*",
    "rm of HEAD and index": "rm -f .git/HEAD .git/index",
    "garbage in HEAD": "echo garbage > .git/HEAD",
    "clean -fdx": "git clean -qfdx && git reset -q --hard",
    "submodule deinit -f": "git submodule --quiet deinit -f vendor",
    "the project deleted": "cd .. && rm -rf project",
}


class Lost:
    """A user with Claude Code connected, and one project."""

    def __init__(self, place: str) -> None:
        door = next(door for door in hook_doors() if door.name == "hook claude-code")
        self.door = door(place)
        self.directory = checkpoint_directory(self.door.context)
        self._serial = 0

    def fresh(self) -> str:
        self._serial += 1
        place = os.path.join(self.door.place, f"ground-{self._serial}")
        self.project = make_repository(place)
        self.door.project = self.project
        # An earlier day: what the background has had time for is there.
        self.say("checkpoint", self.project)
        assert keep_whole(self.directory, self.project, "") and keep_whole(
            self.directory, self.project, "vendor"
        )
        return self.project

    def act(self, command: str, project: str = "") -> None:
        """One turn of the agent: prompt, command, end of the turn."""
        self.door.turn += 1
        project = project or self.project
        speech = Speech("session", f"turn-{self.door.turn}", project)
        before, after = HOSTS["claude-code"](speech, Action(command, "shell", command))
        for event in before:
            self.door.said(event)
        shell(command, project)
        for event in after:
            self.door.said(event)

    def marked(self, project: str) -> None:
        """Wait for the marks of the turn, which are made behind the agent: of the call, and of the end."""

        def found() -> bool:
            if json.loads(self.say("helper", "status", "--json"))["waiting"] != 0:
                return False  # the mark of the end is still to come
            with checkpoint_store(self.door.context) as store:
                points = store.checkpoints(project)
            return any(p.kind == "after" and p.turn == f"turn-{self.door.turn}" for p in points)

        wait_until(found, "the mark of the turn")

    def say(self, *words: str, code: int = 0) -> str:
        done = self.door.run(*words, cwd="/")
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    made = Lost(str(tmp_path_factory.mktemp("lost")))
    yield made
    made.door.close()


@pytest.mark.parametrize("way", WAYS)
def test_what_git_lost_is_back(way, lost):
    project = lost.fresh()
    before = picture(project)
    lost.act(WAYS[way])
    bad = picture(project)
    assert bad != before, "nothing was lost"
    # Objects that vanish move no ref: that point has no number, and is called by its id.
    point = lost.door.point() if "objects" in way and "refs" not in way else "1"
    lost.say("rollback", point, "--git", "--dir", project)
    assert picture(project) == before


def test_a_worktree_that_was_removed_without_a_hook_is_back(lost):
    """A supervisor reaps a worktree after the turn: the mark of that turn is what there is."""
    project = lost.fresh()
    side = os.path.join(os.path.dirname(project), "side")
    lost.act("echo last words >> side.txt && git add side.txt", side)
    lost.marked(side)
    before = picture(side)
    shell("git worktree remove --force ../side && git branch -D side", project)
    assert not os.path.exists(side)
    shown = lost.say("rollback", "--dir", side, "--all")
    assert "is gone" in shown, shown
    assert f"{side} (gone)" in lost.say("rollback", "--all-projects")
    mark = json.loads(lost.say("rollback", "--dir", side, "--all", "--json"))["checkpoints"][0]
    assert mark["kind"] == "after"
    lost.say("rollback", mark["id"], "--git", "--dir", side)
    assert picture(side) == before


def test_undo_brings_back_where_the_rollback_found_everything(lost):
    project = lost.fresh()
    before = picture(project)
    lost.act("git stash drop -q && git commit -qam late && git tag late && git branch -qD feature")
    bad = picture(project)
    said = json.loads(lost.say("rollback", "1", "--git", "--dir", project, "--json"))
    assert said["plan"]["repositories"][0]["words"].startswith("feature is gone, it was at "), said["plan"][
        "repositories"
    ]
    assert "main was 1 commit behind, at " in said["plan"]["repositories"][0]["words"]
    assert picture(project) == before
    lost.say("rollback", "--undo", "--dir", project)
    assert picture(project) == bad
    lost.say("rollback", "--undo", "--dir", project)
    assert picture(project) == before


def test_without_git_the_repository_is_not_touched_and_the_list_says_what_moved(lost):
    project = lost.fresh()
    lost.act("git branch -qD feature; git stash clear; echo changed > README.md")
    kept = tree_on_disk(os.path.join(project, ".git"), without=())
    shown = lost.say("rollback", "--dir", project)
    assert "feature is gone, it was at " in shown and "2 stashes, now none" in shown, shown
    said = lost.say("rollback", "1", "--dir", project)
    assert "--git --dir" in said and "not touched" in said, said
    assert tree_on_disk(os.path.join(project, ".git"), without=()) == kept


def test_what_the_user_did_after_the_turn_stays(lost):
    project = lost.fresh()
    lost.act("git branch -qD feature; git tag agent")
    lost.marked(project)
    shell("git commit -qam 'by the user'; git tag mine", project)
    mine = git(project, "rev-parse", "main", "mine")
    lost.say("rollback", "1", "--git", "--dir", project)
    assert git(project, "rev-parse", "main", "mine") == mine
    assert git(project, "branch", "--list", "feature") and not git(project, "tag", "--list", "agent")
