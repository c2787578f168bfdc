"""`safekept doctor`: transcripts in five states, and every family of findings with its evidence and fix."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import stat
import time
from contextlib import closing

import pytest

from safekept.actions.doctor.case import DoctorRequest
from safekept.actions.doctor.diagnosis import examine
from safekept.actions.doctor.repairs import carry_out
from safekept.actions.drill.receipts import PASSED, Receipt, Row, save_receipt
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.status.status import look
from safekept.core.journal import Record, new_id
from safekept.core.next_step import step_text, step_texts
from safekept.home.scan.scanning import Selection
from safekept.vault.repo.lock_file import LockFile
from safekept.vault.storage.base import FileKind
from support.commands.in_process import spoken
from support.commands.transcripts import fits, same_as, same_document
from support.home.homes import make_hermes_home, tree_facts
from support.projects.checkpoints import put
from support.users.contexts import throwaway
from support.users.states import STATES, aged, drilled, made, tear, told
from support.vault.snapshots import opened, take

REFERENCE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "reference")
EXITS = {"empty": 3, "fresh": 3, "stale": 3, "alarmed": 4, "damaged": 4}


@pytest.fixture(autouse=True)
def a_disk_with_room(monkeypatch):
    """A disk that is nearly full is a finding; the one that these tests run on is not meant."""
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)


@pytest.mark.parametrize("name", STATES)
def test_the_doctor_says_this_in_the_state(tmp_path, monkeypatch, name):
    state = made(name, tmp_path)
    say = spoken(monkeypatch, state.user)
    before = tree_facts(state.home, databases="bytes")

    done = say("doctor")
    assert done.code == EXITS[name], done.err
    fits(done.out)
    answer = say("doctor", "--json").out
    document = json.loads(answer)
    # What SQLite says of a torn page depends on its version.
    detail = document["findings"][0]["evidence"][0] if name == "damaged" else "nothing of the kind"
    shown = re.sub(r"(damaged\n  Seen       ).*?(?=\n +the newest)", r"\1DETAIL", done.out, flags=re.S)
    same_as(f"doctor-{name}.txt", told(shown, state))
    same_document(
        f"doctor-{name}.json", answer, lambda text: "DETAIL" if text == detail else told(text, state)
    )
    with open(os.path.join(REFERENCE, "json.md")) as file:
        section = file.read().partition("\n## doctor\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`([a-z_]+)`", section))
    assert document.keys() - {"version"} <= documented and document["findings"][0].keys() <= documented
    assert tree_facts(state.home, databases="bytes") == before, "looking changes nothing"
    if name == "empty":
        named = " ".join(say("status").out.split("\n")[1].split())
        assert named == "Next Protect this machine: `safekept setup`"
        assert f"{named} does all of this *" in " ".join(done.out.split()), "status and doctor say the same"
        assert not os.path.exists(state.context.places.data_directory), "nor does it make anything"


def test_every_printed_command_of_ours_runs_and_the_damaged_database_comes_back(tmp_path, monkeypatch):
    state = made("damaged", tmp_path)
    say = spoken(monkeypatch, state.user)
    (restore,) = [
        shlex.split(one)[1:] for one in re.findall(r"`(safekept snapshot restore [^`]*)`", say("doctor").out)
    ]
    assert say(*restore, "--yes").code == 0
    with closing(sqlite3.connect(os.path.join(state.home, "state.db"))) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    codes = [one["code"] for one in json.loads(say("doctor", "--json").out)["findings"]]
    assert "database-damaged" not in codes and codes[0] == "damaged-when-stored"
    assert "\n  Damaged " not in say("status").out, "what is damaged is the snapshot, not the home"
    assert say("snapshot").code == 0
    assert "damaged-when-stored" not in say("doctor", "--json").out


# ── one family after the other ─────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A home with a sound snapshot, of which tests take copies."""
    return make_hermes_home(
        str(tmp_path_factory.mktemp("doctor") / "home"), profiles=("coder",), awkward=False
    )


@pytest.fixture
def here(tmp_path, original):
    here = throwaway(tmp_path)
    shutil.copytree(original, os.path.join(here.places.user_home, ".hermes"), symlinks=True)
    return here


@pytest.fixture
def home(here):
    return os.path.join(here.places.user_home, ".hermes")


def found(here, code, **request):
    """The findings with this code."""
    diagnosis = examine(
        here,
        DoctorRequest(config_directory=os.path.join(here.places.user_home, ".config", "safekept"), **request),
    )
    assert diagnosis.remarks == ()
    return [one for one in diagnosis.findings if one.code == code]


def commands(finding):
    return re.findall(r"`([^`]*)`", "\n".join(step_texts(finding.fix)))


def test_a_damaged_database_of_a_profile_is_advised_for_that_profile(here, home):
    first = take(here, home, check="always").id[:8]
    tear(os.path.join(home, "profiles", "coder", "state.db"))
    (one,) = found(here, "database-damaged")
    assert one.text == f"profiles/coder/state.db (profile coder) in {home} is damaged"
    assert commands(one) == [f"safekept snapshot restore {first} profiles/coder/state.db"]


def test_advice_never_names_a_generation_that_was_not_verified(here, home):
    sound = take(here, home, check="always").id[:8]
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection, connection:
        connection.execute("insert into sessions(id, source, started_at) values ('later', 'cli', 1)")
    unverified = take(here, home, check="never").id[:8]
    tear(os.path.join(home, "state.db"))
    damaged = take(here, home, check="always").id[:8]
    (one,) = found(here, "database-damaged")
    assert commands(one) == [f"safekept snapshot restore {sound} state.db"]
    assert unverified not in str(one) and damaged not in str(one)


def test_where_no_generation_was_verified_that_is_said(here, home):
    ids = [take(here, home, check="never").id[:8] for _ in range(2)]
    tear(os.path.join(home, "state.db"))
    (one,) = found(here, "database-damaged")
    assert one.evidence[-1] == "no verified generation of it is known"
    assert one.fix[0] == "Nothing is advised that was not verified; keep a copy of the damaged file"
    assert commands(one) == ["safekept drill", "safekept history state.db"]
    assert not any(name in str(one) for name in ids)


def test_a_generation_that_a_drill_proved_counts_as_verified_and_one_that_failed_does_not(here, home):
    from safekept.vault.care.forgetting import mark_proven

    proven = take(here, home, check="never")
    take(here, home, check="never")
    with opened(here) as repository, repository.lock(exclusive=True) as lock:
        mark_proven(repository, [proven.snapshot], lock, now_ns=time.time_ns())
    tear(os.path.join(home, "state.db"))
    (one,) = found(here, "database-damaged")
    assert commands(one) == [f"safekept snapshot restore {proven.id[:8]} state.db"]
    assert one.evidence[-1].endswith(("(proven by a drill)", "(checked and sound)"))


def test_a_verified_generation_whose_packs_are_lost_is_not_advised(here, home):
    older = take(here, home, check="always").id[:8]
    with opened(here) as repository:
        packs = {name for name, _ in repository.storage.list(FileKind.PACK)}
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection, connection:
        connection.executemany(
            "insert into messages(session_id, role, content, timestamp) values ('session-1', 'user', ?, 9)",
            [(os.urandom(300).hex(),) for _ in range(200)],
        )
    newer = take(here, home, check="always").id[:8]
    tear(os.path.join(home, "state.db"))
    assert commands(found(here, "database-damaged")[0]) == [f"safekept snapshot restore {newer} state.db"]
    for directory, _, names in os.walk(os.path.join(here.places.vault, "data")):
        for name in set(names) - packs:
            os.chmod(os.path.join(directory, name), 0o600)
            os.unlink(os.path.join(directory, name))
    assert commands(found(here, "database-damaged")[0]) == [f"safekept snapshot restore {older} state.db"]


def test_a_proven_archive_is_advised_where_no_snapshot_is_verified(here, home, tmp_path):
    archive = put(str(tmp_path / "a.zip"), "x")
    row = (Row("files", PASSED, 1, ""),)
    save_receipt(here, Receipt(new_id(), "archive", archive, home, time.time(), 1.0, False, row))
    tear(os.path.join(home, "state.db"))
    assert found(here, "database-damaged")[0].evidence[-1] == "no verified generation of it is known"
    save_receipt(here, Receipt(new_id(), "archive", archive, home, time.time(), 1.0, True, row))
    (one,) = found(here, "database-damaged")
    assert commands(one) == [f"safekept import {archive} --only state.db"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty (0 bytes)"), (bytes(90_000), "begin with zero bytes"), (b"x" * 9000, "something else")],
)
def test_what_is_no_database_any_more_is_damage(here, home, content, words):
    with open(os.path.join(home, "state.db"), "wb") as file:
        file.write(content)
    (one,) = found(here, "database-damaged")
    assert words in one.evidence[0] and one.alarm


def test_deeper_databases_are_looked_at_and_one_that_was_never_used_is_no_damage(here, home):
    deep = os.path.join(home, "cron", "executions.db")
    put(deep, b"")
    assert found(here, "database-damaged") == []
    put(deep, bytes(4096))
    (one,) = found(here, "database-damaged")
    assert one.text == f"cron/executions.db in {home} is damaged"


def test_an_alarm_that_brings_back_a_database_says_that_nobody_verified_it_there(here, home):
    from safekept.actions.alarms.alarms import Alarm, raise_alarm

    first = take(here, home, check="never").id
    command = f"safekept snapshot restore {first[:8]} state.db memories"
    alarm = Alarm(home=home, kind="loss", text="messages 40 → 2", restore=(command,), pinned=first)
    raise_alarm(here, alarm)
    (one,) = found(here, "alarm-loss")
    assert f"`{command}`" in step_text(one.fix[0]), "as the status says it"
    assert f"state.db was not verified in {first[:8]}; a drill of it would tell" in one.evidence


# locks


def lock_of(repository, **facts):
    from safekept.vault.repo.sealed_files import save_file

    lock = dataclasses.replace(LockFile.of_this_process(True), **facts)
    return save_file(repository.storage, repository.key, FileKind.LOCK, lock.to_json())


def test_locks_of_dead_processes_are_removed_by_fix_and_no_others(here, home):
    take(here, home)
    dead = 2**22 - 3
    assert not os.path.exists(f"/proc/{dead}")
    with opened(here) as repository:
        lock_of(repository, pid=dead)
        long_ago = time.time_ns() - 7200 * 10**9
        lock_of(repository, pid=1, hostname="elsewhere", boot="another", time_ns=long_ago)
        living = lock_of(repository, exclusive=False)
    (one,) = found(here, "stale-lock")
    assert one.text == "2 locks were left behind on the vault" and commands(one) == ["safekept vault unlock"]
    assert any(
        f"pid {dead} on `{socket.gethostname()}`" in line and "is gone" in line for line in one.evidence
    )
    assert one.repair is not None and one.repair.text == "removes 1 locks of dead processes"
    carry_out(here, [one])
    (rest,) = found(here, "stale-lock")
    assert rest.repair is None and "`elsewhere`" in rest.evidence[0], "who knows whether that one lives"
    with opened(here) as repository:
        assert living in [name for name, _ in repository.storage.list(FileKind.LOCK)]
        for name, _ in list(repository.storage.list(FileKind.LOCK)):
            repository.storage.delete(FileKind.LOCK, name)


def test_a_lock_that_git_left_is_old_before_it_is_called_so(here, home):
    path = put(os.path.join(here.places.data_directory, "checkpoints", "store", "packed-refs.lock"), "")
    assert found(here, "stale-lock") == []
    os.utime(path, (time.time() - 3600,) * 2)
    (one,) = found(here, "stale-lock")
    carry_out(here, [one])
    assert not os.path.exists(path) and found(here, "stale-lock") == []


def kill_half_way(work):
    """A landing in a process that dies when everything is swapped in and nothing is committed."""
    child = os.fork()
    if not child:
        from safekept.home.landing.swap.swap import Swap

        Swap._check_holders = lambda self: os.kill(os.getpid(), signal.SIGKILL)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def test_an_interrupted_restore_is_taken_back_by_fix(here, home, monkeypatch):
    say = spoken(monkeypatch, here.places.user_home)
    take(here, home)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("mine")
    os.unlink(os.path.join(home, "config.yaml"))
    before = tree_facts(home)
    kill_half_way(lambda: say("snapshot", "restore", "latest", "--yes"))
    (one,) = left = found(here, "interrupted-landing")
    assert one.text == f"a restore or import into {home} was cut off half way"
    assert "no process is at work there" in one.evidence
    plan = say("doctor", "--fix", "--dry-run")
    assert f"    makes right what was cut off in {home}\n" in plan.out and plan.out.endswith(
        "Nothing was changed\n"
    )
    assert found(here, "interrupted-landing") == left
    done = say("doctor", "--fix")
    assert done.out.startswith("Mended "), done.out
    assert tree_facts(home) == before and found(here, "interrupted-landing") == []


def test_an_interrupted_rollback_is_finished_by_fix(here, home, tmp_path, monkeypatch):
    say = spoken(monkeypatch, here.places.user_home)
    project = os.path.realpath(tmp_path / "project")
    put(os.path.join(project, "pyproject.toml"), "")
    main = put(os.path.join(project, "main.py"), "one\n")
    assert say("checkpoint", project).code == 0
    put(main, "broken\n")
    child = os.fork()
    if not child:
        import safekept.checkpoints.rollback.rollback as rolling

        rolling.go_forward = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        say("rollback", "1", "--dir", project)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    (one,) = found(here, "interrupted-rollback")
    assert one.alarm and commands(one) == [f"safekept rollback --dir {project}"]
    assert found(here, "interrupted-rollback", home=home) == [], "asked about a home, only that is looked at"
    assert say("doctor", "--fix").out.startswith("Mended 1 finding\n")
    assert found(here, "interrupted-rollback") == []
    with open(main) as file:
        assert file.read() == "one\n"
    assert say("undo").code == 0, "and it can be undone"
    with open(main) as file:
        assert file.read() == "broken\n"


# permissions


def test_modes_that_are_too_wide_are_found_mended_and_put_back_by_undo(here, home, monkeypatch):
    say = spoken(monkeypatch, here.places.user_home)
    take(here, home)
    config = put(os.path.join(here.places.user_home, ".config", "safekept", "config.toml"), "")
    secret = os.path.join(home, "profiles", "coder", ".env")
    pairing = os.path.join(home, "pairing", "telegram-approved.json")
    wide = {
        here.places.vault_key_file: 0o640,
        config: 0o664,
        secret: 0o640,
        here.places.vault: 0o755,
        os.path.join(home, ".env"): 0o604,
    }
    for path, mode in wide.items():
        os.chmod(path, mode)

    def modes():
        seen = {path: stat.S_IMODE(os.stat(path).st_mode) for path in wide}
        return {**seen, here.places.vault: seen[here.places.vault] | 0o200}  # that is the seat belt's

    assert stat.S_IMODE(os.stat(pairing).st_mode) == 0o600
    findings = {one.repair.path: one for one in found(here, "permissions")}
    assert findings.keys() == wide.keys()
    key = findings[here.places.vault_key_file]
    assert (
        key.alarm
        and key.text == f"the key of the vault can be read or entered by others: {here.places.vault_key_file}"
    )
    assert key.evidence[0] == "its mode is 0640" and commands(key) == [
        f"chmod 600 {here.places.vault_key_file}"
    ]
    assert commands(findings[here.places.vault]) == [f"chmod 700 {here.places.vault}"]
    planned = say("doctor", "--fix", "--dry-run")
    assert f"    sets the mode of {secret} to 0600\n" in planned.out
    assert modes() == wide
    done = say("doctor", "--fix")
    assert done.out.startswith("Mended 5 findings\n"), done.out
    assert set(modes().values()) == {0o600, 0o700}
    assert found(here, "permissions") == []
    undo = re.search(r"Put the modes back: `safekept (undo [^`]*)`", done.out)
    os.chmod(config, 0o400)
    back = say(*undo.group(1).split())
    assert (
        back.code == 3 and f"  Gone       {config}: its mode is 0400 by now, and was left alone\n" in back.out
    )
    assert modes() == {**wide, config: 0o400}


def test_a_key_that_everybody_could_read_is_said_even_though_opening_the_vault_closed_it(here, home):
    take(here, home)
    os.chmod(here.places.vault_key_file, 0o644)
    (one,) = found(here, "key-was-open")
    assert one.evidence[0] == "its mode was 0644" and one.alarm
    assert [str(step) for step in one.fix] == [
        "If others use this machine, put a new key in its place: `safekept vault key renew`"
    ]
    assert stat.S_IMODE(os.stat(here.places.vault_key_file).st_mode) == 0o600
    assert found(here, "key-was-open") == found(here, "permissions") == []


def test_a_link_in_the_place_of_a_secret_is_never_followed(here, home, tmp_path):
    target = put(str(tmp_path / "outside"), "x")
    os.chmod(target, 0o644)
    env = os.path.join(home, ".env")
    os.chmod(env, 0o644)
    (one,) = [each for each in found(here, "permissions") if each.repair.path == env]
    os.unlink(env)
    os.symlink(target, env)
    assert carry_out(here, [one]).done[0].failure
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o644
    assert not [each for each in found(here, "permissions") if each.repair.path == env]


# protection


def test_a_home_that_was_never_kept_and_one_without_a_snapshot(here, home):
    claude = os.path.join(here.places.user_home, ".claude")
    put(os.path.join(claude, "settings.json"), "{}")
    put(os.path.join(claude, "projects", "x.jsonl"), "{}")
    (one,) = found(here, "no-snapshot")
    assert one.level == "not-protected" and commands(one) == ["safekept snapshot"]
    take(here, home)
    assert found(here, "no-snapshot") == []
    (one,) = found(here, "home-unkept")
    assert commands(one) == [f"safekept snapshot --home {claude}"]


def test_no_proof_in_ninety_days(here, home):
    snapshot = take(here, home)
    (one,) = found(here, "not-proven")
    assert one.text == f"{home} has never passed a drill"
    assert commands(one) == ["safekept drill"]

    class Of:
        context = here
        user = here.places.user_home

    Of.home = home
    drilled(Of, snapshot.id)
    assert found(here, "not-proven") == []
    aged(Of, 89 * 86400.0)
    assert found(here, "not-proven") == []
    aged(Of, 2 * 86400.0)
    (one,) = found(here, "not-proven")
    assert "last passed a drill 91 days ago" in one.text


def test_the_only_key_matters_more_where_copies_are_elsewhere(here, home):
    take(here, home)
    assert not found(here, "key-only-here")[0].alarm
    there = here.changed(destinations=(DestinationSetting("nas", "sftp://nas/backups"),))
    (one,) = found(there, "key-only-here")
    assert one.alarm
    assert found(there, "no-copy-elsewhere") == []
    with opened(here) as repository:
        from safekept.vault.repo.keys import Secret

        repository.add_key(Secret("four plain words here"), username="recovery")
    assert found(there, "key-only-here") == []


# other tools


def test_copies_of_other_tools_are_weighed_and_adopted_before_anything_may_go(here, home):
    big = os.urandom(1 << 20)
    snapshot = os.path.join(home, "state-snapshots", "20260601-000000")
    put(os.path.join(snapshot, "SOUL.md"), big)
    manifest = {"id": "20260601-000000", "files": {"SOUL.md": len(big)}}
    put(os.path.join(snapshot, "manifest.json"), json.dumps(manifest))
    put(os.path.join(home, "state.db.malformed-backup-20260601"), big)
    put(os.path.join(home, "old.zip"), big)
    hermes, loose = sorted(found(here, "other-copies"), key=lambda one: "Hermes" not in one.text)
    assert hermes.text == f"copies that Hermes made take 1.05 MB in {home}"
    first = "1 of them is not in the vault yet; take them in first: `safekept snapshot adopt`"
    assert step_text(hermes.fix[0]).startswith(first)
    assert "rm" not in " ".join(commands(hermes)), "nothing may go that is not in the vault"
    assert loose.text == f"2 older copies of files take 2.1 MB in {home}"
    assert commands(loose)[0] == "safekept snapshot" and commands(loose)[1].startswith("rm ")
    from safekept.actions.archives.adopt import adopt

    adopt(here, here.locate(home))
    (hermes, _) = sorted(found(here, "other-copies"), key=lambda one: "Hermes" not in one.text)
    assert commands(hermes) == [f"rm -r {snapshot}"]


# context


def test_a_schedule_that_fell_silent_and_a_machine_that_slept(here, home, monkeypatch):
    take(here, home)
    (one,) = found(here, "no-schedule")
    from safekept.schedule.tasks import ScheduleState, write_state

    monkeypatch.setattr("safekept.actions.schedule.host_start.why_host_will_not_start", lambda *_: ("", ()))
    slept = 0.0
    monkeypatch.setattr("safekept.schedule.machine.clocks", lambda: (1e9, slept))
    path = os.path.join(here.places.data_directory, "schedule", "state.json")
    os.makedirs(os.path.dirname(path))
    write_state(path, ScheduleState(looked=time.time() - 600))
    assert found(here, "no-schedule") == found(here, "schedule-silent") == []
    write_state(path, ScheduleState(looked=time.time() - 4 * 3600))
    (one,) = found(here, "schedule-silent")
    assert one.level == "partly" and "it last ran 4 h ago" in one.text
    assert commands(one) == ["safekept schedule run", "safekept schedule show"]
    assert "schedule-silent" in {each.code for each in look(here).verdict.reasons}, "status says the same"
    slept = 3 * 3600.0
    assert found(here, "schedule-silent") == [], "nothing is missed in sleep"
    assert "schedule-silent" not in {each.code for each in look(here).verdict.reasons}


def test_clocks_that_are_or_were_wrong(here, home):
    take(here, home)
    assert found(here, "clock") == []
    now = time.time()
    for moment in (now - 100, now - 9000, now - 8000):
        here.journal.append(Record(new_id(), "note", "done", moment))
    (one,) = found(here, "clock")
    assert one.evidence[0] == "the journal goes back in time once, by up to 2 h"
    with opened(here) as repository:
        (name,) = [name for name, _ in repository.storage.list(FileKind.SNAPSHOT)]
        future = dataclasses.replace(repository.load_snapshot(name), time_ns=time.time_ns() + 86400 * 10**9)
        repository.save_snapshot(future)
        repository.delete_snapshot(name)
    (one,) = found(here, "clock")
    assert one.evidence[0].startswith("snapshot ") and " is dated " in one.evidence[0]


def test_programs_that_the_settings_need(here, home):
    put(os.path.join(here.places.data_directory, "checkpoints", "store", "HEAD"), "ref: x\n")
    bare = here.changed(
        environment={"PATH": "/nonexistent"},
        destinations=(
            DestinationSetting("nas", "sftp://nas/backups"),
            DestinationSetting("cloud", "rclone:remote:backups"),
        ),
    )
    request = {"recipients": ("gpg:ABCDEF", "age1x"), "passphrase_command": "pass show vault"}
    names = {one.text.split()[0]: one for one in found(bare, "program-missing", **request)}
    assert names.keys() == {"git", "gpg", "ssh", "rclone", "pass"}
    assert names["pass"].alarm and names["git"].level == "note"
    assert names["rclone"].text == "rclone is not installed; it is needed to reach the destination cloud"
    assert found(here, "program-missing") == []


def test_room_that_nobody_gave_back_and_a_disk_that_is_nearly_full(here, home, monkeypatch):
    from safekept.vault.care.forgetting import forget

    old = take(here, home, kind="quick", selection=Selection(quick=True))
    take(here, home)
    with opened(here) as repository, repository.lock(exclusive=True) as lock:
        forget(repository, [old.snapshot], lock, now_ns=time.time_ns() - 40 * 86400 * 10**9)
    (one,) = found(here, "vault-unpruned")
    assert "safekept vault prune" in commands(one)
    assert found(here, "disk-nearly-full") == []
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1000)
    (one,) = found(here, "disk-nearly-full")
    assert one.alarm and one.fix[0] == "Make room on that disk", "ours may be the least of it"


def test_damage_that_the_last_check_noted_is_found(here, home, monkeypatch):
    take(here, home)
    for directory, _, names in os.walk(os.path.join(here.places.vault, "data")):
        for name in names:
            path = os.path.join(directory, name)
            os.chmod(path, 0o600)
            with open(path, "r+b") as file:
                file.seek(40)
                file.write(b"\0" * 64)
    say = spoken(monkeypatch, here.places.user_home)
    assert say("vault", "check", "--read-data").code != 0
    (one,) = found(here, "vault-damaged")
    assert one.alarm and commands(one) == ["safekept vault repair"]


def test_a_journal_that_is_torn_or_cannot_be_read_is_said_and_stops_nothing(here, home):
    take(here, home)
    with open(here.journal.path, "ab") as file:
        file.write(b'{"version": 1, "snapshot\n')
    (one,) = found(here, "journal-torn")
    assert one.evidence == (here.journal.path,)
    os.unlink(here.journal.path)
    os.mkdir(here.journal.path)
    diagnosis = examine(here)
    assert any(one.code == "journal-unreadable" for one in diagnosis.findings)


def test_a_vault_that_does_not_open_is_said_and_no_generation_of_it_is_named(here, home):
    first = take(here, home, check="always").id[:8]
    tear(os.path.join(home, "state.db"))
    os.unlink(here.places.vault_key_file)
    diagnosis = examine(here)
    codes = [one.code for one in diagnosis.findings]
    assert "vault-shut" in codes and diagnosis.exit_code == 4
    (one,) = [each for each in diagnosis.findings if each.code == "database-damaged"]
    assert one.evidence[-1] == "no verified generation of it is known" and first not in str(one)
    # Nothing of a vault that does not open can be restored to prove it: opening it comes first.
    assert "not-proven" not in codes
    assert not any("`safekept drill" in step for each in diagnosis.findings for step in step_texts(each.fix))


def test_a_user_with_nothing_at_all_is_told_where_to_begin(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    done = spoken(monkeypatch, here.places.user_home)("doctor")
    assert done.code in (3, 4) and "no agent's home was found here, and none is kept" in done.out
    assert os.listdir(here.places.user_home) == []


def test_dry_run_without_fix_is_bad_usage(here, home, monkeypatch):
    assert spoken(monkeypatch, here.places.user_home)("doctor", "--dry-run").code == 2


def test_every_code_is_documented():
    with open(os.path.join(REFERENCE, "doctor.md")) as file:
        documented = set(re.findall(r"^\| `([a-z-]+)`", file.read(), re.M))
    import safekept.actions.doctor as package

    written = set()
    for name in os.listdir(os.path.dirname(package.__file__)):
        if name.endswith(".py"):
            with open(os.path.join(os.path.dirname(package.__file__), name)) as file:
                written |= set(re.findall(r'Finding\(\s*"([a-z-]+)"', file.read()))
    assert written and written <= documented, written - documented
