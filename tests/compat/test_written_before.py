"""What an earlier safekept wrote is used by this one, all of it.

`tests/data/rename-commit` holds a vault, archives, checkpoints, a journal with every verb, receipts and state
files, and what the safekept that wrote them said of them.

A record that is not read any more, or read as something else, fails here.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from typing import Any

import pytest
import zstandard

from conftest import missing_part
from safekept.actions.drill.receipts import read_receipts
from support.places import TESTS
from support.users import recording
from support.users.contexts import throwaway
from support.users.fixed_place import DATA, HOME, PLACE, PROJECT, USER, FixedPlace, held, ways_in
from support.users.recording import unlike

RECORDED = os.path.join(TESTS, "data", "rename-commit")
RECORDED_PYTHON = "/work/rename/.venv/bin/python"
BARE = f"{PLACE}/bare"
KILLED = f"{PLACE}/work/killed"
#: The verbs of operations that `undo` took back when it was recorded.
UNDOABLE = (
    *("import", "restore", "undo", "guard", "restore-session", "undo-session", "rollback", "rollback-undo"),
    *("forget", "backup", "checkpoints-prune", "checkpoints-clear-legacy", "doctor"),
)
#: What went when it was recorded and stays today: the snapshot that undoing a restored conversation takes
#: holds a part of the home, and a part costs no whole one of its kind its place any more.
STAYS = {"restore-session": {"b59016568f9e8df3fc64284d55324f2347af39e678d55cbe8bb19ad71e643aac"}}
#: What is remembered of agents' sessions is forgotten after some days, by the time of its file.
REMEMBERED = f"{DATA}/integrations"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the recorder was told by the safekept that wrote it."""
    with open(os.path.join(RECORDED, "told.json.zst"), "rb") as file:
        return json.loads(zstandard.ZstdDecompressor().decompress(file.read(), max_output_size=1 << 26))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> FixedPlace:
    enter = ways_in()
    if enter is None:
        missing_part("a mount namespace needs root, or a kernel that gives one to everybody")
    if os.path.realpath(sys.prefix).startswith(PLACE + "/"):
        missing_part(f"this checkout lies below {PLACE}, which the recorded place covers")
    root = str(tmp_path_factory.mktemp("recorded") / "srv")
    recording.unpack(os.path.join(RECORDED, "place.tar.zst"), root)
    place = FixedPlace(root, enter or [])
    place.furnish()
    for directory, _, names in os.walk(place.at(REMEMBERED)):
        for name in names:
            os.utime(os.path.join(directory, name))
    return place


@pytest.fixture
def place(unpacked: FixedPlace, tmp_path: object) -> FixedPlace:
    """A copy that a test may change."""
    return unpacked.copy(os.path.join(str(tmp_path), "srv"))


def test_everything_that_can_be_asked_is_answered_as_it_was(place, told):
    then = copy.deepcopy(told["read"])
    for one in then["home points"]["home_points"].values():
        # Points that a rollback went behind were passed over then, and not compared with the home.
        one.pop("changed")
    home = then["status"]["homes"][0]
    assert home["last_verified"]["kind"] == "pre-import"  # what is kept to take an import back counted then
    home["last_verified"] = home["last_whole"]
    now = recording.readings(place)
    for part in ("status", "connections"):
        # The entries of that day do not tell the end of every tool, which is said until they are renewed.
        # They call the Python of the checkout that was recorded, which is gone everywhere but there.
        known = [one["host"] for one in then[part]["hosts"]]  # more can be connected today
        now[part]["hosts"] = [one for one in now[part]["hosts"] if one["host"] in known]
        claude = then[part]["hosts"][1]
        there = claude["connected"] = os.path.exists(RECORDED_PYTHON)
        claude["places"][0]["trouble"] = "partly" if there else "no-program"
        old = "connected by old entries in its settings.json"
        claude["places"][0]["detail"] = old if there else RECORDED_PYTHON
        claude["troubles"] = now[part]["hosts"][1]["troubles"]
        assert [one["next"] for one in claude["troubles"]] == ["`safekept connect claude-code`"]
    assert list(unlike(then, now)) == []


def test_every_line_of_the_journal_is_read(place, told):
    known = recording.operations(place, told["read"]["log"])
    assert list(unlike(told["operations"], known)) == []
    lines = [line for one in known.values() for line in one["lines"]]
    assert len(lines) == len(told["lines"][USER]) >= 150, (
        "a line that no operation has is a line that is not read"
    )
    for user in recording.USERS:
        (log,) = place.ask(["log", "--all"], user=user)
        assert log["unreadable_lines"] == 0
        assert {one["operation"] for one in log["operations"]} == {
            line["operation"] for line in told["lines"][user]
        }


def test_every_receipt_is_read(place, told):

    found = read_receipts(throwaway(place.directory))
    assert {one.operation: json.loads(json.dumps(one.as_dict())) for one in found} == told["receipts"]
    assert len(found) >= 8


def test_every_snapshot_is_restored_exactly(place, told):
    listing = told["read"]["snapshots"]["snapshots"]
    assert len(listing) >= 25 and {one["kind"] for one in listing.values()} >= {
        *("manual", "quick", "scheduled", "pre-update", "pre-migration"),
        *("pre-import", "pre-restore", "pre-change", "adopted"),
    }
    assert list(unlike(told["snapshots"], recording.restored_snapshots(place, listing))) == []


def test_every_archive_is_imported_exactly(place, told):
    assert {os.path.splitext(name)[1] for name in told["archives"]} == {".zip", ".zst", ".age"}
    assert list(unlike(told["archives"], recording.imported_archives(place))) == []


def test_every_point_of_a_project_and_of_a_home_is_gone_back_to(place, told):
    points = told["read"]["points"]
    found = recording.rolled_back(place, {**points["checkpoints"], **points["home_points"]})
    assert list(unlike(told["rolled back"], found)) == []
    assert len(found) >= 15 and len({json.dumps(one, sort_keys=True) for one in found.values()}) > 3
    place.ask(["rollback", next(iter(points["checkpoints"])), "--dir", PROJECT, "--overwrite-mine"])
    before = held(place.at(PROJECT), times=False)
    place.ask(["rollback", list(points["checkpoints"])[-1], "--dir", PROJECT, "--overwrite-mine"])
    assert held(place.at(PROJECT), times=False) != before
    place.ask(["rollback", "--undo", "--dir", PROJECT])
    assert held(place.at(PROJECT), times=False) == before


def test_no_operation_that_could_be_taken_back_is_left_out(told):
    assert sorted({one["verb"] for one in told["undone"].values()}) == sorted(UNDOABLE)


@pytest.mark.parametrize("verb", UNDOABLE)
def test_what_could_be_taken_back_still_can(unpacked, told, tmp_path, verb):
    wanted = {name: one for name, one in told["undone"].items() if one["verb"] == verb}
    found = recording.undone(unpacked, {name: told["operations"][name] for name in wanted}, str(tmp_path))
    if verb in STAYS:
        assert all(set(one["forgotten"]) >= STAYS[verb] for one in wanted.values())
        wanted = {
            name: {**one, "forgotten": [gone for gone in one["forgotten"] if gone not in STAYS[verb]]}
            for name, one in wanted.items()
        }
    assert list(unlike(wanted, found)) == [] and wanted


def test_what_was_killed_half_way_is_made_right(place):
    with open(place.at(f"{BARE}/before.json"), encoding="utf-8") as file:
        before = json.load(file)
    assert held(place.at(f"{BARE}/.hermes"), times=False) != before
    place.ask(["snapshot"], user=BARE)
    assert held(place.at(f"{BARE}/.hermes"), times=False) == before
    assert place.journal_states(BARE, "import") == ["begun", "recovered"]

    # Files that were unpacked are not the very ones that the rollback saw, so of each both states are kept.
    before, _, after = place.ask(["status"], ["doctor", "--fix"], ["status"])
    cut_off = [
        [one["project"] for one in status["checkpoints"]["projects"] if one["rollback_cut_off"]]
        for status in (before, after)
    ]
    assert cut_off == [[KILLED], []]
    files = place.texts(KILLED)
    assert not [name for name in files if "safekept-tmp" in name], "something was left behind"
    for number in range(12):
        states = {text for name, text in files.items() if name.startswith(f"file-{number}.txt")}
        assert states == {"before\n", "what an agent wrote\n"}
    place.ask(["rollback", "1", "--dir", KILLED])
    assert place.texts(KILLED) == {
        **{f"file-{number}.txt": "before\n" for number in range(12)},
        "pyproject.toml": "[project]\n",
    }


def test_the_stores_go_on_being_used(place, told):
    """New work on old records: what is there is not stored again, and everything can be proven."""
    first, second = place.ask(["snapshot"], ["snapshot"])
    assert second["files"] == first["files"] > 40
    assert second["added_bytes"] < 5_000, "what the vault has was stored again"
    check, push, drill, points, care = place.ask(
        ["vault", "check", "--read-data"],
        ["push", "disk"],
        ["drill"],
        ["drill", "--checkpoints"],
        ["vault", "prune", "--now", "--yes"],
    )
    assert check["sound"] and not [
        row for row in (*drill["rows"], *points["rows"]) if row["state"] == "failed"
    ]
    assert push and care is not None
    place.put(f"{PROJECT}/main.py", "print('today')\n")
    before = held(place.at(PROJECT), times=False)
    place.ask(["checkpoint", PROJECT])
    place.put(f"{PROJECT}/main.py", "print('gone wrong')\n")
    place.ask(["rollback", "1", "--dir", PROJECT])
    assert held(place.at(PROJECT), times=False) == before
    again = recording.restored_snapshots(
        place,
        {
            name: one
            for name, one in told["read"]["snapshots"]["snapshots"].items()
            if one["label"] == "first"
        },
    )
    assert list(unlike({name: told["snapshots"][name] for name in again}, again)) == [] and again


def test_an_agents_session_goes_on(place):
    """It is told of the rollback that happened meanwhile, once, and its next change is kept."""
    event = {
        "session_id": "session-of-claude",
        "prompt_id": "turn-9",
        "transcript_path": f"{USER}/.claude/projects/p/t.jsonl",
        "cwd": PROJECT,
        "permission_mode": "default",
    }
    asked = json.dumps({**event, "hook_event_name": "UserPromptSubmit", "prompt": "go on"})
    (calls,) = [one for one in place.ask(["connect"])[0]["hosts"] if one["host"] == "claude-code"]
    said = place.run("hook", "claude-code", told=asked, cwd=PROJECT)
    assert said.returncode == 0 and "main.py" in said.stdout, said
    assert "main.py" not in place.run("hook", "claude-code", told=asked, cwd=PROJECT).stdout
    write = {"tool_name": "Write", "tool_input": {"file_path": f"{PROJECT}/main.py", "content": "x"}}
    begun = time.time_ns()
    told = json.dumps({**event, "hook_event_name": "PreToolUse", "tool_use_id": "one", **write})
    assert place.run("hook", "claude-code", told=told, cwd=PROJECT).returncode == 0
    points, connect = place.ask(["rollback", "--dir", PROJECT, "--all"], ["connect"])
    assert [one for one in points["checkpoints"] if one["time_ns"] >= begun and one["turn"] == "turn-9"]
    (after,) = [one for one in connect["hosts"] if one["host"] == "claude-code"]
    assert after != calls
    assert held(place.at(HOME))
