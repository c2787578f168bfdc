"""With several agents' homes, a path says which one is meant: by itself, or by where a person stands."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from support.commands.in_process import spoken
from support.users.states import made


@pytest.fixture
def user(tmp_path):
    return made("fresh", tmp_path).user


@pytest.fixture
def say(user, monkeypatch):
    """A user with a kept `.hermes`, and a kept `.claude` with one skill, which was deleted since."""
    say = spoken(monkeypatch, user)
    os.makedirs(".claude/skills/review")
    for name in ("settings.json", "skills/review/SKILL.md"):
        with open(f".claude/{name}", "w", encoding="utf-8") as file:
            file.write("{}\n")
    assert say("snapshot", "--home", ".claude").code == 0
    shutil.rmtree(".claude/skills/review")
    return say


SKILL = ".claude/skills/review/SKILL.md"


@pytest.mark.parametrize(
    ("standing", "typed"),
    [
        (".claude", "skills/review"),
        (".claude/skills", "review"),
        (".", "~/.claude/skills/review"),
        (".hermes", "~/.claude/skills/review"),
        (".claude", "USER/.claude/skills/review"),
    ],
)
def test_a_path_comes_back_into_the_home_that_it_means(say, user, monkeypatch, standing, typed):
    monkeypatch.chdir(os.path.join(user, standing))
    done = say("restore", typed.replace("USER", user), "--yes")
    assert done.code == 0, done.err
    assert f"Restore into {user}/.claude" in done.out, done.out
    assert os.path.exists(os.path.join(user, SKILL))
    seen = say("history", typed.replace("USER", user) + "/SKILL.md")
    assert seen.code == 0, seen.err
    assert f"skills/review/SKILL.md: 1 version in 1 snapshot of {user}/.claude" in seen.out, seen.out
    undo = re.search(r"Take it back with: `safekept ([^`]*)`", done.out)
    assert say(*undo[1].split()).code == 0 and not os.path.exists(os.path.join(user, SKILL))


def test_the_error_names_the_home_that_was_looked_in_and_the_one_that_had_it(say, user, monkeypatch):
    for typed, verb in (("skills/review", "restore"), ("skills/review/SKILL.md", "history")):
        failed = say(verb, typed)
        assert failed.code == 1 and f"of `{user}/.hermes`" in failed.err, failed.err
        back = f"`{user}/.claude` had it: `safekept {verb} {typed} --home {user}/.claude`"
        assert back in failed.err, failed.err
    monkeypatch.chdir(os.path.join(user, ".claude"))
    failed = say("restore", "SOUL.md", "--yes")
    assert failed.code == 1 and f"of `{user}/.claude`" in failed.err, failed.err
    assert f"`safekept restore SOUL.md --home {user}/.hermes`" in failed.err, failed.err


def test_where_a_person_stands_gives_a_number_no_home(say, user, monkeypatch):
    monkeypatch.chdir(os.path.join(user, ".claude"))
    assert (
        say("restore", "1", "--dry-run").code == say("restore", "1", "settings.json", "--dry-run").code != 0
    )
    assert f"Restore into {user}/.hermes" in say("restore", "--dry-run").out, "no path was named"
    assert say("restore", "1", "settings.json", "--home", ".", "--dry-run").code == 0
