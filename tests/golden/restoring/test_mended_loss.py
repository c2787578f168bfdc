"""A loss that was mended is over: what a snapshot holds counts, and no old alarm about it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil

from safekept.actions.alarms.alarms import open_alarms
from support.vault.snapshots import take


def memories(home):
    return os.path.join(home, "memories")


def taken(say):
    """The id of a snapshot that is taken now."""
    document = json.loads(say("snapshot", "--json").out)
    return document["id"][:8]


def bring_back(say, said):
    """The last command that was printed, run as it is."""
    command = re.findall(r"`safekept (snapshot restore [^`]+)`", said)[-1]
    assert say(*shlex.split(command), "--yes").code == 0


def every_screen_takes(say, here, newest):
    """Restore, rebuild, list and status mean the same newest snapshot, and nothing is wrong with it."""
    plan = say("restore", "--dry-run")
    assert "not sound" not in plan.out + plan.err
    assert f"  Snapshot   {newest} (" in plan.out
    done = say("restore", "--yes")
    assert done.code == 0, done.err
    place = os.path.join(here.places.user_home, "again")
    words = ("rebuild", here.places.vault, "--key-file", here.places.vault_key_file, "--home", place)
    rebuilt = say(*words, "--dry-run")
    assert "not sound" not in rebuilt.out and newest in rebuilt.out
    assert f"`safekept snapshot restore {newest}`" in say("snapshot", "list").out
    assert json.loads(say("status", "--json").out)["homes"][0]["alarms"] == []


def test_after_a_guarded_loss_was_brought_back_the_next_snapshot_is_what_latest_means(here, home, say):
    said = say("guard", "--", "rm", "-rf", memories(home))
    assert said.code == 3
    between = taken(say)
    bring_back(say, said.err)
    assert open_alarms(here) == ()
    still = say("restore", "--dry-run").out
    assert still.startswith(f"Snapshot {between} is not sound: after `rm"), "nobody has stored it again yet"
    newest = taken(say)
    every_screen_takes(say, here, newest)


def test_a_snapshot_of_the_time_between_still_lacks_it_and_says_so(here, home, say):
    said = say("guard", "--", "rm", "-rf", memories(home))
    between = taken(say)
    bring_back(say, said.err)
    newest = taken(say)
    plan = say("restore", "2", "--dry-run").out
    assert plan.startswith(f"Snapshot {between} is not sound: after `rm")
    assert f"The newest sound one is {newest}, " in plan


def test_what_is_put_back_by_hand_is_back_too(here, home, say, tmp_path):
    shutil.copytree(memories(home), tmp_path / "kept")
    shutil.copy2(os.path.join(home, "config.yaml"), tmp_path)
    script = f"rm -r {memories(home)}; echo nothing > {home}/config.yaml"
    assert say("guard", "--", "sh", "-c", script).code == 3
    assert open_alarms(here)
    shutil.copytree(tmp_path / "kept", memories(home))
    shutil.copy2(tmp_path / "config.yaml", home)
    newest = taken(say)
    assert open_alarms(here) == ()
    every_screen_takes(say, here, newest)


def test_a_part_that_is_put_back_by_hand_leaves_the_alarm_open(here, home, say, tmp_path):
    shutil.copytree(memories(home), tmp_path / "kept")
    assert say("guard", "--", "rm", "-rf", memories(home), os.path.join(home, "config.yaml")).code == 3
    [alarm] = open_alarms(here)
    shutil.copytree(tmp_path / "kept", memories(home))
    newest = taken(say)
    assert open_alarms(here) == (alarm,)
    assert say("restore", "--dry-run").out.startswith(f"Snapshot {newest} is not sound: ")


def test_counts_that_fell_and_were_brought_back_are_sound_again_as_well(here, home, say):
    sound = take(here, home).id[:8]
    shutil.rmtree(memories(home))
    between = taken(say)
    assert say("snapshot", "restore", sound, "memories", "--yes").code == 0
    newest = taken(say)
    every_screen_takes(say, here, newest)
    assert f"Snapshot {between} is not sound" in say("restore", "2", "--dry-run").out


def test_what_is_lost_a_second_time_is_lost_again(here, home, say):
    said = say("guard", "--", "rm", "-rf", memories(home))
    bring_back(say, said.err)
    good = taken(say)
    assert say("guard", "--", "rm", "-rf", memories(home)).code == 3
    bad = taken(say)
    plan = say("restore", "--dry-run").out
    assert plan.startswith(f"Snapshot {bad} is not sound: ")
    assert plan.splitlines()[0].count("after `rm") == 1, "the first loss is over"
    bring_back(say, say("status").out)
    every_screen_takes(say, here, taken(say))
    assert good != bad
