"""Whatever a host sends and whatever goes wrong: a code that stops nobody, nothing that it would misread,
and `status` is told."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safekept.integrations.hosts import handle
from safekept.integrations.hosts.event import LARGEST, Event
from safekept.integrations.hosts.handling import find_host
from safekept.integrations.places import Place
from support.commands.terminals import Terminal
from support.hosts.recorded_hosts import (
    HOSTS,
    conversations,
    filled_in,
    neutral_exit,
    new_user,
    recorded,
    schema_of,
)
from support.projects.checkpoints import put
from support.vault.closed import open_below

NESTED = b'{"tool_input":' * 100_000 + b"1" + b"}" * 100_000
#: What came -> what `status` says of it.
RUBBISH = {
    b"": "nothing came on standard input",
    b" \n\t ": "nothing came on standard input",
    b"null": "what came on standard input is JSON, but no object",
    b"[]": "what came on standard input is JSON, but no object",
    b'"PreToolUse"': "what came on standard input is JSON, but no object",
    b"{": "what came on standard input is not JSON",
    b"{}x": "what came on standard input is not JSON",
    b"rm -rf /": "what came on standard input is not JSON",
    b"\xff\xfe\x00\x01": "what came on standard input is not JSON",
    b"\x00" * 5000: "what came on standard input is not JSON",
    b"1" * 6000: "what came on standard input is not JSON",
    NESTED: "what came on standard input is nested too deeply",
    b"[" * 200_000: "what came on standard input is nested too deeply",
}
WRONG = [None, True, 0, -1, 1.5, 10**30, "", "\0", "\ud800", "x" * 5000, "../..", [], ["a", 1], {}, {"a": {}}]


def first_change(host, user):
    """The first event of a recorded turn that is about to change something."""
    step = next(one for one in recorded(f"{host}/turn")["steps"] if one["call"]["kind"] == "before")
    return json.dumps(filled_in(step["event"], user.project)).encode()


def quiet(host, answer):
    """The answer that says nothing, whatever the event was."""
    assert answer.exit in (neutral_exit(host), 0)
    assert answer.stdout == (b"{}\n" if host == "gemini" else b"")
    assert answer.stderr == b"" or (host == "cursor" and b"grants and denies nothing" in answer.stderr)


def acceptable(host, answer):
    """Silence, or words in the host's own way."""
    assert answer.exit in (neutral_exit(host), 0)
    if answer.stdout:
        assert set(json.loads(answer.stdout)) <= {schema_of(host)["words"]["key"]}


@pytest.fixture
def user(tmp_path):
    return new_user(str(tmp_path), {"a.txt": "old a\n"})


@pytest.mark.parametrize("host", HOSTS)
def test_rubbish_is_answered_quietly_and_kept_for_status(host, user):
    for number, (raw, why) in enumerate(RUBBISH.items(), 1):
        quiet(host, handle(host, raw, user.place(), user.project))
        kept = user.calls(host)
        assert (kept["last_failure"]["what"], kept["calls"]) == (why, number)
    assert user.points() == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_message_cut_anywhere_is_answered_quietly(host, user):
    event = first_change(host, user)
    for length in range(0, len(event), 7):
        quiet(host, handle(host, event[:length], user.place(), user.project))
    assert user.calls(host)["last_failure"]["what"] == "what came on standard input is not JSON"


@pytest.mark.parametrize("host", HOSTS)
def test_an_unknown_event_is_answered_quietly_and_said_in_status(host, user):
    key = "hook" if host == "opencode" else "hook_event_name"
    for name, shown in [("EventOfTomorrow", "EventOfTomorrow"), ("a\nb\x1b[31m", "a b [31m")]:
        raw = json.dumps({key: name, "session_id": "s", "cwd": user.project}).encode()
        quiet(host, handle(host, raw, user.place(), user.project))
        what = user.calls(host)["last_failure"]["what"]
        assert what == f"{host} sent `{shown}`, an event that this version of safekept does not know"
    quiet(host, handle(host, b"{}", user.place(), user.project))
    assert user.calls(host)["last_failure"]["what"] == f"{host} sent an event without a name"


def test_an_unknown_host_is_answered_quietly(user):
    answer = handle("somebody", b'{"hook_event_name": "PreToolUse"}', user.place(), user.project)
    assert (answer.stdout, answer.stderr, answer.exit) == (b"", b"", 0)


def everywhere(value, path=()):
    """Every place in a document, the innermost included."""
    if path:
        yield path
    for key in value if isinstance(value, dict) else ():
        yield from everywhere(value[key], (*path, key))


def changed(event, path, how):
    made = copy.deepcopy(event)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    how(inside, path[-1])
    return made


@pytest.mark.parametrize("name", conversations())
def test_any_field_may_be_missing_or_of_any_type(name):
    conversation = recorded(name)
    host = find_host(conversation["host"])
    for step in conversation["steps"]:
        event = filled_in(step["event"], "/project")
        for path in everywhere(event):
            without = changed(event, path, lambda inside, key: inside.pop(key))
            others = [
                changed(event, path, lambda inside, key, w=wrong: inside.update({key: w})) for wrong in WRONG
            ]
            for made in [without, *others]:
                call = host.call(Event(made), "/cwd")
                assert call.kind in (host.kinds.get(Event(made).name, "nothing"), "nothing")
                assert all(isinstance(one, str) and (os.fsencode(one) or one == "") for one in call.paths)
                if call.kind == "before" and "x" * 5000 not in json.dumps(made):  # no file can be called that
                    assert call.shell or call.paths


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("host", HOSTS)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_an_event_with_anything_in_it_stops_nobody(host, data, user):
    """The whole way, point included: a host that sends nonsense in one field is still a host."""
    names = st.sampled_from(sorted(schema_of(host)["events"]))
    fields = st.sampled_from(
        sorted({key for one in schema_of(host)["events"].values() for key in one["properties"]})
    )
    event = data.draw(st.dictionaries(fields, JUNK, max_size=8))
    event["hook" if host == "opencode" else "hook_event_name"] = data.draw(names)
    raw = json.dumps(event, allow_nan=True).encode()
    acceptable(host, handle(host, raw, user.place(), user.project))
    assert os.path.exists(os.path.join(user.project, "a.txt"))


# ── size ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_too_large_to_read_still_gets_a_point_of_the_whole_project(user):
    quiet("claude-code", handle("claude-code", b" " + b"x" * LARGEST, user.place(), user.project))
    assert user.held() == {"a.txt": b"old a\n"}
    assert user.points()[0].reason == "before a call too large to read"
    assert user.calls("claude-code")["last_failure"]["what"] == "64 MiB or more came on standard input"


def test_a_hundred_megabytes_through_the_program(user):
    raw = (
        b'{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"content":"'
        + b"x" * 10**8
        + b'"}}'
    )
    done = run(user, "claude-code", input=raw)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
    assert user.held() == {"a.txt": b"old a\n"}


def test_a_large_file_in_a_message_is_no_trouble(user):
    event = claude(user, "Write", {"file_path": f"{user.project}/a.txt", "content": "x" * (20 << 20)})
    quiet("claude-code", handle("claude-code", event, user.place(), user.project))
    assert user.held() == {"a.txt": b"old a\n"}


# ── paths ──────────────────────────────────────────────────────────────────────────────────────────────


def claude(user, tool, given, **more):
    event = {"session_id": "s", "prompt_id": "p", "cwd": user.project, "hook_event_name": "PreToolUse"}
    return json.dumps({**event, "tool_name": tool, "tool_input": given, **more}).encode()


def write(user, path, **more):
    return handle(
        "claude-code", claude(user, "Write", {"file_path": path}, **more), user.place(), user.project
    )


def said(answer):
    assert answer.exit == 0
    return json.loads(answer.stdout)["systemMessage"] if answer.stdout else ""


@pytest.mark.parametrize("path", ["a.txt", "./sub/../a.txt", "sub/../a.txt", "sub//../a.txt"])
def test_a_relative_path_is_relative_to_where_the_agent_works(user, path):
    os.mkdir(os.path.join(user.project, "sub"))
    assert said(write(user, path)) == ""
    assert user.held()["a.txt"] == b"old a\n"


def test_a_file_that_is_yet_to_be_made_is_no_trouble(user):
    assert said(write(user, f"{user.project}/new/deep/file.txt")) == ""
    assert user.held() == {"a.txt": b"old a\n"}


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_is_kept_with_what_it_leads_to(user):
    put(os.path.join(user.project, "real.local"), "behind")
    put(os.path.join(user.project, ".gitignore"), "*.local\n")
    os.symlink("real.local", os.path.join(user.project, "link"))
    assert said(write(user, f"{user.project}/link")) == ""
    assert user.held()["real.local"] == b"behind"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_path_through_a_linked_directory_is_the_real_file(user, tmp_path):
    os.symlink(user.project, tmp_path / "linked")
    assert said(write(user, str(tmp_path / "linked" / "a.txt"), cwd=str(tmp_path / "linked"))) == ""
    assert user.held()["a.txt"] == b"old a\n"


def test_a_file_outside_every_project_is_kept_by_its_name(user, tmp_path):
    put(str(tmp_path / "elsewhere" / "note.txt"), "outside")
    assert said(write(user, str(tmp_path / "elsewhere" / "note.txt"))) == ""
    assert user.calls("claude-code")["last_checkpoint"] > 0


def test_a_path_that_is_no_name_is_said_once_and_the_tool_goes_on(user):
    words = "safekept: `a b` is not kept: has a name that git cannot hold; see `safekept status`"
    assert said(write(user, "a\0b")) == words
    assert said(write(user, "a\0b")) == ""
    assert said(write(user, "/" + "x/" * 3000 + "y")) is not None


def test_a_lone_surrogate_becomes_what_a_host_writes_in_its_place(user):
    put(os.path.join(user.project, "a\ufffdb"), "odd")
    put(os.path.join(user.project, ".gitignore"), "a*b\n")
    assert said(write(user, f"{user.project}/a\ud800b")) == ""
    assert user.held()["a\ufffdb"] == b"odd"


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_name_that_is_not_text_is_found(user):
    put(os.path.join(user.project, "caf\udce9.local"), "latin")
    put(os.path.join(user.project, ".gitignore"), "*.local\n")
    assert said(write(user, f"{user.project}/caf\udce9.local")) == ""
    assert user.held()["caf\udce9.local"] == b"latin"


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_bytes_that_are_no_text_in_a_message_are_no_trouble(user):
    put(os.path.join(user.project, "caf\udce9.local"), "latin")
    put(os.path.join(user.project, ".gitignore"), "*.local\n")
    event = claude(user, "Write", {"file_path": "NAME", "content": "x"})
    event = event.replace(b"NAME", b"caf\xe9.local").replace(b'"x"', b'"\xff\xed\xa0\x80"')
    quiet("claude-code", handle("claude-code", event, user.place(), user.project))
    assert user.held()["caf\udce9.local"] == b"latin"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_other_encodings_of_json_are_read(user, encoding):
    """PowerShell's pipes add a mark, or write UTF-16."""
    event = claude(user, "Write", {"file_path": f"{user.project}/a.txt"}).decode().encode(encoding)
    quiet("claude-code", handle("claude-code", event, user.place(), user.project))
    assert user.held() == {"a.txt": b"old a\n"}


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_backslash_is_a_character_of_a_name_here(user):
    put(os.path.join(user.project, "a\\b.local"), "back")
    put(os.path.join(user.project, ".gitignore"), "*.local\n")
    assert said(write(user, f"{user.project}/a\\b.local")) == ""
    assert user.held()["a\\b.local"] == b"back"


def test_a_directory_by_name_and_a_directory_that_is_gone(user):
    assert said(write(user, user.project)) is not None
    shutil.rmtree(user.project)
    acceptable("claude-code", write(user, f"{user.project}/a.txt"))
    acceptable(
        "claude-code", handle("claude-code", claude(user, "Bash", {"command": "ls"}), user.place(), "")
    )


@pytest.mark.parametrize("home", ["~", "~/notes.txt"])
def test_hermes_expands_the_home_of_its_user(home, user):
    event = {"hook_event_name": "pre_tool_call", "tool_name": "write_file", "tool_input": {"path": home}}
    made = Event({**event, "session_id": "s", "cwd": "/w", "extra": {}})
    made.user_home = "/home/u"
    assert find_host("hermes").call(made, "/w").paths == ("/home/u" + home[1:],)


# ── bad luck ───────────────────────────────────────────────────────────────────────────────────────────


def test_broken_settings_are_said_and_the_project_is_protected_all_the_same(user):
    put(os.path.join(user.home, ".config", "safekept", "config.toml"), "this is [ no toml")
    words = said(write(user, f"{user.project}/a.txt"))
    assert words.startswith("safekept: ") and "config.toml" in words and "nothing could be kept" not in words
    assert user.held() == {"a.txt": b"old a\n"}
    assert "config.toml" in user.calls("claude-code")["last_failure"]["what"]


def test_what_comes_up_at_the_prompt_is_said_before_the_first_tool(user):
    """Words of UserPromptSubmit would reach the model."""
    put(os.path.join(user.home, ".config", "safekept", "config.toml"), "this is [ no toml")
    fields = {"session_id": "s", "prompt_id": "p", "cwd": user.project, "prompt": "x"}
    prompt = json.dumps({**fields, "hook_event_name": "UserPromptSubmit"}).encode()
    quiet("claude-code", handle("claude-code", prompt, user.place(), user.project))
    assert said(write(user, f"{user.project}/a.txt")).count("config.toml") == 1
    assert said(write(user, f"{user.project}/a.txt")) == ""


def test_what_the_helper_says_only_once_is_not_lost_at_the_prompt(user):
    place = Place.load({**user.environment, "SAFEKEPT_CHECKPOINTS": "0"})
    fields = {"session_id": "s", "prompt_id": "p", "cwd": user.project, "prompt": "x"}
    prompt = json.dumps({**fields, "hook_event_name": "UserPromptSubmit"}).encode()
    quiet("claude-code", handle("claude-code", prompt, place, user.project))
    event = first_change("claude-code", user).replace(b"abc123", b"s")
    assert "takes no checkpoints" in said(handle("claude-code", event, place, user.project))
    assert said(handle("claude-code", event, place, user.project)) == ""
    assert user.points() == []


def test_a_store_that_cannot_be_made_is_said_once_and_the_tool_goes_on(user):
    put(os.path.join(user.home, ".local", "share", "safekept", "checkpoints"), "a file is in the way")
    words = said(write(user, f"{user.project}/a.txt"))
    assert words.startswith("safekept: before Write nothing could be kept")
    assert words.endswith("see `safekept status`")
    assert said(write(user, f"{user.project}/a.txt")) == "", "once in a session"
    assert user.calls("claude-code")["last_failure"]["what"]
    assert user.calls("claude-code")["last_checkpoint"] == 0


def test_a_data_directory_that_cannot_be_written_stops_nobody(user):
    put(os.path.join(user.home, ".local", "share"), "a file is in the way")
    for _ in range(2):
        assert said(write(user, f"{user.project}/a.txt")).startswith("safekept: before Write nothing")
    quiet("gemini", handle("gemini", b"rubbish", user.place(), user.project))


def test_a_store_deleted_in_mid_turn_is_made_again(user):
    assert said(write(user, f"{user.project}/a.txt")) == ""
    shutil.rmtree(open_below(user.data))
    put(os.path.join(user.project, "a.txt"), "newer")
    assert said(write(user, f"{user.project}/a.txt")) == ""
    assert user.held() == {"a.txt": b"newer"}


def test_an_error_that_nobody_foresaw_reaches_status_and_not_the_host(user, monkeypatch):
    def broken(*_):
        raise MemoryError("no more")

    monkeypatch.setattr("safekept.integrations.protect.protect", broken)
    for host in HOSTS:
        quiet(host, handle(host, first_change(host, user), user.place(), user.project))
        assert user.calls(host)["last_failure"]["what"] == "MemoryError: no more"


# ── the program ────────────────────────────────────────────────────────────────────────────────────────


def run(user, *words, **options):
    command = [sys.executable, "-I", "-m", "safekept", "hook", *words]
    return subprocess.run(command, capture_output=True, env=user.environment, cwd=user.project, **options)


@pytest.mark.parametrize(
    "words",
    [(), ("nonsense",), ("claude-code", "--bogus"), ("claude-code", "more"), ("--json",), ("claude",)],
)
def test_no_way_of_calling_it_wrongly_ends_with_the_code_that_blocks(user, words):
    event = first_change("claude-code", user)
    done = run(user, *words, input=event)
    assert done.returncode == 0
    assert done.stdout == b""
    if "claude-code" in words:
        assert user.held() == {"a.txt": b"old a\n"}, "what could be understood was done"
    else:
        assert b"safekept: there is no hook for `" in done.stderr


def test_closed_streams_stop_nobody(user):
    event = first_change("claude-code", user).decode()
    script = 'printf "%s" "$0" | "$@" >&- 2>&-; [ $? -ne 2 ]'
    command = ["sh", "-c", script, event, sys.executable, "-I", "-m", "safekept", "hook", "claude-code"]
    assert subprocess.run(command, env=user.environment, cwd=user.project).returncode == 0
    assert user.held() == {"a.txt": b"old a\n"}
    nothing = 'exec <&-; "$@"; [ $? -ne 2 ]'
    command = ["sh", "-c", nothing, "sh", sys.executable, "-I", "-m", "safekept", "hook", "codex"]
    done = subprocess.run(command, env=user.environment, cwd=user.project, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_person_at_a_terminal_is_told_what_it_is_for(user):
    words = [sys.executable, "-I", "-m", "safekept", "hook"]
    with Terminal(*words, "codex", environment=user.environment) as terminal:
        assert terminal.end() == 0
        assert "This is for an agent's host" in terminal.seen
        assert "`safekept connect codex`" in terminal.seen
    with Terminal(*words, "codecs", environment=user.environment) as terminal:
        assert terminal.end() == 2
        assert "There is no hook for 'codecs'" in terminal.seen
    assert user.calls("codex") == {}
