"""The person's own words name a turn in the list: kept in private files, and nowhere else; or not at all."""

from __future__ import annotations

import json
import os
import stat

import pytest

from safekept.actions.hosts.turn_words import first_line, keep_words, turn_words
from safekept.actions.projects.turns.turn import turn_id
from safekept.integrations.in_process import hook_here
from support.projects.checkpoints import put

SECRET = "hunter2-8c1f"  # planted, to be searched for
PROMPT = f"Fix the login page, password {SECRET}\nand never tell the second line {SECRET}-2"


@pytest.fixture
def project(tmp_path):
    place = os.path.realpath(tmp_path / "app")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "main.py"), "one\n")
    return place


@pytest.fixture
def environment(launcher_environment):
    return dict(launcher_environment)


def said(environment, project, host="claude-code", prompt=PROMPT, number=1):
    """One turn as the host tells it: the person's words, a command, the end."""

    def event(name: str, **more: object) -> None:
        fields = {"hook_event_name": name, "session_id": "session", "cwd": project, **more}
        hook_here(host, json.dumps(fields).encode(), environment, project)

    given = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    turn = {"prompt_id": f"turn-{number}"} if host == "claude-code" else {"turn_id": f"turn-{number}"}
    event("UserPromptSubmit", prompt=prompt, **turn)
    event("PreToolUse", **given, **turn)
    put(os.path.join(project, "main.py"), f"{number}\n")
    event("PostToolUse", **given, **turn)
    event("Stop", **turn)


def data_of(environment) -> str:
    return os.path.join(environment["HOME"], ".local", "share", "safekept")


def files_with(directory: str, text: str) -> list[str]:
    found = []
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    if text.encode() in file.read():
                        found.append(os.path.relpath(path, directory))
    return found


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_the_list_names_a_turn_by_the_first_line_of_what_was_said(environment, project, safekept, host):
    said(environment, project, host)
    listed = safekept("rollback", cwd=project).stdout
    name = turn_id("session", "turn-1")
    assert f"  turn {name}  Fix the login page, password {SECRET}\n" in listed
    assert "second line" not in listed
    (turn,) = json.loads(safekept("rollback", "--json", cwd=project).stdout)["turns"]
    assert (turn["id"], turn["words"]) == (name, f"Fix the login page, password {SECRET}")
    shown = safekept("rollback", "--turn", "--dry-run", cwd=project).stdout
    assert f"Fix the login page, password {SECRET}" in shown


def test_what_was_said_is_in_one_private_file_and_nowhere_else(environment, project, safekept):
    said(environment, project)
    done = safekept("rollback", "--turn", "--json", cwd=project)
    assert done.returncode == 0 and SECRET not in done.stdout + done.stderr
    assert safekept("undo", cwd=project).returncode == 0
    for words in (("log",), ("log", "--json"), ("checkpoint", "status", "--json"), ("status", "--json")):
        assert SECRET not in safekept(*words, cwd=project).stdout
    (path,) = files_with(environment["HOME"], SECRET)
    full = os.path.join(environment["HOME"], path)
    assert path.startswith(".local/share/safekept/turns/words/")
    assert stat.S_IMODE(os.stat(full).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(full)).st_mode) == 0o700
    assert not files_with(environment["HOME"], f"{SECRET}-2")
    assert not files_with(project, SECRET)


def test_where_prompts_are_not_wanted_none_is_kept_and_those_of_before_go(environment, project, safekept):
    said(environment, project)
    off = {**environment, "SAFEKEPT_HOOKS_PROMPTS": "false"}
    said(off, project, number=2)
    assert not files_with(environment["HOME"], SECRET)
    listed = safekept("rollback", cwd=project)
    assert listed.returncode == 0 and "login" not in listed.stdout
    assert f"  turn {turn_id('session', 'turn-2')}  session\n" in listed.stdout
    assert safekept("rollback", "--turn", cwd=project).returncode == 0  # it goes back all the same


def test_a_name_is_cut_to_the_width_and_cannot_move_the_cursor(environment, project, monkeypatch, safekept):
    said(environment, project, prompt="\n\x1b[2Jred\u202eevil " + "long " * 100)
    listed = safekept("rollback", cwd=project, env={"COLUMNS": "80"}).stdout
    (heading,) = [line for line in listed.splitlines() if line.startswith("  turn ")]
    assert "\x1b" not in listed and "\u202e" not in listed
    assert "[2Jred evil long long" in heading and len(heading) <= 220


def test_a_file_of_words_that_is_torn_or_foreign_names_nothing(environment, project, safekept):
    said(environment, project)
    (path,) = files_with(environment["HOME"], SECRET)
    for text in ("{", "[]", '{"session": "session", "turns": 3}', '{"session": "other", "turns": {}}'):
        put(os.path.join(environment["HOME"], path), text)
        assert "  turn " in safekept("rollback", cwd=project).stdout
    turns = {"turn-1": "clear\x1b[2J screen"}
    put(os.path.join(environment["HOME"], path), json.dumps({"session": "session", "turns": turns}))
    assert "\x1b" not in safekept("rollback", cwd=project).stdout


def test_only_so_many_turns_are_remembered(tmp_path):
    data = str(tmp_path)
    for number in range(230):
        keep_words(data, "session", f"turn-{number}", f"words {number}")
    known = turn_words(data, "session")
    assert len(known) == 200 and known["turn-229"] == "words 229" and "turn-0" not in known


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo", "one"),
        ("\n \n  two  words \n", "two words"),
        ("", ""),
        ("a\x00b\tc\ud800", "a b c?"),
        ("x" * 500, "x" * 199 + "…"),
    ],
)
def test_the_first_line_with_anything_on_it_counts(text, line):
    assert first_line(text) == line
