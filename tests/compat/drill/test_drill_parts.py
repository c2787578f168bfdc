"""Drills with the real parts: Hermes opens what came back; restic's and Hermes's own backups are drilled."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from conftest import program
from safekept.actions.drill.checks import hermes as hermes_proof
from support.home.homes import differences, make_hermes_home, tree_facts
from support.restoring.drills import (
    build,
    change_database,
    drilled,
    failed,
    put,
    states,
    with_copied_home,
    with_copied_vault,
)
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture(scope="module")
def built(tmp_path_factory, hermes_python):
    return build(str(tmp_path_factory.mktemp("built")), hermes_python)


def with_hermes(here, hermes):
    return here.changed(environment={"PATH": f"{os.path.dirname(hermes)}:/usr/bin:/bin"})


def test_a_good_snapshot_passes_in_every_row_with_hermes_itself(built, tmp_path, hermes):
    here = with_hermes(with_copied_vault(built, str(tmp_path)), hermes)
    before = tree_facts(built.home, databases="bytes")
    done = drilled(here, home=built.home)
    assert set(states(done.receipt).values()) == {"passed"}, done.receipt.rows
    (row,) = (row for row in done.receipt.rows if row.check == "agent")
    assert row.text.startswith("Hermes opened 2 homes, its network cut off (")
    assert differences(before, tree_facts(built.home, databases="bytes")) == []


AGAINST_HERMES = {
    "a store that Hermes cannot use": (
        lambda home: change_database(
            home,
            "alter table sessions rename to kept",
            "create view sessions as select * from kept",
        ),
        {"agent"},
        "Hermes could not open it: ",
    ),
    "settings that Hermes passes over": (
        lambda home: put(home, "config.yaml", "model: [\nmine: 1\n"),
        {"agent", "settings"},
        "Hermes did not load the settings: the file does not parse",
    ),
}


@pytest.mark.parametrize("name", AGAINST_HERMES)
def test_what_hermes_cannot_open_fails_in_the_row_of_the_agent(built, tmp_path, hermes, name):
    damage, expected, words = AGAINST_HERMES[name]
    here, home = with_copied_home(built, str(tmp_path))
    damage(home)
    take(here, home)
    done = drilled(with_hermes(here, hermes), home=home)
    assert failed(done.receipt) == expected, done.receipt.rows
    (row,) = (row for row in done.receipt.rows if row.check == "agent")
    assert words in row.text


def test_hermes_gets_no_credentials_no_plugins_and_no_network(built, tmp_path, hermes, monkeypatch):
    here, home = with_copied_home(built, str(tmp_path))
    put(home, "config.yaml", "model:\n  api_key: sk-very-secret\n  default: some/model\ntools: {}\n")
    take(here, home)
    seen = {}
    honest = hermes_proof._ask

    def look(interpreter, given):
        answer = honest(interpreter, given)
        for directory, _, names in os.walk(given.place):
            for name in names:
                with open(os.path.join(directory, name), "rb") as file:
                    seen.setdefault(name, file.read())
        return answer

    monkeypatch.setattr(hermes_proof, "_ask", look)
    # It tries to reach somebody, and says what came of it.
    script = hermes_proof._SCRIPT.replace(
        'if (home / "state.db").exists():',
        'for way in (lambda: socket.create_connection(("127.0.0.1", 9)), '
        'lambda: socket.socket().connect(("127.0.0.1", 9)), lambda: socket.getaddrinfo("localhost", 9)):\n'
        "        try:\n"
        "            way()\n"
        '            answer["problem"] = "the network was reached"\n'
        "        except OSError as error:\n"
        '            if "cut off" not in str(error):\n'
        '                answer["problem"] = str(error)\n'
        '    if (home / "state.db").exists():',
    )
    assert script != hermes_proof._SCRIPT
    monkeypatch.setattr(hermes_proof, "_SCRIPT", script)
    done = drilled(with_hermes(here, hermes), home=home)
    assert done.receipt.ok, done.receipt.rows
    assert b"sk-very-secret" not in b"".join(seen.values())
    assert b"api_key: ''" in seen["config.yaml"]
    assert not {".env", "auth.json", "plugin.yaml"} & seen.keys()


def test_a_hermes_that_is_another_one_is_unknown(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    take(here, home)
    place = tmp_path / "bin"
    place.mkdir()
    (place / "hermes").write_text(f"#!{shutil.which('python3')}\n")
    (place / "hermes").chmod(0o755)
    done = drilled(here.changed(environment={"PATH": str(place)}), home=home)
    (row,) = (row for row in done.receipt.rows if row.check == "agent")
    assert row.state == "unknown"
    assert "this Hermes cannot be asked: ModuleNotFoundError" in row.text
    assert done.receipt.ok


def test_a_snapshot_that_restic_made_is_drilled(tmp_path):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), profiles=(), awkward=False)
    take(here, other)  # makes the vault and its key
    environment = {
        **os.environ,
        "RESTIC_REPOSITORY": here.places.vault,
        "RESTIC_PASSWORD_FILE": here.places.vault_key_file,
    }
    words = [program("restic"), "backup", "--no-cache", home]
    subprocess.run(words, env=environment, check=True, capture_output=True)
    done = drilled(here, home=home)
    assert done.receipt.ok, done.receipt.rows
    told = states(done.receipt)
    assert {told[check] for check in ("store", "files", "databases", "full-text", "persona")} == {"passed"}
    assert told["census"] == "unknown"
    assert told["complete"] == "unknown"
    assert done.receipt.home == home


def test_a_zip_that_hermes_made_is_drilled(built, tmp_path, hermes):
    here, home = with_copied_home(built, str(tmp_path))
    path = str(tmp_path / "theirs.zip")
    environment = {"PATH": os.environ["PATH"], "HOME": here.places.user_home, "HERMES_HOME": home}
    subprocess.run([hermes, "backup", "-o", path], env=environment, check=True, capture_output=True)
    done = drilled(here, path)
    assert done.receipt.ok, done.receipt.rows
    told = states(done.receipt)
    assert {told[check] for check in ("store", "files", "databases", "persona", "settings")} == {"passed"}
    assert told["census"] == "unknown"
    (row,) = (row for row in done.receipt.rows if row.check == "files")
    assert "by size only: no hash was recorded" in row.text
