"""A skill or a memory that is gone is no alarm, since agents tidy up; but status names it for a week."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from support.commands.in_process import spoken
from support.users.states import made


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Somebody whose agent has five skills and two memory files, and a snapshot of them."""
    say = spoken(monkeypatch, made("fresh", tmp_path).user)
    for name in ("a", "b", "c", "d", "e"):
        os.makedirs(f".hermes/skills/own/{name}")
        with open(f".hermes/skills/own/{name}/SKILL.md", "w", encoding="utf-8") as file:
            file.write(name)
    assert say("snapshot").code == 0
    return say


def fewer(say) -> list[dict[str, object]]:
    return json.loads(say("status", "--json").out)["homes"][0]["fewer"]


def test_one_skill_that_is_gone_is_a_line_until_it_is_back(say):
    assert fewer(say) == [] and "Fewer" not in say("status").out
    first = say("status", "--short").out.split(":")[1]
    shutil.rmtree(".hermes/skills/own/c")
    (one,) = fewer(say)
    assert one["name"] == "skills" and one["after"] == one["before"] - 1
    before = f"  Fewer      1 of {one['before']} skills is gone since snapshot {one['snapshot']}:"
    assert before in say("status").out
    assert say("status", "--short").out.split(":")[1] == first, "no alarm"
    assert "own/c/SKILL.md" in say("snapshot", "diff", str(one["snapshot"])).out, (
        "the printed command names it"
    )

    assert say("snapshot").code == 0  # the next night
    assert fewer(say) == [one]
    assert say("snapshot", "restore", str(one["snapshot"]), "skills/own/c", "--yes").code == 0
    assert fewer(say) == [] and os.path.exists(".hermes/skills/own/c/SKILL.md")


def test_a_memory_that_is_gone_is_a_line_and_many_are_an_alarm(say):
    with open(".hermes/memories/MEMORY.md", encoding="utf-8") as file:
        entries = file.read().split("\n§\n")
    with open(".hermes/memories/MEMORY.md", "w", encoding="utf-8") as file:
        file.write("\n§\n".join(entries[1:]))
    assert [one["name"] for one in fewer(say)] == ["memories"]
    shutil.rmtree(".hermes/memories")
    assert fewer(say) == [] and "memories are gone" in say("status").out.partition("\n\n")[0]


@pytest.fixture
def second_home(say):
    """The user has Claude Code, too, with two skills; the snapshots of both homes are whole."""
    for name in ("review", "write"):
        os.makedirs(f".claude/skills/{name}")
        with open(f".claude/skills/{name}/SKILL.md", "w", encoding="utf-8") as file:
            file.write(name)
    with open(".claude/settings.json", "w", encoding="utf-8") as file:
        file.write("{}\n")
    assert say("snapshot", "--home", ".claude").code == 0
    return os.path.abspath(".claude")


def test_a_skill_that_is_gone_from_the_second_home_is_on_the_bare_screen_and_in_doctor(say, second_home):
    assert "Fewer" not in say("status").out + say("doctor").out
    shutil.rmtree(".claude/skills/review")
    for _ in "ab":
        shown = say("status").out
        line = "Fewer        1 of 2 skills is gone in ~/.claude since snapshot"
        assert line in shown, shown
        assert shown.index(line) < shown.index("~/.hermes (hermes)"), "on the first screen, whatever follows"
        back = re.search(r"`safekept (snapshot restore \w+ skills/review)[^`]*--home [^`]*`", shown)
        assert back, shown
        told = say("doctor").out
        assert line in told, told
        assert say("snapshot", "--home", second_home).code == 0  # the next night
    shutil.rmtree(".hermes/skills/own/c")
    assert "skills is gone in ~/.hermes since snapshot" in say("doctor").out
    assert say(*back[1].split(), "--home", second_home, "--yes").code == 0
    assert "~/.claude since" not in say("status").out + say("doctor").out
