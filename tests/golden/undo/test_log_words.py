"""`safekept log` in the five states, one operation in full, and journals that had bad luck."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time

import pytest

from safekept.actions.base.record import record
from safekept.core.events import silent
from safekept.core.journal import Record, new_id
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.commands.transcripts import fits, same_as, same_document
from support.users.states import STATES, State, made, told


@pytest.fixture(scope="module")
def every_state(tmp_path_factory: pytest.TempPathFactory) -> dict[str, State]:
    return {name: made(name, tmp_path_factory.mktemp(name)) for name in STATES}


@pytest.fixture(params=STATES)
def state(request: pytest.FixtureRequest, every_state: dict[str, State]) -> State:
    return every_state[request.param]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, state: State):
    return spoken(monkeypatch, state.user)


def lines_told(text: str, state: State) -> str:
    """Columns keep their places: a short id, a size and a duration are as wide as they were."""
    text = re.sub(r"^[0-9a-f]{6} ", "abcdef ", text, flags=re.MULTILINE)
    text = re.sub(r"[ \d.]{4}\d(B|KB|MB)\b", "   SIZE", text)
    text = re.sub(r" +\d+\.\ds ", "   TOOK ", text)
    return told(text, state)


def test_log_has_one_line_for_each_operation(say, state):
    said = say("log")
    assert (said.code, said.err) == (0, "")
    fits(said.out)
    same_as(f"log-{state.name}.txt", lines_told(said.out, state))


def test_log_as_a_document(say, state):
    said = say("log", "--json")
    assert said.code == 0
    same_document(f"log-{state.name}.json", said.out, lambda text: told(text, state))


@pytest.mark.parametrize("state", ["damaged"], indirect=True)
def test_one_operation_is_told_in_full(say, state):
    name = json.loads(say("log", "--json").out)["operations"][0]["operation"]
    whole, short, start = say("log", name), say("log", name[-6:]), say("log", name[:-2])
    assert whole.code == 0
    fits(whole.out)
    assert whole.out == short.out == start.out
    text = re.sub(r"\(\d[\d,]* bytes\)", "(NUMBER bytes)", told(whole.out, state))
    same_as("log-one.txt", re.sub(r"(?<=Took       ).*", "MOMENT", text))
    document = json.loads(say("log", name, "--json").out)
    short = document["lines"][-1]["facts"]["snapshot"][:8]
    assert f"`safekept snapshot forget {short}`" in whole.out, "it runs as printed"
    assert document["undo"] == {
        "possible": False,
        "command": None,
        "text": f"{name} (snapshot) cannot be taken back: a snapshot changed nothing in your home",
        "next": [f"Let it go if it shall: `safekept snapshot forget {short}`"],
        "commands": [{"verb": "snapshot forget", "arguments": [short]}],
    }
    assert document["lines"][0]["facts"]["databases"] == {"state.db": "damaged"}


# ── choosing ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """A journal with thirty operations of two homes, and a way to ask about it."""
    from support.users.contexts import throwaway

    here = throwaway(tmp_path)
    for number in range(30):
        facts = {"home": f"/home/{'ada' if number % 3 else 'bob'}", "seconds": 0.5, "bytes": number}
        verb = "snapshot" if number % 2 else "backup"
        when = time.time() - (30 - number) * 3600
        record(here, Record(f"20261115-0000{number:02}-{number:06x}", verb, "done", when, facts), silent)
    return here, spoken(monkeypatch, here.places.user_home)


def ids(said: object) -> list[int]:
    return [int(one["operation"][-6:], 16) for one in json.loads(said.out)["operations"]]  # type: ignore[attr-defined]


def test_the_newest_come_first_and_no_more_than_were_asked_for(busy):
    _, say = busy
    assert ids(say("log", "--json")) == list(range(29, 9, -1))
    assert json.loads(say("log", "--json").out)["more"] is True
    assert ids(say("log", "-n", "3", "--json")) == [29, 28, 27]
    assert ids(say("log", "--all", "--json")) == list(range(29, -1, -1))
    assert json.loads(say("log", "--all", "--json").out)["more"] is False
    assert say("log").out.endswith("There is more: `safekept log --all`\n")


def test_a_verb_a_home_and_a_time_narrow_it(busy):
    _, say = busy
    assert ids(say("log", "--verb", "backup", "-n", "2", "--json")) == [28, 26]
    assert ids(say("log", "--home", "/home/bob", "-n", "2", "--json")) == [27, 24]
    assert ids(say("log", "--since", "2.5h", "--json")) == [29, 28]
    assert ids(say("log", "--since", "2 days", "--verb", "snapshot", "--all", "--json")) == list(
        range(29, 0, -2)
    )
    assert say("log", "--verb", "teleport").out == "Nothing was done yet that fits\n"


@pytest.mark.parametrize("text", ["soon", "2x", "", "2026-13-01", "9" * 400 + "d"])
def test_a_time_that_is_none_is_refused(busy, text):
    _, say = busy
    said = say("log", "--since", text or " ")
    assert said.code == 2
    assert "is no time that safekept understands" in said.err
    assert (
        "Next       Use `3h`, `2d`, `1w`, `yesterday 18:00`, `2026-11-01` or `2026-11-01 14:30`" in said.err
    )


def test_an_unknown_and_an_ambiguous_id_say_what_to_do(busy):
    _, say = busy
    said = say("log", "nonsense")
    assert said.code == 1
    assert "The journal knows no operation `nonsense`" in said.err
    assert "Next       See what was done: `safekept log`" in said.err
    said = say("log", "20261115-00000")
    assert "10 operations are called or start with `20261115-00000`" in said.err
    assert "See one of them: `safekept log 20261115-000009-000009`" in said.err


# ── bad luck ───────────────────────────────────────────────────────────────────────────────────────


def test_a_truncated_a_torn_and_a_foreign_line_cost_only_themselves(busy):
    here, say = busy
    with open(here.journal.path, "r+b") as file:
        data = file.read()
        file.seek(0)
        file.truncate()
        file.write(data[40:-30] + b"\n\x00\xff\x00 not json\n[]\n")
    assert ids(say("log", "--all", "--json")) == list(range(28, 0, -1))
    assert say("log").out.splitlines()[-1] == "3 lines of the journal cannot be read"


def test_a_later_version_is_shown_as_far_as_it_is_understood_and_said_to_be(busy):
    here, say = busy
    line = {"version": 9, "time": time.time(), "operation": "20261115-000100-ffffff", "verb": "teleport"}
    with open(here.journal.path, "ab") as file:
        file.write(
            json.dumps({**line, "state": "arrived", "facts": {"more": [1]}, "sky": "blue"}).encode() + b"\n"
        )
    said = say("log", "-n", "2")
    assert said.out.splitlines()[1].split()[4:7] == ["person", "teleport", "ARRIVED"]
    assert said.out.splitlines()[1].endswith(" *")
    assert "1 operation was written by a later safekept (*): shown as far as understood" in said.out
    assert "a later safekept wrote of this; there may be more to it" in say("log", "ffffff").out
    assert "written by a later safekept, too" in say("status").out


def test_a_journal_that_another_process_holds_is_read_all_the_same(busy):
    here, say = busy
    with open(here.journal.path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert ids(say("log", "-n", "1", "--json")) == [29]


def test_a_journal_that_cannot_be_read_is_an_error_with_advice_and_status_goes_on(busy):
    here, say = busy
    os.unlink(here.journal.path)
    os.mkdir(here.journal.path)
    said = say("log")
    assert said.code == 1
    assert error_code(said.err) == "journal-unreadable"
    assert "Kept       Nothing was changed; what is stored does not depend on the journal" in said.err
    assert "Journal      ~/.local/share/safekept/journal.jsonl cannot be read: " in say("status").out
    said = say("status", "--short", "--check")
    assert (said.code, said.out) == (
        say("status", "--check").code,
        f"safekept: {say('status').out.splitlines()[0]}\n",
    )


def test_an_empty_journal_says_so(tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path))
    assert say("log").out == "Nothing was done yet\n"
    assert json.loads(say("log", "--json").out) == {
        "version": 1,
        "operations": [],
        "more": False,
        "unreadable_lines": 0,
    }


def test_what_was_begun_and_never_ended_is_told_by_its_process(busy):
    here, say = busy
    running, killed, other = new_id(), new_id(), new_id()
    record(here, Record(running, "restore", "begun"), silent)
    ended = {"process": 2**22 + 1}
    for name, when, facts in ((killed, time.time(), ended), (other, 1_000_000.0, {"process": os.getpid()})):
        here.journal.append(Record(name, "restore", "begun", when, facts))
    found = {one["operation"]: one["outcome"] for one in json.loads(say("log", "--json").out)["operations"]}
    assert (found[running], found[killed], found[other]) == ("running", "killed", "killed")
    assert "KILLED" in say("log").out


def test_control_characters_in_the_journal_do_not_reach_the_terminal(busy):
    here, say = busy
    record(
        here, Record("x\x1b[31m", "snap\x1b]0;", "done", facts={"home": "\x1b[2J", "note": "\x07"}), silent
    )
    assert "\x1b" not in say("log").out
    assert "\x1b" not in say("log", "x\x1b[31m").out
    assert "\x07" not in say("log", "x\x1b[31m").out
