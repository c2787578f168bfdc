"""A file that is there and holds nothing is as lost as one that is gone: it is named, with the way back."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time

import pytest

from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet
from safekept.home.census import Census
from safekept.home.health import live_counts
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.states import made

BACK = re.compile(r"Bring it back: `safekept ([^`]+)`")
MEANT = re.compile(r"If it is meant to be so: `safekept (status --acknowledge [^`]+)`")
FILES = (
    ".env",
    "SOUL.md",
    "config.yaml",
    "cron/jobs.json",
    "memories/MEMORY.md",
    "skills/own/c/SKILL.md",
    "profiles/writer/.env",
    "profiles/writer/memories/USER.md",
)


@pytest.fixture
def state(tmp_path):
    """A user with five skills of their own and a second profile, all of it stored."""
    state = made("empty", tmp_path)
    make_hermes_home(os.path.join(state.home, "profiles", "writer"), profiles=(), awkward=False)
    for name in ("a", "b", "c", "d", "e"):
        write(state, f"skills/own/{name}/SKILL.md", f"# {name}\n".encode())
    return state


@pytest.fixture
def say(state, monkeypatch):
    say = spoken(monkeypatch, state.user)
    assert say("snapshot").code == 0
    return say


def write(state, path, content=b""):
    full = os.path.join(state.home, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(content)


def read(state, path):
    with open(os.path.join(state.home, path), "rb") as file:
        return file.read()


def losses(say, command="status"):
    found = json.loads(say(command, "--json").out)
    found = found["verdict"]["reasons"] if command == "status" else found["findings"]
    return [one["text"] for one in found if one["code"] in ("lost-since", "alarm-loss")]


def way_back(said):
    (command,) = set(BACK.findall(" ".join(said.out.split())))
    return shlex.split(command)


@pytest.mark.parametrize("path", FILES)
def test_an_emptied_file_is_named_and_the_printed_command_brings_it_back(path, state, say):
    before, inside = read(state, path), path.removeprefix("profiles/writer/")
    where = "profiles/writer: " if inside != path else ""
    write(state, path)
    (one,) = losses(say)
    assert one.startswith(f"lost in {state.home}: {where}{inside} is empty")
    assert losses(say, "doctor") == [one]
    words = way_back(say("status"))
    assert words[:2] == ["snapshot", "restore"] and words[3:] == [path]
    assert say(*words, "--yes").code == 0
    assert read(state, path) == before
    assert losses(say) == losses(say, "doctor") == []

    write(state, path)
    taken = say("snapshot")
    assert f"Fewer than before: {where}{inside} is empty" in taken.out
    words = way_back(taken)
    assert words[3:] == [path]
    assert len(losses(say)) == 1
    assert "Fewer than before" not in say("snapshot").out, "once"
    assert say(*words, "--yes").code == 0
    assert read(state, path) == before
    assert losses(say) == []
    assert "empty" not in say("snapshot").out
    assert losses(say) == losses(say, "doctor") == []


@pytest.mark.parametrize("content", [b"\n", b"\0" * 300, b"\0" * 9000], ids=["a line", "zeros", "pages"])
@pytest.mark.parametrize("path", ["SOUL.md", "memories/MEMORY.md", "skills/own/c/SKILL.md"])
def test_zeros_and_blank_lines_are_nothing(path, content, state, say):
    write(state, path, content)
    assert f"{path} is empty" in losses(say)[0]
    assert f"{path} is empty" in say("snapshot").out
    assert "Fewer than before" not in say("snapshot").out, "not read again, and not filled by that"
    assert len(losses(say)) == 1


def test_zeros_beyond_the_first_page_are_something(state, say):
    write(state, "SOUL.md", b"\0" * 9000 + b"x")
    assert losses(say) == []


def test_a_file_that_was_always_empty_is_no_loss(state, monkeypatch):
    say = spoken(monkeypatch, state.user)
    always = (".env", "skills/own/c/SKILL.md", "memories/USER.md", "auth.json")
    for path in always:
        write(state, path)
    for _ in range(2):
        taken = say("snapshot")
        assert taken.code == 0 and "Fewer" not in taken.out
        for path in always:
            os.utime(os.path.join(state.home, path))
        assert losses(say) == losses(say, "doctor") == []
    write(state, ".env", b"KEY=1\n")
    assert say("snapshot").code == 0
    write(state, ".env")
    assert len(losses(say)) == 1, "what came and went is one"


def test_what_an_earlier_version_counted_by_its_name_is_no_loss_by_itself(state, monkeypatch):
    say = spoken(monkeypatch, state.user)
    always = (".env", "skills/own/c/SKILL.md")
    for path in always:
        write(state, path)
    with monkeypatch.context() as patch:
        patch.setattr(Census, "_is_blank", lambda *_: False)
        assert say("snapshot").code == 0
    for path in always:
        os.utime(os.path.join(state.home, path))
    assert losses(say) == losses(say, "doctor") == []
    assert "Fewer" not in say("snapshot").out
    assert losses(say) == losses(say, "doctor") == []


def test_a_file_that_its_owner_shortened_is_no_loss(state, say):
    for path in (".env", "SOUL.md", "skills/own/c/SKILL.md", "auth.json"):
        write(state, path, b"A\n")
    assert losses(say) == losses(say, "doctor") == []
    assert "Fewer" not in say("snapshot").out
    assert losses(say) == []


@pytest.mark.parametrize("text", ['{"jobs": []}', "[]", "{}", "null", '{"jobs": null}'])
def test_cron_jobs_that_collapsed_are_gone(text, state, say):
    write(state, "cron/jobs.json", text.encode())
    assert "all 4 cron jobs are gone" in losses(say)[0]
    taken = say("snapshot")
    assert "all 4 cron jobs are gone" in taken.out
    assert way_back(taken)[3:] == ["cron/jobs.json"]


@pytest.mark.parametrize("stored", [False, True])
def test_what_was_emptied_on_purpose_is_meant_by_one_command(stored, state, say):
    write(state, ".env")
    write(state, "skills/own/c/SKILL.md")
    said = say("snapshot") if stored else say("status")
    (command,) = set(MEANT.findall(" ".join(said.out.split())))
    assert say(*command.split()).code == 0
    assert losses(say) == losses(say, "doctor") == []
    taken = say("snapshot")
    assert taken.code == 0 and "Fewer" not in taken.out
    assert losses(say) == losses(say, "doctor") == []
    write(state, "skills/own/d/SKILL.md")
    (one,) = losses(say)
    assert "own/d/SKILL.md is empty" in one and "own/c" not in one, "what goes beyond is one again"


def test_many_emptied_files_are_one_directory_to_bring_back(state, say):
    for name in "abcde":
        write(state, f"skills/own/{name}/SKILL.md")
    (one,) = losses(say)
    assert "skills/own/a/SKILL.md, skills/own/b/SKILL.md, skills/own/c/SKILL.md and 2 more are empty" in one
    words = way_back(say("status"))
    assert words[3:] == ["skills"]
    taken = say("snapshot")
    assert way_back(taken) == words
    assert say(*words, "--yes").code == 0
    assert losses(say) == [] and read(state, "skills/own/e/SKILL.md") == b"# e\n"


def test_another_way_of_filling_it_ends_the_alarm_too(state, say):
    write(state, "skills/own/c/SKILL.md")
    write(state, ".env")
    assert "are empty" in say("snapshot").out
    write(state, "skills/own/c/SKILL.md", b"# written anew\n")
    write(state, ".env", b"KEY=2\n")
    assert say("snapshot").code == 0
    assert losses(say) == []


def test_a_restore_offers_what_holds_something(state, say):
    keys = read(state, ".env")
    first = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"][:8]
    write(state, ".env")
    assert say("snapshot").code == 0
    assert say("status", "--acknowledge").code == 0, "no alarm speaks for it any more"
    for call in (("restore", ".env"), ("snapshot", "restore", "latest", ".env")):
        said = say(*call, "--yes")
        assert error_code(said.err) == "snapshot-not-sound" and ".env is empty in it" in said.err
        assert f"safekept snapshot restore {first} .env" in said.err
    assert say("snapshot", "restore", first, ".env", "--yes").code == 0
    assert read(state, ".env") == keys


def test_a_restore_of_what_was_always_empty_asks_nothing(state, monkeypatch):
    say = spoken(monkeypatch, state.user)
    write(state, "skills/own/c/SKILL.md")
    assert say("snapshot").code == 0 and say("snapshot").code == 0
    write(state, "skills/own/c/SKILL.md", b"x")
    assert say("restore", "skills/own/c/SKILL.md", "--yes").code == 0
    assert read(state, "skills/own/c/SKILL.md") == b""


def test_a_guard_and_the_next_snapshot_speak_of_it_once(state, say, monkeypatch):
    for path in (".env", "skills/own/c/SKILL.md"):
        ran = say("guard", "--", "truncate", "-s", "0", os.path.join(state.home, path))
        assert ran.code == 3, ran
    assert len(losses(say)) >= 1
    assert "Fewer than before" not in say("snapshot").out, "the guard has said it"


def test_other_agents_files_are_looked_at_in_the_same_way(state, say):
    home = os.path.join(state.user, ".claude")
    for path in ("CLAUDE.md", "settings.json", "projects/p/1.jsonl"):
        write(state, os.path.join(home, path), b'{"a": 1}\n')
    assert say("snapshot", "--home", home).code == 0
    for path in ("CLAUDE.md", "projects/p/1.jsonl"):
        write(state, os.path.join(home, path))
    (one,) = losses(say)
    assert one == f"lost in {home}: CLAUDE.md and projects/p/1.jsonl are empty"
    words = way_back(say("status"))
    assert say(*words, "--yes").code == 0 and losses(say) == []


def test_a_fleet_sees_it_in_what_was_pushed(state, say, tmp_path):
    write(state, ".env")
    write(state, "skills/own/c/SKILL.md")
    assert say("snapshot").code == 0
    seen = look_at_fleet(state.context, FleetRequest(state.context.places.vault))
    texts = [one.text for vault in seen.vaults for home in vault.homes for one in home.findings]
    assert f"lost in {state.home}: .env and skills/own/c/SKILL.md are empty" in texts


def test_nothing_of_an_unchanged_home_is_opened_for_it(state, say, monkeypatch):
    opened, real = [], live_counts.read_start

    def noted(path, *rest, **more):
        opened.append(os.path.basename(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(live_counts, "read_start", noted)
    time.sleep(0.1)  # what changed just before a snapshot may be younger
    assert say("snapshot").code == 0
    assert losses(say) == []
    assert {one for one in opened if not one.endswith(".db")} == set()
    os.utime(os.path.join(state.home, "SOUL.md"))
    assert losses(say) == []
    assert {one for one in opened if not one.endswith(".db")} == {"SOUL.md"}


def test_a_snapshot_that_lacks_something_says_which_one_has_it(state, say):
    first = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"][:8]
    write(state, ".env")
    assert say("snapshot").code == 0
    again = say("snapshot").out
    assert "Lost before this snapshot, and not in it: .env is empty" in again
    assert f"Bring it back: `safekept snapshot restore {first} .env`" in " ".join(again.split())
    assert "\nRestore with" not in again
    assert "What this snapshot has can be restored with: `safekept snapshot restore " in again


def test_a_loss_that_no_snapshot_saw_yet_has_no_line_of_its_own_in_a_sound_one(state, say):
    assert "\nRestore with: `" in say("snapshot").out


def test_a_skill_that_is_gone_comes_back_by_the_printed_command(state, say):
    shutil.rmtree(os.path.join(state.home, "skills/own/c"))
    os.unlink(os.path.join(state.home, "memories/USER.md"))
    said = say("status")
    calls = re.findall(r"since snapshot \w+: `safekept ([^`]+)`", " ".join(said.out.split()))
    assert [call.split()[3:] for call in calls if "skills" in call] == [["skills/own/c"]], said.out
    assert say("snapshot").code == 0, "the next night"
    (call,) = [call for call in calls if "skills" in call]
    assert say(*call.split(), "--yes").code == 0
    assert read(state, "skills/own/c/SKILL.md") == b"# c\n"
    assert "skills is gone" not in say("status").out


def test_a_drill_of_one_that_lacks_something_says_which_one_has_it(state, say):
    first = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"][:8]
    assert "It lacks" not in say("drill", "--small").out
    write(state, ".env")
    assert say("snapshot").code == 0
    drilled = say("drill", "--small")
    assert drilled.code == 0
    said = " ".join(drilled.out.split())
    back = f"Bring that back: `safekept snapshot restore {first} .env`"
    assert f"It lacks what was lost before it was taken, .env is empty. {back}" in said
    assert say("snapshot", "restore", first, ".env", "--yes").code == 0
    assert "It lacks" not in say("drill", "--small").out, "it is back"
