"""`setup` and `uninstall` without a person: all of it done, nothing for the doctor to say, all taken back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from safekept.cli.console import Console
from safekept.core.errors import SafekeptError
from support.commands.error_texts import error_code
from support.commands.terminals import Terminal
from support.users.contexts import throwaway
from support.users.first_hour import Newcomer, files_of, two_agents
from support.vault.closed import lose, open_below


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A machine that is set up, for tests that only look; and what `setup` said."""
    machine = two_agents(tmp_path_factory.mktemp("ready"))
    return machine, set_up(machine)


def set_up(machine, *more):
    place = os.path.join(machine.place, "usb")
    done = machine.run(
        *("setup", "--yes", "--passphrase-file", machine.secret, "--destination", place, "--elsewhere"),
        *("--at", "04:10", "--json", *more),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_script_sets_up_a_machine_and_the_doctor_has_nothing_to_say(ready):
    machine, document = ready
    assert document["verdict"]["level"] == "machine-lost" and document["findings"] == []
    steps = [(one["step"], one["state"]) for one in document["steps"]]
    assert steps == [
        ("vault", "done"),
        ("passphrase", "done"),
        ("connect", "done"),
        ("connect", "done"),
        ("connect", "done"),
        ("updates", "done"),
        ("schedule", "done"),
        ("snapshot", "done"),
        ("snapshot", "done"),
        ("push", "done"),
        ("proof", "done"),
        ("proof", "done"),
        ("kit", "done"),
    ]
    assert "10 4 * * *" in machine.crontab()
    doctor = machine.run("doctor")
    assert (doctor.returncode, doctor.stdout) == (0, "Nothing to do\nProtected if the machine is lost\n")


def test_what_setup_did_is_not_due_again_before_the_first_night(ready):
    machine, _ = ready
    shown = machine.run("status").stdout
    assert re.search(r"^Schedule +first run (today|tonight|tomorrow) at 04:10$", shown, re.M), shown
    due = machine.run("schedule", "run", "--dry-run").stdout
    assert due.startswith("Would do 0 of "), due
    listed = machine.run("schedule", "show").stdout
    assert len(re.findall(r"(?m)^  2\d{3}-", listed)) == 7, (
        "a snapshot and two drills of each home, and the copy"
    )


def test_a_second_run_shows_what_is_there_and_changes_nothing(ready):
    machine, _ = ready
    before = files_of(machine.user, os.path.join(machine.user, ".cache")), machine.crontab()
    again = machine.run("setup")  # nothing is missing, so nobody has to be asked
    assert again.returncode == 0, again.stderr
    assert "a recovery passphrase opens it too" in again.stdout
    assert "Connected  Hermes, Hermes (coder), Claude Code" in again.stdout
    assert "Protected if the machine is lost" in again.stdout
    after = files_of(machine.user, os.path.join(machine.user, ".cache")), machine.crontab()
    assert {name for name in after[0] if after[0][name] != before[0].get(name)} <= {
        ".local/share/safekept/doctor.json"
    }
    assert after[1] == before[1]


def test_a_plain_update_of_hermes_is_guarded_and_everything_else_goes_through(ready):
    machine, _ = ready
    hermes = os.path.join(machine.own, "hermes")

    def call(*words):
        done = subprocess.run([hermes, *words], env=machine.environment, capture_output=True, text=True)
        return done.stdout

    # The program called `safekept` here does nothing: whoever goes through it says nothing of Hermes's.
    assert call("update") == "" and call("-p", "coder", "update", "--yes") == ""
    assert call("update", "--check") == "hermes did: update --check\n"
    assert call("chat", "update") == "hermes did: chat update\n"
    os.chmod(os.path.join(machine.programs, "safekept"), 0o644)
    assert call("update") == "hermes did: update\n", "without safekept Hermes is as it was"
    os.chmod(os.path.join(machine.programs, "safekept"), 0o755)


def test_a_plain_update_takes_a_snapshot_first_and_tells_what_it_lost(tmp_path):
    """The whole way: the script that setup wrote, the real `safekept guard`, and the program behind both."""
    machine = Newcomer(tmp_path, profiles=())
    hermes, memories = os.path.join(machine.own, "hermes"), os.path.join(machine.home, "memories")
    update = f'echo "hermes did: $*"; [ -z "$LOSES" ] || rm -r {memories}; exit "${{CODE:-0}}"'
    for path, line in (
        (hermes, update),
        (os.path.join(machine.programs, "safekept"), f'exec {sys.executable} -m safekept "$@"'),
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)
    done = machine.run("setup", "--yes", "--passphrase-file", machine.secret, "--at", "no")
    assert done.returncode == 0, done.stdout + done.stderr

    def plain_update(**more):
        return subprocess.run(
            [hermes, "update", "--yes"],
            env={**machine.environment, **more},
            cwd=machine.user,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def kinds():
        listed = json.loads(machine.run("snapshot", "list", "--all", "--json").stdout)["snapshots"]
        return [one["kind"] for one in listed]

    before = kinds()
    well = plain_update(CODE="7")
    assert (well.returncode, well.stdout) == (7, "hermes did: update --yes\n"), "its output, and its status"
    assert "othing was lost" in well.stderr, well.stderr
    assert sorted(kinds()) == sorted([*before, "pre-update"])
    lost = plain_update(LOSES="1")
    assert (lost.returncode, lost.stdout) == (3, "hermes did: update --yes\n")
    back = re.search(r"`safekept (snapshot restore \w+ memories)[^`]*`", " ".join(lost.stderr.split()))
    assert back and not os.path.exists(memories), lost.stderr
    assert "Guard: `hermes update` ended with status 0" in lost.stderr, "as it was typed"
    assert machine.run(*back[1].split(), "--yes").returncode == 0 and os.listdir(memories)


def test_a_place_and_a_passphrase_are_enough_for_a_machine_as_it_was(ready):
    machine, _ = ready
    new = machine.moved("eve")
    for gone in (machine.table, machine.user):
        os.rename(gone, gone + "-of-the-old-machine")
    place = os.path.join(machine.place, "usb")
    try:
        words = ("rebuild", place, "--passphrase-file", machine.secret)
        plan = json.loads(new.run(*words, "--dry-run", "--json").stdout)["then"]
        assert [one["name"] for one in plan["destinations"]] == ["usb"] and plan["schedule"] == "04:10"
        done = new.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        homes = [document["home"], *(one["home"] for one in document["also"])]
        assert sorted(homes) == [os.path.join(new.user, name) for name in (".claude", ".hermes")]
        protection = document["protection"]
        assert protection["verdict"]["level"] == "machine-lost", protection["verdict"]
        assert protection["findings"] == []
        assert "10 4 * * *" in new.crontab() and f"HOME={new.user}" in new.crontab()
        seen = json.loads(new.run("destinations", "list", "--json").stdout)["destinations"]
        assert [(one["name"], one["url"]) for one in seen] == [("usb", f"file:{place}")]
    finally:
        for gone in (machine.table, machine.user):
            os.rename(gone + "-of-the-old-machine", gone)


def test_a_home_alone_is_not_said_to_be_connected_by_a_program_of_the_old_machine(ready, tmp_path):
    machine, _ = ready
    new = machine.moved("bob")
    place, program = os.path.join(machine.place, "usb"), os.path.join(machine.programs, "safekept")
    words = ("rebuild", place, "--passphrase-file", machine.secret, "--of", machine.home)
    done = new.run(*words, "--home-only", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(done.stdout)["protection"] is None
    assert not os.path.exists(os.path.join(new.user, ".config", "safekept", "config.toml"))
    os.rename(program, program + "-gone")
    try:
        words = new.run("connect", SAFEKEPT_LAUNCHER="")
        assert "0 of 1 agent on this machine connected" in words.stdout
        # What stands in it calls for the user of the old machine, whether its program is there or not.
        assert "not connected here: `safekept connect hermes`" in words.stdout
        assert (
            json.loads(new.run("status", "--json", SAFEKEPT_LAUNCHER="").stdout)["hosts"][0]["connected"]
            is False
        )
    finally:
        os.rename(program + "-gone", program)


def test_a_kit_that_is_kept_elsewhere_is_noted_where_it_is_asked_for(tmp_path):
    machine = Newcomer(tmp_path, profiles=())
    assert machine.run("snapshot").returncode == 0
    early = machine.run("vault", "kit", "--stored")
    assert early.returncode == 1 and "No kit of the vault" in early.stderr
    written = machine.run("vault", "kit")
    assert written.returncode == 0 and "vault kit --stored" in written.stdout
    assert "the only key of the vault" in machine.run("doctor").stdout
    assert "the kit is kept elsewhere" in machine.run("vault", "kit", "--stored").stdout
    assert "the only key of the vault" not in machine.run("doctor").stdout
    wrong = machine.run("vault", "kit", "--stored", "-o", "x")
    assert wrong.returncode == 2 and "--stored writes nothing" in wrong.stderr


def test_uninstall_leaves_every_file_as_it_was_and_names_what_stays(new):
    with open(new.table, "w", encoding="utf-8") as file:
        file.write("5 5 * * * /bin/true\n")
    set_up(new)
    a_profile_that_came_later_is_all_that_is_offered(new)
    assert new.run("uninstall", "--dry-run").stdout.endswith("Dry run. Nothing was changed\n")
    assert "safekept" in new.crontab()
    done = new.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Hermes, Hermes (coder), Hermes (late), Claude Code" in done.stdout
    stores = [os.path.join(new.user, *way) for way in ((".local", "share"), (".config",), (".cache",))]
    after = files_of(new.user, *stores)
    kits = [name for name in after if name.startswith("safekept-kit-")]
    assert len(kits) == 2 and all(name in done.stdout for name in kits)
    other = two_agents(os.path.join(new.place, "other"))
    later(other)
    assert {name: fact for name, fact in after.items() if name not in kits} == files_of(other.user)
    assert new.crontab() == "5 5 * * * /bin/true\n"
    for place in ("share/safekept/vault", "config/safekept/vault.key", "usb"):
        assert place in done.stdout
    again = new.run("uninstall", "--yes")
    assert again.returncode == 0 and "Nothing in this home directory calls safekept" in again.stdout
    assert set_up(new)["verdict"]["level"] == "machine-lost", "it begins again where it was left"


def later(machine):
    place = os.path.join(machine.home, "profiles", "late")
    os.makedirs(place)
    for name, text in (("config.yaml", "model: x\n"), ("SOUL.md", "I came late.\n")):
        with open(os.path.join(place, name), "w", encoding="ascii") as file:
            file.write(text)


def a_profile_that_came_later_is_all_that_is_offered(machine):
    later(machine)
    plan = json.loads(machine.run("setup", "--dry-run", "--json").stdout)["missing"]
    assert [one["profile"] for one in plan["connect"]] == ["late"]
    assert not plan["passphrase"] and not plan["destination"] and not plan["schedule"]
    document = json.loads(machine.run("setup", "--yes", "--json").stdout)
    assert [one["step"] for one in document["steps"]] == ["connect", "snapshot", "snapshot", "push"]
    assert document["verdict"]["level"] == "machine-lost" and document["findings"] == []


def test_a_no_is_remembered_and_stores_go_only_with_the_typed_word(new):
    before = files_of(new.user)
    words = ("setup", "--yes", "--passphrase-file", new.secret, "--no-connect", "--at", "no")
    done = new.run(*words)
    assert done.returncode == 0, done.stderr
    assert "Protected on this machine" in done.stdout and "destinations add" in done.stdout
    assert new.crontab() == "" and not os.path.exists(os.path.join(new.home, "plugins", "safekept"))
    vault = os.path.join(new.user, ".local", "share", "safekept", "vault")
    refused = new.run("uninstall", "--stores", "--yes")
    assert refused.returncode == 1 and os.path.isdir(vault)
    assert "uninstall --stores --word delete" in refused.stderr
    thesis = os.path.join(open_below(vault), "thesis.txt")
    with open(thesis, "w", encoding="ascii") as file:
        file.write("mine")
    refused = new.run("uninstall", "--stores", "--word", "delete")
    assert refused.returncode == 1 and "thesis.txt" in refused.stderr and os.path.isdir(vault)
    lose(thesis)
    done = new.run("uninstall", "--stores", "--word", "delete", "--json")
    assert done.returncode == 0, done.stderr
    assert {one["what"] for one in json.loads(done.stdout)["remains"]} == {"a kit, with the key"}
    left = {name: fact for name, fact in files_of(new.user).items() if not name.startswith("safekept-kit-")}
    assert left.keys() - before.keys() <= {".local/share", ".config", ".cache"}
    assert {name: fact for name, fact in left.items() if name in before} == before


def test_where_nothing_can_wake_it_that_is_said_and_what_then(new):
    os.unlink(os.path.join(new.programs, "crontab"))
    path = f"{new.programs}:{new.own}:{only_these(new.place, 'git', 'sh', 'env')}"
    seen = new.run("setup", "--dry-run", PATH=path)
    assert seen.returncode == 0, seen.stderr
    assert "none: neither systemd nor cron is there to wake safekept" in seen.stdout
    assert "Install cron and run the command again" in seen.stdout
    assert "schedule run --quiet" in seen.stdout and "when to run every night" not in seen.stdout
    refused = new.run("setup", "--yes", "--passphrase-file", new.secret, "--at", "03:30", PATH=path)
    assert refused.returncode == 1 and "no-schedule-host" in refused.stderr


@pytest.mark.parametrize("what", ["", "vault"])
def test_a_vault_that_is_gone_from_here_and_kept_elsewhere_is_not_replaced(ready, what):
    machine, _ = ready
    data = os.path.join(machine.user, ".local", "share", "safekept", what).rstrip("/")
    vault = data if what else os.path.join(data, "vault")
    os.rename(open_below(data), data + "-gone")
    try:
        refused = machine.run("setup", "--yes", "--passphrase-file", machine.secret)
        assert refused.returncode == 1 and error_code(refused.stderr) == "vault-elsewhere"
        assert "safekept pull usb" in refused.stderr and not os.path.exists(vault)
    finally:
        shutil.rmtree(open_below(data), ignore_errors=True)
        os.rename(data + "-gone", data)


def test_an_update_wrapper_that_the_agents_installer_replaced_is_put_back_or_cleared(new):
    from safekept.integrations.hermes.update_wrapper import (
        guard_updates,
        look_at_wrapper,
        remove_wrapper,
        replaced_wrapper,
    )

    context = throwaway(new.place, environment=new.environment).changed(user_home=new.user)
    memory = os.path.join(context.places.data_directory, "update-wrapper.json")
    path, aside = os.path.join(new.own, "hermes"), os.path.join(new.own, "hermes.before-safekept")
    os.unlink(path)
    os.symlink("/bin/true", path)
    guard_updates(context, ("/nowhere/safekept",))
    assert os.readlink(aside) == "/bin/true" and look_at_wrapper(context).installed
    assert replaced_wrapper(context) == ""
    os.unlink(path)
    os.symlink("/bin/false", path)  # its installer came by
    assert look_at_wrapper(context).left == aside
    assert replaced_wrapper(context) == path
    os.unlink(memory)
    assert replaced_wrapper(context) == path, "also where an earlier safekept put it there"
    guard_updates(context, ("/nowhere/safekept",))
    assert os.readlink(aside) == "/bin/false"
    os.unlink(path)
    os.symlink("/bin/echo", path)
    assert remove_wrapper(context) == [path]
    assert os.readlink(path) == "/bin/echo" and not os.path.lexists(aside)
    assert remove_wrapper(context) == []
    assert replaced_wrapper(context) == "" and not os.path.exists(memory)


def test_a_hermes_of_somebody_else_is_wrapped_only_before_it_on_the_path(new):
    from safekept.integrations.hermes.update_wrapper import (
        guard_updates,
        look_at_wrapper,
        remove_wrapper,
        replaced_wrapper,
    )

    os.unlink(os.path.join(new.own, "hermes"))
    with open(os.path.join(new.programs, "hermes"), "w", encoding="ascii") as file:
        file.write("#!/bin/sh\necho theirs\n")
    os.chmod(os.path.join(new.programs, "hermes"), 0o755)
    after = {**new.environment, "PATH": f"{new.own}:{new.programs}"}
    before = {**new.environment, "PATH": f"{new.programs}:{new.own}"}
    context = throwaway(new.place, environment=after).changed(user_home=new.user)
    guard_updates(context, ("/nowhere/safekept",))
    assert os.path.isfile(os.path.join(new.own, "hermes"))
    os.unlink(os.path.join(new.own, "hermes"))
    assert replaced_wrapper(context) == os.path.join(new.own, "hermes")
    guard_updates(context, ("/nowhere/safekept",))
    assert replaced_wrapper(context) == ""
    assert subprocess.run(["hermes"], env=after, capture_output=True, text=True).stdout == "theirs\n"
    remove_wrapper(context)
    assert os.listdir(new.own) == []
    context = throwaway(new.place, environment=before).changed(user_home=new.user)
    assert "lies outside your home directory" in look_at_wrapper(context).reason
    with pytest.raises(SafekeptError) as error:
        guard_updates(context, ("/nowhere/safekept",))
    assert "`safekept guard -- hermes update`" in str(error.value.advice())


def test_without_a_terminal_it_asks_nobody_and_changes_nothing(new):
    before = files_of(new.user)
    refused = new.run("setup")
    assert refused.returncode == 1 and files_of(new.user) == before
    assert "setup has 4 questions to ask, and there is no terminal to ask at" in refused.stderr
    assert "setup --yes --passphrase-file FILE --destination PLACE" in refused.stderr
    refused = new.run("setup", "--yes")
    assert refused.returncode == 2 and "No passphrase was given" in refused.stderr
    assert files_of(new.user) == before


def test_a_place_that_does_not_work_is_refused_before_anything_is_done(new):
    before = files_of(new.user)
    place = os.path.join(new.home, "copies")
    refused = new.run("setup", "--yes", "--passphrase-file", new.secret, "--destination", place)
    assert refused.returncode != 0 and "inside the home" in refused.stderr
    assert files_of(new.user) == before


def test_a_place_that_does_not_work_is_asked_for_again_where_somebody_can_answer(new):
    place = "/dev/null/copies"
    words = (sys.executable, "-m", "safekept", "setup", "--destination", place)
    with Terminal(*words, environment={**new.environment, "TERM": "xterm"}) as terminal:
        terminal.until("Passphrase (not shown)")
        told = " ".join(terminal.seen.split())
        assert f"{place} does not work:" in told and "1 of 4" in told, told
        assert "run the command again" not in told and "run it again" not in told, told
        terminal.until_hidden()
        terminal.type("\n")
        terminal.until("Where does the second copy go?")
        terminal.until("Place [")
        terminal.type(place + "\n")
        terminal.until("Name a place, or press Enter for none yet:")
        assert terminal.interrupt() == 130
    assert terminal.seen.count("does not work:") == 2, terminal.seen
    assert "again" not in terminal.seen.replace("type the place again", ""), terminal.seen


def test_yes_without_a_passphrase_says_that_yes_asks_nothing(new):
    refused = new.run("setup", "--yes")
    assert refused.returncode == 2 and "No passphrase was given, and `--yes` asks nothing" in refused.stderr
    assert "terminal" not in refused.stderr, "there may well be one"


@pytest.mark.parametrize(("option", "flag"), [("--same-disk", "same_disk"), ("--elsewhere", "elsewhere")])
def test_what_is_an_option_of_the_command_may_follow_a_place_at_the_question(monkeypatch, option, flag):
    from safekept.cli.commands.setup import answers

    given = answers.Answers(flags={"same_disk": False, "elsewhere": False})
    asked = answers.Questions(Console(as_json=False), None, answers.Needs(False, True, False, False), given)
    tried = []
    monkeypatch.setattr(asked, "_prompt", lambda *_: f"sftp://nas/copies {option}")
    monkeypatch.setattr(answers, "tried_place", lambda _, __, *place: (tried.append(place) or {}, None))
    monkeypatch.setattr(answers, "place_words", lambda _: "works")
    asked._destination()
    assert tried == [("sftp://nas/copies", {**given.flags, flag: True})]


def test_no_agent_at_all_is_said(new):
    for home in (new.home, os.path.join(new.user, ".claude")):
        os.rename(home, home + "-elsewhere")
    refused = new.run("setup", "--yes")
    assert refused.returncode == 1 and "No agent's home was found on this machine" in refused.stderr


def only_these(directory, *names):
    """A directory with these programs of the system and no others."""
    place = os.path.join(directory, "few")
    os.makedirs(place, exist_ok=True)
    for name in names:
        os.symlink(str(shutil.which(name)), os.path.join(place, name))
    return place


def test_a_second_home_of_the_same_user_leaves_the_lines_of_the_first(tmp_path):
    """One crontab is all that a user has, in whatever HOME something is tried out."""
    first = Newcomer(tmp_path, profiles=())
    trial = first.moved("trial")
    shutil.copytree(first.home, trial.home)
    with open(first.table, "w", encoding="utf-8") as file:
        file.write("5 5 * * * /bin/true\n")
    assert first.run("schedule", "install", "--yes").returncode == 0
    own = first.crontab()
    assert trial.run("schedule", "install", "--yes").returncode == 0
    assert first.crontab().startswith(own) and f"HOME={trial.user}" in first.crontab()
    assert "crontab" in trial.run("schedule", "show").stdout
    for machine in (first, trial):
        assert "lines are gone" not in machine.run("status").stdout
    assert trial.run("uninstall", "--yes").returncode == 0
    assert first.crontab() == own
    assert trial.run("uninstall", "--yes").returncode == 0, "there is nothing left to take back"
    assert first.crontab() == own
    assert first.run("uninstall", "--yes").returncode == 0
    assert first.crontab() == "5 5 * * * /bin/true\n"


def test_uninstall_in_a_second_home_leaves_the_script_before_updates_of_the_first(new):
    """It is found on the PATH, which both have."""
    set_up(new)
    script = os.path.join(new.own, "hermes")
    with open(script, encoding="utf-8") as file:
        text = file.read()
    assert "Written by safekept" in text
    trial = new.moved("trial")
    shutil.copytree(os.path.join(new.user, ".claude"), os.path.join(trial.user, ".claude"))
    done = trial.run("uninstall", "--yes", PATH=new.environment["PATH"])
    assert done.returncode == 0, done.stderr
    with open(script, encoding="utf-8") as file:
        assert file.read() == text
    assert os.path.exists(script + ".before-safekept")
