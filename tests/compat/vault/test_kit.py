"""The kit's commands, run as they stand by a shell that has restic and nothing of safekept."""

from __future__ import annotations

import html
import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.keys.kit import make_kit
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.keys.kit_page import INDENT
from safekept.actions.vault.opening import open_vault
from safekept.home.scan.scanning import Selection
from safekept.vault.repo.keys import Secret
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway


@pytest.fixture
def place(here):
    made = here.locate(make_hermes_home(os.path.join(here.places.user_home, "a home's place")))
    create_snapshot(here, SnapshotRequest(made, "manual"))
    # The newest is a quick one: a bare machine must be given the whole home all the same.
    create_snapshot(here, SnapshotRequest(made, "quick", selection=Selection(quick=True)))
    return made


def kit_of(here, output):
    with open_vault(here) as repository:
        return write_kit(here, repository, str(output))


def commands_of(text: str, section: str) -> list[str]:
    """The commands below one heading, exactly as they are printed."""
    part = re.split(r"^\d\. .*\n-+$", text, flags=re.MULTILINE)
    titles = re.findall(r"^(\d\. .*)\n-+$", text, flags=re.MULTILINE)
    body = dict(zip(titles, part[1:], strict=True))
    (found,) = [value for title, value in body.items() if title.startswith(section)]
    return [line.removeprefix(INDENT) for line in found.splitlines() if line.startswith(INDENT)]


def run(commands: list[str], restic: str, directory: str, **more: str) -> str:
    """A POSIX shell on a bare machine: an empty home, restic on the path, no safekept."""
    os.makedirs(directory, exist_ok=True)
    programs = os.path.join(directory, "programs")
    os.makedirs(programs, exist_ok=True)
    if not os.path.exists(os.path.join(programs, "restic")):
        os.symlink(restic, os.path.join(programs, "restic"))
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": directory, **more}
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", "\n".join(commands)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_commands_of_the_kit_bring_the_whole_home_back(here, place, tmp_path, restic_program):
    text_file, html_file = kit_of(here, tmp_path)
    for path in (text_file, html_file):
        assert os.stat(path).st_mode & 0o777 == 0o600
    with open(text_file) as file:
        text = file.read()
    bare = str(tmp_path / "bare")
    prepare, restore = commands_of(text, "1."), commands_of(text, "2.")
    run([*prepare, *restore], restic_program, bare)
    assert os.stat(os.path.join(bare, "safekept-vault.key")).st_mode & 0o777 == 0o600
    came_back = os.path.join(bare, "restored") + place.home
    for name in ("SOUL.md", "config.yaml", "memories/MEMORY.md"):
        with (
            open(os.path.join(place.home, name), "rb") as ours,
            open(os.path.join(came_back, name), "rb") as its,
        ):
            assert ours.read() == its.read(), name
    assert os.path.isdir(os.path.join(came_back, "skills")), "not only what a quick snapshot holds"
    shown = run([*prepare, *commands_of(text, "3.")], restic_program, bare)
    assert "2 snapshots" in shown and "no errors were found" in shown


def test_the_kit_mends_a_vault_whose_config_and_keys_are_lost(here, place, tmp_path, restic_program):
    text_file, _ = kit_of(here, tmp_path)
    with open(text_file) as file:
        text = file.read()
    shutil.rmtree(os.path.join(here.places.vault, "keys"))
    os.unlink(os.path.join(here.places.vault, "config"))
    commands = [*commands_of(text, "1."), *commands_of(text, "4."), *commands_of(text, "3.")]
    shown = run(commands, restic_program, str(tmp_path / "bare"))
    assert "no errors were found" in shown
    with open_vault(here) as repository:
        assert repository.list_keys()


def test_the_printed_page_has_the_same_commands(here, place, tmp_path):
    text_file, html_file = kit_of(here, tmp_path)
    with open(text_file) as file:
        text = file.read()
    with open(html_file) as file:
        page = file.read()
    blocks = "\n".join(html.unescape(block) for block in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL))
    printed = [line.removeprefix(INDENT) for line in text.splitlines() if line.startswith(INDENT)]
    assert printed and blocks.splitlines() == printed
    assert "http" not in page, "a page for a bad day loads nothing from anywhere"


def test_the_kit_of_a_vault_with_a_passphrase_does_not_hold_it(tmp_path, restic_program):
    phrase = "four words are enough"
    here = throwaway(tmp_path, vault_secret=lambda: Secret(phrase), vault_wants_passphrase=True)
    made = here.locate(make_hermes_home(os.path.join(here.places.user_home, ".hermes")))
    create_snapshot(here, SnapshotRequest(made))
    text_file, html_file = kit_of(here, tmp_path)
    for path in (text_file, html_file):
        with open(path) as file:
            assert phrase not in file.read()
    with open(text_file) as file:
        text = file.read()
    commands = [*commands_of(text, "1."), *commands_of(text, "2.")]
    run(commands, restic_program, str(tmp_path / "bare"), RESTIC_PASSWORD=phrase)
    assert os.path.exists(os.path.join(str(tmp_path / "bare"), "restored") + made.home + "/SOUL.md")


def test_the_kit_never_holds_the_key_of_another_vault(here, tmp_path):
    with open_vault(here, create=True) as repository:
        add_passphrase(here, repository, Secret("four words are enough"))
    with open(here.places.vault_key_file, "w") as file:
        file.write("the key of some other vault\n")

    changed = here.changed(vault_secret=lambda: Secret("four words are enough"))
    with open_vault(changed) as repository:
        facts = dict(make_kit(changed, repository).facts)
    assert facts["Key"] == "not on this page: the passphrase that you chose"


def test_restic_opens_the_vault_with_the_recovery_passphrase(here, place, restic):
    with open_vault(here) as repository:
        add_passphrase(here, repository, Secret("four words are enough"), recovery=True)
    listed = restic(here.places.vault, "four words are enough")("key", "list")
    assert "recovery" in listed
    with open(here.places.vault_key_file) as file:
        key = file.read().strip()
    assert "no errors were found" in restic(here.places.vault, key)("check", "--read-data")


def test_the_kit_fills_the_search_only_of_tables_that_are_in_this_home(here, place, tmp_path):
    def page():
        with open(kit_of(here, tmp_path / "kit")[0], encoding="utf-8") as file:
            return file.read()

    def without(table):
        for directory, _, names in os.walk(place.home):
            if "state.db" in names:
                with closing(sqlite3.connect(os.path.join(directory, "state.db"))) as connection:
                    connection.execute(f"DROP TABLE IF EXISTS {table}")
                    connection.commit()

    without("messages_fts_trigram")
    # Stored in full, so the snapshot says nothing of it; a later one may leave it out.
    create_snapshot(here, SnapshotRequest(place, "manual", full=True))
    commands = commands_of(page(), "6.")
    assert commands and all("messages_fts" in one and "messages_fts_trigram" not in one for one in commands)
    assert "the end of this page fills their search again" in " ".join(page().split())
    without("messages_fts")
    for full in (True, False):
        create_snapshot(here, SnapshotRequest(place, "manual", full=full))
        assert "sqlite3" not in page() and "their search" not in page()
