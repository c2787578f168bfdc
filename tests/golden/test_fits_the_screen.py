"""On screens of 80 and of 60 columns no word, path or command is broken, by us or by the terminal."""

from __future__ import annotations

import io
import os
import re
import sys

import pytest

from safekept.cli.lines import folded
from safekept.cli.main import run
from support.commands.in_process import Screen
from support.commands.transcripts import widest
from support.users.states import State, made, write

#: What a person runs in a first hour and on a bad day. `{…}` stands for what the user has.
COMMANDS = (
    "status",
    "doctor",
    "doctor --fix --dry-run",
    "snapshot --dry-run",
    "snapshot --label {label}",
    "snapshot list",
    "snapshot list --all",
    "snapshot show",
    "snapshot show latest memories",
    "snapshot diff 2",
    "snapshot forget 2 --dry-run",
    "snapshot pin 1",
    "snapshot restore 2 --dry-run",
    "snapshot restore 2 --yes",
    "undo --dry-run",
    "undo",
    "undo nothing-of-that-name",
    "restore nothing/of/that/name",
    "history memories/MEMORY.md",
    "sessions list",
    "log",
    "log --verb snapshot",
    "backup --dry-run",
    "backup {archive}",
    "import {archive} --dry-run",
    "import {archive} --yes",
    "destinations",
    "destinations add {usb}",
    "destinations add {usb} --same-disk",
    "destinations show",
    "push",
    "schedule show",
    "vault check",
    "vault stats",
    "vault key list",
    "vault key remove 1",
    "vault kit -o {kit}",
    "vault kit --stored",
    "vault prune --dry-run",
    "vault repair --dry-run",
    "drill",
    "connect",
    "connect hermes --dry-run",
    "settings",
    "settings --all",
    "setup --dry-run",
    "uninstall --dry-run",
    "checkpoint {project}",
    "checkpoint {project} --reason {label}",
    "checkpoint status",
    "rollback --dir {project}",
    "rollback 1 --dir {project} --diff",
    "rollback 1 --dir {project} --dry-run",
    "rollback 1 --dir {project}",
    "rollback --all-projects",
    "rollback 1 --dir {project}/nothing",
    "rollback",
    "rebuild --dry-run {kit}",
    "vaultt",
    "snapshot restore 99",
)
LABEL = "before the long and very careful tidying up of everything that had grown since the summer"


@pytest.fixture
def state(tmp_path) -> State:
    """A user with long paths, a project, and a home that lost something since it was stored."""
    state = made("alarmed", tmp_path / "a-directory-with-a-long-name")
    project = os.path.join(state.user, "a-project-with-a-long-name")
    os.makedirs(project)
    _work(project, 0)
    write(state, "memories/MEMORY.md", "one more\n", append=True)
    return state


def _work(project: str, number: int) -> None:
    with open(os.path.join(project, "what_was_worked_on.py"), "w", encoding="ascii") as file:
        file.write(f"x = {number}\n")


@pytest.mark.parametrize("columns", [80, 60])
def test_no_screen_breaks_a_word_or_is_wider_than_the_terminal(columns, state, monkeypatch):
    said = rendered(state, columns, monkeypatch)
    # Lines of a difference are a file's own.
    wrong = {words: widest(re.sub(r"(?m)^[-+@].*", "", text), columns) for words, text in said.items()}
    shown = [f"$ safekept {words}\n" + "\n".join(lines) for words, lines in wrong.items() if lines]
    assert not shown, f"{len(shown)} screens of {len(said)}:\n" + "\n".join(shown)


def rendered(state: State, columns: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each of the commands prints at a terminal of that width."""
    for name, value in {
        "HOME": state.user,
        "COLUMNS": str(columns),
        "LINES": "2000",  # `status` shows what fits; here all of it is looked at
        "TERM": "dumb",  # no progress is drawn
        "NO_COLOR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    project = os.path.join(state.user, "a-project-with-a-long-name")
    monkeypatch.chdir(state.user)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    values = {
        "label": LABEL,
        "archive": os.path.join(state.user, "an-archive-with-a-long-name.tar.zst"),
        "usb": os.path.join(state.user, "a-disk-with-a-long-name"),
        "kit": os.path.join(state.user, "a-kit-with-a-long-name.txt"),
        "project": project,
    }
    os.makedirs(values["usb"])
    said = {}
    for number, words in enumerate(COMMANDS):
        if words.startswith(("checkpoint {project} --reason", "rollback --dir")):
            _work(project, number)
        screen = Screen()
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "stderr", screen)
        run([word.format(**values) for word in words.split()])
        said[words] = screen.getvalue()
        assert said[words], words
    return said


def test_every_piece_of_a_text_survives_and_only_a_piece_that_is_too_long_has_a_longer_line():
    command = "`safekept snapshot restore 12345678 --home /a/very/long/path/to/a/home/of/an/agent`"
    text = f"  Next       Bring back what was lost (14.5 MB, 3 min) with ({command}), then {command}."
    for columns in range(20, 120):
        lines = folded(text, 13, columns).split("\n")
        assert re.sub(r"\s+", " ", " ".join(lines)) == re.sub(r"\s+", " ", text)
        assert widest("\n".join(lines), columns) == []
        assert all("`" not in line or f"{command}" in line for line in lines)
        assert any("14.5 MB," in line for line in lines) and any("3 min)" in line for line in lines)
    assert folded(text, 13, 0) == text and folded("", 13, 80) == ""
    assert folded("  Receipt    /one", 13, 80) == "  Receipt    /one"
    for length in range(60, 90):  # as of `--acknowledge lost-since:…`: beside its label, alone, or too long
        command = "`safekept status --acknowledge lost-since:".ljust(length - 1, "x") + "`"
        *_, last = folded(f"             If it is meant to be so: {command}", 13, 80).split("\n")
        assert last.strip() == command and (len(last) <= 80 or length > 80), last
    path = "/" + "x" * 70
    assert folded(f"  Receipt    {path}", 13, 80) == f"  Receipt\n    {path}"


def test_a_path_that_fits_a_line_by_itself_is_not_broken_for_its_margin():
    """`Kept in …/landings/20261118-020040-4⏎b2731/replaced,`: its margin broke it, and a comma."""
    for length in range(20, 81):
        path = "/" + "x" * (length - 1)
        shown = folded(f"             {path}", 13, 80)
        assert shown.strip() == path and len(shown) <= 80, length
        command = f"`safekept undo {'x' * (length - 16)}`"
        assert max(map(len, folded(f"             Or: {command}", 13, 80).split("\n"))) <= 80, length
    assert folded("             " + "x" * 90, 13, 80) == "             " + "x" * 90
