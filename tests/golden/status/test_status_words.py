"""`safekept status` in the five states: on a screen of 80 columns, as JSON, for monitors and prompts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

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


CODES = {"empty": 3, "fresh": 0, "stale": 3, "alarmed": 4, "damaged": 4}


def test_status_says_the_verdict_first_and_fits_a_screen(say, state):
    said = say("status")
    assert (said.code, said.err) == (0, "")
    fits(said.out)
    same_as(f"status-{state.name}.txt", told(said.out, state))


def test_on_a_terminal_the_verdict_never_scrolls_away(say, state, monkeypatch):
    whole = say("status").out.splitlines()
    monkeypatch.setattr("safekept.cli.screen.height", lambda: 12)
    shown = say("status").out.splitlines()
    assert len(shown) == 11, "the prompt has a line, too"
    assert [told(line, state) for line in shown[:10]] == [told(line, state) for line in whole[:10]]
    assert shown[-1] == "… more: `safekept status | less`"


def test_bare_safekept_is_status(say, state):
    assert told(say().out, state) == told(say("status").out, state)


def test_status_as_a_document(say, state):
    said = say("status", "--json")
    assert said.code == 0
    same_document(f"status-{state.name}.json", said.out, lambda text: told(text, state))


def test_check_says_the_verdict_only_and_returns_it(say, state):
    said = say("status", "--check")
    assert said.code == CODES[state.name]
    fits(said.out)
    same_as(f"status-check-{state.name}.txt", told(said.out, state))
    document = say("status", "--check", "--json")
    assert document.code == CODES[state.name]
    assert json.loads(document.out)["verdict"]["exit_code"] == document.code


SHORT = {
    "empty": "safekept: Not protected: there is no snapshot of ~/.hermes yet\n",
    "fresh": "safekept: Protected on this machine and from rm -rf ~: the last snapshot is MOMENT old\n",
    "stale": "safekept: Partly protected: the last snapshot of ~/.hermes is 3 days old\n",
    "alarmed": "safekept: ALARM, partly protected: lost in ~/.hermes: 5 of 12 memories are gone, "
    "all 4 cron jobs are gone\n",
    "damaged": "safekept: ALARM, partly protected: state.db in ~/.hermes is damaged\n",
}


def test_short_is_one_line_that_agrees_with_the_verdict(say, state):
    said = say("status", "--short", "--check")
    assert told(said.out, state) == SHORT[state.name]
    assert said.code == CODES[state.name]


def test_short_does_not_open_the_vault(say, state, monkeypatch):
    import safekept.actions.vault.opening

    def refuse(*words: object, **named: object) -> None:
        raise AssertionError("the vault was opened")

    monkeypatch.setattr(safekept.actions.vault.opening, "open_vault", refuse)
    monkeypatch.setattr("safekept.actions.status.vault_status.open_vault", refuse)
    assert say("status", "--short").code == 0


def test_status_changes_nothing(say, state):
    def seen() -> dict[str, tuple[int, int]]:
        return {
            os.path.join(place, name): (facts.st_size, facts.st_mtime_ns)
            for place, _, names in os.walk(state.user)
            for name in names
            if (facts := os.lstat(os.path.join(place, name)))
        }

    say("status")  # the cache may be written once
    before = seen()
    for words in (("status",), ("status", "--json"), ("status", "--check"), ("log",)):
        say(*words)
    assert seen() == before


@pytest.fixture
def alone(tmp_path, monkeypatch, every_state):
    """A copy of a state that a test may break."""

    def copy(name: str) -> tuple[State, object]:
        state = made(name, tmp_path)
        return state, spoken(monkeypatch, state.user)

    return copy


def test_acknowledging_the_alarm_leaves_what_else_is_wrong(alone):
    _, say = alone("alarmed")
    name = json.loads(say("status", "--json").out)["alarms"][0]["id"]
    assert say("status", "--acknowledge", "20000101-000000-abcdef").code == 1
    said = say("status", "--acknowledge", name[:18])
    assert said.code == 0
    assert said.out == f"Acknowledged: 5 of 12 memories are gone, all 4 cron jobs are gone ({name})\n"
    assert say("status", "--check").code == 0
    assert say("status", "--acknowledge").out == "No alarm is open\n"


def broken(state: State, how: str) -> None:
    here = state.context
    vault = here.places.vault
    if how == "wrong key":
        with open(here.places.vault_key_file, "w", encoding="ascii") as file:
            file.write("-".join(["ABCD"] * 13) + "\n")
    elif how == "no key":
        os.unlink(here.places.vault_key_file)
    elif how == "gone":
        shutil.rmtree(vault)
    elif how == "a file":
        shutil.rmtree(vault)
        with open(vault, "w", encoding="ascii") as file:
            file.write("not a vault")
    elif how == "torn config":
        os.chmod(os.path.join(vault, "config"), 0o600)
        os.truncate(os.path.join(vault, "config"), 10)
    elif how == "newer":
        from safekept.actions.vault.opening import open_vault
        from safekept.vault.format.config import Config

        with open_vault(here) as repository:
            text = json.loads(Config.generate().to_json())
            text["version"] = 9
            sealed = repository.key.seal(json.dumps(text).encode())
        os.chmod(os.path.join(vault, "config"), 0o600)
        with open(os.path.join(vault, "config"), "wb") as file:
            file.write(sealed)


SHUT = {
    "wrong key": "the key of the vault at `~/.local/share/safekept/vault` does not open",
    "no key": "the vault at `~/.local/share/safekept/vault` is there, but its key file",
    "gone": "the vault at `~/.local/share/safekept/vault` was here before, and is gone",
    "a file": "the vault at `~/.local/share/safekept/vault` was here before, and is gone",
    "torn config": "the file `config` of the vault is damaged",
    "newer": "the vault at `~/.local/share/safekept/vault` has format version 9;",
}


@pytest.mark.parametrize("how", SHUT)
def test_a_vault_that_does_not_open_is_shown_as_such_with_what_the_journal_knows(alone, how):
    state, say = alone("fresh")
    broken(state, how)
    said = say("status")
    assert (said.code, said.err) == (0, "")
    fits(said.out)
    assert said.out.replace("\n", " ").replace("  ", " ").startswith(f"ALARM, not protected: {SHUT[how]}")
    assert "Vault        ~/.local/share/safekept/vault: CANNOT BE OPENED\n" in said.out
    assert "by the journal" in said.out.replace("\n             ", " ")
    assert "Next" in said.out
    assert say("status", "--check").code == 4
    assert json.loads(say("status", "--json").out)["vault"]["state"] == "shut"
    assert "safekept_vault_open" in say("status", "--prometheus").out


def test_a_home_that_is_gone_is_an_alarm_with_the_way_back(alone):
    state, say = alone("fresh")
    shutil.rmtree(state.home)
    said = say("status", "--check")
    assert said.code == 4
    assert said.out.startswith("ALARM, not protected: the home ~/.hermes is gone; ")
    found = re.search(r"  Next       `safekept snapshot restore ([0-9a-f]{8})`\n", said.out)
    assert say("snapshot", "restore", found[1], "--yes").code == 0
    assert say("status", "--check").code == 0


def test_a_landing_that_was_cut_off_is_an_alarm_until_it_is_made_right(alone):
    state, say = alone("fresh")
    place = os.path.join(state.user, ".hermes.safekept", "landings", "20260101-000000-abcdef")
    os.makedirs(place, 0o700)
    assert "litter of 20260101-000000-abcdef" in say("status").out
    with open(os.path.join(place, "plan.jsonl"), "w", encoding="ascii") as file:
        file.write("torn")
    said = say("status", "--check")
    assert said.code == 4
    assert "cut off half way" in said.out.replace("\n", " ")


def test_what_is_not_kept_is_named_with_its_reason(alone):
    state, say = alone("fresh")
    outside = os.path.join(state.user, "elsewhere")
    os.mkdir(outside)
    with open(os.path.join(outside, "skill.md"), "w", encoding="ascii") as file:
        file.write("x")
    os.symlink(outside, os.path.join(state.home, "skills", "shared"))
    assert say("snapshot").code == 3
    said = say("status")
    assert "  Not kept   skills/shared: " in said.out
    assert "INCOMPLETE" in said.out
    assert say("status", "--check").code == 3, "the agent uses it, and no snapshot has it"
    assert say("status", "--acknowledge", f"leads-out:{state.home}:skills/shared").code == 0
    assert say("status", "--check").code == 0, "who means it was told"


def test_a_file_that_could_not_be_read_means_not_protected(alone):
    state, say = alone("fresh")
    database = os.path.join(state.home, "broken.db")
    with open(database, "wb") as file:
        file.write(b"SQLite format 3\x00" + bytes(200))
    say("snapshot")
    said = say("status", "--check")
    assert said.code in (3, 4)
    assert "broken.db" in said.out


def test_other_homes_have_a_line_and_one_that_is_gone_does_not_count(alone):
    from support.home.homes import make_hermes_home

    state, say = alone("fresh")
    for name in (".work", ".lost"):
        make_hermes_home(os.path.join(state.user, name), profiles=(), awkward=False)
        assert say("snapshot", "--home", os.path.join(state.user, name)).code == 0
    shutil.rmtree(os.path.join(state.user, ".lost"))
    said = say("status")
    assert "Also kept    ~/.work: " in said.out
    assert "Gone         ~/.lost is not here any more: 1 snapshot, the last " in said.out
    codes = {one["code"] for one in json.loads(say("status", "--json").out)["verdict"]["reasons"]}
    assert codes == {"not-proven", "no-copy-elsewhere"}, "of the one that is gone nothing is expected"
    one = json.loads(say("status", "--home", os.path.join(state.user, ".work"), "--json").out)
    assert [home["home"] for home in one["homes"]] == [os.path.join(state.user, ".work")]


def test_a_home_of_another_agent_that_was_never_kept_is_pointed_out(alone):
    state, say = alone("fresh")
    claude = os.path.join(state.user, ".claude")
    os.makedirs(os.path.join(claude, "projects"))
    with open(os.path.join(claude, "settings.json"), "w", encoding="ascii") as file:
        file.write("{}")
    said = say("status")
    words = f"Never kept ~/.claude (claude-code): `safekept snapshot --home {claude}`"
    assert words in " ".join(said.out.split())


@pytest.mark.parametrize("state", ["fresh"], indirect=True)
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--short", "--prometheus"), "--short and --prometheus do not go together."),
        (("--prometheus", "--json"), "--prometheus and --json are two formats; choose one."),
    ],
)
def test_formats_that_do_not_go_together_are_refused(say, state, words, text):
    said = say("status", *words)
    assert said.code == 2
    assert text in said.out + said.err


@pytest.mark.parametrize("state", ["fresh"], indirect=True)
def test_a_plot_is_drawn_and_overwrites_nothing_of_others(say, state, tmp_path):
    import xml.etree.ElementTree as ElementTree

    path = os.path.join(str(tmp_path), "growth.svg")
    assert say("status", "--plot", path).out == f"Drawn: {path}\n"
    assert say("status", "--plot", path).code == 0, "our own drawing is drawn anew"
    assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    other = os.path.join(str(tmp_path), "photo.svg")
    with open(other, "w", encoding="ascii") as file:
        file.write("<svg/>")
    for name, text in (
        (other, "exists and is not an image that safekept drew"),
        (os.path.join(str(tmp_path), "growth.png"), "an image of a kind that safekept does not draw"),
        (os.path.join(str(tmp_path), "no", "such.svg"), "cannot be written: No such file or directory"),
    ):
        said = say("status", "--plot", name)
        assert said.code == 1
        assert text in said.err
    with open(other, encoding="ascii") as file:
        assert file.read() == "<svg/>"


@pytest.mark.parametrize("state", ["fresh"], indirect=True)
def test_the_plot_in_the_terminal_fits(say, state):
    said = say("status", "--plot", "-")
    fits(said.out)
    assert "█" in said.out


def test_status_loads_nothing_of_what_is_not_there(tmp_path):
    """No project, no schedule, nothing that landed: what knows of them stays on the disk."""
    state = made("fresh", tmp_path)
    code = "import sys; from safekept.cli.main import run; run(['status']); print(*sys.modules, sep='\\n')"
    environment = {"HOME": state.user, "PATH": os.environ["PATH"]}
    words = [sys.executable, "-I", "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines())
    assert "safekept.actions.status.status" in loaded
    heavy = (
        "safekept.checkpoints",
        "safekept.home.landing",
        "safekept.schedule",
        "safekept.actions.schedule",
    )
    kept_out = {name for name in loaded if name.startswith((*heavy, "urllib.request", "http.client", "ssl"))}
    assert kept_out == set()


def test_a_project_that_is_gone_is_said_with_its_way_back_and_is_no_alarm(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    project = os.path.realpath(os.path.join(state.user, "project"))
    os.makedirs(project)
    for name in ("pyproject.toml", "main.py"):
        with open(os.path.join(project, name), "w", encoding="utf-8") as file:
            file.write("one\n")
    assert say("checkpoint", project).code == 0
    before = say("status").out
    assert "gone" not in before
    shutil.rmtree(project)
    said = say("status")
    verdicts = [re.sub(r"\d+ s old", "old", text.splitlines()[0]) for text in (before, said.out)]
    assert verdicts[0] == verdicts[1], "people delete projects on purpose"
    assert f" Gone ~/project: `safekept rollback --dir {project}`" in " ".join(said.out.split())
    (one,) = json.loads(say("status", "--json").out)["checkpoints"]["projects"]
    assert one["presence"] == "orphan"
    assert "which is gone" in say("rollback", "--dir", project).out
