"""A broken home on every screen: status, doctor and snapshot say the same, and it ends when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3

import pytest

from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=("coder",))


def make_noise(home):
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        if os.path.exists(os.path.join(home, name)):
            os.unlink(os.path.join(home, name))
    with open(os.path.join(home, "state.db"), "wb") as file:
        file.write(b"no database at all\n" * 2000)


def forget_memories(home):
    for name in os.listdir(os.path.join(home, "memories")):
        os.unlink(os.path.join(home, "memories", name))


CODES = ("database-damaged", "lost-since", "damaged-when-stored")


def chosen(found):
    """Findings of these kinds, with their commands as they are typed."""
    for one in found:
        one["commands"] = [" ".join((step["verb"], *step["arguments"])) for step in one["commands"]]
    return [one for one in found if one["code"] in CODES]


def of_status(say):
    return chosen(json.loads(say("status", "--json").out)["verdict"]["reasons"])


def of_doctor(say):
    return chosen(json.loads(say("doctor", "--json").out)["findings"])


def told(findings):
    return sorted((one["code"], one["text"], one["alarm"], one["fix"]) for one in findings)


def test_what_is_broken_now_is_said_alike_before_any_doctor_or_snapshot(here, home, say):
    short = take(here, home).id[:8]
    assert of_status(say) == []
    make_noise(home)
    forget_memories(home)
    first = of_status(say)
    assert say("status", "--check").code == 4
    assert told(first) == told(of_doctor(say)) == told(of_status(say))
    texts = [one["text"] for one in first]
    assert texts == [f"state.db in {home} is damaged", f"lost in {home}: all 12 memories are gone"]
    heads = say("doctor").out.splitlines()[1], say("status").out.partition(":")[0]
    assert heads == ("ALARM, partly protected", "ALARM, partly protected"), "one ladder, and one word for it"
    commands = [command for one in first for command in one["commands"]]
    assert commands[:2] == [
        f"snapshot restore {short} state.db",
        f"snapshot restore {short} memories",
    ]


def test_the_short_answer_and_the_long_one_agree(here, home, say):
    take(here, home)
    make_noise(home)
    assert "ALARM" in say("status", "--short").out
    assert "state.db" in say("status", "--short").out


def test_every_printed_command_ends_its_finding(here, home, say):
    take(here, home)
    make_noise(home)
    forget_memories(home)
    for one in of_status(say):
        words = one["commands"][0].split()
        assert "--yes" not in words, "it shows its plan, and asks"
        assert say(*words, "--yes").code == 0
    assert of_status(say) == of_doctor(say) == of_status(say) == []


def test_rows_that_are_gone_are_seen_by_the_doctor_and_then_by_the_status(here, home, say):
    short = take(here, home).id[:8]
    with sqlite3.connect(os.path.join(home, "state.db")) as database:
        database.execute("DELETE FROM sessions")
    database.close()
    (found,) = of_doctor(say)
    assert found["code"] == "lost-since"
    assert found["text"].startswith(f"lost in {home}: all 4 sessions are gone")
    assert found["commands"][0] == f"snapshot restore {short} state.db"
    assert told(of_status(say)) == told([found])
    assert say("snapshot", "restore", short, "state.db", "--yes").code == 0
    assert of_status(say) == []


def test_a_profile_that_is_gone_is_one_loss_and_its_command_brings_all_of_it_back(here, home, say):
    profile = os.path.join(home, "profiles", "coder")
    for name in (".env", "plugins/mine/plugin.yaml"):
        os.makedirs(os.path.dirname(os.path.join(profile, name)), exist_ok=True)
        with open(os.path.join(profile, name), "w") as file:
            file.write("A_KEY=1\n")
    before = tree_of(profile)
    short = take(here, home).id[:8]
    shutil.rmtree(profile)
    (found,) = of_status(say)
    assert told([found]) == told(of_doctor(say))
    assert found["text"] == f"lost in {home}: the profile coder is gone"
    assert found["commands"][0] == f"snapshot restore {short} profiles/coder"
    assert say(*found["commands"][0].split(), "--yes").code == 0
    assert tree_of(profile) == before
    assert of_status(say) == of_doctor(say) == []


def test_a_profile_that_was_emptied_is_one_loss_too(here, home, say):
    short = take(here, home).id[:8]
    shutil.rmtree(os.path.join(home, "profiles", "coder"))
    os.makedirs(os.path.join(home, "profiles", "coder", "logs"))
    (found,) = of_status(say)
    assert found["text"] == f"lost in {home}: the profile coder is gone"
    assert found["commands"][0] == f"snapshot restore {short} profiles/coder"
    assert told([found]) == told(of_doctor(say))


def test_a_home_that_was_emptied_is_one_loss_and_its_command_brings_all_of_it_back(here, home, say):
    kept = {"SOUL.md", ".env", "config.yaml", "plugins/mine/plugin.yaml"}
    for name in kept:
        os.makedirs(os.path.dirname(os.path.join(home, name)), exist_ok=True)
        with open(os.path.join(home, name), "w") as file:
            file.write("a: 1\n")
    short = take(here, home).id[:8]
    shutil.rmtree(home)
    os.makedirs(os.path.join(home, "logs"))
    (found,) = of_status(say)
    assert found["text"] == f"lost in {home}: everything is gone"
    assert found["commands"][0] == f"snapshot restore {short}"
    assert told([found]) == told(of_doctor(say))
    assert say(*found["commands"][0].split(), "--yes").code == 0
    assert kept <= tree_of(home)


def tree_of(top):
    return {
        os.path.relpath(os.path.join(place, name), top) for place, _, names in os.walk(top) for name in names
    }


@pytest.mark.parametrize("where", ["", "profiles/coder/"])
def test_a_persona_and_a_file_of_keys_that_are_gone_are_lost_and_come_back(here, home, say, where):
    for name in ("SOUL.md", ".env"):
        with open(os.path.join(home, where, name), "w") as file:
            file.write("A_KEY=1\n")
    short = take(here, home).id[:8]
    for name in ("SOUL.md", ".env"):
        os.unlink(os.path.join(home, where, name))
    (found,) = of_status(say)
    assert told([found]) == told(of_doctor(say))
    assert "essential-missing" not in say("doctor", "--json").out, "one loss is said once"
    whose = "profiles/coder: " if where else ""
    assert found["text"] == f"lost in {home}: {whose}SOUL.md is gone, .env is gone"
    assert found["commands"][0] == f"snapshot restore {short} {where}SOUL.md {where}.env"
    assert "ALARM" in say("status", "--short").out
    assert say(*found["commands"][0].split(), "--yes").code == 0
    assert of_status(say) == of_doctor(say) == []


def test_a_file_of_keys_that_no_snapshot_has_is_no_loss(here, home, say):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(home, ".env"))
    take(here, home)
    assert of_status(say) == of_doctor(say) == []
    with open(os.path.join(home, ".env"), "w") as file:
        file.write("A_KEY=1\n")
    os.unlink(os.path.join(home, ".env"))
    assert of_status(say) == of_doctor(say) == []


def test_what_moved_behind_a_link_is_not_called_lost(here, home, say):
    take(here, home)
    away = os.path.join(here.places.user_home, "notes")
    os.rename(os.path.join(home, "memories"), away)
    os.symlink(away, os.path.join(home, "memories"))
    assert of_status(say) == []


def test_screens_speak_of_a_damaged_snapshot_with_one_voice(here, home, say):
    sound = take(here, home).id[:8]
    make_noise(home)
    newest = take(here, home).id[:8]
    shown = " ".join(say("status").out.split())
    assert "manual, INCOMPLETE: state.db is damaged, " in shown.partition(f"({newest})")[0]
    assert "databases sound" not in shown
    assert re.search(rf"the last verified one: \d+ (s|min) ago \({sound}\)", shown)
    assert "Damaged state.db: state.db should be a database" in shown
    assert "Not kept state.db" not in shown
    assert "Stored as it is, and damaged" in say("snapshot").out


def test_an_alarm_is_gone_at_the_next_look_after_the_restore(here, home, say):
    sound = take(here, home).id[:8]
    make_noise(home)
    say("snapshot")
    assert [one["code"] for one in of_status(say)] == ["database-damaged"]
    of_doctor(say)
    assert say("snapshot", "restore", sound, "state.db", "--yes").code == 0
    (found,) = of_status(say)
    assert found["code"] == "damaged-when-stored" and not found["alarm"]
    assert found["commands"] == ["snapshot"]
    assert told(of_doctor(say)) == told([found])
    assert say("status", "--check").code != 4
    assert say("snapshot").code == 0
    assert of_status(say) == []


def test_one_that_was_mended_by_hand_is_gone_at_the_next_look_of_the_doctor_or_a_snapshot(here, home, say):
    take(here, home)
    path = os.path.join(home, "state.db")
    with open(path, "rb") as file:
        good = file.read()
    with open(path, "r+b") as file:
        for offset in range(4096 * 2, len(good) - 4096, 4096 * 3):
            file.seek(offset)
            file.write(b"\xa5" * 4096)
    take(here, home, check="always")
    assert [one["code"] for one in of_status(say)] == ["database-damaged"]
    with open(path + ".new", "wb") as file:
        file.write(good)
    os.replace(path + ".new", path)
    assert [one["code"] for one in of_doctor(say)] == ["damaged-when-stored"]
    assert [one["code"] for one in of_status(say)] == ["damaged-when-stored"]
    assert say("snapshot").code == 0
    assert of_status(say) == []


def test_a_loss_has_one_way_back_on_every_screen_also_where_the_database_was_not_verified(here, home, say):
    short = take(here, home, check="never").id[:8]
    with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
        database.execute("DELETE FROM sessions")
        database.commit()
    forget_memories(home)
    (of_status_now,), (of_doctor_now,) = of_status(say), of_doctor(say)
    assert told([of_status_now]) == told([of_doctor_now])
    restores = [one.split()[2:] for one in of_doctor_now["commands"] if one.startswith("snapshot restore")]
    assert [(words[0], set(words[1:])) for words in restores] == [(short, {"state.db", "memories"})]
    assert f"state.db was not verified in {short}; a drill of it would tell" in of_doctor_now["evidence"]
