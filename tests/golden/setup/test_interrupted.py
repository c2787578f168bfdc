"""Ctrl-C in `rebuild` and in `setup`: what stands is said, by the next look too; the same command ends it.

A rebuild or a setup that was cut off leaves parts. Each of them is named, nothing is made over them, and the
command that finishes them is the first thing that anybody reads.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import sys
from contextlib import closing

import pytest

from safekept.actions.vault.keys.keys import keys_from_outside
from safekept.integrations.connecting import carrying_out
from safekept.vault.errors import WrongKey
from safekept.vault.repo import Repository, Secret
from safekept.vault.storage import FileKind, LocalStorage
from support.commands.error_texts import error_code
from support.commands.terminals import Terminal
from support.users.first_hour import PASSPHRASE, Newcomer


def set_up_by_options(machine):
    place = os.path.join(machine.place, "usb")
    return machine.run(
        *("setup", "--yes", "--passphrase-file", machine.secret, "--destination", place, "--elsewhere"),
        *("--at", "04:10", "--json"),
    )


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A machine that was set up, and is gone."""
    machine = Newcomer(tmp_path_factory.mktemp("old"), profiles=())
    done = set_up_by_options(machine)
    assert done.returncode == 0, done.stdout + done.stderr
    kit = next(one["text"] for one in json.loads(done.stdout)["steps"] if one["step"] == "kit")
    os.rename(kit, os.path.join(machine.place, "kit.txt"))
    for gone in (machine.table, machine.user):
        os.rename(gone, gone + "-of-the-old-machine")
    shutil.copytree(os.path.join(machine.place, "usb"), os.path.join(machine.place, "usb-as-it-was"))
    return machine


@pytest.fixture
def bare(old, tmp_path):
    """The same person on a bare machine, with the disk as it was left; and the words of the rebuild."""
    disk = os.path.join(old.place, "usb")
    shutil.rmtree(disk)
    shutil.copytree(disk + "-as-it-was", disk)
    machine = old.moved(f"{tmp_path.name[-20:]}")
    yield machine, ("rebuild", os.path.join(old.place, "kit.txt"))
    if os.path.exists(machine.table):
        os.unlink(machine.table)


def cut_off(monkeypatch, name, *, before=None):
    """Ctrl-C at the moment that this function is called; `before` is done in its place until then."""

    def instead(*words, **named):
        if before is not None:
            before(*words, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(name, instead)


def one_pack(plan, source, target, **_):
    """What a pull has fetched when it is cut off early."""
    name = next(iter(plan.files[FileKind.PACK])).name
    target.write(FileKind.PACK, name, source.read(FileKind.PACK, name))


def in_the_pull(monkeypatch):
    cut_off(monkeypatch, "safekept.actions.offsite.pull.carry_out", before=one_pack)


def first_lines(machine):
    """The first line of `safekept`, of `doctor`, and what each says to do."""
    status, doctor = machine.run("status"), machine.run("doctor")
    return status.stdout, doctor.stdout


#: Where it is cut off, and what is not done by then.
CUTS = {
    "while the vault is fetched": (in_the_pull, "the vault with its history"),
    "once the vault is here": (
        lambda monkeypatch: cut_off(monkeypatch, "safekept.actions.setup.bring_vault.own_key"),
        "the vault with its history",
    ),
    "once there is a copy of this machine": (
        lambda monkeypatch: cut_off(monkeypatch, "safekept.actions.vault.keys.kit_files.write_kit"),
        "the kit",
    ),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_rebuild_that_was_cut_off_says_what_stands_and_is_finished_by_the_same_command(
    bare, monkeypatch, cut
):
    machine, words = bare
    at, left = CUTS[cut]
    with monkeypatch.context() as patched:
        at(patched)
        said = machine.run(*words)
    assert said.returncode == 130, said.stderr
    assert "nothing is left half done" not in said.stderr
    assert re.search(r"Room +[\d.]+ KB more for the vault, .* free there", said.stdout), said.stdout
    told = " ".join(said.stderr.split())
    again = f"`safekept {' '.join(words)}`"
    done, _, rest = told.partition("Not done yet:")
    assert f"Done: the home {machine.home}" in done and left in rest, told
    assert again in told, told

    status, doctor = first_lines(machine)
    first = " ".join(status.split("\n\n")[0].split())
    assert re.match(r"\w+ protected: a rebuild was begun .* and is not finished", first), status
    assert again in " ".join(status.split()), status
    assert "vault init" not in status and "vault init" not in doctor
    assert re.search(r"a rebuild was begun .* and is not finished", doctor.split("\n* ")[1]), doctor
    assert again in " ".join(doctor.split()), doctor

    kept = os.stat(machine.home).st_ino
    ended = machine.run(*words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "is in place already" in ended.stdout and os.stat(machine.home).st_ino == kept
    assert "Protected if the machine is lost" in ended.stdout
    assert machine.run("doctor").stdout == "Nothing to do\nProtected if the machine is lost\n"
    listed = json.loads(machine.run("snapshot", "list", "--all", "--json").stdout)["snapshots"]
    assert len(listed) > 1, "the history of the old machine, and a snapshot of this one"
    assert "usb" in machine.run("destinations", "list").stdout and "10 4 * * *" in machine.crontab()


def test_a_rebuild_that_was_cut_off_before_the_home_was_in_place_left_nothing(bare, monkeypatch):
    machine, words = bare
    with monkeypatch.context() as patched:
        cut_off(patched, "safekept.actions.restoring.rebuild.restore_times_after_checks")
        said = machine.run(*words)
    assert said.returncode == 130
    assert "Interrupted; nothing was put in place" in said.stderr, said.stderr
    assert not os.path.exists(machine.home) and not os.path.exists(machine.home + ".safekept-rebuild")
    assert "rebuild" not in machine.run("status").stdout.split("\n")[0]


def test_a_rebuild_that_has_no_room_for_the_vault_is_refused_before_anything_is_done(bare, monkeypatch):
    machine, words = bare
    monkeypatch.setattr("safekept.actions.setup.bring_vault.free_bytes", lambda path: 1000)
    said = machine.run(*words)
    assert said.returncode == 1 and "There is not enough room for the vault in" in said.stderr, said.stderr
    assert "add `--home-only`" in said.stderr and not os.path.exists(machine.home)
    assert machine.run(*words, "--home-only").returncode == 0 and os.path.exists(machine.home)


def test_no_vault_is_made_over_the_pieces_of_another(bare, monkeypatch):
    machine, words = bare
    with monkeypatch.context() as patched:
        in_the_pull(patched)
        assert machine.run(*words).returncode == 130
    vault = os.path.join(machine.user, ".local", "share", "safekept", "vault")
    os.unlink(os.path.join(machine.user, ".local", "share", "safekept", "unfinished.json"))
    makers = (
        ("vault", "init"),
        ("snapshot",),
        ("setup", "--yes", "--passphrase-file", machine.secret, "--no-connect", "--at", "no"),
    )
    for maker in makers:
        said = machine.run(*maker)
        assert said.returncode == 1, said.stdout + said.stderr
        assert error_code(said.stderr) == "vault-half-made" and "pieces of a vault" in said.stderr, (
            said.stderr
        )
        assert "safekept pull PLACE" in said.stderr and f"mv {vault}" in said.stderr, said.stderr
        assert not os.path.exists(os.path.join(vault, "config"))
        assert not os.path.exists(os.path.join(vault, "keys")) or not os.listdir(os.path.join(vault, "keys"))
    shown = machine.run("status").stdout
    assert "vault init" not in shown and "pieces of a vault" in " ".join(shown.split()), shown


def test_setup_and_restore_name_the_rebuild_that_is_not_finished(bare, monkeypatch):
    machine, words = bare
    with monkeypatch.context() as patched:
        in_the_pull(patched)
        assert machine.run(*words).returncode == 130
    again = f"`safekept {' '.join(words)}`"
    # Without a terminal or an answer: before any question is even counted.
    usb = os.path.join(machine.place, "usb")
    for more in ((), ("--yes", "--destination", usb, "--same-disk", "--passphrase-file", machine.secret)):
        said = machine.run("setup", *more)
        told = " ".join(said.stderr.split())
        assert said.returncode == 1 and error_code(said.stderr) == "rebuild-unfinished", told
        assert again in told and "Not done yet: the vault with its history" in told, told
        assert "Nothing was asked or changed" in told and " of " not in said.stdout, said.stdout
    assert "usb" not in machine.run("destinations", "list").stdout, "no answer was saved"
    assert machine.run(*words, "--dry-run").returncode == 0, "the rebuild is still known"
    restore = machine.run("restore", "memories/MEMORY.md", "--home", machine.home)
    told = " ".join(restore.stderr.split())
    assert again in told and "pull PLACE" not in told, told


def test_setup_refuses_the_pieces_of_a_vault_before_it_saves_an_answer(bare, monkeypatch):
    machine, words = bare
    with monkeypatch.context() as patched:
        in_the_pull(patched)
        assert machine.run(*words).returncode == 130
    os.unlink(os.path.join(machine.user, ".local", "share", "safekept", "unfinished.json"))
    said = machine.run("setup")
    assert said.returncode == 1 and error_code(said.stderr) == "vault-half-made", said.stderr
    usb = os.path.join(machine.place, "usb")
    options = ("--destination", usb, "--same-disk", "--passphrase-file", machine.secret)
    assert error_code(machine.run("setup", "--yes", *options).stderr) == "vault-half-made"
    assert "usb" not in machine.run("destinations", "list").stdout, "no answer was saved"


def test_a_machine_with_a_vault_of_its_own_is_told_what_a_rebuild_leaves_out(bare):
    machine, words = bare
    os.makedirs(machine.home)
    with open(os.path.join(machine.home, "config.yaml"), "w", encoding="utf-8") as file:
        file.write("model: of the new machine\n")
    assert machine.run("snapshot", "--home", machine.home).returncode == 0
    done = machine.run(*words, "--yes")
    assert done.returncode == 0, done.stderr
    assert "this machine has a vault of its own" in " ".join(done.stdout.split()), done.stdout


def test_a_vault_that_never_held_anything_is_put_aside_for_the_one_with_the_history(bare):
    machine, words = bare
    assert machine.run("vault", "init").returncode == 0
    vault = os.path.join(machine.user, ".local", "share", "safekept", "vault")
    (own,) = os.listdir(os.path.join(vault, "keys"))
    plan = " ".join(machine.run(*words, "--dry-run").stdout.split())
    assert "the vault with its history comes here, the empty one that is here is put aside" in plan
    assert "Room " in plan and "more for the vault" in plan
    assert os.listdir(os.path.join(vault, "keys")) == [own], "a plan moves nothing"
    done = machine.run(*words)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "with its history; the empty one that was here is " in told, told
    as_it_was = os.path.join(machine.place, "usb-as-it-was")
    before = [
        path for path in files_below(as_it_was) if os.path.basename(os.path.dirname(path)) == "snapshots"
    ]
    history = {os.path.basename(path) for path in before}
    assert history and history <= set(os.listdir(os.path.join(vault, "snapshots"))), "the old machine's"
    assert "04:10" in machine.run("schedule", "show").stdout
    aside = [name for name in os.listdir(os.path.dirname(vault)) if name.startswith("vault.before-rebuild-")]
    (kept,) = [os.path.join(os.path.dirname(vault), name) for name in aside]
    assert os.listdir(os.path.join(kept, "keys")) == [own]
    (key,) = [path for path in files_below(machine.user) if "vault.key.before-rebuild-" in path]
    with open(key, encoding="utf-8") as file:
        Repository.open(LocalStorage(kept), Secret(file.read().strip())).close()


def files_below(top):
    return [os.path.join(place, name) for place, _, names in os.walk(top) for name in names]


# -- setup ---------------------------------------------------------------------------------

#: Where a setup is cut off, what is done by then, and what is not.
SETUPS = {
    "before the passphrase": (
        "safekept.actions.vault.keys.keys.add_passphrase",
        "Done: the vault.",
        "the recovery passphrase, the connection of Hermes",
    ),
    "at the snapshot": (
        "safekept.actions.snapshots.create.create_snapshot",
        "Done: the vault, the recovery passphrase, the connection of Hermes",
        "the snapshot, the second copy, the proof, the kit",
    ),
}


@pytest.mark.parametrize("cut", SETUPS)
def test_a_setup_that_was_cut_off_says_what_is_done_and_setup_goes_on(tmp_path, monkeypatch, cut):
    machine = Newcomer(tmp_path, profiles=())
    where, done, left = SETUPS[cut]
    with monkeypatch.context() as patched:
        cut_off(patched, where)
        said = set_up_by_options(machine)
    assert said.returncode == 130
    error = json.loads(said.stdout)["error"]
    assert error["code"] == "interrupted"
    assert done in error["kept"] and left in error["kept"], error["kept"]
    assert error["commands"] == [{"verb": "setup", "arguments": []}]
    status, doctor = first_lines(machine)
    assert "setup was begun" in status.split("\n\n")[0] and "safekept setup`" in status, status
    assert "setup was begun" in doctor.split("\n* ")[1], doctor
    assert "vault key add" not in status
    again = set_up_by_options(machine)
    assert again.returncode == 0, again.stdout + again.stderr
    assert machine.run("doctor").stdout == "Nothing to do\nProtected if the machine is lost\n"
    assert PASSPHRASE not in again.stdout


@pytest.mark.parametrize("step", ["add_key_file", "Config.generate"])
def test_a_vault_that_was_only_begun_is_not_called_shut_and_what_was_saved_is_named(
    tmp_path, monkeypatch, step
):
    """Before the key of the vault, and after it: neither is a vault that could be opened."""
    machine = Newcomer(tmp_path, profiles=())
    with monkeypatch.context() as patched:
        cut_off(patched, f"safekept.vault.repo.opening.{step}")
        said = set_up_by_options(machine)
    assert said.returncode == 130
    kept = json.loads(said.stdout)["error"]["kept"]
    saved = "Saved: the destination usb, the time 04:10. Done: nothing else yet. Not done yet: the vault, "
    assert kept.startswith(saved), kept
    status, doctor = first_lines(machine)
    assert "CANNOT BE OPENED" not in status, status
    assert "Vault        ~/.local/share/safekept/vault: made by the first snapshot" in status, status
    assert saved.strip() in " ".join(doctor.split()), doctor
    found, _, would_do = machine.run("setup", "--dry-run").stdout.partition("Would do")
    assert "Vault" not in found and "  Vault " in would_do, "it is still to be made"
    short = machine.run("status", "--short").stdout
    assert "gone" not in short, short
    again = set_up_by_options(machine)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Protected if the machine is lost" in machine.run("status").stdout


def test_agents_that_are_connected_by_then_are_named_and_so_are_those_that_are_not(tmp_path, monkeypatch):
    """Ctrl-C while the second of three is being connected: that one is whole, the third is not begun."""
    machine = Newcomer(tmp_path, profiles=("coder", "writer"))
    write, pressed = carrying_out._write, []

    def press(edit):
        write(edit)
        if "/profiles/coder/" in edit.file.path and not pressed:
            pressed.append(os.kill(os.getpid(), signal.SIGINT))

    with monkeypatch.context() as patched:
        patched.setattr(carrying_out, "_write", press)
        said = set_up_by_options(machine)
    assert pressed and said.returncode == 130
    kept = json.loads(said.stdout)["error"]["kept"]
    assert (
        "the connection of Hermes and Hermes (coder). Not done yet: the connection of Hermes (writer),"
        in kept
    )
    config = os.path.join(machine.home, "profiles", "coder", "config.yaml")
    with open(config, encoding="utf-8") as file:
        assert "safekept" in file.read()
    status, doctor = first_lines(machine)
    told = " ".join(status.split())
    assert "setup was begun" in told and "connection of Hermes (writer)" in " ".join(doctor.split()), doctor
    # What setup has not done yet is no trouble of its own.
    assert "half connected" not in told and "the entry is gone" not in told and "2 of 3" not in told, status
    with monkeypatch.context() as patched:
        cut_off(patched, "safekept.actions.snapshots.create.create_snapshot")
        again = json.loads(set_up_by_options(machine).stdout)["error"]["kept"]
    done, _, left = again.partition("Not done yet:")
    assert "the vault, the recovery passphrase" in done, "what the first run did is done"
    assert "the connection of Hermes, Hermes (coder) and Hermes (writer)" in done, done
    assert left.startswith(" the snapshot, the second copy, the proof, the kit"), left
    ended = machine.run("setup", "--yes", "--at", "04:10")
    assert ended.returncode == 0 and "Restart your agents" in ended.stdout, "connected by the runs before"


def answer_the_rest(terminal):
    for question, answer in (("Place [", ""), ("Connect [", "n"), ("Time [", "no")):
        terminal.until(question)
        terminal.type(answer + "\n")


MADE = re.compile(r"\b[a-z]{4}(?:-[a-z]{4}){2,}\b")


def test_a_passphrase_that_is_made_is_shown_only_once_it_opens_the_vault(tmp_path):
    machine = Newcomer(tmp_path, profiles=())
    words = (sys.executable, "-m", "safekept", "setup")
    environment = {**machine.environment, "TERM": "xterm"}
    with Terminal(*words, environment=environment) as terminal:
        terminal.until("Passphrase (not shown)")
        terminal.until_hidden()
        terminal.type("\n")
        terminal.until("Place [nowhere yet]")
        assert not MADE.search(terminal.seen), terminal.seen
        assert terminal.interrupt() == 130
    assert "nothing was changed, and no answer was kept" in terminal.seen
    # So that the snapshot waits, and is not over before Ctrl-C comes.
    locked = sqlite3.connect(os.path.join(machine.home, "state.db"), isolation_level=None)
    locked.execute("pragma locking_mode=exclusive")
    locked.execute("begin exclusive")
    with closing(locked), Terminal(*words, environment=environment) as terminal:
        terminal.until("Passphrase (not shown)")
        terminal.until_hidden()
        terminal.type("\n")
        answer_the_rest(terminal)
        terminal.until("opens the vault now")
        shown = MADE.search(terminal.seen)
        assert shown and terminal.seen.index("Vault ") < shown.start(), terminal.seen
        terminal.interrupt()
    told = " ".join(terminal.seen.split())
    assert "Done: the vault, the recovery passphrase" in told and "Not done yet: the snapshot" in told, told
    vault = os.path.join(machine.user, ".local", "share", "safekept", "vault")
    Repository.open(LocalStorage(vault), Secret(shown[0])).close()
    assert "The passphrase that was made and shown opens the vault" in told, told
    (first,) = recovery_keys(vault)
    lost = " ".join(machine.run("status").stdout.split() + machine.run("doctor").stdout.split())
    assert "if you do not have it, setup makes another" in lost, lost

    # A program is not asked: it reads what opens the vault, and the command for another.
    by_program = " ".join(
        machine.run("setup", "--yes", "--dry-run", "--no-connect", "--at", "no").stdout.split()
    )
    assert (
        "the one that was made and shown" in by_program
        and "`safekept vault key add --recovery`" in by_program
    )

    # Whoever has it types it; whoever closed the window gets another, and the lost one opens nothing.
    with Terminal(*words, environment=environment) as terminal:
        terminal.until("Passphrase (not shown)")
        told = " ".join(terminal.seen.split())
        assert re.search(
            r"1 of \d Recovery passphrase One was made and shown .* ago, before setup was cut off", told
        )
        terminal.until_hidden()
        terminal.type("not the one\n")
        terminal.until("That does not open the vault")
        terminal.until_hidden()
        terminal.type(shown[0].replace("-", " ").title() + "\n")  # as read from paper
        terminal.until("It opens the vault")
        assert terminal.interrupt() == 130
    assert recovery_keys(vault) == [first]
    with Terminal(*words, environment=environment) as terminal:
        terminal.until("Passphrase (not shown)")
        terminal.until_hidden()
        terminal.type("\n")
        terminal.until("A new one will be made; the one before it will open nothing")
        answer_the_rest(terminal)
        terminal.until("opens the vault now")
        assert terminal.end() in (0, 3), terminal.seen
    assert "Connect [y/N]" in terminal.seen and "Time [no]" in terminal.seen, "as was answered before"
    made = MADE.search(terminal.seen)
    assert made and made[0] != shown[0] and first not in recovery_keys(vault), terminal.seen
    Repository.open(LocalStorage(vault), Secret(made[0])).close()
    with pytest.raises(WrongKey):
        Repository.open(LocalStorage(vault), Secret(shown[0]))
    assert "made and shown" not in machine.run("status").stdout


def recovery_keys(vault):
    return [key.id for key in keys_from_outside(vault) if key.kind == "recovery passphrase"]
