"""Users in trouble: everything that status and doctor can find, made by hand on disk.

A world has several troubles that have nothing to do with each other, and is made below a directory of its
own. Makers at the end return what a person does by hand to mend it.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from safekept.actions.alarms.alarms import DESTINATION, OVERDUE, Alarm, raise_alarm
from safekept.actions.alarms.declined import take_back
from safekept.actions.base.search_behind import fill_all
from safekept.actions.base.unfinished import Unfinished
from safekept.actions.hosts.calls import integrations_directory, record_host_call
from safekept.actions.projects.hidden.record import project_records
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.keys.kit_record import acknowledge_kit
from safekept.actions.vault.opening import open_vault
from safekept.actions.vault.seat_belt import open_stores
from safekept.core.journal import Record, new_id
from safekept.home.landing import SearchNote, Unfilled, only_filler
from safekept.home.landing.area import open_area
from safekept.home.scan import Selection
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.hermes.update_wrapper import guard_updates
from safekept.schedule.tasks import RunNote, ScheduleState, write_state
from safekept.vault.care import forget
from safekept.vault.repo import LockFile
from safekept.vault.repo.sealed_files import save_file
from safekept.vault.storage import FileKind
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.hosts.connected import connect, program_in
from support.projects.checkpoints import put
from support.users.states import DAY, State, aged, drilled, empty, made
from support.vault.closed import open_below

# ── worlds ─────────────────────────────────────────────────────────────────────────────────────────


def used_for_a_while(directory) -> State:
    """Small troubles that have nothing to do with each other."""
    state = made("fresh", directory)
    here, data = state.context, state.context.places.data_directory
    shutil.rmtree(os.path.join(data, "receipts"))  # not-proven
    os.chmod(here.places.vault_key_file, 0o640)  # permissions
    take_back(here, ("no-schedule", "not-connected:hermes"))
    record_host_call(data, "hermes", kept=False, unkept="/: not a project")
    os.makedirs(os.path.join(state.user, ".hermes.safekept", "landings", "20260101-000000-abcdef"), 0o700)
    hermes_copy(state)
    for moment in (time.time() - 100, time.time() - 9000):
        here.journal.append(Record(new_id(), "note", "done", moment))  # clock
    put(os.path.join(state.user, ".claude", "settings.json"), "{}\n")
    put(os.path.join(state.user, ".claude", "projects", "a", "b.jsonl"), "{}\n")  # home-unkept
    lock_of_the_dead(state)
    with open(here.journal.path, "ab") as file:
        file.write(b'{"version": 1, "snapshot\n')  # journal-torn
    return state


def hermes_copy(state: State) -> None:
    """What `hermes backup -q` leaves: its manifest names what lay beside the database, and has no more."""
    place = os.path.join(state.home, "state-snapshots", "20260601-000000")
    os.makedirs(place)
    with closing(sqlite3.connect(os.path.join(place, "state.db"))) as connection:
        connection.execute("create table t(x)")
        connection.executemany("insert into t values (?)", [(os.urandom(1000),) for _ in range(1500)])
        connection.commit()
    size = os.path.getsize(os.path.join(place, "state.db"))
    files = {"state.db": size, "state.db-wal": 4152, "state.db-shm": 32768}
    with open(os.path.join(place, "manifest.json"), "w", encoding="ascii") as file:
        json.dump({"id": "20260601-000000", "files": files}, file)


def lock_of_the_dead(state: State) -> None:
    with open_vault(state.context) as repository:
        lock = dataclasses.replace(LockFile.of_this_process(True), pid=2**22 - 3)
        save_file(repository.storage, repository.key, FileKind.LOCK, lock.to_json())


def neglected(directory) -> State:
    """Three days in which everything that should have happened failed."""
    state = made("fresh", directory)
    here = state.context
    settings(state, "old", "broken")
    for name in ("old", "broken"):
        journal(
            state, "push", "done", destination=name, place=f"file:{directory}/{name}", bytes=1, snapshots=2
        )
    aged(state, 10 * DAY)
    journal(state, "push", "done", time.time() - DAY, destination="broken", bytes=1, snapshots=2)
    error = {"code": "x", "what": "no route", "kept": "", "next": []}
    journal(state, "push", "failed", destination="broken", error=error)
    journal(state, "snapshot", "failed", home=state.home, kind="manual", error=error)
    shutil.rmtree(os.path.join(here.places.data_directory, "receipts"))
    drilled(state, state.snapshots[-1], ok=False)
    late = f"snapshot:{state.home}"
    raise_alarm(here, Alarm(kind=OVERDUE, home=state.home, text="no snapshot for 3 days", about=late))
    raise_alarm(here, Alarm(kind=DESTINATION, text="the push to old failed", about="push:old"))
    take_back(here, ("no-schedule",))
    document = {
        "version": 1,
        "host": "systemd",
        "user": "",
        "time": time.time(),
        "directories": [],
        "table": False,
    }
    document |= {"files": {"/nowhere/safekept.timer": "0"}, "stop": [], "after": []}
    put(os.path.join(here.places.data_directory, "schedule", "installed.json"), json.dumps(document))
    return state


def cut_off_in_setup(directory) -> State:
    """The snapshot was the last thing that was done."""
    state = made("fresh", directory)
    begun = Unfinished("setup", done=["vault", "passphrase", "snapshot"], left=["push", "proof", "kit"])
    begun.write(state.context)
    return state


def fallen_silent(directory) -> State:
    return scheduled(directory, ScheduleState(looked=time.time() - 9 * 3600))


def until_logout(directory) -> State:
    """A timer of systemd's, and services that end with the session; as `systemctl` and `loginctl` say."""
    state = made("fresh", directory)
    take_back(state.context, ("no-schedule",))
    lingers, programs = os.path.join(directory, "lingers"), os.path.join(directory, "bin")
    shown = f"[ -e {lingers} ] && echo Linger=yes || echo Linger=no"
    tell = f'case "$1" in show-user) {shown};; enable-linger) : > {lingers};; esac'
    for name, line in (("systemctl", "echo active"), ("loginctl", tell)):
        put(os.path.join(programs, name), f"#!/bin/sh\n{line}\n", 0o755)
    timer = put(os.path.join(state.user, ".config", "systemd", "user", "safekept.timer"), "[Timer]\n")
    document = {"version": 1, "host": "systemd", "user": "", "time": time.time(), "directories": []}
    document |= {"files": {timer: "0"}, "table": False, "stop": [], "after": []}
    put(os.path.join(state.context.places.data_directory, "schedule", "installed.json"), json.dumps(document))
    return state


def failed_last_night(directory) -> State:
    run = RunNote(new_id(), time.time() - 3600, "failed", 9.0)
    return scheduled(directory, ScheduleState(looked=time.time() - 60, run=run))


def scheduled(directory, schedule: ScheduleState) -> State:
    state = made("fresh", directory)
    take_back(state.context, ("no-schedule",))
    with pytest.MonkeyPatch.context() as patch:
        assert spoken(patch, state.user)("schedule", "install", "--yes").code == 0
    place = os.path.join(state.context.places.data_directory, "schedule")
    with open(os.path.join(place, "installed.json"), encoding="utf-8") as file:
        installed = json.load(file)
    put(os.path.join(place, "installed.json"), json.dumps({**installed, "time": time.time() - DAY}))
    write_state(os.path.join(place, "state.json"), schedule)
    return state


def installed_before_hermes(directory) -> State:
    """A schedule whose PATH was written down before the agent was in a directory of the user's own."""
    state = scheduled(directory, ScheduleState(looked=time.time() - 60))
    put(os.path.join(state.user, ".local", "bin", "hermes"), "#!/bin/sh\n", 0o755)
    return state


def another_time_set(directory) -> State:
    """A schedule that was installed for another time than the one that is set by now."""
    state = scheduled(directory, ScheduleState(looked=time.time() - 60))
    with pytest.MonkeyPatch.context() as patch:
        assert spoken(patch, state.user)("settings", "schedule.at", "5:15").code == 0
    return state


def damaged(directory) -> State:
    """A database was torn and stored so."""
    return made("damaged", directory)


def lost(directory) -> State:
    """An update emptied most of it; and a drill failed."""
    state = made("alarmed", directory)
    again = ("Prove it again: `safekept drill`",)
    raise_alarm(
        state.context,
        Alarm(kind="drill", home=state.home, text="the drill failed", restore=again, about="snapshot"),
    )
    return state


def memories_gone(directory) -> State:
    """Somebody deleted every memory; no snapshot was taken since."""
    state = made("fresh", directory)
    for name in os.listdir(os.path.join(state.home, "memories")):
        os.unlink(os.path.join(state.home, "memories", name))
    return state


def files_emptied(directory) -> State:
    """Keys and the persona are there, and hold nothing; no snapshot was taken since."""
    state = made("fresh", directory)
    for name in (".env", "SOUL.md"):
        put(os.path.join(state.home, name), "")
    return state


def emptied_files_stored(directory) -> State:
    """The same, and a nightly snapshot has stored it so."""
    state = files_emptied(directory)
    create_snapshot(state.context, SnapshotRequest(state.context.locate(state.home), "scheduled"))
    return state


def gone(directory) -> State:
    state = made("fresh", directory)
    shutil.rmtree(state.home)
    return state


def emptied(directory) -> State:
    """What an `rm -rf ~` took; the stores are as the seat belt held them."""
    state = settings_gone(directory)
    shutil.rmtree(os.path.join(state.user, ".config"))
    shutil.rmtree(state.home)
    return state


def settings_gone(directory) -> State:
    """Only their copy is there."""
    state = made("fresh", directory)
    own = put(os.path.join(state.user, ".config", "safekept", "config.toml"), "[status]\nstale_hours = 30\n")
    with pytest.MonkeyPatch.context() as patch:
        assert spoken(patch, state.user)("snapshot").code == 0
    os.unlink(own)
    return state


def elsewhere(directory) -> State:
    """The home is not where homes of Hermes are."""
    state = empty(directory)
    os.rename(state.home, os.path.join(state.user, "PATH"))
    return state


def vault_deleted(directory) -> State:
    state = made("fresh", directory)
    settings(state, "nas")
    with pytest.MonkeyPatch.context() as patch:
        assert spoken(patch, state.user)("push", "nas").code == 0
    shutil.rmtree(open_below(state.context.places.data_directory))
    return state


def vault_deleted_alone(directory) -> State:
    """What is remembered of it stays: that it was here, and its key."""
    state = made("fresh", directory)
    settings(state, "nas")
    with pytest.MonkeyPatch.context() as patch:
        assert spoken(patch, state.user)("push", "nas").code == 0
    shutil.rmtree(open_below(state.context.places.vault))
    return state


def vault_damaged(directory) -> State:
    state = made("fresh", directory)
    oldest = min(glob.glob(os.path.join(state.context.places.vault, "snapshots", "*")), key=os.path.getmtime)
    os.chmod(oldest, 0o600)
    with open(oldest, "r+b") as file:
        file.write(b"\0" * 40)
    return state


def partly_connected(directory) -> State:
    """Profiles that are not connected, and agents whose entries were lost, are old, or call nobody."""
    state = made("fresh", directory)
    here = state.context
    for name in ("coder", "ops"):
        make_hermes_home(os.path.join(state.home, "profiles", name), profiles=(), awkward=False)
        os.utime(os.path.join(state.home, "profiles", name))
    os.unlink(os.path.join(state.home, "profiles", "ops", "SOUL.md"))  # essential-missing
    create_snapshot(here, SnapshotRequest(here.locate(state.home)))
    connect(here, HOSTS["hermes"], program_in(directory, "hermes"))
    for name in ("claude-code", "gemini", "cursor"):
        put(os.path.join(state.user, f".{name.removesuffix('-code')}", "mark"), "")
        connect(here, HOSTS[name], program_in(directory, name))
    os.unlink(os.path.join(state.user, ".claude", "settings.json"))  # gone
    os.unlink(os.path.join(str(directory), "gemini", "safekept"))  # no-program
    hooks = os.path.join(state.user, ".cursor", "hooks.json")
    with open(hooks, encoding="utf-8") as file:
        found = json.load(file)
    found["hooks"].popitem()
    put(hooks, json.dumps(found))  # partly
    return state


def brought_from_elsewhere(directory) -> State:
    """The home of Hermes came in an archive of another user, with the plugin in it."""
    state = made("fresh", directory)
    connect(state.context, HOSTS["hermes"], program_in(directory, "hermes"))
    path = os.path.join(state.home, "plugins", "safekept", "connection.json")
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    put(path, json.dumps({**found, "environment": {"HOME": os.path.join(str(directory), "other")}}))
    os.unlink(os.path.join(integrations_directory(state.context.places.data_directory), "connections.json"))
    return state


def update_wrapper_replaced(directory) -> State:
    """Hermes's own installer put its command where ours stood."""
    state = made("fresh", directory)
    path = os.path.join(state.user, ".local", "bin", "hermes")
    for _ in range(2):
        put(path + ".new", "#!/bin/sh\n", 0o755)
        os.rename(path + ".new", path)
        here = state.context.changed(environment={"PATH": f"{os.path.dirname(path)}:/usr/bin:/bin"})
        if not os.path.exists(path + ".before-safekept"):
            guard_updates(here, ("/nowhere/safekept",))
    connect(state.context, HOSTS["hermes"], program_in(directory, "hermes"))
    return state


def projects(directory) -> State:
    """A rollback that was cut off, a checkpoint that failed, a store that was not tidied."""
    state = made("fresh", directory)
    with pytest.MonkeyPatch.context() as patch:
        say = spoken(patch, state.user)
        for name in ("one", "two"):
            put(os.path.join(state.user, name, "pyproject.toml"), "")
            put(os.path.join(state.user, name, "main.py"), "one\n")
            assert say("checkpoint", os.path.join(state.user, name)).code == 0
        put(os.path.join(state.user, "one", "main.py"), "broken\n")
        child = os.fork()
        if not child:
            import safekept.checkpoints.rollback.rollback as rolling

            rolling.go_forward = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            say("rollback", "1", "--dir", os.path.join(state.user, "one"))
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    store = os.path.join(state.context.places.data_directory, "checkpoints")
    failure = {"time_ns": time.time_ns(), "what": "no room"}
    failed = {"project": os.path.join(state.user, "two"), "last_failure": failure}
    for path in glob.glob(os.path.join(store, "projects", "*", "project")):
        with open(path, encoding="utf-8") as file:
            if file.read() == failed["project"]:
                put(os.path.join(os.path.dirname(path), "state.json"), json.dumps(failed))
    upkeep = {"started": time.time() - 60, "ended": time.time() - 50, "failures": 3, "error": "no room"}
    put(os.path.join(store, "maintenance.json"), json.dumps(upkeep))
    return state


def hidden_files(directory) -> State:
    """A project of which one hidden file is over the limit, and another of which none was kept for a day."""
    state = made("fresh", directory)
    big, locked = os.path.join(state.user, "big"), os.path.join(state.user, "locked")
    for project in (big, locked):
        put(os.path.join(project, ".git", "HEAD"), "ref: refs/heads/main\n")
        put(os.path.join(project, ".env"), "KEY=1\n")
    with open(put(os.path.join(big, "model.bin")), "r+b") as file:
        file.truncate(2_000_000_000)
    with pytest.MonkeyPatch.context() as patch:
        say = spoken(patch, state.user)
        for project in (big, locked):
            assert say("checkpoint", project).code in (0, 3)
    trouble = {"time": time.time() - DAY, "what": "the vault is locked"}
    put(os.path.join(project_records(state.context, locked), "hidden-trouble.json"), json.dumps(trouble))
    return state


def half_stored(directory) -> State:
    """A database was locked while it was to be stored; and nobody gave room back for long."""
    state = made("fresh", directory)
    here = state.context
    selection = Selection(quick=True)
    old = create_snapshot(here, SnapshotRequest(here.locate(state.home), "quick", selection=selection))
    with open_vault(here) as repository, repository.lock(exclusive=True) as lock:
        forget(repository, [old.snapshot], lock, now_ns=time.time_ns() - int(40 * DAY * 1e9))
    locked_while_stored(state)
    return state


def locked_while_stored(state: State) -> None:
    # Another process: whoever has a lock does not meet it himself.
    here = state.context
    words = [sys.executable, "-c", _HOLD, os.path.join(state.home, "state.db")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert not create_snapshot(here, SnapshotRequest(here.locate(state.home), deadline=0.2)).complete
        holder.communicate(b"")


_HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("pragma journal_mode = delete")
held.execute("create table more(x)")
held.execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


def much_newer(directory) -> State:
    """Set up after its first snapshot: most of what is there now came since."""
    state = made("fresh", directory)
    aged(state, 3 * 3600.0)
    for number in range(40):
        put(os.path.join(state.home, "skills", "new", f"{number}.md"), "learned since\n")
    return state


def leads_out(state: State, name: str = "memories") -> str:
    """Somebody moved a part of the home elsewhere and left a link; where it is now."""
    there = os.path.join(state.user, "elsewhere", name)
    os.makedirs(os.path.dirname(there), exist_ok=True)
    shutil.move(os.path.join(state.home, name), there)
    os.symlink(there, os.path.join(state.home, name))
    return there


def led_out(directory) -> State:
    """What matters lies behind a link out of the home, and a snapshot was taken of it so."""
    state = made("fresh", directory)
    leads_out(state)
    assert not create_snapshot(state.context, SnapshotRequest(state.context.locate(state.home))).complete
    return state


def parts_only(directory) -> State:
    state = empty(directory)
    here, selection = state.context, Selection(quick=True)
    create_snapshot(here, SnapshotRequest(here.locate(state.home), "quick", selection=selection))
    return state


def kit_overtaken(directory) -> State:
    """The kit was stored elsewhere; then a destination was written into the settings by hand."""
    state = made("fresh", directory)
    with open_vault(state.context) as repository:
        write_kit(state.context, repository)
        acknowledge_kit(state.context, repository)
    settings(state, "usb")
    return state


def kit_gone(directory) -> State:
    """The kit was written here, and went with what else lay beside it."""
    state = made("fresh", directory)
    with open_vault(state.context) as repository:
        for path in write_kit(state.context, repository):
            os.unlink(path)
    return state


def escrow_missing(directory) -> State:
    """A key for escrow was written into the settings, and nothing was pushed since."""
    from pyrage import x25519

    state = made("fresh", directory)
    settings(state, "usb")
    path = os.path.join(state.user, ".config", "safekept", "config.toml")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(f'escrow = ["{x25519.Identity.generate().to_public()}"]\n{text}')
    return state


def no_journal(directory) -> State:
    state = made("fresh", directory)
    os.unlink(state.context.journal.path)
    os.mkdir(state.context.journal.path)
    return state


def seat_belt_left_open(directory) -> State:
    """Opened for `restic prune`, and never closed again."""
    state = made("fresh", directory)
    put(os.path.join(state.user, ".config", "safekept", "config.toml"), "seat_belt = true\n")
    open_stores(state.context.changed(seat_belt=True))
    return state


def settings(state: State, *names: str) -> None:
    place = os.path.dirname(state.user)
    lines = [
        f'[[destination]]\nname = "{name}"\nurl = "{place}/{name}"\nelsewhere = true\n' for name in names
    ]
    put(os.path.join(state.user, ".config", "safekept", "config.toml"), "\n".join(lines))


def journal(state: State, verb: str, ended: str, moment: float = 0.0, **facts: object) -> None:
    state.context.journal.append(Record(new_id(), verb, ended, moment or time.time(), facts=facts))


# ── what no command can mend ───────────────────────────────────────────────────────────────────────


def shut(state: State) -> Callable[[], None]:
    path = state.context.places.vault_key_file
    os.rename(path, path + ".kit")
    return lambda: os.rename(path + ".kit", path)


def open_key(state: State) -> Callable[[], None]:
    os.chmod(state.context.places.vault_key_file, 0o604)
    return lambda: None


def unreadable_settings(state: State) -> Callable[[], None]:
    put(os.path.join(state.user, ".claude", "mark"), "")
    connect(state.context, HOSTS["claude-code"], program_in(state.user))
    path = os.path.join(state.user, ".claude", "settings.json")
    with open(path, encoding="utf-8") as file:
        before = file.read()
    put(path, "{ not JSON")
    return lambda: put(path, before) and None


def switched_off(state: State) -> Callable[[], None]:
    put(os.path.join(state.user, ".claude", "mark"), "")
    connect(state.context, HOSTS["claude-code"], program_in(state.user))
    path = os.path.join(state.user, ".claude", "settings.json")
    with open(path, encoding="utf-8") as file:
        before = file.read()
    put(path, json.dumps({**json.loads(before), "disableAllHooks": True}))
    return lambda: put(path, before) and None


def failing_calls(state: State) -> Callable[[], None]:
    put(os.path.join(state.user, ".claude", "mark"), "")
    connect(state.context, HOSTS["claude-code"], program_in(state.user))
    data = state.context.places.data_directory
    record_host_call(data, "claude-code", kept=False, failure="no room")
    return lambda: record_host_call(data, "claude-code", kept=True)


def missing_program(state: State) -> Callable[[], None]:
    path = os.path.join(state.user, ".config", "safekept", "config.toml")
    put(path, '[[destination]]\nname = "far"\nurl = "rclone:far:x"\n')
    program = os.path.join(state.user, "bin", "rclone")
    return lambda: put(program, "#!/bin/sh\n", 0o755) and None


def half_filled_search(state: State) -> Callable[[], None]:
    """As a restore leaves it while a process fills the index."""
    directory = open_area(state.home).begin(new_id())
    put(os.path.join(directory.path, "landed.jsonl"), "")
    SearchNote(directory, (Unfilled("state.db", (), 25.0),)).write()
    directory.sweep("staged")
    filler = ExitStack()
    filler.enter_context(only_filler(state.home))

    def done() -> None:
        filler.close()
        fill_all(state.home)

    return done


def full_disk(state: State) -> Callable[[], None]:
    patch = pytest.MonkeyPatch()
    patch.setattr("safekept.core.trash.free_bytes", lambda path: 1000)
    return patch.undo
