"""Completion in the real shells, and manual pages that the real readers take without a warning."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from types import ModuleType

import pytest

from conftest import program
from safekept.cli.commands.shell import SCRIPTS
from safekept.cli.completing import COMMANDS, DIRECTORIES, FILES, complete
from safekept.cli.main import COMMANDS as TABLE
from safekept.cli.main import cli
from safekept.cli.manual_pages import pages
from support.commands.in_process import spoken
from support.commands.terminals import Terminal
from support.home.homes import make_hermes_home
from support.places import CHECKOUT
from support.projects.checkpoints import put
from support.users.contexts import throwaway
from support.users.states import made


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A user with a project, a checkpoint, a snapshot, a destination, and `safekept` on his PATH."""
    base = str(tmp_path_factory.mktemp("shells"))
    here = throwaway(base)
    home = here.places.user_home
    make_hermes_home(os.path.join(home, ".hermes"), awkward=False)
    put(os.path.join(home, "project", "package.json"), "{}")
    os.mkdir(os.path.join(home, "project", "folder"))
    config = f'[[destination]]\nname = "attic"\nurl = "{base}/attic"\n'
    put(os.path.join(home, ".config", "safekept", "config.toml"), config)
    put(
        os.path.join(home, "bin", "safekept"),
        f'#!/bin/sh\nexec {sys.executable} -I -m safekept "$@"\n',
        0o755,
    )
    with pytest.MonkeyPatch.context() as patch:
        say = spoken(patch, home)
        point = json.loads(say("checkpoint", "project", "--reason", "to be found", "--json").out)
        snapshot = json.loads(say("snapshot", "create", "--quick", "--json").out)
    return {
        "home": home,
        "project": os.path.join(home, "project"),
        "checkpoint": point["checkpoint"]["id"],
        "snapshot": snapshot["id"][:8],
        "environment": {
            "HOME": home,
            "PATH": os.path.join(home, "bin") + os.pathsep + os.environ["PATH"],
            "NO_COLOR": "1",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        },
    }


@pytest.fixture
def asked(user, monkeypatch):
    """The values that a line can be completed to, and who else completes it."""
    spoken(monkeypatch, user["home"])
    monkeypatch.chdir(user["project"])

    def ask(*words: str) -> tuple[list[str], str]:
        answer = complete(cli, words)
        return [value for value, _ in answer.values], answer.by_the_shell

    return ask


# ── what is offered ────────────────────────────────────────────────────────────────────────────────


def test_every_command_is_offered_by_name_and_none_is_imported_for_it(asked):
    assert asked("") == (list(TABLE), "")
    assert asked("rol") == (["rollback"], "")
    code = (
        "import sys; from safekept.cli.completing import complete; from safekept.cli.main import cli;"
        "complete(cli, ['']); print([m for m in sys.modules if m.startswith('safekept.cli.commands.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_options_belong_to_the_command_on_the_line_and_given_ones_are_not_offered_again(asked):
    values, _ = asked("rollback", "--d")
    assert values == ["--diff", "--dir", "--dry-run"]
    assert asked("rollback", "--diff", "--d")[0] == ["--dir", "--dry-run"]
    assert "list" in asked("snapshot", "")[0] and "--quick" in asked("snapshot", "--q")[0]
    assert "--check" in asked("--ch")[0], "options of `status`, which bare safekept is"
    assert "export" in asked("vault", "key", "")[0]


def test_ids_names_and_choices_are_offered_where_they_are_meant(asked, user):
    assert asked("rollback", "")[0] == ["1", user["checkpoint"]]
    assert asked("rollback", user["checkpoint"][:5])[0] == [user["checkpoint"]]
    assert asked("rollback", "--dir", user["home"], "")[0] == []
    assert asked("snapshot", "restore", "")[0] == ["latest", user["snapshot"]]
    assert asked("snapshot", "diff", user["snapshot"][:4])[0] == [user["snapshot"]]
    assert asked("push", "")[0] == ["attic"]
    assert asked("snapshot", "list", "--destination", "at")[0] == ["attic"]
    assert "claude-code" in asked("connect", "cl")[0]
    assert asked("--layout", "her")[0] == asked("--layout=her")[0] == ["hermes"]
    assert asked("backup", "--format", "")[0] == ["zip", "tar.zst"]
    assert len(asked("undo", "2")[0]) >= 2


def test_drilled_and_pinned_snapshots_are_offered_and_forgotten_ones_are_not(asked, user, monkeypatch):
    say = spoken(monkeypatch, user["home"])
    name = user["snapshot"]
    offered = []
    for words in (
        ("snapshot", "pin", name),
        ("drill", name),
        ("snapshot", "pin", "--remove", name),
        ("snapshot", "forget", "--yes", name),
        ("snapshot", "forget", "--undo", name),
    ):
        assert say(*words).code == 0
        offered.append(name in asked("snapshot", "restore", "")[0])
    assert offered == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("words", "by"),
    [
        (("import", "x"), FILES),
        (("rollback", "1", ""), FILES),
        (("rollback", "--dir", ""), DIRECTORIES),
        (("--home", ""), DIRECTORIES),
        (("backup", "-o", ""), FILES),
        (("run", "--", "s"), COMMANDS),
        (("guard", "--", "sh", "x"), FILES),
        (("snapshot", "create", "--label", ""), ""),
    ],
)
def test_files_directories_and_programs_are_left_to_the_shell(asked, words, by):
    assert asked(*words) == ([], by)


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense", ""),
        ("snapshot", "nonsense", ""),
        ("--nope", ""),
        ("rollback", "--dir"),
        ("rollback", "--dir", "/nowhere", ""),
        ("\udcff", "\x1b[31m"),
        (),
    ],
)
def test_a_line_that_makes_no_sense_is_answered_quietly(user, monkeypatch, words):
    say = spoken(monkeypatch, user["home"])
    said = say("completion", "zsh", "--words", "--", *words)
    assert (said.code, said.err) == (0, "")


def test_broken_settings_and_a_missing_store_offer_nothing_and_say_nothing(tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path))
    assert say("completion", "bash", "--words", "--", "rollback", "").out == ""
    assert not os.path.exists(os.path.join(str(tmp_path), ".local")), "nothing is made for a question"
    put(os.path.join(str(tmp_path), ".config", "safekept", "config.toml"), "not = [toml")
    for words in (("rollback", ""), ("push", ""), ("snapshot", "restore", "")):
        said = say("completion", "bash", "--words", "--", *words)
        assert (said.code, said.out, said.err) == (0, "", "")


# ── the real shells ────────────────────────────────────────────────────────────────────────────────


def in_bash(user, *words):
    """What bash would offer for a line whose last word is being typed."""
    script = (
        'source <(safekept completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));'
        '_safekept "$1"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = [program("bash"), "--norc", "-c", script, "bash", *words]
    done = subprocess.run(
        command, env=user["environment"], cwd=user["project"], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_options_and_ids(user):
    assert in_bash(user, "safekept", "rollb") == ["rollback"]
    assert in_bash(user, "safekept", "rollback", "--di") == ["--diff", "--dir"]
    assert in_bash(user, "safekept", "rollback", "") == ["1", user["checkpoint"]]
    # As bash takes `--layout=her` apart.
    assert in_bash(user, "safekept", "--layout", "=", "her") == ["hermes"]
    assert "sh" in in_bash(user, "safekept", "run", "--", "sh")


def test_fish_completes_commands_options_and_ids(user):
    fish = program("fish")

    def ask(line):
        script = "safekept completion fish | source; complete -C $argv[1]"
        done = subprocess.run(
            [fish, "--no-config", "-c", script, line],
            env=user["environment"],
            cwd=user["project"],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    assert ask("safekept rollb") == ["rollback"]
    assert ask("safekept rollback --di") == ["--diff", "--dir"]
    assert sorted(ask("safekept rollback ")) == ["1", user["checkpoint"]]
    assert ask("safekept --layout=her") == ["--layout=hermes"]
    assert ask("safekept rollback --dir fol") == ["folder/"]
    assert "package.json" in ask("safekept import pack")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_tab_key_completes_in_a_shell_at_a_terminal(user, shell, tmp_path, monkeypatch):
    """Typed at a real terminal: the line becomes the one that was meant, and runs."""
    start = put(os.path.join(str(tmp_path), ".zshrc"), ZSHRC) if shell == "zsh" else ""
    words = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-d", "-i"]}[shell]
    environment = {**user["environment"], "ZDOTDIR": os.path.dirname(start), "PS1": "READY> "}
    monkeypatch.chdir(user["project"])
    with Terminal(program(words[0]), *words[1:], environment=environment) as terminal:

        def enter(line: str, wanted: str) -> None:
            """Type it at a prompt, see what came of it, and wait for the next prompt."""
            terminal.until("READY> ")
            terminal.seen = ""
            terminal.type(line)
            terminal.until(wanted)
            terminal.seen = terminal.seen.partition(wanted)[2]

        if shell == "bash":
            enter("source <(safekept completion bash); echo set'-'up\n", "set-up")
        enter("safekept compl\tzs\t| head -n1\n", "#compdef safekept")
        point = user["checkpoint"]
        enter(f"safekept rollback {point[:7]}\t --dry-run\n", f"checkpoint {point} of")
        terminal.until("READY> ")
        terminal.type("exit\n")
        assert terminal.end() == 0, terminal.seen


ZSHRC = """\
PS1='READY> '
unsetopt zle_bracketed_paste
autoload -Uz compinit && compinit -u -d $ZDOTDIR/dump
source <(safekept completion zsh)
"""


def test_every_script_says_where_it_belongs_and_its_shell_finds_no_fault_in_it(user):
    for shell, script in SCRIPTS.items():
        assert f"safekept completion {shell}" in script
        check = [program(shell), "--no-config", "-n"] if shell == "fish" else [program(shell), "-n"]
        path = put(os.path.join(user["home"], f"script.{shell}"), script)
        done = subprocess.run([*check, path], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


# ── the prompt ─────────────────────────────────────────────────────────────────────────────────────


def block_of_the_guide(language: str) -> str:
    with open(os.path.join(CHECKOUT, "docs", "guides", "shell.md"), encoding="utf-8") as file:
        (found,) = re.findall(rf"^```{language}\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_the_prompt_of_the_guide_speaks_only_when_something_is_wrong(user, shell, tmp_path):
    def segment(home, *, without=False):
        words = ["--no-config"] if shell == "fish" else ["--norc"]
        script = block_of_the_guide(shell) + "\nsafekept_segment\n"
        done = subprocess.run(
            [program(shell), *words, "-c", script],
            env={
                **user["environment"],
                "HOME": home,
                "SAFEKEPT_HELPER": "0",
                **({"PATH": "/nowhere"} if without else {}),
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stderr == ""
        return done.stdout

    assert "the only key of the vault is on the same disk" in segment(user["home"])
    assert segment(made("fresh", tmp_path / "well").user) == "", "protected on this machine"
    assert (
        segment(str(tmp_path))
        == "[safekept: Not protected: no agent's home was found here, and none is kept] "
    )
    # A dotfile that came to a machine without safekept.
    assert segment(str(tmp_path), without=True) == ""


def test_the_settings_for_starship_are_well_formed():
    import tomllib

    custom = tomllib.loads(block_of_the_guide("toml"))["custom"]["safekept"]
    assert custom["command"] == "safekept status --short"


# ── manual pages ───────────────────────────────────────────────────────────────────────────────────


def test_the_pages_in_the_checkout_are_current():
    place = os.path.join(CHECKOUT, "man", "man1")
    ours = dict(pages(cli))
    there = {}
    for name in os.listdir(place):
        with open(os.path.join(place, name), encoding="utf-8") as file:
            there[name] = file.read()
    stale = [name for name in ours.keys() | there.keys() if ours.get(name) != there.get(name)]
    assert sorted(stale) == [], "run `./safekept manual -o man/man1`, and remove pages of what is gone"


def reference() -> ModuleType:
    place = os.path.join(CHECKOUT, "workshop", "command_reference.py")
    specification = importlib.util.spec_from_file_location("command_reference", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_reference_of_the_commands_is_current():
    ours = reference()
    with open(ours.PAGE, encoding="utf-8") as file:
        assert file.read() == ours.page(ours.notes()), "run `.venv/bin/python workshop/command_reference.py`"


def test_a_note_stands_below_the_options_of_its_command():
    text = reference().page("At the top.\n\n## safekept drill\n\nOne more thing.\n")
    assert text.index("At the top.") < text.index("## Shared options")
    drill = text.partition("\n## safekept drill\n")[2].partition("\n## ")[0]
    assert drill.index("`--scratch DIR`") < drill.index("One more thing.")


def test_a_note_on_a_command_that_is_gone_is_refused():
    with pytest.raises(SystemExit, match="speaks of what does not exist: safekept gone"):
        reference().page("## safekept gone\n\nOnce upon a time.\n")


def test_every_command_has_a_page_with_its_options():
    found = dict(pages(cli))
    assert set(found) == {"safekept.1", *(f"safekept-{name}.1" for name in TABLE)}
    assert r"\fB\-\-overwrite\-mine\fR" in found["safekept-rollback.1"]
    assert ".SS safekept vault key export" in found["safekept-vault.1"].replace("\\", "")


def test_mandoc_finds_no_fault_in_any_page(tmp_path):
    for name, text in pages(cli):
        put(os.path.join(str(tmp_path), name), text)
    names = [os.path.join(str(tmp_path), name) for name in sorted(os.listdir(tmp_path))]
    done = subprocess.run(
        [program("mandoc"), "-T", "lint", "-W", "warning", *names], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_page_reads_as_a_person_would_have_it(tmp_path):
    path = put(os.path.join(str(tmp_path), "p.1"), dict(pages(cli))["safekept-run.1"])
    done = subprocess.run([program("mandoc"), "-T", "ascii", path], capture_output=True, text=True)
    plain = re.sub(r".\x08", "", done.stdout)
    assert "safekept-run - Keep a project while an agent without hooks works in it" in plain
    assert "safekept run [OPTIONS] -- AGENT..." in plain
    assert "--quiet SECONDS" in plain


def test_pages_are_written_where_they_are_wanted_and_a_dry_run_writes_none(tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path))
    place = os.path.join(str(tmp_path), "share", "man1")
    said = say("manual", "-o", place, "--dry-run", "--json")
    assert said.code == 0 and not os.path.exists(place)
    assert "safekept.1" in json.loads(said.out)["pages"]
    other = put(os.path.join(place, "other.1"), "not ours")
    assert say("manual", "-o", place).code == 0
    assert sorted(os.listdir(place)) == sorted([*json.loads(said.out)["pages"], "other.1"])
    with open(other) as file:
        assert file.read() == "not ours"
    shutil.rmtree(place)


def test_pages_that_cannot_be_written_are_told_in_words(tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path))
    place = put(os.path.join(str(tmp_path), "taken"), "a file of the user")
    said = say("manual", "-o", place)
    assert said.code == 1 and "manual-not-written" in said.err
    assert "could not be written: " in said.err
    assert "0 pages written before it" in said.err
    with open(place) as file:
        assert file.read() == "a file of the user"
