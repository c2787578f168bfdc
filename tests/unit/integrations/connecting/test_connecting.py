"""Connecting puts in what is ours and nothing else; disconnecting brings back every byte."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safekept.actions.hosts.connections import connections
from safekept.integrations.connecting.carrying_out import carry_out
from safekept.integrations.connecting.hook_entries import handlers_of
from safekept.integrations.connecting.host import _words
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.overview import host_statuses
from safekept.integrations.connecting.plan import plan_connect, plan_disconnect
from safekept.integrations.connecting.program import Program, calls_us
from safekept.integrations.connecting.settings_file import SettingsChanged
from support.hosts.connected import JSON_HOSTS, connect, disconnect, program_in, read, tree, write
from support.users.contexts import throwaway

PATIENT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
# Each example on disk costs a dozen syncs: a few of them by default, many in the storm.
ON_DISK = settings(max_examples=3, deadline=None, suppress_health_check=PATIENT)
IN_MEMORY = settings(max_examples=20, deadline=None, suppress_health_check=PATIENT)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
EVENTS = ["PreToolUse", "Stop", "BeforeTool", "preToolUse", "sessionEnd", "Other"]
foreign_handler = st.fixed_dictionaries(
    {
        "type": st.just("command"),
        "command": st.sampled_from(["say done", "safekept status", "x hook y", "", "'"]),
    },
    optional={"timeout": st.integers(1, 60), "args": st.lists(texts, max_size=2), "matcher": texts},
)
foreign_entry = foreign_handler | st.fixed_dictionaries(
    {"hooks": st.lists(foreign_handler | plain, max_size=3)}, optional={"matcher": texts}
)
foreign_hooks = st.dictionaries(
    st.sampled_from(EVENTS), st.lists(foreign_entry | plain, max_size=3), max_size=4
)
documents = st.dictionaries(texts.filter(lambda key: key != "hooks"), plain, max_size=4)
indents = st.sampled_from([None, 1, 2, 4, "\t"])
ends = st.sampled_from(["", "\n", "\r\n", "\n\n"])


@st.composite
def settings_files(draw: st.DrawFn) -> bytes:
    """A settings file as somebody may have it: any indentation, any foreign hooks, or none."""
    document = draw(documents)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(document)))
        rows = list(document.items())
        document = dict([*rows[:place], ("hooks", draw(foreign_hooks)), *rows[place:]])
    separators = draw(st.sampled_from([None, (",", ":")]))
    text = json.dumps(document, indent=draw(indents), separators=separators, ensure_ascii=draw(st.booleans()))
    text = (text + draw(ends)).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(st.sampled_from(["", "\ufeff"])).encode() + text.encode()


@pytest.fixture(params=sorted(JSON_HOSTS))
def host(request):
    return HOSTS[request.param]


PROGRAM = Program(("/opt/safekept/bin/safekept",))
#: The inside of an empty list or mapping is the one thing that putting in and taking out may tidy.
EMPTY = re.compile(rb"[\[{]\s+[\]}]")


def loaded(content: bytes) -> dict:
    return json.loads(content.decode("utf-8-sig"))


def place_of(user, host) -> str:
    return os.path.join(user.places.user_home, JSON_HOSTS[host.name])


# ── there and back ─────────────────────────────────────────────────────────────────────────────────


def there_and_back(user, host, program, content) -> None:
    path = place_of(user, host)
    write(path, content, 0o640)
    connect(user, host, program)
    connected = read(path)
    assert connected != content
    assert connect(user, host, program).changes is False
    assert read(path) == connected
    disconnect(user, host)
    assert read(path) == content
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    connect(user, host, program)
    assert read(path) == connected
    disconnect(user, host)


@pytest.mark.needs("modes", "it looks at modes")
@ON_DISK
@given(content=settings_files())
def test_connect_and_disconnect_bring_back_every_byte(user, host, tmp_path, content):
    there_and_back(user, host, program_in(tmp_path), content)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b" \t\r\n"])
@pytest.mark.needs("modes", "it looks at modes")
def test_a_file_with_nothing_in_it_is_connected_and_comes_back(user, host, tmp_path, content):
    there_and_back(user, host, program_in(tmp_path), content)


@pytest.mark.needs("modes", "it looks at modes")
@pytest.mark.soak("hooks")
@settings(ON_DISK, max_examples=400)
@given(content=settings_files())
def test_connect_and_disconnect_bring_back_every_byte_of_many_files(user, host, tmp_path, content):
    there_and_back(user, host, program_in(tmp_path), content)


@IN_MEMORY
@given(content=settings_files())
def test_what_is_not_ours_means_the_same_while_connected(user, host, content):
    (file,) = host.files(user, "")
    connected = file.put(content, PROGRAM)
    assert file.put(connected, PROGRAM) == connected
    before, now = loaded(content), loaded(connected)
    hooks, old = now.pop("hooks"), before.pop("hooks", {})
    if "version" not in before:
        now.pop("version", None)
    assert now == before and list(now) == list(before)
    for event, entries in old.items():
        assert hooks[event][: len(entries)] == entries


@IN_MEMORY
@given(content=settings_files(), more=plain)
def test_what_others_write_while_connected_stays_when_disconnected(user, host, content, more):
    (file,) = host.files(user, "")
    theirs = {"hooks": [{"type": "command", "command": "mine"}]}
    document = loaded(file.put(content, PROGRAM))
    document["theirs"] = more
    document["hooks"].setdefault("Stop", []).insert(0, theirs)
    wanted = loaded(content)
    wanted["theirs"] = more
    wanted.setdefault("hooks", {}).setdefault("Stop", []).insert(0, theirs)
    left = loaded(file.take(json.dumps(document, indent=2).encode(), content))
    if "version" not in wanted:
        left.pop("version", None)
    assert left == wanted


@IN_MEMORY
@given(content=settings_files())
def test_a_line_that_somebody_adds_by_hand_is_all_that_differs_after_disconnecting(user, host, content):
    (file,) = host.files(user, "")
    connected = file.put(content, PROGRAM)
    edited = connected.rstrip() + b"\n\n\n"  # an editor at work: no longer the file as we left it
    left = file.take(edited, content)
    assert loaded(left) == {**loaded(content), **({"version": 1} if "version" in loaded(left) else {})}
    if b"version" not in connected and not EMPTY.search(content):
        assert left == content.rstrip() + b"\n\n\n"


@IN_MEMORY
@given(content=settings_files())
def test_without_a_record_the_entries_are_found_and_taken_out(user, host, content):
    (file,) = host.files(user, "")
    left = file.take(file.put(content, PROGRAM), None)
    wanted, found = loaded(content), loaded(left) if left is not None else {}
    if "version" not in wanted:
        found.pop("version", None)

    # What was empty before cannot be told from what we emptied.
    def full(document):
        hooks = {event: rows for event, rows in document.get("hooks", {}).items() if rows != []}
        rest = {key: value for key, value in document.items() if key != "hooks"}
        return {**rest, **({"hooks": hooks} if hooks else {})}

    assert full(found) == full(wanted)


def test_the_entry_of_a_safekept_elsewhere_is_renewed_and_not_doubled(user, host, tmp_path):
    path = place_of(user, host)
    original = b'{"hooks": {"Stop": []}, "a": 1}\n'
    write(path, original)
    old, new = program_in(tmp_path, "old place"), program_in(tmp_path, "new")
    connect(user, host, old)
    connect(user, host, new)
    text = read(path).decode()
    assert "old place" not in text
    fresh = throwaway(tmp_path / "another")
    other = place_of(fresh, host)
    write(other, original)
    connect(fresh, host, new)
    assert read(other).decode() == text
    disconnect(user, host)
    assert read(path) == original


def test_our_handler_that_somebody_moved_into_their_own_group_is_not_doubled(user, tmp_path):
    host, program = HOSTS["claude-code"], program_in(tmp_path)
    path = place_of(user, host)
    ours = {"type": "command", "command": program.words[0], "args": ["hook", "claude-code"]}
    theirs = {"type": "command", "command": "lint"}
    write(path, json.dumps({"hooks": {"Stop": [{"hooks": [theirs, ours, "odd"]}]}}).encode())
    connect(user, host, program)
    groups = json.loads(read(path))["hooks"]["Stop"]
    assert groups[0] == {"hooks": [theirs, "odd"]}
    assert len(groups) == 2 and groups[1]["hooks"][0]["command"] == program.line("claude-code")
    disconnect(user, host)
    assert json.loads(read(path)) == {"hooks": {"Stop": [{"hooks": [theirs, "odd"]}]}}


@pytest.mark.parametrize("name", list(HOSTS))
def test_what_connecting_made_is_gone_after_disconnecting(user, tmp_path, name):
    host, program = HOSTS[name], program_in(tmp_path)
    if name == "hermes":
        write(os.path.join(user.places.user_home, ".hermes", "SOUL.md"), b"I am")
    before = tree(user.places.user_home)
    connect(user, host, program)
    first = {
        path: read(os.path.join(user.places.user_home, path))
        for path in tree(user.places.user_home)
        if ".local" not in path and os.path.isfile(os.path.join(user.places.user_home, path))
    }
    disconnect(user, host)
    left = {path: what for path, what in tree(user.places.user_home).items() if not path.startswith(".local")}
    assert left == before
    connect(user, host, program)
    for path, content in first.items():
        if not os.path.isdir(os.path.join(user.places.user_home, path)):
            assert read(os.path.join(user.places.user_home, path)) == content


# ── how it is written ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_stays_a_link_and_its_target_keeps_mode(user, host, tmp_path):
    path = place_of(user, host)
    target = os.path.join(str(tmp_path), "dotfiles", "settings")
    write(target, b'{"a": 1}', 0o604)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)
    connect(user, host, program_in(tmp_path))
    assert os.readlink(path) == target and b"safekept" in read(target)
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o604
    disconnect(user, host)
    assert os.readlink(path) == target and read(target) == b'{"a": 1}'


@pytest.mark.needs("modes", "it looks at modes")
def test_the_copy_is_private_and_named_by_its_content(user, host, tmp_path):
    import hashlib

    path = place_of(user, host)
    write(path, b'{"secret": "x"}')
    copies = carry_out(user, plan_connect(user, host, program_in(tmp_path)))
    (copy,) = copies
    assert os.path.basename(copy) == hashlib.sha256(b'{"secret": "x"}').hexdigest()
    assert read(copy) == b'{"secret": "x"}' and stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(copy)).st_mode) == 0o700


def test_somebody_who_writes_between_the_diff_and_the_answer_wins(user, host, tmp_path):
    path = place_of(user, host)
    write(path, b'{"a": 1}')
    plan = plan_connect(user, host, program_in(tmp_path))
    write(path, b'{"a": 2}')
    with pytest.raises(SettingsChanged) as caught:
        carry_out(user, plan)
    assert caught.value.kept == "The file is as they left it; nothing of ours was written over it"
    assert read(path) == b'{"a": 2}' and connections(user) == ()


def test_a_project_gets_its_own_file_and_its_own_record(user, host, tmp_path):
    project = str(tmp_path / "project")
    os.mkdir(project)
    program = program_in(tmp_path)
    connect(user, host, program)
    connect(user, host, program, project)
    assert len(connections(user)) == 2
    disconnect(user, host, project)
    assert tree(project) == {}
    assert [one.scope for one in connections(user)] == [""]
    assert b"safekept" in read(place_of(user, host))


def test_two_places_of_settings_have_two_records(user, tmp_path):
    host, program = HOSTS["claude-code"], program_in(tmp_path)
    other = throwaway(tmp_path, environment={"CLAUDE_CONFIG_DIR": str(tmp_path / "work")})
    write(place_of(user, host), b'{"home": 1}')
    write(str(tmp_path / "work" / "settings.json"), b'{"work": 1}')
    connect(user, host, program)
    connect(other, host, program)
    disconnect(user, host)
    disconnect(other, host)
    assert read(place_of(user, host)) == b'{"home": 1}'
    assert read(str(tmp_path / "work" / "settings.json")) == b'{"work": 1}'


def test_a_record_that_cannot_be_read_is_put_aside(user, host, tmp_path):
    record = os.path.join(user.places.data_directory, "integrations", "connections.json")
    write(record, b'{"connections": [{"host"')
    write(place_of(user, host), b"{}")
    connect(user, host, program_in(tmp_path))
    assert [one.host for one in connections(user)] == [host.name]
    aside = [name for name in os.listdir(os.path.dirname(record)) if "unreadable" in name]
    assert len(aside) == 1
    disconnect(user, host)
    assert read(place_of(user, host)) == b"{}"


def test_disconnecting_what_was_never_connected_changes_nothing(user, host):
    path = place_of(user, host)
    write(path, b'{"hooks": {"Stop": []}}')
    plan = plan_disconnect(user, host)
    assert not plan.changes and plan.diff() == ""


def test_without_its_copy_only_our_entries_are_taken_out(user, host, tmp_path):
    path = place_of(user, host)
    write(path, b'{\n  "a": 1\n}\n')
    connect(user, host, program_in(tmp_path))
    copies = os.path.join(user.places.data_directory, "integrations", "copies")
    for name in os.listdir(copies):
        os.unlink(os.path.join(copies, name))
    disconnect(user, host)
    left = json.loads(read(path))
    left.pop("version", None)
    assert left == {"a": 1}


# ── what is written ────────────────────────────────────────────────────────────────────────────────


def handlers(text: bytes) -> list[tuple[str, dict]]:
    found = []
    for event, entries in json.loads(text)["hooks"].items():
        for entry in entries:
            found += [(event, one) for one in entry.get("hooks", [entry])]
    return found


def command_of(handler: dict) -> str:
    """Copilot says which shell it is for."""
    return handler["bash"] if "bash" in handler else handler["command"]


@pytest.mark.parametrize(
    ("name", "timeout"),
    [("claude-code", 30), ("codex", 30), ("gemini", 30_000), ("cursor", 30), ("copilot", 30)],
)
@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_the_command_survives_a_path_that_a_shell_would_break(user, tmp_path, name, timeout):
    import shlex

    program = program_in(tmp_path, 'it\'s $HOME; `x` ü "q"')
    connect(user, HOSTS[name], program)
    rows = handlers(read(place_of(user, HOSTS[name])))
    assert len(rows) >= 5
    for event, one in rows:
        words = [one["command"], *one["args"]] if "args" in one else shlex.split(command_of(one))
        ending = ["||", "exit", f"{ENDS_WITH[name]}"] if name in ENDS_WITH else []
        assert words == [program.words[0], "hook", name, *ending]
        given = one["timeoutSec"] if name == "copilot" else one["timeout"]
        assert os.path.isabs(words[0]) and given == _at_most(name, event, timeout)


#: Hosts that take a program that is gone for a no, and the code that their command ends with instead.
ENDS_WITH = {"gemini": 1, "copilot": 0}


def _at_most(host: str, event: str, timeout: int) -> int:
    """Codex cuts what is longer, and says so at each of its starts."""
    return 3 if host == "codex" and event in ("Interrupt", "SessionEnd") else timeout


@pytest.mark.parametrize("gone", ["deleted", "not to be run", "fails"])
@pytest.mark.needs(
    "modes",
    "it looks at modes",
    only={
        "cursor-not to be run",
        "claude-code-not to be run",
        "qwen-not to be run",
        "copilot-not to be run",
        "gemini-not to be run",
        "codex-not to be run",
    },
)
def test_no_host_takes_a_safekept_that_is_gone_for_a_no(user, host, tmp_path, gone):
    """Seen with Gemini CLI 0.61.0: whatever ends with another code than 0 or 1 and says something, as the
    shell does of a program that is not there, denies the tool. Copilot CLI 1.0.102 denies at every code
    but 0, the others at 2."""
    program = program_in(tmp_path)
    connect(user, host, program)
    (path,) = program.words
    if gone == "deleted":
        os.unlink(path)
    elif gone == "not to be run":
        os.chmod(path, 0o644)
    else:
        write(path, b"#!/bin/sh\necho broken >&2\nexit 70\n", 0o755)
    commands = {command_of(one) for _, one in handlers(read(place_of(user, host)))}
    for command in commands:
        done = subprocess.run(["sh", "-c", command], input=b"{}", capture_output=True, timeout=300)
        expected = ENDS_WITH.get(host.name)
        assert done.returncode not in (0, 2) if expected is None else done.returncode == expected
        assert not done.stdout


def test_the_entry_of_gemini_that_an_older_safekept_wrote_is_told_and_renewed(user, tmp_path):
    """One without the end that lets the tools run when safekept is gone."""
    host, program = HOSTS["gemini"], program_in(tmp_path)
    path = place_of(user, host)
    connect(user, host, program)
    new = read(path)
    write(path, new.replace(b" || exit 1", b""))
    ((_, text, _),) = next(one for one in host_statuses(user) if one.host == "gemini").troubles
    assert "Gemini CLI" in text
    connect(user, host, program)
    assert read(path) == new
    assert not next(one for one in host_statuses(user) if one.host == "gemini").troubles


def test_events_are_those_that_the_hook_program_understands(user, tmp_path):
    from safekept.integrations.hosts.claude_code import HOST as claude
    from safekept.integrations.hosts.codex import HOST as codex
    from safekept.integrations.hosts.cursor import HOST as cursor
    from safekept.integrations.hosts.gemini import HOST as gemini

    for answering in (claude, codex, gemini, cursor):
        connect(user, HOSTS[answering.name], program_in(tmp_path))
        events = {event for event, _ in handlers(read(place_of(user, HOSTS[answering.name])))}
        assert {answering.kinds.get(event, "unknown") for event in events} >= {"before", "end"}
        assert "unknown" not in {answering.kinds.get(event, "unknown") for event in events}
        assert "nothing" not in {answering.kinds[event] for event in events}


def test_the_matcher_of_claude_code_lets_through_what_reads_and_nothing_else(user, tmp_path):
    connect(user, HOSTS["claude-code"], program_in(tmp_path))
    document = json.loads(read(place_of(user, HOSTS["claude-code"])))
    matcher = re.compile(document["hooks"]["PreToolUse"][0]["matcher"])
    for tool in (
        "Bash",
        "Write",
        "Edit",
        "MultiEdit",
        "NotebookEdit",
        "PowerShell",
        "mcp__a__b",
        "Reader",
        "New",
    ):
        assert matcher.search(tool), tool
    for tool in ("Read", "Glob", "Grep", "WebFetch", "TodoWrite", "TaskOutput", "CronList", "ListAgents"):
        assert not matcher.search(tool), tool


def test_a_module_call_of_ours_is_known_again(user, host, tmp_path):
    program = Program(("/usr/bin/python3", "-I", "-m", "safekept"))
    write(place_of(user, host), b"{}")
    connect(user, host, program)
    assert connect(user, host, program).changes is False
    connect(user, host, program_in(tmp_path))
    assert b"python3" not in read(place_of(user, host))
    disconnect(user, host)
    assert read(place_of(user, host)) == b"{}"


# ── older forms of our own entries ─────────────────────────────────────────────────────────────────


@st.composite
def with_old_entries(draw: st.DrawFn, name: str) -> bytes:
    """Settings in which earlier versions of safekept, and somebody who moved things, left entries of ours."""
    old = Program((draw(st.sampled_from(["/old/safekept", "/a b/safekept", "safekept"])),))
    exec_form = {"type": "command", "command": old.words[0], "args": ["hook", name]}
    shell_form = {"type": "command", "command": old.line(name), "timeout": draw(st.integers(1, 99))}
    ours = draw(st.sampled_from([exec_form, shell_form]))
    entries = st.sampled_from([ours, {"hooks": [ours]}, {"matcher": "X", "hooks": [ours]}])
    mixed = foreign_handler.map(lambda theirs: {"hooks": [theirs, ours]})
    events = st.sampled_from([*EVENTS, "SessionStart", "BeforeAgent", "stop"])
    hooks = draw(st.dictionaries(events, st.lists(foreign_entry | entries | mixed, max_size=4), max_size=4))
    return json.dumps({"a": 1, "hooks": hooks}, indent=draw(indents)).encode()


def calls_of(document: dict, name: str) -> tuple[list, list]:
    """The handlers of ours and those of others, each with its event."""
    ours, theirs = [], []
    for event, entries in document.get("hooks", {}).items():
        for entry in entries:
            for one in handlers_of(entry):
                words = _words(one)
                (ours if calls_us(words, name) else theirs).append((event, json.dumps(one, sort_keys=True)))
    return ours, theirs


@settings(IN_MEMORY, max_examples=40)
@given(data=st.data(), name=st.sampled_from(sorted(JSON_HOSTS)))
def test_older_entries_of_ours_are_replaced_and_others_untouched(user, data, name):
    (file,) = HOSTS[name].files(user, "")
    content = data.draw(with_old_entries(name))
    connected = file.put(content, PROGRAM)
    assert file.put(connected, PROGRAM) == connected
    fresh = calls_of(loaded(file.put(b"{}", PROGRAM)), name)[0]
    before, now = calls_of(loaded(content), name), calls_of(loaded(connected), name)
    assert sorted(now[0]) == sorted(fresh)
    assert now[1] == before[1]
    left = file.take(connected, content)
    assert calls_of(loaded(left), name) == ([], before[1])
