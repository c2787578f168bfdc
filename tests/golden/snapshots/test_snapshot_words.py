"""What `snapshot create`, `backup --quick` and `adopt` say, and what they answer to a script."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import zipfile

import pytest

from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.opening import open_vault
from safekept.cli.console import Console
from safekept.cli.words.remarks import show_missing
from safekept.core.entries import Outcome, Remark
from safekept.vault.repo.keys import Secret
from support.commands.error_texts import error_code
from support.commands.terminals import wait_for_hidden_input
from support.home.homes import make_hermes_home


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"))


def answer(done) -> dict:
    return json.loads(done.stdout)


def test_a_snapshot_says_its_id_what_was_added_and_how_to_restore_it(safekept, home):
    done = safekept("snapshot", "--label", "two words")
    assert done.returncode == 0, done.stderr
    short = re.match(r"Snapshot ([0-9a-f]{8}) complete\n", done.stdout)
    assert short
    for line in (
        rf"^  Home       {re.escape(home)} \(hermes\)$",
        r"^  Kind       manual, two words$",
        r"^  Files      \d+, [\d.]+ MB$",
        r"^  New data   [\d.]+ MB \([\d.]+ KB compressed\)$",
        r"^  Databases  2 checked and sound$",
        r"^  Time       [\d.]+ s$",
        r"^  Holds      4 sessions, 40 messages, ",
    ):
        assert re.search(line, done.stdout, re.MULTILINE), line
    assert done.stdout.endswith(f"Restore with: `safekept snapshot restore {short[1]}`\n")
    assert safekept("snapshot", "restore", short[1], "--dry-run").returncode == 0, "it runs as printed"


def test_bare_snapshot_is_create_and_a_wrong_word_is_bad_usage(safekept, home):
    first = answer(safekept("snapshot", "create", "--json"))
    second = answer(safekept("snapshot", "--json"))
    assert (first["kind"], second["kind"]) == ("manual", "manual") and first["id"] != second["id"]
    done = safekept("snapshot", "craete")
    assert done.returncode == 2 and "Did you mean: `safekept snapshot create`?" in done.stderr


def test_something_damaged_is_exit_code_3_with_the_list(safekept, home):
    with open(os.path.join(home, "state.db"), "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)
    done = safekept("snapshot")
    assert done.returncode == 3
    assert re.match(r"Snapshot [0-9a-f]{8} incomplete\n", done.stdout)
    assert "Stored as it is, and damaged: 1 file" in done.stdout and "    state.db: " in done.stdout
    assert "What else is in it can be restored with: `safekept snapshot restore " in done.stdout


def test_an_incomplete_one_ends_with_what_is_missing_and_what_to_do_before_its_own_restore(safekept, home):
    sound = answer(safekept("snapshot", "--json"))["id"][:8]
    with open(os.path.join(home, "state.db"), "wb") as file:
        file.write(b"no database at all\n" * 200)
    done = safekept("snapshot")
    assert done.returncode == 3
    short = re.match(r"Snapshot ([0-9a-f]{8}) incomplete\n", done.stdout)[1]
    back = f"`safekept snapshot restore {sound} state.db`"
    assert done.stdout.endswith(
        "Not whole in it: state.db\n"
        f"    state.db is damaged. Bring the last sound one back: {back}\n"
        "    Then take another: `safekept snapshot`\n"
        f"What else is in it can be restored with: `safekept snapshot restore {short}`\n"
    )
    assert safekept("snapshot", "restore", sound, "state.db", "--yes").returncode == 0, "it runs as printed"
    assert safekept("snapshot").returncode == 0, "and then one is complete"


def test_where_no_snapshot_has_a_damaged_database_sound_that_is_said(safekept, home):
    with open(os.path.join(home, "state.db"), "wb") as file:
        file.write(b"no database at all\n" * 200)
    done = safekept("snapshot")
    none = "    state.db is damaged, and no snapshot is known to have it sound: "
    assert none + "look for an older backup, and see `safekept doctor`\n" in done.stdout


#: What became of a file, and the advice that names it.
ADVICE = {
    Outcome.UNREADABLE: "could not be read: see that you may read it, and that the disk is sound",
    Outcome.LOCKED: (
        "was locked all the time: stop the program that holds it, or wait longer (`database.deadline`)"
    ),
    Outcome.CHANGED: "changed while it was read: stop the program that writes it",
    Outcome.OUTSIDE: (
        "leads out of the home: move what lies there into the home, or keep a copy of it yourself"
    ),
}


@pytest.mark.parametrize("outcome", ADVICE)
def test_each_way_to_be_incomplete_has_its_advice(outcome, capsys):
    remarks = [Remark("a.txt", outcome, "why"), Remark("b.txt", Outcome.EXCLUDED, "a rule")]
    show_missing(Console(as_json=False), remarks, {}, [])
    assert capsys.readouterr().out == (
        f"Not whole in it: a.txt\n    a.txt {ADVICE[outcome]}\n    Then take another: `safekept snapshot`\n"
    )


def test_a_long_list_of_what_is_missing_is_cut_and_counted(capsys):
    remarks = [Remark(f"{number}.txt", Outcome.UNREADABLE, "why") for number in range(5)]
    show_missing(Console(as_json=False), remarks, {}, ["--home", "/srv/a home"])
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "Not whole in it: 0.txt, 1.txt, 2.txt and 2 more"
    assert second.startswith("    0.txt and 4 more could not be read: ")
    assert last == "    Then take another: `safekept snapshot --home '/srv/a home'`"


def test_a_dry_run_makes_nothing(safekept, here, home):
    done = safekept("snapshot", "--dry-run")
    assert done.returncode == 0
    assert f"  Vault      {here.places.vault}, which would be made\n" in done.stdout
    assert done.stdout.endswith("Nothing was written\n")
    assert not os.path.exists(here.places.vault) and not os.path.exists(here.places.vault_key_file)
    found = answer(safekept("snapshot", "--dry-run", "--json"))
    assert found["vault_exists"] is False and found["files"] > 50


def test_backup_quick_is_a_quick_snapshot(safekept, here, home):
    done = safekept("backup", "--quick", "--label", "before lunch")
    assert done.returncode == 0, done.stderr
    assert "  Kind       quick, before lunch\n" in done.stdout
    assert re.search(r"Restore with: `safekept snapshot restore [0-9a-f]{8}`\n$", done.stdout)
    assert not [name for name in os.listdir(here.places.user_home) if name.endswith(".zip")]


def test_backup_quick_with_a_file_is_an_archive_of_the_quick_set(safekept, here, home, tmp_path):
    done = safekept("backup", "--quick", "-o", str(tmp_path / "brain.zip"))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "brain.zip") as archive:
        names = set(archive.namelist())
    assert {"state.db", "SOUL.md", "memories/MEMORY.md"} <= names
    assert not [name for name in names if name.startswith("skills/")]
    assert not os.path.exists(here.places.vault), "an archive needs no vault"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("backup", "--label", "x"), "--label goes with --quick and without -o"),
        (("backup", "-q", "-o", "x.zip", "--label", "x"), "--label goes with --quick and without -o"),
        (("backup", "-q", "--keep", "3"), "--format and --keep go with an archive: name it with -o"),
        (("snapshot", "--backup"), "--backup and --no-backup go with --kind pre-update or pre-migration"),
    ],
)
def test_options_that_do_not_fit_are_refused_and_not_ignored(safekept, home, words, said):
    done = safekept(*words)
    assert done.returncode == 2 and said in done.stderr


def test_before_an_update_it_says_where_how_to_restore_and_how_to_switch_it_off(safekept, here, home):
    done = safekept("snapshot", "create", "--kind", "pre-update", "--backup")
    assert done.returncode == 0, done.stderr
    short = re.match(r"Pre-update snapshot ([0-9a-f]{8})\n", done.stdout)
    assert short
    assert f"  Saved      in the vault {here.places.vault}\n" in done.stdout
    written = re.search(r"^  Zip        (\S+/backups/pre-update-\S+\.zip) \(", done.stdout, re.MULTILINE)
    assert written
    assert f"  Restore    `safekept snapshot restore {short[1]}`\n" in done.stdout
    assert f"  Restore    `safekept import {written[1]}`\n" in done.stdout
    config = os.path.join(home, "config.yaml")
    assert (
        f"  Switch off `updates.pre_update_backup: off` in {config}, or `--no-backup` for once\n"
        in done.stdout
    )


def test_switched_off_is_silent_on_the_screen_and_noted_in_the_journal(safekept, here, home):
    with open(os.path.join(home, "config.yaml"), "a") as file:
        file.write("updates:\n  pre_update_backup: off\n")
    done = safekept("snapshot", "create", "--kind", "pre-update")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (noted,) = here.journal.read()
    assert (noted.verb, noted.state) == ("pre-update", "opted-out")
    assert answer(safekept("snapshot", "--kind", "pre-update", "--json"))["outcome"] == "opted-out"
    setting = {"SAFEKEPT_UPDATES_PRE_UPDATE_BACKUP": "quick"}
    assert safekept("snapshot", "--kind", "pre-update", env=setting).stdout.startswith("Pre-update snapshot")


def test_a_failure_before_an_update_is_exit_code_1_and_cannot_be_overlooked(safekept, here, home):
    with open_vault(here, create=True):
        pass
    os.unlink(here.places.vault_key_file)
    done = safekept("snapshot", "create", "--kind", "pre-update")
    assert done.returncode == 1
    assert done.stdout.startswith("Pre-update: nothing was stored\n  Failed     The vault at ")
    assert "  Kept       Nothing was changed; the snapshots in the vault are whole\n" in done.stdout
    assert f"  Next       Put the key from your kit into `{here.places.vault_key_file}`" in done.stdout
    found = answer(safekept("snapshot", "--kind", "pre-update", "--json"))
    assert (found["outcome"], found["problems"][0]["code"]) == ("failed", "vault-key-missing")


def test_adopt_says_what_it_took_and_what_removing_it_would_free(safekept, here, home):
    done = safekept("snapshot", "adopt", "--dry-run")
    # This home holds a zip that is none and a snapshot without files.
    assert done.returncode == 3 and done.stdout.startswith(f"Would take 0 copies of {home}\n"), done.stdout
    assert "cannot be taken: " in done.stdout
    done = safekept("snapshot", "adopt")
    assert done.returncode == 3
    assert "cannot be taken: " in done.stdout and "passed over: it holds no files" in done.stdout


def at_a_terminal(words, environment, typed: str) -> tuple[int, str]:
    """Run a command with a terminal for its input and messages, and type one line."""
    controller, terminal = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "safekept", *words],
            env=environment,
            stdin=terminal,
            stderr=terminal,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        shown = b""
        while b"passphrase of the vault" not in shown:
            shown += os.read(controller, 1024)
        wait_for_hidden_input(controller)
        os.write(controller, typed.encode() + b"\n")
        output, _ = process.communicate(timeout=300)
        return process.returncode, shown.decode() + output.decode()
    finally:
        os.close(controller)
        os.close(terminal)


def test_at_a_terminal_the_recovery_passphrase_is_asked_for(here, launcher_environment):
    with open_vault(here, create=True) as repository:
        add_passphrase(here, repository, Secret("four words are enough"), recovery=True)
    os.unlink(here.places.vault_key_file)
    code, shown = at_a_terminal(["vault", "key", "list"], launcher_environment, "four words are enough")
    assert code == 0, shown
    assert "recovery passphrase" in shown and "four words" not in shown


def test_prune_shows_a_plan_asks_and_gives_back(safekept, here, home):
    with open(os.path.join(home, "noise.bin"), "wb") as file:
        file.write(os.urandom(3_000_000))
    first = answer(safekept("snapshot", "--json"))["id"]
    os.unlink(os.path.join(home, "noise.bin"))
    kept = answer(safekept("snapshot", "--json"))["id"]
    assert safekept("snapshot", "forget", first, "--yes").returncode == 0
    done = safekept("vault", "prune")
    assert done.returncode == 0 and "1 forgotten snapshot" in done.stdout, "three days are not over"
    done = safekept("vault", "prune", "--now")
    assert done.returncode == 1 and error_code(done.stderr) == "consent-needed"
    assert "Next       See the plan: `safekept vault prune --now --dry-run`" in done.stderr
    done = safekept("vault", "prune", "--now", "--dry-run")
    assert done.returncode == 0 and done.stdout.endswith("Nothing was deleted\n")
    done = safekept("vault", "prune", "--now", "--yes")
    assert done.returncode == 0 and re.search(r"^Gave back [23]\.\d MB$", done.stdout, re.MULTILINE)
    listed = answer(safekept("snapshot", "list", "--json"))
    assert [one["id"] for one in listed["snapshots"]] == [kept]
    assert safekept("vault", "check", "--read-data").returncode == 0


def test_a_full_disk_is_said_and_the_next_try_goes_on(safekept, here, home, small_filesystem):
    place = small_filesystem(256)
    cramped = {"SAFEKEPT_VAULT_PATH": os.path.join(place, "vault")}
    with open(os.path.join(home, "noise.bin"), "wb") as file:
        file.write(os.urandom(1_000_000))
    done = safekept("snapshot", env=cramped)
    assert done.returncode == 1 and error_code(done.stderr) == "no-room", done.stderr
    assert "What was stored before is whole" in done.stderr
    os.unlink(os.path.join(home, "noise.bin"))
    done = safekept("vault", "check", env=cramped)
    assert done.returncode == 0, done.stdout
