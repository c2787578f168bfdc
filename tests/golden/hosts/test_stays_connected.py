"""Going back to before `connect` brings the settings of then, and the agent stays connected; it is said."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import safekept
from safekept.cli.console import Console
from safekept.cli.words.landing_plan import show_paths
from safekept.integrations.chat.chat import Conversation, dispatch
from safekept.integrations.connecting.keeping import holding
from support.home.homes import make_hermes_home


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def connected(say):
    found = json.loads(say("connect", "--json").out)["hosts"]
    return {one["host"]: [place["trouble"] for place in one["places"]] for one in found if one["places"]}


def before_connecting(say, home):
    """A snapshot of the home without us, and the text of its settings then."""
    then = read(home, "config.yaml")
    made = json.loads(say("snapshot", "create", "--json").out)["id"][:8]
    assert say("connect", "hermes", "--yes").code == 0
    with open(os.path.join(home, "config.yaml"), "a") as file:
        file.write("# changed since\n")
    assert connected(say) == {"hermes": [None]}
    return made, then


@pytest.mark.parametrize("more", [(), ("--exact",), ("config.yaml",)], ids=["all", "exact", "one file"])
def test_a_restore_keeps_the_connection_and_says_so(say, home, more):
    made, then = before_connecting(say, home)
    done = say("snapshot", "restore", made, *more, "--yes")
    assert done.code == 0, done.err
    assert "Hermes stays connected: safekept's own entries were kept" in " ".join(done.out.split())
    now = read(home, "config.yaml")
    assert "# changed since" not in now and "safekept" in now
    assert connected(say) == {"hermes": [None]}
    assert say("connect", "hermes", "--remove", "--yes").code == 0
    assert read(home, "config.yaml") == then, "the settings around it are those of then, to the byte"


def test_a_restore_in_a_chat_keeps_it_too(say, here, home):
    made, _ = before_connecting(say, home)
    chat = Conversation(here.changed(keep_connected=holding), here.places.user_home, home=home)
    done = dispatch(chat, f"/restore {made} yes")
    assert "Hermes stays connected" in done.text, done.text
    assert connected(say) == {"hermes": [None]}


def test_a_restore_and_an_undo_by_python_keep_it_too(say, here, home, monkeypatch):
    made, then = before_connecting(say, home)
    done = safekept.restore(made, yes=True)
    assert done.notes == (f"Hermes stays connected: safekept's own entries were kept in {home}/config.yaml",)
    assert "# changed since" not in read(home, "config.yaml") and connected(say) == {"hermes": [None]}
    undone = safekept.undo(done.operation)
    assert undone.done and "# changed since" in read(home, "config.yaml")
    assert connected(say) == {"hermes": [None]}
    assert say("connect", "hermes", "--remove", "--yes").code == 0
    assert read(home, "config.yaml") == then + "# changed since\n"


def test_an_import_by_python_keeps_it_too(say, here, home, tmp_path):
    assert say("backup", "-o", str(tmp_path / "then.zip")).code == 0
    before_connecting(say, home)
    done = safekept.import_archive(str(tmp_path / "then.zip"), yes=True)
    assert done.done and "# changed since" not in read(home, "config.yaml")
    assert [note for note in done.notes if "stays connected" in note] and connected(say) == {"hermes": [None]}


def test_what_a_person_took_out_himself_is_not_put_back(say, home):
    made, then = before_connecting(say, home)
    assert say("connect", "hermes", "--remove", "--yes").code == 0
    done = say("snapshot", "restore", made, "--yes")
    assert "stays connected" not in done.out
    assert read(home, "config.yaml") == then


def test_where_the_caller_cannot_connect_the_loss_is_said(say, here, home):
    from safekept.actions.restoring.restore import RestoreRequest, prepare_restore

    made, _ = before_connecting(say, home)
    with prepare_restore(here, RestoreRequest(word=made, home=home)) as prepared:
        assert prepared.carry_out().notes == ["hermes is not connected any more: connect it again"]


def test_taking_back_a_restore_that_was_done_before_connecting_keeps_it_too(say, home):
    made = json.loads(say("snapshot", "create", "--json").out)["id"][:8]
    with open(os.path.join(home, "config.yaml"), "a") as file:
        file.write("# mine\n")
    operation = json.loads(say("snapshot", "restore", made, "--yes", "--json").out)["operation"]
    assert say("connect", "hermes", "--yes").code == 0
    undone = say("undo", operation)
    assert undone.code == 0, undone.err
    assert "Hermes stays connected" in undone.out
    assert "# mine" in read(home, "config.yaml") and connected(say) == {"hermes": [None]}


def test_the_files_of_our_own_plugin_are_one_line_of_a_plan(capsys):
    places = ("plugins/safekept", "profiles/coder/plugins/safekept")
    own = [f"{place}/{name}.py" for place in places for name in "abcdefghijklmn"]
    console = Console(as_json=False)
    show_paths(console, "Replaces", [*own, "SOUL.md", "my-plugins/safekept/mine.py"], fold=True)
    assert capsys.readouterr().out.splitlines() == [
        "  Replaces   30 files",
        "               SOUL.md",
        "               my-plugins/safekept/mine.py",
        "               plugins/safekept/ (safekept's own plugin, 14 files)",
        "               profiles/coder/plugins/safekept/ (safekept's own plugin, 14 files)",
    ]
    show_paths(console, "Can run", own)
    assert "plugins/safekept/a.py" in capsys.readouterr().out, "what comes from elsewhere is named one by one"


@pytest.mark.parametrize("lost", ["profiles/writer", ""], ids=["a profile", "the whole home"])
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_undoing_the_restore_of_what_was_gone_leaves_nothing_of_ours_there(say, here, lost):
    home = os.path.join(here.places.user_home, ".hermes")
    make_hermes_home(home, profiles=("writer",), awkward=False)
    for place in (home, os.path.join(home, "profiles", "writer")):
        assert say("connect", "hermes", "--home", place, "--yes").code == 0
    made = json.loads(say("snapshot", "create", "--json").out)["id"][:8]
    shutil.rmtree(os.path.join(home, lost))
    done = say("snapshot", "restore", made, *([lost] if lost else ["--home", home]), "--yes", "--json")
    assert done.code == 0, done.err
    back = say("undo", json.loads(done.out)["operation"])
    assert back.code == 0, back.err
    assert "stays connected" not in back.out
    left = [name for _, _, names in os.walk(os.path.join(home, lost)) for name in names]
    assert left == [], "what is not there needs no connection"
