"""The machine is gone: a bare one is rebuilt from a destination, a sealed archive, or the printed kit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from conftest import missing_part
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.snapshots.listing import list_home
from safekept.actions.vault.keys.kit_page import INDENT
from safekept.core.objects import retry
from safekept.home.scan.scanning import Selection
from safekept.vault.care import forget
from safekept.vault.repo.lock_file import LockIdentity
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.commands.terminals import Terminal
from support.faults.kill_points import count_steps, run_killed
from support.home.homes import SIDECARS, differences, make_hermes_home, tree_facts
from support.restoring.drills import flip, place_of_file
from support.restoring.landings import holding
from support.restoring.rebuilds import PASSPHRASE, Gone, add_sessions, equal, lose_a_machine, owners
from support.users.contexts import throwaway
from support.users.unprivileged import NOBODY, as_nobody
from support.users.unprivileged import nobodys as nobodys
from support.vault.closed import open_below
from support.vault.snapshots import opened, take

CHECKS = 15


@pytest.fixture(scope="module")
def gone(tmp_path_factory) -> Gone:
    return lose_a_machine(str(tmp_path_factory.mktemp("gone")))


@pytest.fixture
def bare(tmp_path):
    """A home directory on a machine that has never seen safekept."""
    place = tmp_path / "bare"
    place.mkdir()
    return str(place)


@pytest.fixture
def say(monkeypatch, bare):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    return spoken(monkeypatch, bare)


def green(answer):
    """Every check was looked at and none failed."""
    assert answer.code == 0, answer.err + answer.out
    document = json.loads(answer.out)
    states = {row["check"]: row["state"] for row in document["rows"]}
    assert len(states) == CHECKS and document["proven"] is True and document["complete"] is True
    allowed = {"agent": "left out"}
    assert {check: state for check, state in states.items() if state != "passed"} in ({}, allowed)
    return document


def test_from_a_destination_with_nothing_but_its_url_and_the_key(gone, bare, say):
    home = os.path.join(bare, ".hermes")
    done = green(say("rebuild", f"file:{gone.disk}", "--key-file", gone.key, "--json"))
    equal(gone.home, home)
    assert done["home"] == home and done["aside"] is None
    assert done["from"]["host"] == os.uname().nodename and done["from"]["home"] == gone.home
    assert done["left_out"] == ["gateway_state.json", "processes.json"]
    assert os.stat(os.path.join(home, ".env")).st_mode & 0o777 == 0o600
    with open(os.path.join(bare, ".honcho", "config.json")) as file:
        assert json.load(file) == {"apiKey": "hk-1"}, "what lay outside of the home came back to its place"
    assert done["outside"] == [os.path.join(bare, ".honcho")] and done["outside_files"] == 1
    assert os.access(os.path.join(bare, ".local", "bin", "coder"), os.X_OK)
    assert done["start"] == "hermes" and any("hermes gateway install" in hint for hint in done["hints"])
    assert sorted(name for name in os.listdir(bare) if "safekept" in name) == [".hermes.safekept"]
    assert os.path.isfile(done["receipt"])
    log = json.loads(say("log", "--json").out)
    assert [one["verb"] for one in log["operations"]] == ["rebuild", "drill"]
    assert say("undo", done["outside_operation"]).code == 0
    assert not os.path.exists(os.path.join(bare, ".honcho")), "what was written outside is taken back"
    equal(gone.home, home)


def test_from_the_commands_of_the_kit_against_a_real_bucket(tmp_path, s3_server, bare, say, monkeypatch):
    place = s3_server.place()
    options = {"endpoint": place.options.endpoint, "region": place.options.region}
    setting = DestinationSetting("bucket", place.url, options=options)
    gone = lose_a_machine(str(tmp_path / "gone"), setting, environment=place.environment)
    shutil.rmtree(open_below(gone.here.places.data_directory))  # the machine and its vault are gone
    monkeypatch.setenv("PATH", place.environment["PATH"])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.setenv(name, place.environment[name])
    monkeypatch.setenv("KEYFILE", os.path.join(bare, "safekept-vault.key"))
    make_key, rebuild = commands_of(gone.kit, "1.")[-1], commands_of(gone.kit, "5.")[0]
    subprocess.run(["/bin/sh", "-e", "-c", make_key], check=True)
    words = shlex.split(os.path.expandvars(rebuild))
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    assert words[:2] == ["safekept", "rebuild"]
    green(say(*words[1:], "--json"))
    equal(gone.home, os.path.join(bare, ".hermes"))
    shown = say("fleet", place.url, "--key-file", os.environ["KEYFILE"])
    assert shown.code == 0 and "1 home on 1 host in 1 vault" in shown.out, shown.err


def commands_of(text, section):
    part = text.split(f"\n{section} ", 1)[1].split("\n\n", 2)
    lines = "\n\n".join(part).split("\n")
    taken = []
    for line in lines[2:]:
        if line.startswith(INDENT):
            taken.append(line.removeprefix(INDENT))
        elif taken:
            break
    return taken


def test_from_a_sealed_archive_with_its_identity(gone, bare, say):
    done = green(say("rebuild", gone.sealed, "--identity", gone.identity, "--json"))
    equal(gone.home, os.path.join(bare, ".hermes"))
    assert done["from"]["kind"] == "archive" and done["outside_files"] == 1


def test_the_printed_command_takes_back_what_was_written_outside_of_a_home_elsewhere(gone, bare, say):
    home = os.path.join(bare, "agents", "second")
    done = say("rebuild", gone.sealed, "--identity", gone.identity, "--home", home)
    assert done.code == 0, done.err
    [operation] = re.findall(r"1 file \(take back: `safekept undo (\S+)`\)", done.out)
    assert os.path.exists(os.path.join(bare, ".honcho"))
    assert say("undo", operation).code == 0
    assert not os.path.exists(os.path.join(bare, ".honcho")) and os.path.exists(home)


def test_the_command_that_protects_a_home_elsewhere_names_it_and_finds_it(gone, bare, say):
    home = os.path.join(bare, "agents", "hermes")
    done = say("rebuild", gone.disk, "--key-file", gone.key, "--home", home)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert (
        "Not here the vault with its history, the destinations and the schedule: with `--home` only" in said
    )
    assert f"Protect this machine: `safekept setup --home {home}`" in said
    for named in (("--home", home), ()):
        found = say("setup", *named, "--dry-run", "--json")
        assert found.code == 0 and json.loads(found.out)["homes"][0]["home"] == home, found.err
    assert f"{home.replace(bare, '~')} (hermes)" in say("status").out, "it is here, and not kept yet"


def test_a_home_elsewhere_calls_the_safekept_of_this_machine_and_uninstall_finds_it(tmp_path, bare, say):
    dead = str(tmp_path / "dead")
    gone = lose_a_machine(str(tmp_path / "gone"), small=True)
    home, plugin = os.path.join(bare, "agents", "hermes"), os.path.join("plugins", "safekept")
    os.makedirs(os.path.join(gone.home, plugin))
    write(gone.home, f"{plugin}/plugin.yaml", "author: safekept\n")
    old = {"command": [f"{dead}/safekept"], "version": "0.1.0", "environment": {"HOME": dead}}
    write(gone.home, f"{plugin}/connection.json", json.dumps(old))
    write(gone.home, "config.yaml", "model: x\nplugins:\n  enabled:\n  - safekept\n")
    take(gone.here, gone.home)
    words = ("rebuild", gone.here.places.vault, "--key-file", gone.key)
    assert say(*words, "--home", f"{home}-only", "--home-only").code == 0
    assert json.loads(read(f"{home}-only/{plugin}/connection.json")) == old, "nothing but the home"
    done = say(*words, "--home", home)
    assert done.code == 0, done.err
    assert "Connected  Hermes\n" in done.out
    assert json.loads(read(f"{home}/{plugin}/connection.json"))["environment"]["HOME"] == bare
    gone_again = say("uninstall", "--yes", "--json")
    assert gone_again.code == 0, gone_again.err
    scopes = [one["scope"] for one in json.loads(gone_again.out)["disconnected"]]
    assert sorted(scopes) == [home, f"{home}-only"]
    assert "safekept" not in read(f"{home}/config.yaml") + read(f"{home}-only/config.yaml")


def test_from_the_archive_that_lies_at_a_destination(gone, bare, say):
    words = ("rebuild", gone.disk, "--archive", "latest")
    refused = say(*words)
    assert refused.code != 0 and "identity" in refused.err and not os.path.exists(f"{bare}/.hermes")
    done = green(say(*words, "--identity", gone.identity, "--json"))
    equal(gone.home, os.path.join(bare, ".hermes"))
    assert done["from"]["place"].endswith(os.path.basename(gone.sealed))
    assert done["from"]["host"] == os.uname().nodename
    assert os.listdir(os.path.join(bare, ".local", "share", "safekept", "scratch")) == []


def test_where_hermes_is_on_the_path_it_opens_the_home_that_was_built(gone, bare, say, hermes, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(hermes)}:/usr/bin:/bin")
    done = green(say("rebuild", f"file:{gone.disk}", "--key-file", gone.key, "--json"))
    assert {row["check"]: row["state"] for row in done["rows"]}["agent"] == "passed"
    equal(gone.home, os.path.join(bare, ".hermes"))


def test_a_mistyped_passphrase_is_asked_for_again(gone, bare):
    words = (sys.executable, "-I", "-m", "safekept", "rebuild", gone.here.places.vault, "--yes")
    environment = {"HOME": bare, "PATH": "/usr/bin:/bin", "TERM": "xterm", "NO_COLOR": "1"}
    with Terminal(*words, environment=environment) as terminal:
        terminal.until("type your recovery passphrase")
        assert "key file" not in terminal.seen, "on a bare machine nobody misses one"
        for left, typed in (("2 more tries", "wrong"), ("1 more try", "wrong again")):
            terminal.until("Key or passphrase of the vault: ")
            terminal.seen = ""
            terminal.type(typed + "\n")
            terminal.until(f"That does not open it; {left}")
        terminal.until("Key or passphrase of the vault: ")
        terminal.type(PASSPHRASE + "\n")
        assert terminal.end() == 0, terminal.seen
    equal(gone.home, os.path.join(bare, ".hermes"))


def test_a_passphrase_that_is_wrong_three_times_ends_it_and_nothing_was_changed(gone, bare):
    words = (sys.executable, "-I", "-m", "safekept", "rebuild", gone.here.places.vault, "--yes")
    environment = {"HOME": bare, "PATH": "/usr/bin:/bin", "TERM": "xterm", "NO_COLOR": "1"}
    with Terminal(*words, environment=environment) as terminal:
        for _ in range(3):
            terminal.until("Key or passphrase of the vault: ")
            terminal.seen = ""
            terminal.type("wrong\n")
        assert terminal.end() == 12, terminal.seen
    assert not os.path.exists(os.path.join(bare, ".hermes"))


def test_from_a_vault_with_the_recovery_passphrase(gone, bare, say):
    path = os.path.join(bare, "passphrase")
    with open(path, "w") as file:
        file.write(PASSPHRASE + "\n")
    green(say("rebuild", gone.here.places.vault, "--passphrase-file", path, "--json"))
    equal(gone.home, os.path.join(bare, ".hermes"))


def test_the_printed_kit_with_plain_restic_gives_an_equal_home_that_drills_green(gone, bare, say):
    restic = shutil.which("restic")
    if restic is None:
        missing_part("restic is not installed; `apt-get install restic` brings it")
    commands = [*commands_of(gone.kit, "1."), *commands_of(gone.kit, "2.")]
    commands[0] = gone.kit.split("(for restic: ")[1].split(")")[0]  # the copy in the place of the vault
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", "\n".join(commands)],
        cwd=bare,
        env={"PATH": f"{os.path.dirname(restic)}:/usr/bin:/bin", "HOME": bare},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    restored = os.path.join(bare, "restored") + gone.home
    equal(gone.home, restored, left=False)
    assert say("snapshot", "--home", restored).code == 0
    drilled = say("drill", "--home", restored, "--json")
    assert drilled.code == 0 and json.loads(drilled.out)["ok"] is True


def test_as_another_user_who_was_given_the_disk(gone, nobodys):
    if os.getuid() != 0:
        missing_part("giving a disk to another user needs root")
    disk, key = os.path.join(nobodys, "disk"), os.path.join(nobodys, "key")
    shutil.copytree(gone.disk, disk)
    shutil.copyfile(gone.key, key)
    for directory, names, files in os.walk(nobodys):
        for name in (*names, *files):
            os.chown(os.path.join(directory, name), NOBODY, NOBODY)
    os.mkdir(os.path.join(disk, "lost+found"), 0o700)  # root's, at the top of every ext4 disk
    user = os.path.join(nobodys, "user")
    os.mkdir(user)
    os.chown(user, NOBODY, NOBODY)

    def rebuild():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", "/usr/bin:/bin")
            patch.delenv("TMPDIR", raising=False)
            done = spoken(patch, user)("rebuild", disk, "--key-file", key, "--json")
            return done.code, done.out, done.err

    code, out, err = as_nobody(rebuild)
    assert code == 0, err + out
    assert json.loads(out)["owner"] == {"uid": NOBODY, "gid": NOBODY}
    equal(gone.home, os.path.join(user, ".hermes"))
    assert owners(os.path.join(user, ".hermes")) == {(NOBODY, NOBODY)}


def test_root_rebuilds_nobody_elses_home(gone, nobodys, say):
    if os.getuid() != 0:
        missing_part("rebuilding another user's home needs root")
    home = os.path.join(nobodys, ".hermes")
    done = say("rebuild", gone.disk, "--key-file", gone.key, "--home", home)
    assert done.code == 1 and error_code(done.err) == "home-of-another"
    assert f"The home `{home}` belongs to `nobody`, and this command runs as root" in done.err
    assert re.search(r"put `(sudo -u nobody|runuser -u nobody --)` in front of it", done.err)
    assert os.listdir(nobodys) == []


def test_a_home_that_is_there_is_put_aside_and_the_printed_command_brings_it_back(gone, bare, say):
    home = os.path.join(bare, ".hermes")
    os.makedirs(os.path.join(home, "memories"))
    write(home, "memories/MEMORY.md", "only here")
    before = tree_facts(home)
    words = ("rebuild", gone.disk, "--key-file", gone.key)
    refused = say(*words)
    assert refused.code == 1 and error_code(refused.err) == "consent-needed"
    assert f"what is in `{home}` now would be put aside" in refused.err
    preview = say(*words, "--dry-run")
    assert preview.code == 0 and "Puts aside" in preview.out and preview.out.endswith("Nothing was changed\n")
    assert tree_facts(home) == before and os.listdir(bare) == [".hermes"]
    done = say(*words, "--yes")
    assert done.code == 0, done.err
    (aside,) = [name for name in os.listdir(bare) if name.startswith(".hermes.before-rebuild-")]
    assert tree_facts(os.path.join(bare, aside)) == before
    equal(gone.home, home)
    (back,) = [line for line in done.out.splitlines() if "Back again" in line]
    subprocess.run(["/bin/sh", "-e", "-c", back.split("`")[1]], check=True)
    assert tree_facts(home) == before
    equal(gone.home, home + ".rebuilt")


def test_an_undo_of_before_stays_with_the_home_that_was_put_aside(gone, bare, say):
    home = os.path.join(bare, ".hermes")
    os.makedirs(home)
    write(home, "SOUL.md", "mine")
    assert say("import", gone.zip, "--force").code == 0
    assert say("rebuild", gone.disk, "--key-file", gone.key, "--yes").code == 0
    (aside,) = [one for one in os.listdir(bare) if one.startswith(".hermes.before") and "safekept" not in one]
    assert os.path.isdir(os.path.join(bare, aside + ".safekept", "landings"))
    refused = say("undo", "--home", home)
    assert refused.code == 1 and "cannot be taken back: what it replaced is no longer kept" in refused.err
    equal(gone.home, home)


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def write(*parts):
    *path, text = parts
    with open(os.path.join(*path), "w") as file:
        file.write(text)


def test_the_newest_whole_snapshot_is_taken_and_a_newer_quick_one_is_named(tmp_path, bare, say):
    gone = lose_a_machine(str(tmp_path / "gone"), small=True)
    add_sessions(gone.home, ["later"])
    quick = take(gone.here, gone.home, kind="quick", selection=Selection(quick=True))
    done = say("rebuild", gone.here.places.vault, "--key-file", gone.key)
    assert done.code == 0, done.err
    assert os.path.isdir(os.path.join(bare, ".hermes", "skills"))
    (line,) = [line for line in done.out.splitlines() if line.startswith("  Newer")]
    assert quick.snapshot.short_id in line
    words = shlex.split(line.split("`")[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*words[0].split("=", 1))
        restored = say(*words[2:], "--yes")
    assert restored.code == 0, restored.err
    equal(gone.home, os.path.join(bare, ".hermes"))


def test_newer_snapshots_without_secrets_and_of_one_profile_are_not_taken_and_no_litter_of_the_checks_stays(
    tmp_path, bare, say
):
    here = throwaway(tmp_path / "gone")
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)
    take(here, home)
    for narrowed in (Selection(secrets=False), Selection(profile="coder")):
        take(here, home, selection=narrowed)
    done = say("rebuild", here.places.vault, "--key-file", here.places.vault_key_file)
    assert done.code == 0, done.err
    rebuilt = os.path.join(bare, ".hermes")
    equal(home, rebuilt, left=False)
    assert os.path.exists(f"{rebuilt}/.env"), "a secret"
    left = [name for _, _, names in os.walk(rebuilt) for name in names if name.endswith(SIDECARS)]
    assert left == [], "what SQLite makes beside a database that is looked at"


def test_a_home_of_which_everything_was_forgotten_is_still_rebuilt_and_that_is_said(tmp_path, bare, say):
    """Whoever may only add can still forget; that must never leave a machine without its home."""
    gone = lose_a_machine(str(tmp_path / "gone"), small=True)
    with opened(gone.here) as repository, repository.lock(exclusive=True) as lock:
        every = [one.snapshot for one in list_home(repository, gone.home).of_home]
        forget(repository, every, lock, now_ns=time.time_ns())
        assert list_home(repository, gone.home).of_home == []
    done = say("rebuild", gone.here.places.vault, "--key-file", gone.key)
    assert done.code == 0, done.err
    assert "every snapshot of this home was forgotten; this is the newest of them" in done.out
    equal(gone.home, os.path.join(bare, ".hermes"))


def test_a_snapshot_is_chosen_by_its_id(tmp_path, bare, say):
    gone = lose_a_machine(str(tmp_path / "gone"), small=True)
    before = tree_facts(gone.home)
    write(gone.home, "SOUL.md", "worse")
    take(gone.here, gone.home)
    with opened(gone.here) as repository:
        older = list_home(repository, gone.home).shown[-1]
    words = ("rebuild", gone.here.places.vault, "--key-file", gone.key, "--snapshot")
    green(say(*words, older.short, "--json"))
    assert tree_facts(os.path.join(bare, ".hermes"))["SOUL.md"] == before["SOUL.md"]
    none = say(*words, "0123abcd")
    assert none.code == 1 and "No snapshot starts with `0123abcd`" in none.err


def test_several_hosts_in_one_vault_are_listed_and_one_is_chosen(tmp_path, bare, say, monkeypatch):
    gone = lose_a_machine(str(tmp_path / "gone"), small=True)
    write(gone.home, "SOUL.md", "the other machine's")
    own = LockIdentity.of_this_process()
    monkeypatch.setattr(
        LockIdentity, "of_this_process", classmethod(lambda cls: replace(own, hostname="iris"))
    )
    take(gone.here, gone.home)
    monkeypatch.undo()
    monkeypatch.setenv("HOME", bare)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    words = ("rebuild", gone.here.places.vault, "--key-file", gone.key)
    refused = say(*words)
    assert refused.code == 2 and error_code(refused.err) == "several-homes"
    assert f"`{gone.here.places.vault}` holds 2 homes, and which one is meant is not clear:" in refused.err
    assert f"  iris  {gone.home}  hermes  " in refused.err
    assert f"`safekept rebuild {gone.here.places.vault} --host iris --key-file {gone.key}`" in refused.err
    assert "Kept       Nothing was changed" in refused.err and not os.path.exists(f"{bare}/.hermes")
    green(say(*words, "--host", "iris", "--json"))
    with open(os.path.join(bare, ".hermes", "SOUL.md")) as file:
        assert file.read() == "the other machine's"
    wrong = say(*words, "--host", "nemo")
    assert wrong.code == 2 and f"`{gone.here.places.vault}` holds nothing of `nemo`; there is:" in wrong.err


def test_the_key_chooses_among_the_vaults_of_a_destination(gone, tmp_path, bare, say):
    disk = tmp_path / "disk"
    shutil.copytree(gone.disk, disk)
    other = throwaway(tmp_path / "other")
    os.makedirs(os.path.join(other.places.user_home, ".hermes"))
    write(other.places.user_home, ".hermes", "SOUL.md", "somebody else's")
    write(other.places.user_home, ".hermes", "config.yaml", "x: 1\n")
    take(other, os.path.join(other.places.user_home, ".hermes"))
    shutil.copytree(other.places.vault, disk / "00112233445566aa")
    green(say("rebuild", str(disk), "--key-file", gone.key, "--json"))
    equal(gone.home, os.path.join(bare, ".hermes"))
    write(bare, "wrong.key", "AAAA-BBBB\n")
    refused = say("rebuild", str(disk), "--key-file", os.path.join(bare, "wrong.key"), "--home", f"{bare}/x")
    assert refused.code == 12 and refused.err == (
        f"`{disk}` holds 2 vaults, and no key that was given opens one of them\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       Name your kit, or a new file with the key from it as one line: "
        f"`safekept rebuild {disk} --key-file FILE`\n"
        "             Or use the recovery passphrase: run the command at a terminal and it will ask for it, "
        "or name a file with `--passphrase-file PATH`\n"
        "  Error      wrong-key\n"
    )


# Bad luck


def test_every_refusal_says_what_happened_what_was_kept_and_what_to_do(gone, tmp_path, bare, say):
    key = ("--key-file", gone.key)
    empty = tmp_path / "empty"
    empty.mkdir()
    os.makedirs(f"{bare}/.claude/projects")
    write(bare, ".claude", "settings.json", "{}")
    write(bare, ".claude", "history.jsonl", "{}\n")
    write(bare, "file", "x")
    texts = {
        ("rebuild", str(tmp_path / "none"), *key): (10, "nothing-to-rebuild", "There is nothing at `"),
        ("rebuild", str(empty), *key): (10, "nothing-to-rebuild", "holds no vault and no archives"),
        ("rebuild", f"file:{tmp_path}/none", *key): (10, "nothing-to-rebuild", "none"),
        ("rebuild", "nowhere", *key): (2, "no-such-destination", "There is no destination called `nowhere`"),
        ("rebuild", gone.disk): (12, "vault-key-missing", "is there, but its key file `"),
        ("rebuild", gone.zip, "--home", f"{bare}/.claude"): (
            1,
            "another-layout",
            f"`{bare}/.claude` is a home of Claude Code, and what was found is one of Hermes Agent",
        ),
        ("rebuild", gone.zip, "--home", f"{bare}/file"): (1, "home-not-directory", "is not a directory"),
        ("rebuild", gone.zip, "--home", bare): (1, "unsafe-target", "home directory, or holds it"),
        ("rebuild", gone.zip, "--home", "/"): (1, "unsafe-target", "Nothing is rebuilt in `/`"),
        ("rebuild", gone.sealed): (1, "", "identity"),
    }
    before = tree_facts(bare)
    for words, (code, name, text) in texts.items():
        refused = say(*words)
        assert refused.code == code or not name, (words, refused)
        assert name in ("", error_code(refused.err)) and text in refused.err, (words, refused.err)
        assert "\n  Kept       " in refused.err and "\n  Next       " in refused.err
        after = {
            path: fact for path, fact in tree_facts(bare).items() if not path.startswith((".local", "."))
        }
        assert after == {path: fact for path, fact in before.items() if path in after}, words


def test_no_room_is_known_before_anything_is_written(gone, small_filesystem, say):
    home = os.path.join(small_filesystem(2048), ".hermes")
    refused = say("rebuild", gone.disk, "--key-file", gone.key, "--home", home)
    assert refused.code == 1 and f"There is not enough room to rebuild `{home}`: " in refused.err
    assert "Kept       Nothing was changed; what was begun has been removed" in refused.err
    assert "`--home DIR`" in refused.err and os.listdir(os.path.dirname(home)) == []


def test_an_unreachable_place_is_said(bare, say, monkeypatch):
    monkeypatch.setattr(retry, "_ATTEMPTS", 1)
    monkeypatch.setattr(retry.RetryPatience.__init__, "__defaults__", (300.0, 1))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    refused = say("rebuild", "s3://bucket/agent")
    assert refused.code == 1 and error_code(refused.err) == "place-unreachable", refused.err
    assert "cannot be reached" in refused.err and not os.path.exists(f"{bare}/.hermes")


def test_a_mount_point_that_is_empty_is_built_in_and_one_that_is_not_is_refused(gone, small_filesystem, say):
    place = small_filesystem(200_000)
    words = ("rebuild", gone.disk, "--key-file", gone.key, "--home", place)
    green(say(*words, "--json"))
    equal(gone.home, place)
    refused = say(*words, "--yes")
    assert refused.code == 1 and error_code(refused.err) == "home-not-movable"
    assert f"`{place}` is not empty, and cannot be put aside: it is a mount point" in refused.err
    equal(gone.home, place)


def test_what_did_not_come_back_whole_is_not_put_in_place_unless_that_is_wanted(gone, tmp_path, bare, say):
    disk = str(tmp_path / "disk")
    shutil.copytree(gone.disk, disk)
    vault = os.path.join(disk, os.path.basename(gone.copy))
    pack, found = place_of_file(gone.here, "skills/keeper/SKILL.md", gone.home)
    flip(os.path.join(vault, os.path.relpath(pack, gone.here.places.vault)), found.offset + 20)
    home = os.path.join(bare, ".hermes")
    os.makedirs(home)
    write(home, "SOUL.md", "mine")
    before = tree_facts(home)
    words = ("rebuild", disk, "--key-file", gone.key, "--yes")
    refused = say(*words)
    assert refused.code == 1 and error_code(refused.err) == "rebuild-not-proven"
    assert "and was not put in place:\n    files: " in refused.err
    assert f"Kept       `{home}` is as it was; what was built has been removed" in refused.err
    assert "add `--allow-damaged`" in refused.err
    assert tree_facts(home) == before and sorted(os.listdir(bare)) == [".hermes", ".local"]
    taken = say(*words, "--allow-damaged", "--json")
    document = json.loads(taken.out)
    assert taken.code == 3 and document["proven"] is False and document["complete"] is False
    lost = {one["path"] for one in document["lost"]}
    assert "skills/keeper/SKILL.md" in lost
    missing = {line.split()[1] for line in differences(tree_facts(gone.home), tree_facts(home))}
    assert lost <= missing and os.path.exists(os.path.join(home, "SOUL.md"))


def test_a_running_agent_is_not_left_writing_into_what_was_put_aside(gone, bare, say):
    home = os.path.join(bare, ".hermes")
    assert say("import", gone.zip, "--force").code == 0
    with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        connection.execute("create table notes(x)")  # what a process that holds it asks for
    with holding(os.path.join(home, "state.db")):
        refused = say("rebuild", gone.disk, "--key-file", gone.key, "--yes")
        assert refused.code == 1 and error_code(refused.err) == "held-database"
        assert "would go on writing into the home that is put aside" in refused.err
    assert say("rebuild", gone.disk, "--key-file", gone.key, "--yes").code == 0


def kill_storm(gone, tmp_path, choose):
    """Killed at a step, the old home is there after the next rebuild began, and that one ends well."""
    killed = 0
    user = str(tmp_path / "killed")
    environment = {"PATH": "/usr/bin:/bin", "HOME": user, "PYTHONUTF8": "1"}
    home = os.path.join(user, ".hermes")
    words = ["rebuild", gone.disk, "--key-file", gone.key, "--yes", "--json"]

    def fresh():
        shutil.rmtree(open_below(user), ignore_errors=True)
        os.makedirs(home)
        write(home, "SOUL.md", "the old one")
        os.makedirs(home + ".safekept/landings")

    fresh()
    steps = count_steps(words, environment, str(tmp_path / "steps"))
    for step in choose(steps):
        fresh()
        if run_killed(words, environment, step).returncode != -9:
            continue
        killed += 1
        again = run_killed(words, environment, 0)
        assert again.returncode == 0, (step, again.stdout, again.stderr)
        equal(gone.home, home)
        asides = [
            one for one in os.listdir(user) if one.startswith(".hermes.before") and "safekept" not in one
        ]
        kept = [one for one in asides if read(user, one, "SOUL.md") == "the old one"]
        assert len(kept) == 1, (step, os.listdir(user))
        assert not os.path.exists(home + ".safekept-rebuild"), step
    return killed


def test_killed_at_the_end_it_is_simply_run_again(gone, tmp_path):
    """The last steps are the renames: the home that was there is never lost."""
    assert kill_storm(gone, tmp_path, lambda steps: [steps // 2, steps - 30]) >= 1


@pytest.mark.soak("rebuild")
def test_killed_at_any_step_it_is_simply_run_again(gone, tmp_path):
    assert kill_storm(gone, tmp_path, lambda steps: [*range(1, steps, 37), *range(steps - 80, steps)]) > 80
