"""The newest snapshot is broken: nobody gets it back by saying nothing, and every screen says so alike."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest

import safekept
from safekept.cli.console import Console
from safekept.core.errors import SafekeptError
from safekept.integrations.chat.chat import Conversation, dispatch
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=())


NOISE = b"no database at all\n" * 2000


def make_noise(home):
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        if os.path.exists(os.path.join(home, name)):
            os.unlink(os.path.join(home, name))
    with open(os.path.join(home, "state.db"), "wb") as file:
        file.write(NOISE)


@pytest.fixture
def broken(here, home, say):
    """A sound snapshot, then memories deleted and the database noise, then a snapshot of that; both ids."""
    sound = take(here, home).id[:8]
    for name in os.listdir(os.path.join(home, "memories")):
        os.unlink(os.path.join(home, "memories", name))
    make_noise(home)
    say("snapshot")
    newest = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"][:8]
    assert newest != sound
    return sound, newest


def state_bytes(home):
    with open(os.path.join(home, "state.db"), "rb") as file:
        return file.read()


def test_the_plan_begins_with_what_is_wrong_and_the_newest_sound_one(broken, say):
    sound, newest = broken
    shown = say("restore", "--dry-run")
    first, second, third = shown.out.splitlines()[:3]
    wrong = f"state.db in it is damaged; all 12 memories are gone since {sound}"
    assert first == f"Snapshot {newest} is not sound: {wrong}"
    assert second.startswith(f"The newest sound one is {sound}, ")
    assert f"`safekept snapshot restore {sound}`" in second + third


@pytest.mark.parametrize("word", [(), ("latest",), ("1",)])
def test_yes_refuses_a_broken_snapshot_that_nobody_named_and_says_which_is_sound(broken, home, say, word):
    sound, newest = broken
    refused = say("restore", *word, "--yes")
    assert refused.code == 1
    assert error_code(refused.err) == "snapshot-not-sound"
    assert f"Snapshot {newest} is not sound: state.db in it is damaged" in refused.err
    assert f"`safekept snapshot restore {sound} --yes`" in refused.err
    assert f"`safekept snapshot restore {newest} --yes`" in refused.err
    assert state_bytes(home) == NOISE
    assert os.listdir(os.path.join(home, "memories")) == []


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_the_printed_command_brings_everything_back(broken, home, say):
    sound, _ = broken
    assert say("snapshot", "restore", sound, "--yes").code == 0
    assert state_bytes(home).startswith(b"SQLite format 3\0")
    assert os.listdir(os.path.join(home, "memories"))


def test_without_a_terminal_the_broken_one_is_refused_too(broken, say):
    sound, _ = broken
    refused = say("restore")
    assert refused.code == 1
    assert error_code(refused.err) == "snapshot-not-sound"
    assert sound in refused.err


@pytest.mark.needs("modes", "it looks at modes")
def test_a_damaged_file_is_never_said_to_be_replaced_by_the_snapshot(broken, home, say):
    _, newest = broken
    with open(os.path.join(home, "state.db"), "ab") as file:
        file.write(b"more")
    plan = json.loads(say("restore", newest, "--dry-run", "--json").out)
    assert "state.db" not in plan["plan"]["replace"]
    assert plan["plan"]["damaged"] == ["state.db"]
    shown = say("restore", newest, "--dry-run").out
    assert "Replaces" not in shown
    assert "Damaged    state.db: state.db should be a database and is 38 KB of something else" in shown
    assert "Stays      1 file (damaged in what would be restored; --allow-damaged takes it)" in shown
    done = say("restore", newest, "--yes")
    assert done.code == 3
    assert "0 replaced" in done.out
    assert state_bytes(home) == NOISE + b"more"


def test_a_damaged_file_comes_back_where_it_is_asked_for(broken, home, say):
    _, newest = broken
    with open(os.path.join(home, "state.db"), "ab") as file:
        file.write(b"more")
    assert say("restore", newest, "--yes", "--allow-damaged").code == 3
    assert state_bytes(home) == NOISE


def test_a_path_that_is_whole_in_it_is_restored_without_a_word(broken, home, say):
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write("model: other\n")
    shown = say("restore", "config.yaml", "--yes")
    assert shown.code == 0, shown.err
    assert "not sound" not in shown.out + shown.err


def test_the_list_ends_with_the_newest_sound_one(broken, say):
    sound, newest = broken
    shown = say("snapshot", "list").out
    assert f"Restore one with its id: `safekept snapshot restore {sound}`" in shown
    row = next(line for line in shown.splitlines() if newest in line)
    assert "DAMAGED" in row
    assert " yes " not in row


def test_where_nothing_is_sound_a_restore_goes_on_with_what_there_is(here, home, say):
    make_noise(home)
    take(here, home)
    with open(os.path.join(home, "SOUL.md"), "a") as file:
        file.write("changed\n")
    assert say("restore", "--yes").code == 3
    with open(os.path.join(home, "SOUL.md")) as file:
        assert "changed" not in file.read()


def test_a_drill_and_a_rebuild_name_the_same_sound_one(broken, here, say, tmp_path):
    sound, newest = broken
    drilled = say("drill")
    assert drilled.code == 1
    assert f"`safekept drill {sound}`" in drilled.out
    place = os.path.join(here.places.user_home, "again")
    words = ("rebuild", here.places.vault, "--key-file", here.places.vault_key_file, "--home", place)
    shown = say(*words, "--dry-run").out
    assert shown.splitlines()[0] == f"Snapshot {newest} is not sound: state.db in it is damaged"
    assert f"--snapshot {sound}" in shown
    refused = say(*words, "--yes")
    assert refused.code == 1
    assert error_code(refused.err) == "snapshot-not-sound"
    assert f"--snapshot {sound}" in refused.err
    assert not os.path.exists(place)
    assert say(*words, "--snapshot", sound, "--yes").code == 0


@pytest.fixture
def answers(monkeypatch):
    """A person at a terminal who answers each question with what stands in `given`; what they were asked."""
    asked = []

    def given(answer):
        monkeypatch.setattr(Console, "can_ask", lambda _: True)
        monkeypatch.setattr(Console, "ask", lambda _, question, **__: asked.append(question) or answer)
        return asked

    return given


@pytest.mark.parametrize("word", [(), ("latest",), ("state.db", "memories")])
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_at_a_terminal_the_newest_sound_one_is_offered_and_a_yes_brings_it_back(
    broken, home, say, answers, word
):
    sound, newest = broken
    asked = answers(True)
    done = say("restore", *word)
    assert done.code == 0, done.err
    first, second, third = done.out.splitlines()[:3]
    wrong = f"state.db in it is damaged; all 12 memories are gone since {sound}"
    assert first == f"The newer snapshot {newest} is not offered, it is not sound: {wrong}"
    assert second.startswith("Restore into ")
    assert third.startswith(f"  Snapshot   {sound} (number 2, ")
    assert third.endswith(" old), the newest sound one")
    assert asked == [f"Restore {sound}, the newest sound one?"]
    assert state_bytes(home).startswith(b"SQLite format 3\0")
    assert os.listdir(os.path.join(home, "memories"))


@pytest.mark.parametrize("answer", [True, False])
def test_a_rebuild_at_a_terminal_offers_the_newest_sound_one_as_a_restore_does(
    broken, here, say, answers, answer
):
    sound, newest = broken
    asked = answers(answer)
    place = os.path.join(here.places.user_home, "again")
    words = ("rebuild", here.places.vault, "--key-file", here.places.vault_key_file, "--home", place)
    done = say(*words)
    assert done.code == (0 if answer else 1), done.err
    first, second, *lines = done.out.splitlines()
    wrong = "state.db in it is damaged"
    assert first == f"The newer snapshot {newest} is not offered, it is not sound: {wrong}"
    assert second == f"Rebuild {place}"
    assert any(line.startswith(f"  Snapshot   {sound} (") for line in lines)
    assert any(line.endswith(", the newest sound one") for line in lines)
    assert asked == [f"Rebuild from {sound}, the newest sound one?"]
    assert os.path.exists(place) is answer
    if answer:
        assert state_bytes(place).startswith(b"SQLite format 3\0")
        assert os.listdir(os.path.join(place, "memories"))


def test_a_no_to_the_sound_one_changes_nothing_and_takes_no_other(broken, home, say, answers):
    sound, _ = broken
    asked = answers(False)
    assert say("restore").code == 1
    assert asked == [f"Restore {sound}, the newest sound one?"]
    assert state_bytes(home) == NOISE
    assert os.listdir(os.path.join(home, "memories")) == []


@pytest.mark.needs("modes", "it looks at modes")
def test_a_dry_run_at_a_terminal_shows_the_plan_that_would_be_offered(broken, home, say, answers):
    sound, newest = broken
    asked = answers(True)
    lines = say("restore", "--dry-run").out.splitlines()
    assert newest in lines[0] and "not offered" in lines[0]
    assert lines[2].startswith(f"  Snapshot   {sound} (")
    assert "  Replaces   1 file" in lines
    assert lines[-1] == "Nothing was changed"
    assert asked == []
    assert state_bytes(home) == NOISE


def test_at_a_terminal_yes_is_still_refused_and_takes_no_other_silently(broken, home, say, answers):
    sound, _ = broken
    asked = answers(True)
    refused = say("restore", "--yes")
    assert refused.code == 1
    assert error_code(refused.err) == "snapshot-not-sound"
    assert f"`safekept snapshot restore {sound} --yes`" in refused.err
    assert asked == []
    assert state_bytes(home) == NOISE


@pytest.mark.parametrize(("answer", "code"), [(False, 1), (True, 3)])
def test_a_number_means_the_snapshot_that_has_it_so_the_question_is_about_that_one(
    broken, home, say, answers, answer, code
):
    sound, newest = broken
    with open(os.path.join(home, "SOUL.md"), "a") as file:
        file.write("changed since\n")
    asked = answers(answer)
    assert say("restore", "1").code == code
    assert asked == [f"Restore {newest} all the same, and not {sound}?"]
    with open(os.path.join(home, "SOUL.md")) as file:
        assert ("changed since" in file.read()) is not answer
    assert state_bytes(home) == NOISE


def test_in_chat_the_plan_warns_and_a_yes_to_a_number_is_refused(broken, here, home):
    sound, newest = broken
    with open(os.path.join(home, "SOUL.md"), "a") as file:
        file.write("changed since\n")
    chat = Conversation(here, here.places.user_home, home=home)
    plan = dispatch(chat, "/restore 1")
    assert plan.text.startswith(f"⚠️ Snapshot {newest} is not sound: state.db in it is damaged")
    assert f"The newest sound one: /restore {sound}" in plan.text
    refused = dispatch(chat, "/restore 1 yes")
    assert not refused.ok
    assert f"Snapshot {newest} is not sound" in refused.text and sound in refused.text
    with open(os.path.join(home, "SOUL.md")) as file:
        assert "changed since" in file.read()


def test_a_program_that_agrees_beforehand_is_refused_too(broken, here, monkeypatch):
    sound, _ = broken
    monkeypatch.setenv("HOME", here.places.user_home)
    with pytest.raises(SafekeptError) as refused:
        safekept.restore(yes=True)
    assert refused.value.code == "snapshot-not-sound"
    assert sound in str(refused.value.next_steps[0])


def test_wherever_a_snapshot_is_called_incomplete_it_says_why(broken, say, home):
    _, newest = broken
    why = "INCOMPLETE: state.db is damaged"
    assert f"({why})" in say("snapshot", "list").out
    assert f"Snapshot {newest}, {why}\n" in say("snapshot", "show", newest).out
    assert why in " ".join(say("restore", newest, "--dry-run").out.split())
    assert why in " ".join(say("status").out.split())
    listed = json.loads(say("snapshot", "list", "--json").out)["snapshots"]
    assert [one["why_incomplete"] for one in listed] == ["state.db is damaged", None]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_so_does_the_one_that_a_restore_takes_first(broken, say):
    sound, _ = broken
    assert say("restore", sound, "--yes").code == 0
    listed = " ".join(say("snapshot", "list").out.split())
    assert f"before restoring {sound} (INCOMPLETE: state.db is damaged)" in listed


def test_one_that_an_older_safekept_stored_says_what_it_knows(broken, say, monkeypatch):
    """Its own summary has the states of databases only, or restic rewrote it and nothing is left of it."""
    from safekept.vault import tags

    listed = tags.why_incomplete

    def older(*names):
        def why(snapshot):
            own = {name: snapshot.extra["safekept"][name] for name in names}
            return listed(dataclasses.replace(snapshot, extra={"safekept": own} if own else {}))

        monkeypatch.setattr("safekept.actions.snapshots.listing.why_incomplete", why)
        return say("snapshot", "list").out

    assert "(INCOMPLETE: state.db is damaged)" in older("databases")
    assert "(INCOMPLETE)" in older()


def test_a_backup_that_is_incomplete_ends_with_what_is_missing_and_what_to_do(home, say, tmp_path):
    make_noise(home)
    archive = str(tmp_path / "it.zip")
    done = say("backup", "-o", archive, "--exclude", "logs")
    assert done.code == 3
    end = done.out[done.out.index("Not whole in it") :]
    assert end.splitlines() == [
        "Not whole in it: state.db",
        "    state.db is damaged. What can be done: `safekept doctor`",
        f"    Then take another: `safekept backup -o {archive} --exclude logs`",
        f"What else is in it can be restored with: `safekept import {archive}`",
    ]
