"""`/rollback`, `/snapshot`, `/snap`: one grammar, quoting understood, text and data, never an exception."""

from __future__ import annotations

import dataclasses
import json
import os
import re

import pytest

from safekept.actions.hosts.turn_words import keep_words
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.projects.turns.turn import turn_id
from safekept.integrations.chat.chat import Conversation, Reply, dispatch, split
from support.projects.checkpoints import put
from support.projects.turns import Agent
from support.users.contexts import throwaway


@pytest.fixture
def chat(tmp_path):
    project = os.path.realpath(tmp_path / "project")
    put(os.path.join(project, "pyproject.toml"), "")
    put(os.path.join(project, "main.py"), "one\n")
    put(os.path.join(project, "my file.txt"), "old\n")
    return Conversation(throwaway(tmp_path), project, session="s1")


def before(chat: Conversation, reason: str = "before write_file") -> str:
    taken = take_checkpoint(chat.context, chat.directory, CheckpointPolicy(), reason=reason, session="s1")
    assert taken.taken.checkpoint is not None
    return taken.taken.checkpoint.id


def content(chat: Conversation, name: str) -> str:
    with open(os.path.join(chat.directory, name)) as file:
        return file.read()


def ask(chat: Conversation, line: str) -> Reply:
    reply = dispatch(chat, line)
    json.dumps(reply.data)
    return reply


def test_the_list_shows_number_id_reason_and_what_changed(chat):
    point = before(chat)
    put(os.path.join(chat.directory, "main.py"), "one\ntwo\n")
    reply = ask(chat, "/rollback")
    assert reply.ok
    assert f"1.  {point}" in reply.text and "before write_file" in reply.text
    assert "(1 file, +1/-0)" in reply.text
    (row,) = reply.data["checkpoints"]
    assert (row["number"], row["reason"], row["session"]) == (1, "before write_file", "s1"), (
        "#101743: a blank label"
    )
    assert ask(chat, "/rollback list").text == reply.text


def test_a_number_goes_back_and_undo_goes_forward_again(chat):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "broken\n")
    reply = ask(chat, "/rollback 1")
    assert reply.ok and reply.text.startswith("✅ Restored to checkpoint"), reply.text
    assert content(chat, "main.py") == "one\n"
    reply = ask(chat, "/rollback undo")
    assert reply.ok and content(chat, "main.py") == "broken\n"


def test_going_back_names_the_files_counts_them_and_is_what_a_person_did(chat):
    """Directories whose time comes back are not files, and nobody is told of them."""
    put(os.path.join(chat.directory, "sub", "deep", "a.txt"), "one\n")
    before(chat)
    put(os.path.join(chat.directory, "sub", "deep", "a.txt"), "broken\n")
    put(os.path.join(chat.directory, "sub", "deep", "new.txt"), "new\n")
    reply = ask(chat, "/rewind 1")
    assert "1 file restored: sub/deep/a.txt" in reply.text
    assert "1 removed: sub/deep/new.txt" in reply.text
    operation = reply.data["operation"]
    assert f"/rollback undo {operation} brings it back" in reply.text
    assert ask(chat, f"/rollback undo {operation}").ok
    assert content(chat, "sub/deep/a.txt") == "broken\n"


def test_an_undo_in_a_chat_names_its_operation_and_no_other_is_taken_back(chat):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "broken\n")
    first = ask(chat, "/rollback 1").data["operation"]
    put(os.path.join(chat.directory, "main.py"), "mine\n")
    assert not ask(chat, "/rollback undo nothing-like-it").ok
    assert content(chat, "main.py") == "mine\n"
    assert ask(chat, f"/rollback undo {first}").data["operation"] != first


def test_a_line_of_a_chat_is_what_a_person_said(tmp_path):
    """The journal, and the news that the agent gets, name whoever typed it."""
    import json as json_

    from safekept.core.journal import Journal
    from safekept.integrations.helper.requests import answer
    from safekept.integrations.places import PlaceCache
    from support.hosts.throwaway_helper import throwaway as user_of

    user = user_of(tmp_path)
    project = os.path.join(user.home, "project")
    put(os.path.join(project, "package.json"), "{}")
    header = {"do": "chat", "host": "hermes", **{f"env.{k}": v for k, v in user.environment.items()}}
    for line in ("/checkpoint", "/rewind 1"):
        question = json_.dumps({"line": line, "directory": project, "session": "s"}).encode()
        answer(header, question, PlaceCache({}, lambda key, work: None))
        put(os.path.join(project, "package.json"), "{ }")
    records = list(Journal(os.path.join(user.data, "journal.jsonl")).backwards("checkpoint", "rollback"))
    assert {record.facts.get("actor", "person") for record in records} == {"person"}


def test_v32_an_id_a_prefix_of_it_and_digits_all_work_everywhere(chat):
    point = before(chat)
    put(os.path.join(chat.directory, "main.py"), "broken\n")
    assert ask(chat, f"/rollback {point[:10]}").ok
    assert content(chat, "main.py") == "one\n"


@pytest.mark.parametrize("words", ['"my file.txt"', "'my file.txt'", "my\\ file.txt", "my file.txt"])
def test_v32_names_with_spaces_work_quoted_and_unquoted(chat, words):
    before(chat)
    put(os.path.join(chat.directory, "my file.txt"), "new\n")
    put(os.path.join(chat.directory, "main.py"), "stays\n")
    reply = ask(chat, f"/rollback 1 {words}")
    assert reply.ok, reply.text
    assert (content(chat, "my file.txt"), content(chat, "main.py")) == ("old\n", "stays\n")


def test_diff_shows_what_changed_and_changes_nothing(chat):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "one\ntwo\n")
    for line in ("/rollback diff 1", "/rollback diff", "/rollback diff main.py", "/rollback diff 1 main.py"):
        reply = ask(chat, line)
        assert reply.ok and "+two" in reply.text, line
    assert content(chat, "main.py") == "one\ntwo\n"


def test_a_long_diff_is_cut_and_says_so(chat):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "\n".join(map(str, range(500))))
    reply = ask(chat, "/rollback diff 1")
    assert "more lines, showing first 80" in reply.text
    assert reply.data["diff"].count("\n") > 400, "the data is whole"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/rollback 99", "There is no checkpoint 99"),
        ("/rollback aa", "too short"),
        ("/rollback zzzzzz", "neither"),
        ("/rollback 1 ../../etc/passwd", "outside the project"),
        ("/rollback 1 missing.txt", "missing.txt"),
        ("/rollback --hard 1", "--hard"),
        ("/rollback undo", "nothing to undo"),
        ("/rollback 1 'unclosed", "'unclosed"),
        ("/nonsense", "Unknown command"),
        ("", "Unknown command"),
        ("/snapshot dance", "`dance`"),
        ("/snapshot restore", "Which one?"),
    ],
)
def test_bad_words_get_an_answer_and_change_nothing(chat, line, says):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "kept\n")
    reply = ask(chat, line)
    assert not reply.ok
    assert says in reply.text, reply.text
    assert content(chat, "main.py") == "kept\n"


def test_a_directory_without_checkpoints_names_those_near_it(chat):
    before(chat)
    above = Conversation(chat.context, os.path.dirname(chat.directory))
    reply = ask(above, "/rollback")
    assert chat.directory in reply.text
    assert reply.data["below"] == [chat.directory]


def test_a_sub_directory_means_its_project(chat):
    before(chat)
    put(os.path.join(chat.directory, "src", "a.py"), "a\n")
    inside = Conversation(chat.context, os.path.join(chat.directory, "src"))
    assert ask(inside, "/rollback").data["project"] == chat.directory


def test_words_are_split_as_a_shell_would_and_forgiven_where_not():
    assert split("/rollback 1 'a b' c\\ d") == ["/rollback", "1", "a b", "c d"]
    assert split("/rollback 1 it's") == ["/rollback", "1", "it's"]


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────


def test_snapshots_are_created_listed_restored_and_pruned(tmp_path, hermes_home):
    chat = Conversation(throwaway(tmp_path), str(tmp_path), home=hermes_home)
    made = ask(chat, "/snapshot create before the 'big step'")
    assert made.ok or made.data.get("remarks"), made.text
    listed = ask(chat, "/snap")
    assert "before the big step" in listed.text
    (one,) = listed.data["snapshots"]
    assert one["kind"] == "quick"
    memory = os.path.join(hermes_home, "config.yaml")
    with open(memory) as file:
        was = file.read()
    put(memory, "broken: true\n")
    restored = ask(chat, "/snapshot restore 1 config.yaml")
    assert "Restored snapshot" in restored.text, restored.text
    with open(memory) as file:
        assert file.read() == was
    pruned = ask(chat, "/snapshot prune 5")
    assert pruned.ok and pruned.data["forgotten"] == []
    assert not ask(chat, "/snapshot prune none").ok


def test_a_whole_home_comes_back_only_after_its_plan_and_a_confirming_word(tmp_path, hermes_home):
    chat = Conversation(throwaway(tmp_path), str(tmp_path), home=hermes_home)
    ask(chat, "/snapshot create")
    (one,) = ask(chat, "/snap").data["snapshots"]
    put(os.path.join(hermes_home, "config.yaml"), "broken: true\n")
    for line in ("/restore 1", f"/restore {one['id'][:8]}", "/snapshot restore 1"):
        shown = ask(chat, line)
        assert shown.ok and "config.yaml" in shown.text
        assert f"/restore {one['id'][:8]} yes" in shown.text, "the id, whatever is stored meanwhile"
        with open(os.path.join(hermes_home, "config.yaml")) as file:
            assert file.read() == "broken: true\n"
    done = ask(chat, f"/restore {one['id'][:8]} yes")
    assert "Restored snapshot" in done.text, done.text
    with open(os.path.join(hermes_home, "config.yaml")) as file:
        assert file.read() != "broken: true\n"


def test_without_a_vault_the_list_says_what_to_do(tmp_path, hermes_home):
    chat = Conversation(throwaway(tmp_path), str(tmp_path), home=hermes_home)
    reply = ask(chat, "/snapshot list")
    assert not reply.ok and "→" in reply.text


@pytest.mark.parametrize("line", ['/rollback 1 ""', "/rollback undo one two", '/rollback diff 1 ""'])
def test_an_empty_name_or_a_word_too_many_changes_nothing(chat, line):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "broken\n")
    reply = ask(chat, line)
    assert not reply.ok and "/rollback N|ID [FILE ...]" in reply.text
    assert content(chat, "main.py") == "broken\n"


# ── /safekept, /checkpoint and the other names ─────────────────────────────────────────────────────


def test_the_switch_holds_for_its_session_and_says_what_it_means(chat):
    assert ask(chat, "/safekept").text.startswith("Checkpoints are on in this session.")
    off = ask(chat, "/safekept off")
    assert off.ok and off.data == {"on": False, "by": "session", "session": "s1"}
    assert "cannot be undone" in off.text and "`/safekept on`" in off.text
    status = ask(chat, "/safekept status")
    assert status.data["on"] is False and status.text.startswith(
        "Checkpoints are off in this session (/safekept)"
    )
    assert dispatch(dataclasses.replace(chat, session="s2"), "/safekept").data["on"] is True
    assert ask(chat, "/safekept on").data["on"] is True
    assert ask(chat, "safekept").data["on"] is True


def test_the_variable_is_named_where_it_decides(chat):
    context = chat.context.changed(environment={"SAFEKEPT_CHECKPOINTS": "0"})
    reply = dispatch(dataclasses.replace(chat, context=context), "/safekept")
    assert reply.data["on"] is False and "(SAFEKEPT_CHECKPOINTS)" in reply.text


def test_safekept_says_how_many_points_the_project_has(chat):
    assert f"{chat.directory}: 0 checkpoints." in ask(chat, "/safekept").text
    before(chat)
    reply = ask(chat, "/safekept")
    assert re.search(
        rf"{re.escape(chat.directory)}: 1 checkpoint, the last one \d+ (s|min) ago\.", reply.text
    )
    assert reply.data["checkpoints"] == 1


@pytest.mark.parametrize("line", ["/safekept maybe", "/safekept on please"])
def test_a_word_that_the_switch_does_not_know_changes_nothing(chat, line):
    reply = ask(chat, line)
    assert (
        not reply.ok
        and reply.text.startswith("I do not know `")
        and "/safekept [status|on|off]" in reply.text
    )
    assert ask(chat, "/safekept").data["by"] == ""


def test_a_checkpoint_by_hand_is_one_that_can_be_gone_back_to(chat):
    reply = ask(chat, '/checkpoint before the "big step"')
    assert reply.ok, reply.text
    point = reply.data["checkpoint"]
    assert (point["reason"], point["session"], point["kind"]) == ("before the big step", "s1", "manual")
    put(os.path.join(chat.directory, "main.py"), "broken\n")
    assert ask(chat, f"/rewind {point['id']}").ok
    assert content(chat, "main.py") == "one\n"


def test_the_names_that_no_front_end_reserves_mean_the_same(chat):
    before(chat)
    put(os.path.join(chat.directory, "main.py"), "broken\n")
    assert ask(chat, "/rewind").text == ask(chat, "/rollback").text
    assert ask(chat, "/rewind diff").text == ask(chat, "/rollback diff").text
    assert ask(chat, "/restore 1").text == ask(chat, "/snapshot restore 1").text
    for line in ("/restore", "/restore help", "/checkpoint help", "/safekept help", "/rewind help"):
        assert ask(chat, line).text == ask(chat, "/rollback help").text


def test_a_whole_turn_goes_back_and_is_listed_by_its_id(chat, tmp_path):
    other = os.path.realpath(tmp_path / "other")
    put(os.path.join(other, "pyproject.toml"), "")
    put(os.path.join(other, "main.py"), "one\n")
    agent = Agent(chat.context, "s1")
    agent.turn("turn-1", {chat.directory: {"main.py": "two\n"}, other: {"main.py": "two\n"}})
    keep_words(chat.context.places.data_directory, "s1", "turn-1", "tidy up\nall of it")
    name = turn_id("s1", "turn-1")
    listed = ask(chat, "/rollback").text
    assert f"  turn {name}  tidy up\n" in listed and "/rollback turn [ID]" in listed
    plan = ask(chat, "/rollback turn --dry-run")
    assert f"restore: {other}/main.py" in plan.text and content(chat, "main.py") == "two\n"
    assert ask(chat, "/rollback turn one two").text.startswith("`turn` takes one turn back as a whole")
    done = ask(chat, f"/rollback turn {name}")
    assert done.ok and done.text.startswith(f"✅ Took turn {name} back: tidy up")
    assert content(chat, "main.py") == "one\n" and "tidy up" not in json.dumps(done.data)
    with open(os.path.join(other, "main.py")) as file:
        assert file.read() == "one\n"
    back = ask(chat, f"/rollback undo {done.data['operation']}")
    assert back.ok and content(chat, "main.py") == "two\n"
    assert not ask(chat, "/rollback turn t0000000").ok
