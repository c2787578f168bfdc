"""Every finding's printed fix is run here, and the finding is gone afterwards.

Each world is a user with several troubles. Whoever does what the doctor prints, the first command of each
finding, is rid of them. What no command can mend says why, and is mended here by hand. A finding that stands
in neither table fails the last test.
"""

from __future__ import annotations

import ast
import glob
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator

import pytest

from safekept.actions.alarms.alarms import KINDS
from safekept.actions.alarms.declined import take_back
from safekept.actions.status import host_status
from safekept.actions.vault.seat_belt import belts
from support.commands.in_process import spoken
from support.keeper.keeper_troubles import behind_keeper, full_keeper, shrunk_keeper, silent_keeper
from support.projects.checkpoints import put
from support.users.contexts import throwaway
from support.users.states import DAY, State, aged, empty, made
from support.users.troubles import (
    another_time_set,
    brought_from_elsewhere,
    cut_off_in_setup,
    damaged,
    elsewhere,
    emptied,
    emptied_files_stored,
    escrow_missing,
    failed_last_night,
    failing_calls,
    fallen_silent,
    files_emptied,
    full_disk,
    gone,
    half_filled_search,
    half_stored,
    hidden_files,
    installed_before_hermes,
    kit_gone,
    kit_overtaken,
    led_out,
    lost,
    memories_gone,
    missing_program,
    much_newer,
    neglected,
    no_journal,
    open_key,
    partly_connected,
    parts_only,
    projects,
    seat_belt_left_open,
    settings_gone,
    shut,
    switched_off,
    unreadable_settings,
    until_logout,
    update_wrapper_replaced,
    used_for_a_while,
    vault_damaged,
    vault_deleted,
    vault_deleted_alone,
)
from support.vault.closed import open_below
from test_map import SOURCE


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)
    for room in ("place", "elsewhere"):
        monkeypatch.setattr(f"safekept.actions.offsite.{room}.on_a_disk_of_this_machine", lambda *_: "")
    # On a machine that was started an hour ago nothing can have been missed for longer.
    monkeypatch.setattr("safekept.schedule.machine.clocks", lambda: (1e9, 0.0))
    yield
    if (tmp_path / "user/.local/share/safekept/kept").exists():  # nobody could remove what is closed
        for _, belt in belts(throwaway(tmp_path)):
            belt.take_off()


#: What the doctor finds there, sooner or later, and what it prints gets rid of.
WORLDS: dict[str, tuple[Callable[[object], State], set[str]]] = {
    "nothing yet": (
        empty,
        {"no-snapshot", "key-only-here", "no-schedule", "no-copy-elsewhere", "never-pushed", "not-proven"},
    ),
    "used for a while": (
        used_for_a_while,
        {"permissions", "host-not-connected", "unkept-command", "interrupted-landing", "other-copies"}
        | {"journal-torn", "clock", "home-unkept", "stale-lock", "not-proven"},
    ),
    "neglected": (
        neglected,
        {"stale", "snapshot-failed", "push-stale", "push-failed", "drill-failed", "alarm-overdue"}
        | {"alarm-destination", "schedule-not-armed"},
    ),
    "cut off in the middle of setup": (cut_off_in_setup, {"unfinished"}),
    "fallen silent": (fallen_silent, {"schedule-silent"}),
    "until logout": (until_logout, {"schedule-until-logout"}),
    "failed last night": (failed_last_night, {"schedule-failed"}),
    "installed before Hermes came": (installed_before_hermes, {"schedule-old-path"}),
    "another time is set": (another_time_set, {"schedule-other-time"}),
    "damaged": (damaged, {"database-damaged", "damaged-when-stored"}),
    "lost": (lost, {"alarm-loss", "alarm-drill"}),
    "memories gone": (memories_gone, {"lost-since"}),
    "files emptied": (files_emptied, {"lost-since"}),
    "emptied files stored": (emptied_files_stored, {"alarm-loss"}),
    "gone": (gone, {"home-gone"}),
    "emptied": (emptied, {"emptied"}),
    "settings gone": (settings_gone, {"settings-gone"}),
    "elsewhere": (elsewhere, {"no-home"}),
    "vault deleted": (vault_deleted, {"vault-lost"}),
    "vault deleted alone": (vault_deleted_alone, {"vault-lost"}),
    "vault damaged": (vault_damaged, {"vault-damaged"}),
    "partly connected": (
        partly_connected,
        {
            "profile-not-connected",
            "connection-gone",
            "connection-partly",
            "connection-no-program",
            "essential-missing",
        },
    ),
    "brought from elsewhere": (brought_from_elsewhere, {"connection-elsewhere"}),
    "update wrapper replaced": (update_wrapper_replaced, {"updates-not-guarded"}),
    "projects": (projects, {"interrupted-rollback", "checkpoints-fail", "checkpoint-store"}),
    "hidden files": (hidden_files, {"hidden-left-out", "hidden-not-kept"}),
    "half stored": (half_stored, {"incomplete", "vault-unpruned"}),
    "much newer": (much_newer, {"much-changed"}),
    "led out": (led_out, {"leads-out"}),
    "parts only": (parts_only, {"no-whole-snapshot"}),
    "kit overtaken": (kit_overtaken, {"kit-outdated"}),
    "kit gone": (kit_gone, {"kit-gone"}),
    "escrow missing": (escrow_missing, {"escrow-stale"}),
    "no journal": (no_journal, {"journal-unreadable"}),
    "seat belt left open": (seat_belt_left_open, {"seat-belt-open"}),
}
#: What ends with another code than 0 and did its work: the doctor says so that there is more.
ENDS_WITH = {"doctor": (3, 4)}
_OURS = ("safekept", "chmod", "rm", "mv", "loginctl")


@pytest.mark.parametrize("world", WORLDS)
def test_whoever_does_what_is_printed_has_nothing_left_to_do(world, tmp_path, monkeypatch):
    make, wanted = WORLDS[world]
    with_crontab(tmp_path, monkeypatch)
    state = make(tmp_path)
    say = spoken(monkeypatch, state.user)
    secret = put(str(tmp_path / "secret"), "four words are enough\n", 0o600)
    seen: set[str] = set()
    for _ in range(30):
        found = [one for one in all_findings(say) if one["code"] not in BY_HAND]
        seen |= {one["code"] for one in found}
        if not found:
            break
        one = found[0]
        words = first_command(one)
        code = do(say, words, str(tmp_path), secret)
        assert code in (0, *ENDS_WITH.get(words[1], ())), (one["code"], words, code)
        left = [(other["code"], other["home"], other["fix"]) for other in all_findings(say)]
        assert (one["code"], one["home"], one["fix"]) not in left, "its own command ends it"
    assert found == []
    assert wanted <= seen


@pytest.mark.parametrize(
    "world", ["nothing yet", "used for a while", "partly connected", "update wrapper replaced"]
)
def test_whatever_a_person_may_mean_to_leave_is_left_by_the_name_that_is_printed(
    world, tmp_path, monkeypatch
):
    make, _ = WORLDS[world]
    with_crontab(tmp_path, monkeypatch)
    say = spoken(monkeypatch, make(tmp_path).user)
    names = [one["declinable"] for one in all_findings(say) if one["declinable"]]
    assert names
    for name in names:
        said = say("status", "--acknowledge", name)
        assert (said.code, said.out) == (0, f"Left as it is, and not counted any more: {name}\n"), said.err
    assert [one["declinable"] for one in all_findings(say) if one["declinable"]] == []


def first_command(finding: dict) -> list[str]:
    """The command that stands first among those of ours and those of every shell.

    Nobody here holds the kit of a machine that is gone: what begins with one is proven where a kit is.
    """
    calls = [shlex.split(call) for step in finding["fix"] for call in re.findall(r"`([^`]*)`", step)]
    found = [words for words in calls if words and words[0] in _OURS and "KIT" not in words]
    assert found, finding
    assert not any("--yes" in words for words in found), "a printed command never answers for a person"
    return found[0]


def do(say, words: list[str], directory: str, secret: str) -> int:
    if words[0] != "safekept":
        return os.system(shlex.join(words))
    filled = {"PLACE": os.path.join(directory, "usb"), "PATH": os.path.join(directory, "user", "PATH")}
    words = [filled.get(word, word) for word in words[1:]]
    if words[:3] == ["vault", "key", "add"] or words[:2] == ["setup", "--home"]:
        words += ["--passphrase-file", secret]
    said = say(*words, "--yes")
    if said.code == 2:
        said = say(*words)
    return said.code


def all_findings(say) -> list[dict]:
    return json.loads(say("doctor", "--json").out)["findings"]


# ── what no command can mend ───────────────────────────────────────────────────────────────────────

#: How it comes about and is mended, and why no printed command does.
BY_HAND: dict[str, tuple[Callable[[State], Callable[[], None]], str]] = {
    "vault-shut": (shut, "the key is on paper, in a passphrase or on a disk that is not here"),
    "key-was-open": (open_key, "opening the vault closed it already; what was read cannot be unread"),
    "connection-unreadable": (unreadable_settings, "the file is the user's own, and is not JSON any more"),
    "connection-switched-off": (switched_off, "a person switched it off in the agent's own settings"),
    "connection-failed": (failing_calls, "the next call of the agent that succeeds ends it"),
    "program-missing": (missing_program, "programs are installed with the packages of the system"),
    "search-not-filled": (half_filled_search, "it ends by itself, and every command goes on with it"),
    "keeper-silent": (silent_keeper, "its service belongs to root"),
    "keeper-behind": (behind_keeper, "the next transfer that comes through ends it, behind the command"),
    "keeper-full": (full_keeper, "only root gives it more room"),
    "keeper-shrunk": (shrunk_keeper, "only root says that it was meant"),
    "disk-nearly-full": (full_disk, "what may be deleted from a disk only its owner knows"),
}


@pytest.mark.parametrize("code", BY_HAND)
def test_what_no_command_mends_is_gone_once_it_is_mended_by_hand(code, tmp_path, monkeypatch):
    make, _ = BY_HAND[code]
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    monkeypatch.setenv("PATH", f"{state.user}/bin:/usr/bin:/bin")
    mend = make(state)
    (one,) = [one for one in all_findings(say) if one["code"] == code]
    assert one["fix"] and one["text"]
    mend()
    assert code not in {one["code"] for one in all_findings(say)}


def codes_in_the_code() -> Iterator[str]:
    """Every code that a finding of status or doctor can have."""
    names = ("GONE", "PARTLY", "NO_PROGRAM", "ELSEWHERE", "SWITCHED_OFF", "UNREADABLE", "FAILED")
    kinds = [getattr(host_status, name) for name in names]
    endings = {"alarm-": KINDS, "connection-": kinds}
    for room in ("status", "doctor"):
        for path in glob.glob(os.path.join(SOURCE, "actions", room, "**", "*.py"), recursive=True):
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"):
                    continue
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    yield str(code.value)
                elif isinstance(code, ast.JoinedStr):
                    start = str(code.values[0].value)  # type: ignore[attr-defined]
                    yield from (start + ending for ending in endings[start])
                else:
                    # What the doctor found earlier, under the code that it had then.
                    assert path.endswith("doctor_memory.py"), path


def test_every_finding_has_its_place_in_one_of_the_tables():
    proven = {code for _, codes in WORLDS.values() for code in codes}
    assert proven | BY_HAND.keys() == set(codes_in_the_code())
    assert not proven & BY_HAND.keys()


def findings(say):
    return {one["code"]: one["fix"] for one in all_findings(say)}


def with_crontab(directory, monkeypatch):
    """A crontab that keeps its table in a file, and a cron that runs."""
    place = directory / "bin"
    place.mkdir()
    table = shlex.quote(str(directory / "table"))
    lines = ["#!/bin/sh", f'case "$1" in -l) cat {table} 2>/dev/null || {{ echo no crontab >&2; exit 1; }};;']
    lines += [f"-) cat > {table};;", f"-r) rm -f {table};; esac", ""]
    (place / "crontab").write_text("\n".join(lines))
    (place / "crontab").chmod(0o755)
    own = directory / "user" / ".local" / "bin"
    monkeypatch.setenv("PATH", f"{own}:{place}:{os.environ['PATH']}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("safekept.actions.schedule.host_start.cron_runs", lambda machine: True)


def test_a_time_that_is_set_later_says_that_the_host_has_to_be_told(tmp_path, monkeypatch):
    with_crontab(tmp_path, monkeypatch)
    say = spoken(monkeypatch, made("fresh", tmp_path).user)
    told = "This machine still wakes it at the times before. Tell it: `safekept schedule install`"
    assert told not in say("settings", "schedule.at", "4:10").out, "nothing is installed"
    assert say("schedule", "install", "--yes").code == 0
    assert told not in say("settings", "schedule.at", "04:10").out, "the same time"
    assert told not in say("settings", "schedule.at", "5:15", "--dry-run").out
    said = say("settings", "schedule.at", "5:15")
    assert said.out.splitlines() == ["Set schedule.at to 5:15", told]
    text = "the schedule was installed for 04:10; 05:15 is set, and this machine was not told"
    assert [one["text"] for one in all_findings(say) if one["code"] == "schedule-other-time"] == [text]
    for words in (("status",), ("schedule", "show")):
        flat = " ".join(say(*words).out.split())
        assert text in flat and "`safekept schedule install`" in flat, words
    assert "10 4 * * *" in (tmp_path / "table").read_text()
    assert say("schedule", "install", "--yes").code == 0
    assert "15 5 * * *" in (tmp_path / "table").read_text()
    assert text not in " ".join(say("status").out.split())
    assert told in say("settings", "schedule.at", "--unset").out, "back to 03:30"


def not_connected(directory):
    state = made("fresh", directory)
    take_back(state.context, ("not-connected:hermes",))
    return state


def test_a_place_that_was_pushed_to_once_is_saved_by_the_printed_command(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    place = str(tmp_path / "usb")
    assert say("push", place).code == 0
    (fix,) = findings(say)["no-copy-elsewhere"]
    (command,) = re.findall(r"`safekept ([^`]*)`", fix)
    assert place in command
    assert say(*shlex.split(command)).code == 0
    left = findings(say)
    assert "no-copy-elsewhere" not in left and "never-pushed" not in left
    assert json.loads(say("status", "--json").out)["verdict"]["level"] == "machine-lost"


def test_who_disconnects_an_agent_does_not_miss_it(tmp_path, monkeypatch):
    state = not_connected(tmp_path)
    say = spoken(monkeypatch, state.user)
    assert "host-not-connected" in findings(say)
    assert say("connect", "hermes", "--yes").code == 0
    assert say("connect", "--remove", "hermes", "--yes").code == 0
    assert "host-not-connected" not in findings(say)


def test_a_destination_says_when_the_last_snapshot_arrived_and_not_when_it_was_taken(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    aged(state, 3 * DAY)
    say = spoken(monkeypatch, state.user)
    place = str(tmp_path / "usb")
    assert say("push", place).code == 0
    shown = say("destinations", "show", place).out
    assert "the last one arrived " in shown and "the newest of" not in shown


def test_where_all_of_ours_was_deleted_the_copy_elsewhere_is_found_and_brought_back(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    place = str(tmp_path / "nas")
    assert say("destinations", "add", place).code == say("push", "nas").code == 0
    shutil.rmtree(open_below(state.context.places.data_directory))
    said = say("status", "--check")
    assert said.code == say("status", "--short", "--check").code == 4
    told = said.out.replace("\n", " ")
    assert told.startswith(
        "ALARM, not protected: there is no vault here any more; nas holds a copy with 2 snapshots"
    )
    assert "no snapshot" not in told and "nothing is in nas" not in told
    (command, _) = findings(say)["vault-lost"]
    assert say(*shlex.split(re.findall(r"`safekept ([^`]*)`", command)[0])).code == 0
    assert "vault-lost" not in findings(say)
    assert json.loads(say("status", "--json").out)["homes"][0]["snapshots"] == 2
