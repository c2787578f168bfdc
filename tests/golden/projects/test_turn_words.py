"""What is said when one turn of an agent goes back: the list with its turns, the plan, the deed, the undo."""

from __future__ import annotations

import json
import os
import re

import pytest

from safekept.actions.projects.turns.turn import turn_id
from safekept.checkpoints.checkpoints import Checkpoints
from support.projects.checkpoints import put

TURN = turn_id("session", "turn-1")


@pytest.fixture
def places(tmp_path):
    found = []
    for name in ("app", "lib"):
        place = os.path.realpath(tmp_path / name)
        put(os.path.join(place, "pyproject.toml"), "")
        put(os.path.join(place, "main.py"), "one\n")
        found.append(place)
    return found


@pytest.fixture
def run(safekept, places, tmp_path):
    def said(*words: str, place: str = places[0]):
        done = safekept(*words, cwd=place)
        done.text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "OPERATION", done.stdout)
        done.text = re.sub(r"\b1[0-9a-v]{11}\b", "POINT", done.text)
        done.text = re.sub(r"\d+(\.\d)? (s|min) ago", "SOON ago", done.text)
        done.text = re.sub(r"Time {7}.*", "Time       SOON", done.text)
        done.text = done.text.replace(os.path.realpath(tmp_path), "WORK")
        return done

    return said


@pytest.fixture
def agent(launcher_environment):
    data = os.path.join(launcher_environment["HOME"], ".local", "share", "safekept", "checkpoints")

    def turn(name: str, files: dict[str, str], session: str = "session") -> None:
        door = Checkpoints(data)
        door.new_turn(session, name)
        for place in dict.fromkeys(map(os.path.dirname, files)):
            door.before([place], f"before {name}", shell=True, directory=place)
        for path, text in files.items():
            put(path, text)
        door.after(wait=True)

    return turn


@pytest.fixture
def both(agent, places):
    agent("turn-1", {f"{place}/{name}": "two\n" for place in places for name in ("main.py", "new.py")})


def test_the_list_has_a_heading_for_each_turn_with_its_id(run, both):
    assert (
        run("rollback").text
        == f"""\
Checkpoints of WORK/app
  #  ID            WHEN     THEN CHANGED   REASON
  turn {TURN}  session
  1  POINT  SOON ago  2 files +2 -1  before turn-1
Then changed: files, and lines added (+) and removed (-), up to the next one
Undo everything since one of them: `safekept rollback POINT`
Take one turn back, everywhere: `safekept rollback --turn {TURN}`
See it first: `safekept rollback POINT --diff`
Not shown: 1 point taken around a rollback, or with nothing changed after them (`safekept rollback --all`)
"""
    )


def test_a_turn_goes_back_by_one_command_and_comes_again_by_one(run, both, places):
    plan = run("rollback", "--turn", "--dry-run")
    assert plan.returncode == 0
    assert (
        plan.text
        == f"""\
Would take turn {TURN} back
  Began      SOON ago
WORK/app:
  Restores   main.py
  Removes    new.py
WORK/lib:
  Restores   main.py
  Removes    new.py
Nothing was changed
"""
    )
    done = run("rollback", "--turn", TURN, place=places[1])
    assert done.returncode == 0
    assert (
        done.text
        == f"""\
Took turn {TURN} back
  Began      SOON ago
WORK/app:
  Restored   main.py
  Removed    new.py
WORK/lib:
  Restored   main.py
  Removed    new.py
  Time       SOON
Changed your mind? `safekept undo OPERATION`
"""
    )
    again = run("rollback", "--turn", TURN)
    assert (again.returncode, again.text.splitlines()[0]) == (0, f"Changed nothing for turn {TURN}")
    assert again.text.splitlines()[-1] == "Nothing differs: no file had to be changed"
    (listed,) = json.loads(run("log", "--verb", "rollback-turn", "--json").stdout)["operations"]
    undone = run("undo", listed["operation"])
    assert undone.returncode == 0
    assert (
        undone.text
        == f"""\
Taking back the rollback of a turn of SOON ago (OPERATION) in WORK/app and 1 more
Took the rollback of turn {TURN} back
WORK/lib:
  Restored   main.py
             new.py
WORK/app:
  Restored   main.py
             new.py
  Time       SOON
Changed your mind? `safekept undo OPERATION`
"""
    )


def test_a_bare_undo_names_the_place_of_the_turn_in_which_the_person_stands(run, both, places):
    assert run("rollback", "--turn", TURN, place=places[0]).returncode == 0
    for place, name in zip(places, ("WORK/app", "WORK/lib"), strict=True):
        said = run("undo", "--dry-run", place=place).text.splitlines()[0]
        assert said == (
            "Would take back the rollback of a turn of SOON ago (OPERATION)"
            f" in {name}, where you are, and 1 more"
        )
    below = os.path.join(places[1], "src")
    os.mkdir(below)
    said = run("undo", place=below).text.splitlines()[0]
    assert said.endswith(" in WORK/lib, where you are, and 1 more")


def test_what_a_later_turn_changed_again_is_named_and_the_exit_code_is_3(run, both, agent, places):
    agent("turn-2", {f"{places[0]}/main.py": "three\n"})
    done = run("rollback", "--turn", TURN)
    assert done.returncode == 3
    assert "  Left       main.py: changed again by a later turn\n" in done.text


def test_of_a_turn_the_whole_command_that_takes_what_is_yours_is_printed(run, both, places):
    put(os.path.join(places[0], "main.py"), "mine\n")
    done = run("rollback", "--turn", TURN)
    said = " ".join(done.text.split())
    why = "changed by you after the agent's last turn"
    command = f"`safekept rollback --turn {TURN} --overwrite-mine`"
    assert f"Kept yours main.py {why}; to take them, too: {command}" in said, said
    assert run("rollback", "--turn", TURN, "--overwrite-mine").returncode == 0
    with open(os.path.join(places[0], "main.py")) as file:
        assert file.read() == "one\n"


def test_an_unknown_turn_changes_nothing(run, both):
    done = run("rollback", "--turn", "t0000000")
    assert done.returncode == 1 and "There is no turn `t0000000`" in done.stderr
    assert "Nothing was changed" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("1", "--turn"),
        ("--turn", "--undo"),
        ("--turn", "--diff"),
        ("--turn", "--git"),
        ("--turn", "--all-projects"),
        ("--turn", "--all"),
    ],
)
def test_a_whole_turn_goes_with_nothing_that_means_less(run, both, places, words):
    done = run("rollback", *words)
    assert done.returncode == 2 and "--turn takes a whole turn back" in done.stderr
    with open(os.path.join(places[0], "main.py")) as file:
        assert file.read() == "two\n"


def test_a_turn_in_json_has_its_parts_and_its_undo(run, both, places):
    found = json.loads(run("rollback", "--turn", "--json").stdout)
    assert found["turn"]["id"] == TURN and found["turn"]["places"] == places
    assert [part["place"] for part in found["parts"]] == places
    assert found["undo"] == f"safekept undo {found['operation']}" and found["complete"] is True
