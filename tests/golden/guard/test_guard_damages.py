"""Whatever a guarded command breaks is reported, and the printed command brings all of it back."""

from __future__ import annotations

import os
import random
import re
import shlex
import sys

import pytest

from support.home import damages
from support.home.homes import differences, make_hermes_home, tree_facts

#: What each report must say. The name of a damage -> words of its lines, in order.
SAID = {
    "zeroed-database": ["state.db was a database and is 1"],
    "emptied-database": ["state.db was a database and is empty (0 bytes)"],
    "page-corruption": ["state.db is damaged: "],
    "broken-schema": ["state.db does not open any more: "],
    "replaced-database": ["state.db was a database and is 580 bytes of something else"],
    "deleted-database": ["state.db, a database, is gone"],
    "deleted-sessions": ["state.db holds less than before: sessions 4 → 1, messages 40 → 10"],
    "emptied-cron": ["cron/jobs.json: all 4 cron jobs are gone: "],
    "deleted-cron": ["cron/jobs.json is gone, with 4 cron jobs"],
    "partly-emptied-cron": ["cron/jobs.json: 3 of 4 cron jobs are gone: "],
    "exchanged-cron-job": ["cron/jobs.json: 1 of 4 cron jobs is gone: "],
    "replaced-prompts": ["cron/jobs.json: the prompt of 2 of 4 cron jobs was changed: "],
    "collapsed-config": ["config.yaml: 3 of 4 settings sections are gone: memory, checkpoints, agent"],
    "unreadable-config": ["config.yaml is not what it was and cannot be understood"],
    "lost-pairings": ["pairing/telegram-approved.json: the only pairing is gone"],
    "deleted-pairings": ["pairing/telegram-approved.json is gone, with 1 pairing"],
    "vanished-skills": ["2 of 5 skills are gone: hermes-agent, keeper"],
    "all-skills": ["all 5 skills are gone: "],
    "truncated-memories": ["memories/MEMORY.md: 5 of 6 memories are gone"],
    "consolidated-memories": ["memories/USER.md was cut short: "],
    "deleted-memories": [
        "memories/MEMORY.md is gone, with 6 memories",
        "memories/USER.md is gone, with 6 memories",
    ],
    "emptied-persona": ["SOUL.md is empty; it had "],
    "deleted-secrets": [".env is gone", "auth.json is gone"],
    "lost-key": [".env: the only key is gone: OPENROUTER_API_KEY"],
    "damaged-profile": [
        "profiles/coder/state.db was a database and is empty (0 bytes)",
        "profiles/coder/cron/jobs.json: all 4 cron jobs are gone: ",
        "profiles/coder/memories/MEMORY.md: 5 of 6 memories are gone",
    ],
    "deleted-profile": ["the profile coder is gone, with "],
    "deleted-plugins": ["hooks/notify: both files are gone", "plugins/greeter: both files are gone"],
    "deleted-transcripts": ["sessions: all 3 files are gone"],
    "wiped-home": ["was wiped: "],
    "deleted-home": ["is gone, with "],
    "everything-at-once": [
        "state.db was a database",
        "config.yaml: 3 of 4 settings sections are gone",
        "cron/jobs.json: the prompt of 2 of 4 cron jobs",
        "memories/MEMORY.md: 5 of 6 memories are gone",
        "pairing/telegram-approved.json: the only pairing is gone",
        "2 of 5 skills are gone",
    ],
}


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)


def facts(home: str) -> dict[str, tuple[object, ...]]:
    """Every file and row; of directories their modes, since taking a file out and in changes their times."""
    return {
        name: fact[:2] if fact[0] == "directory" else fact
        for name, fact in tree_facts(home, skip=(".",)).items()
    }


def printed(text: str) -> list[str]:
    return re.findall(r"`(safekept [^`]+)`", text)


def lost(text: str) -> list[str]:
    start = "  lost    "
    return [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]


def damaging(name: str, home: str) -> list[str]:
    return [sys.executable, "-I", "-S", damages.__file__, name, home]


def test_every_damage_has_its_words():
    assert SAID.keys() == damages.DAMAGES.keys()


#: The incidents themselves; their relatives are in the storm.
INCIDENTS = (
    "zeroed-database",
    "emptied-database",
    "page-corruption",
    "deleted-sessions",
    "emptied-cron",
    "partly-emptied-cron",
    "replaced-prompts",
    "collapsed-config",
    "lost-pairings",
    "vanished-skills",
    "truncated-memories",
    "damaged-profile",
    "wiped-home",
    "deleted-home",
)


@pytest.mark.parametrize(
    "name",
    [
        *INCIDENTS,
        *(
            pytest.param(name, marks=pytest.mark.soak("guard"))
            for name in sorted(damages.DAMAGES.keys() - set(INCIDENTS))
        ),
    ],
)
def test_each_damage_is_reported_with_a_command_that_brings_everything_back(here, home, say, name):
    before = facts(home)
    said = say("guard", "--", *damaging(name, home))
    assert said.code == 3, said.err
    assert said.out == "", "stdout is the command's own"
    lines = lost(said.err)
    assert len(lines) >= len(SAID[name]), said.err
    for words, line in zip(SAID[name], lines, strict=False):
        assert words in line, said.err
    # With several losses, the one command for all of them; the ones for each are proven below.
    command = printed(said.err)[-1]
    done = say(*shlex.split(command)[1:], "--yes")
    assert done.code == 0, (command, done.err, done.out)
    now = facts(home)
    if name == "wiped-home":
        assert now.pop("hermes")[0] == "file", "a restore lays over; it removes nothing"
    assert differences(before, now) == []


def test_each_of_many_losses_has_a_command_of_its_own(here, home, say):
    before = facts(home)
    said = say("guard", "--", *damaging("everything-at-once", home))
    lines, commands = lost(said.err), printed(said.err)
    for words, line in zip(SAID["everything-at-once"], lines, strict=True):
        assert words in line, said.err
    assert len(commands) == len(lines) + 1
    left = len(differences(before, facts(home)))
    for command in commands[:-1]:
        assert say(*shlex.split(command)[1:], "--yes").code == 0, command
        now = len(differences(before, facts(home)))
        assert now < left, f"{command} brought nothing back"
        left = now
    assert left == 0


@pytest.mark.soak("guard")
@pytest.mark.parametrize("seed", range(40))
def test_any_mixture_of_damages_comes_back_with_the_one_printed_command(here, home, say, seed):
    rng = random.Random(seed)
    names = rng.sample(sorted(damages.DAMAGES.keys() - {"wiped-home", "deleted-home"}), rng.randint(2, 6))
    before = facts(home)
    script = "; ".join(shlex.join(damaging(name, home)) for name in names)
    said = say("guard", "--", "sh", "-c", f"{script}; true")
    assert said.code == 3, (names, said.err)
    done = say(*shlex.split(printed(said.err)[-1])[1:], "--yes")
    assert done.code == 0, (names, said.err, done.err)
    assert differences(before, facts(home)) == [], (names, said.err)
