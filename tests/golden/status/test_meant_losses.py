"""A loss that is meant: one phrase and one command on every screen, and then nobody speaks of it any more."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3

import pytest

from safekept.actions.alarms.meant import loss_name, meant_losses
from safekept.home.health import Shrinkage
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.states import write

MEANT = re.compile(r"If it is meant to be so: `safekept (status --acknowledge [^`]+)`")


@pytest.fixture
def say(state, monkeypatch):
    return spoken(monkeypatch, state.user)


def forget_memories(state, *but):
    place = os.path.join(state.home, "memories")
    for name in os.listdir(place):
        if name not in but:
            os.unlink(os.path.join(place, name))


def commands(said):
    """How each screen says that a loss was meant."""
    return set(MEANT.findall(" ".join(said.out.split())))


def losses(say):
    found = json.loads(say("status", "--json").out)["verdict"]["reasons"]
    found += json.loads(say("doctor", "--json").out)["findings"]
    return [one["text"] for one in found if one["code"] in ("lost-since", "alarm-loss")]


def test_what_nobody_stored_yet_is_meant_by_one_command_and_the_next_snapshot_agrees(state, say):
    forget_memories(state)
    (command,) = commands(say("status"))
    assert commands(say("doctor")) == {command}
    assert say(*command.split()).code == 0
    assert losses(say) == []
    taken = say("snapshot")
    assert taken.code == 0 and "Fewer than before" not in taken.out, taken.out
    assert losses(say) == [] and "meant" not in say("status").out


def test_a_persona_that_a_person_removed_is_meant_by_one_command_and_the_next_snapshot_agrees(state, say):
    os.unlink(os.path.join(state.home, "SOUL.md"))
    (command,) = commands(say("status"))
    assert commands(say("doctor")) == {command}
    assert say(*command.split()).code == 0
    assert losses(say) == []
    taken = say("snapshot")
    assert taken.code == 0 and "is gone" not in taken.out, taken.out
    assert losses(say) == [] and "meant" not in say("status").out


def test_a_profile_that_a_person_removed_is_meant_by_a_short_command(state, say):
    make_hermes_home(os.path.join(state.home, "profiles", "writer"), profiles=(), awkward=False)
    assert say("snapshot").code == 0
    shutil.rmtree(os.path.join(state.home, "profiles", "writer"))
    (command,) = commands(say("status"))
    assert re.fullmatch("status --acknowledge lost-since-[0-9a-f]{6}", command)
    assert say(*command.split()).code == 0
    assert losses(say) == []
    forget_memories(state)
    assert all("memories" in one and "writer" not in one for one in losses(say)) and losses(say)
    taken = say("snapshot").out
    assert "Fewer than before: all 12 memories" in taken and "writer" not in taken.split("Fewer")[1], taken


def test_what_was_meant_once_and_came_back_is_a_loss_the_next_time(state, say):
    for again in (False, True):
        write(state, "SOUL.md", "I am the agent\n")
        assert say("snapshot").code == 0
        os.unlink(os.path.join(state.home, "SOUL.md"))
        assert losses(say), again
        (command,) = commands(say("status"))
        assert say(*command.split()).code == 0
        assert losses(say) == []


def test_the_command_means_what_was_lost_when_it_was_printed_and_no_more(state, say):
    forget_memories(state, "MEMORY.md")
    os.unlink(os.path.join(state.home, "SOUL.md"))
    (command,) = commands(say("status"))
    forget_memories(state)
    late = say(*command.split())
    assert late.code == 1 and error_code(late.err) == "no-such-alarm", late
    assert losses(say)


def test_what_only_the_doctor_saw_is_meant_by_the_command_that_it_prints(state, say, monkeypatch):
    monkeypatch.setattr("safekept.home.health.live_counts.look_quickly", lambda *_: None)  # a large one
    with contextlib.closing(sqlite3.connect(os.path.join(state.home, "state.db"))) as database:
        database.executescript("delete from messages; delete from sessions;")
    assert commands(say("status")) == set()
    (command,) = commands(say("doctor"))
    assert commands(say("status")) == {command}, "what the doctor found counts"
    assert say(*command.split()).code == 0
    assert losses(say) == []


def test_an_alarm_about_a_loss_is_ended_by_the_same_words(state, say):
    forget_memories(state)
    (of_snapshot,) = commands(say("snapshot"))
    assert commands(say("status")) == commands(say("doctor")) == {of_snapshot}
    assert say(*of_snapshot.split()).code == 0
    assert losses(say) == []


def test_more_that_goes_afterwards_was_not_meant(state, say):
    for number in range(8):
        write(state, f"memories/note-{number}.md", "x\n")
    assert say("snapshot").code == 0
    forget_memories(state, "note-0.md", "note-1.md", "MEMORY.md")
    (command,) = commands(say("status"))
    assert say(*command.split()).code == 0 and losses(say) == []
    write(state, "memories/later.md", "a memory that came after\n")
    assert losses(say) == [], "more than were meant to be left"
    forget_memories(state)
    assert losses(say)
    assert "Fewer than before" in say("snapshot").out


def test_no_screen_says_it_in_other_words(state, say):
    forget_memories(state)
    screens = [say("status").out, say("doctor").out, say("snapshot").out, say("status").out]
    flat = " ".join(" ".join(screens).split())
    assert "seen to it" not in flat and "store it like this" not in flat and "leave it so" not in flat


def test_a_name_of_a_loss_is_read_again_whatever_the_home_and_the_profile_are_called(state):
    from safekept.actions.alarms.declined import decline

    home, falls = (
        "/a: b/c=1,2-3",
        [Shrinkage("profiles/x:y,z=1", "cron_jobs", 12, 3), Shrinkage("default", "m", 4, 0)],
    )
    decline(
        state.context, (loss_name(home, falls), "lost-since:", "lost-since:/h:torn", "lost-since:/h:a=b-c")
    )
    assert [one for one, _ in meant_losses(state.context, home)] == falls
    assert meant_losses(state.context, "/h") == []
