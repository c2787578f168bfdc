"""The verdict: which rung of the ladder each fact leaves, what is an alarm, and what to do about each."""

from __future__ import annotations

import dataclasses
import os
import time
from functools import partial

import pytest

from safekept.actions.alarms.alarms import Alarm
from safekept.actions.drill.receipts import Receipt, Row
from safekept.actions.hosts.calls import HostCalls
from safekept.actions.status.changed_since import ChangedSince, changed_since
from safekept.actions.status.coverage import Coverage, coverage_of
from safekept.actions.status.destination_status import DestinationStatus
from safekept.actions.status.findings.all_findings import every_finding
from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.home_summary import FailedAttempt, LastSnapshot
from safekept.actions.status.host_status import ConnectionStatus, HostStatus, UnconnectedProfile
from safekept.actions.status.project_summaries import ProjectSummaries, ProjectSummary
from safekept.actions.status.schedule_status import ScheduleStatus
from safekept.actions.status.vault_status import OPEN, SHUT, LastCheck, VaultStatus
from safekept.actions.status.verdict import Verdict, judge
from safekept.actions.vault.keys.keys import GENERATED, ListedKey
from safekept.core.next_step import NextStep, step_texts
from safekept.home.landing.recovery import Leftover
from safekept.home.layout import load_layouts
from support.projects.checkpoints import put

NOW = 1_800_000_000.0
HOUR = 3600.0
LAST = LastSnapshot("a" * 64, NOW - HOUR, "manual", "sound", True, 10, 1000)
KEY = ListedKey("k" * 64, GENERATED, "", "ada@here", True)
VAULT = VaultStatus("/v", OPEN, id="v" * 64, keys=(KEY,), key_file="/c/vault.key", recovery_access="kit")
ARMED = ScheduleStatus(looked=NOW - 600, installed="systemd", state="done")
NAS = DestinationStatus("nas", "sftp://nas/x", ("vault",), last=NOW - HOUR)


def drilled(ok: bool, age: float = HOUR) -> Receipt:
    row = Row("databases", "passed" if ok else "failed")
    return Receipt("o", "snapshot", "a" * 64, "/h/.hermes", NOW - age, 1.0, ok, (row,))


HOME = HomeStatus(
    "/h/.hermes",
    "hermes",
    True,
    True,
    snapshots=1,
    last=LAST,
    whole=LAST,
    verified=LAST,
    proof=drilled(True),
    drill=drilled(True),
)


def verdict(
    home: HomeStatus = HOME,
    vault: VaultStatus = VAULT,
    destinations: tuple[DestinationStatus, ...] = (),
    projects: ProjectSummaries | None = None,
    alarms: tuple[Alarm, ...] = (),
    schedule: ScheduleStatus = ARMED,
    hosts: tuple[HostStatus, ...] = (),
    declined: tuple[str, ...] = (),
) -> Verdict:
    found = every_finding(
        (home,),
        vault,
        alarms=alarms,
        destinations=destinations,
        projects=projects,
        schedule=schedule,
        hosts=hosts,
        now=NOW,
    )
    return judge(found, declined=declined, age=HOUR)


def codes(found: Verdict) -> list[str]:
    """The reasons, without the one that says that nothing is off this machine."""
    return [one.code for one in found.reasons if one.code != "no-copy-elsewhere"]


def steps(found: Verdict) -> tuple[str, ...]:
    """What to do next, as a face prints it."""
    return tuple(step_texts(found.next))


def changed(**changes: object) -> HomeStatus:
    return dataclasses.replace(HOME, **changes)  # type: ignore[arg-type]


def last(**changes: object) -> HomeStatus:
    one = dataclasses.replace(LAST, **changes)  # type: ignore[arg-type]
    return changed(last=one, whole=one)


def remark(outcome: str, path: str = "x", *meant: str, reason: str = "why") -> Coverage:
    line = {"outcome": outcome, "path": path, "reason": reason, "files": 1}
    return coverage_of("a" * 64, {"remarks": [line]}, meant)


UNFINISHED = dataclasses.replace(LAST, complete=False)


PROTECTED = {
    "an hour old": HOME,
    "almost stale": last(time=NOW - 26 * HOUR + 1),
    "not verified yet": last(databases="unverified"),
    "rules leave something out": changed(coverage=remark("excluded")),
    "a link leads out, which is meant": changed(
        coverage=remark("outside", "memories", "memories"), last=UNFINISHED, whole=UNFINISHED
    ),
    "a quick one after a whole one": changed(last=dataclasses.replace(LAST, kind="quick", partial=True)),
    "litter of a landing": changed(leftovers=(Leftover("o", False, "/p"),)),
    "a proof of last month": changed(proof=drilled(True, 89 * 24 * HOUR)),
}


@pytest.mark.parametrize("name", PROTECTED)
def test_what_is_well_is_protected_on_this_machine(name):
    found = verdict(PROTECTED[name])
    assert (found.level, found.exit_code, codes(found)) == ("this-machine", 0, [])
    assert found.text == "Protected on this machine: the last snapshot is 60 min old"
    assert steps(found) == ("Name a place off this machine, then push: `safekept destinations add PLACE`",)


def test_a_copy_elsewhere_that_can_be_opened_is_the_highest_rung():
    found = verdict(destinations=(NAS,))
    assert (found.level, found.exit_code, found.reasons, steps(found)) == ("machine-lost", 0, (), ())
    assert found.text == "Protected if the machine is lost: the last snapshot is 60 min old"


STALE = {
    "no-snapshot": (changed(last=None), "there is no snapshot of /h/.hermes yet", "`safekept snapshot`"),
    "stale": (
        last(time=NOW - 26 * HOUR - 1),
        "the last snapshot of /h/.hermes is 26 h old",
        "`safekept snapshot`",
    ),
    "clock": (
        last(time=NOW + 9e6, future=True),
        "the last snapshot of /h/.hermes is dated in the future: a clock is or was wrong",
        "`safekept snapshot`",
    ),
    "snapshot-failed": (
        changed(failure=FailedAttempt("o", NOW - 60, "failed", "no room", ("Make room",))),
        "the last attempt to take a snapshot of /h/.hermes failed 60 s ago: no room",
        "Make room",
    ),
    "incomplete": (
        changed(coverage=remark("locked", "state.db")),
        "state.db in /h/.hermes could not be stored: why",
        "`safekept snapshot`",
    ),
    "leads-out": (
        changed(coverage=remark("outside", "state.db", "memories"), last=UNFINISHED, whole=UNFINISHED),
        "state.db in /h/.hermes leads out of it: no snapshot has what is there",
        "Move what it leads to into the home, in the place of the link; or see that something else keeps it",
    ),
    "no-whole-snapshot": (
        changed(last=dataclasses.replace(LAST, partial=True), whole=None),
        "there is no whole snapshot of /h/.hermes, only parts of it",
        "`safekept snapshot`",
    ),
    "not-proven": (
        changed(proof=None, drill=None),
        "/h/.hermes has never passed a drill",
        "`safekept drill`",
    ),
    "no-home": (
        changed(exists=False, last=None),
        "no Hermes home at /h/.hermes, and nothing is kept",
        "Old machine gone? `safekept rebuild KIT`",
    ),
}


NOTHING_KEPT = {"no-snapshot", "no-whole-snapshot", "no-home"}


@pytest.mark.parametrize("code", STALE)
def test_what_is_missing_or_old_is_not_green(code):
    home, text, step = STALE[code]
    found = verdict(home)
    word, level = ("Not", "not-protected") if code in NOTHING_KEPT else ("Partly", "partly")
    assert (found.level, found.exit_code, found.alarm) == (level, 3, False)
    assert code in codes(found) and found.reasons[0].code == code
    assert (found.text, steps(found)[0]) == (f"{word} protected: {text}", step)


def test_a_snapshot_that_does_not_say_why_it_is_incomplete_is_not_green():
    for coverage in (None, remark("excluded")):
        found = verdict(changed(whole=UNFINISHED, coverage=coverage))
        assert found.text == "Partly protected: the last snapshot of /h/.hermes is incomplete"
        assert (codes(found), found.exit_code, steps(found)) == (["incomplete"], 3, ("`safekept snapshot`",))


def test_links_out_of_a_home_are_told_together_and_meant_together():
    reason = (
        "a link to `/mnt/x`, outside this home: what it points to is not in this backup; back up that place"
    )
    lines = [
        {"outcome": "outside", "path": path, "reason": reason} for path in ("memories", "state.db", "a,b")
    ]
    gone_out = changed(coverage=coverage_of("a" * 64, {"remarks": lines}, ("memories",)))
    found = verdict(gone_out)
    (one,) = [one for one in found.reasons if one.code == "leads-out"]
    assert one.text == "a,b and 1 more in /h/.hermes lead out of it: no snapshot has what is there"
    assert one.evidence[0] == "a,b is a link to `/mnt/x`, outside this home"
    assert one.declinable == "leads-out:/h/.hermes:a%2Cb,state.db"
    assert verdict(gone_out, declined=(one.declinable,)).level == "this-machine"


def test_a_proof_that_is_too_old_counts_as_none():
    found = verdict(changed(proof=drilled(True, 91 * 24 * HOUR)))
    assert found.text == "Partly protected: /h/.hermes last passed a drill 91 days ago"


def test_an_older_failure_does_not_count_and_an_interrupted_one_says_so():
    assert codes(verdict(changed(failure=FailedAttempt("o", NOW - 2 * HOUR, "failed", "x")))) == []
    found = verdict(changed(failure=FailedAttempt("o", NOW - 5, "interrupted", "Ctrl-C")))
    assert "was interrupted 5 s ago: Ctrl-C" in found.text


ALARMS = {
    "database-damaged": (
        changed(last=dataclasses.replace(LAST, databases="damaged"), damaged={"state.db": "b" * 64}),
        "state.db in /h/.hermes is damaged",
        "Stop the agent first; what is there now is kept",
    ),
    "drill-failed": (
        changed(drill=drilled(False)),
        "the last drill of /h/.hermes failed: databases",
        "Make a new one: `safekept snapshot`, and prove it: `safekept drill`",
    ),
    "home-gone": (
        changed(exists=False),
        "the home /h/.hermes is gone; snapshot aaaaaaaa has it",
        "`safekept snapshot restore aaaaaaaa`",
    ),
    "interrupted-landing": (
        changed(leftovers=(Leftover("o", True, "/p"),)),
        "a restore or import into /h/.hermes was cut off half way",
        "Take it back, and change nothing else: `safekept doctor --fix`",
    ),
}


@pytest.mark.parametrize("code", ALARMS)
def test_what_is_lost_or_would_be_is_an_alarm(code):
    home, text, step = ALARMS[code]
    found = verdict(home)
    rung = "not protected" if code == "home-gone" else "partly protected"
    assert (found.level, found.exit_code, found.alarm) == (
        {"partly protected": "partly"}.get(rung, "not-protected"),
        4,
        True,
    )
    assert codes(found) == [code]
    assert (found.text, steps(found)[0]) == (f"ALARM, {rung}: {text}", step)


def test_advice_never_names_a_generation_that_was_not_verified():
    bad = dataclasses.replace(LAST, databases="damaged")
    found = verdict(changed(last=bad, verified=None, damaged={"state.db": ""}))
    assert steps(found) == ("`safekept doctor`",)
    found = verdict(changed(last=bad, damaged={"state.db": "", "kanban.db": "c" * 64}))
    stop, back = steps(found)
    assert stop == "Stop the agent first; what is there now is kept"
    assert back == "Bring it back: `safekept snapshot restore cccccccc kanban.db`"
    assert found.reasons[1].fix == (NextStep("doctor"),)


def test_commands_name_a_home_that_is_not_the_default_one():
    found = verdict(changed(default=False, home="/h/o'clock", last=None))
    assert steps(found) == ("`safekept snapshot --home '/h/o'\"'\"'clock'`",)


def test_another_home_that_is_gone_is_no_reason():
    assert verdict(changed(default=False, exists=False)).level == "this-machine"


def test_a_vault_that_is_shut_comes_with_its_own_advice():
    error = {"code": "wrong-key", "what": "The key does not fit"}
    found = verdict(vault=VaultStatus("/v", SHUT, error, ("Use the right one",)))
    assert (found.exit_code, found.text, steps(found)) == (
        4,
        "ALARM, not protected: the key does not fit",
        ("Use the right one",),
    )


def test_damage_that_is_known_of_the_vault_is_an_alarm():
    found = verdict(vault=dataclasses.replace(VAULT, check=LastCheck(NOW, False, 1.0, 3)))
    assert (found.exit_code, steps(found)) == (4, ("`safekept vault repair`",))
    found = verdict(vault=dataclasses.replace(VAULT, damaged={"f": "torn"}))
    assert found.text == "ALARM, partly protected: 1 snapshot file in the vault cannot be read"
    assert verdict(vault=dataclasses.replace(VAULT, check=LastCheck(NOW, True, 0.0))).exit_code == 0


def test_a_vault_on_another_machine_is_off_this_host_and_needs_a_second_way_in():
    remote = dataclasses.replace(VAULT, place="sftp://nas/vault", recovery_access="")
    assert verdict(vault=remote).reasons[0].code == "key-only-here"
    found = verdict(vault=dataclasses.replace(remote, recovery_access="kit"))
    assert found.level == "machine-lost"
    beside = dataclasses.replace(VAULT, place="file:/mnt/vault")
    assert verdict(vault=beside).level == "this-machine"


def test_a_key_that_exists_once_is_never_green_and_with_copies_it_is_an_alarm():
    once = dataclasses.replace(VAULT, recovery_access="")
    found = verdict(vault=once)
    assert (found.level, found.exit_code) == ("partly", 3)
    assert found.text == "Partly protected: the only key of the vault is on this machine"
    assert steps(found)[0] == "Add a passphrase that you know: `safekept vault key add --recovery`"
    found = verdict(vault=once, destinations=(NAS,))
    assert (found.level, found.exit_code) == ("not-protected", 4)
    assert found.text.startswith(
        "ALARM, not protected: the only key of the vault is on this machine: without"
    )
    written = dataclasses.replace(once, kit=NOW - HOUR)
    assert "`safekept vault kit --stored`" in steps(verdict(vault=written))[1]


def claude(**changes: object) -> HostStatus:
    one = HostStatus("claude-code", "Claude Code", found="/h/.claude", used=NOW - HOUR)
    return dataclasses.replace(one, **changes)  # type: ignore[arg-type]


def test_an_agent_that_works_here_and_is_not_connected_is_not_green_until_a_person_declines():
    found = verdict(hosts=(claude(),))
    assert (found.level, codes(found)) == ("partly", ["host-not-connected"])
    assert steps(found) == ("`safekept connect claude-code`",)
    assert verdict(hosts=(claude(),), declined=("not-connected:claude-code",)).level == "this-machine"
    idle = claude(used=NOW - 15 * 24 * HOUR)
    assert verdict(hosts=(idle,)).level == "this-machine", "settings that lie about are nobody's agent"


def test_a_profile_that_works_here_and_is_not_connected_is_not_green():
    place = ConnectionStatus("/h/.hermes/config.yaml", "/h/.hermes")
    coder = UnconnectedProfile("coder", ("--home", "/h/.hermes/profiles/coder"))
    host = HostStatus("hermes", "Hermes", "/h/.hermes", places=(place,), used=NOW, unconnected=(coder,))
    found = verdict(hosts=(host,))
    assert found.text == "Partly protected: 1 of 2 Hermes profiles connected; not: coder"
    assert steps(found) == ("`safekept connect hermes --home /h/.hermes/profiles/coder`",)


def test_a_command_where_nothing_could_be_kept_counts_for_seven_days():
    place = ConnectionStatus("/h/.claude/settings.json")
    for days, level in ((6.9, "partly"), (7.1, "this-machine")):
        when = NOW - days * 24 * HOUR
        calls = HostCalls("claude-code", NOW, NOW, calls=9, unkept="/: not a project", unkept_at=when)
        found = verdict(hosts=(claude(places=(place,), calls=calls),))
        assert found.level == level
    key = f"unkept-command:claude-code:{int(NOW - 60)}"
    calls = dataclasses.replace(calls, unkept_at=NOW - 60)
    hosts = (claude(places=(place,), calls=calls),)
    assert steps(verdict(hosts=hosts)) == (
        f"Once you have seen to it: `safekept status --acknowledge {key}`",
    )
    assert verdict(hosts=hosts, declined=(key,)).level == "this-machine"


@pytest.mark.parametrize(
    ("schedule", "code", "text"),
    [
        (ScheduleStatus(), "no-schedule", "nothing takes snapshots by itself"),
        (
            dataclasses.replace(
                ARMED, trouble="the schedule calls /gone/safekept, which is not there any more"
            ),
            "schedule-not-armed",
            "the schedule calls /gone/safekept, which is not there any more",
        ),
        (
            dataclasses.replace(ARMED, looked=NOW - 9 * HOUR, missed=4 * HOUR),
            "schedule-silent",
            "the schedule missed its time: it last ran 9 h ago",
        ),
        (
            ScheduleStatus(installed="cron", missed=4 * HOUR),
            "schedule-silent",
            "the schedule was installed 4 h ago and never ran",
        ),
    ],
)
def test_a_schedule_that_will_not_run_is_not_green(schedule, code, text):
    found = verdict(schedule=schedule)
    assert (found.level, codes(found), found.text) == ("partly", [code], f"Partly protected: {text}")


def test_a_machine_that_slept_missed_nothing():
    asleep = dataclasses.replace(ARMED, looked=NOW - 9 * HOUR, missed=0.5 * HOUR)
    assert verdict(schedule=asleep).level == "this-machine"
    just_installed = ScheduleStatus(installed="cron", missed=0.1 * HOUR)
    assert verdict(schedule=just_installed).level == "this-machine"


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        (dataclasses.replace(NAS, last=0.0), "nothing is in nas yet"),
        (
            dataclasses.replace(NAS, last=0.0, failure=FailedAttempt("o", NOW, "failed", "no route")),
            "nothing is in nas yet: no route",
        ),
        (dataclasses.replace(NAS, last=NOW - 9 * 24 * HOUR), "the copy in nas is 9 days old"),
    ],
)
def test_a_copy_off_this_host_that_is_missing_or_old_means_not_protected(destination, text):
    found = verdict(vault=dataclasses.replace(VAULT, recovery_access="kit"), destinations=(destination,))
    assert (found.exit_code, found.text, steps(found)) == (
        3,
        f"Partly protected: {text}",
        ("`safekept push nas`",),
    )


def test_a_project_whose_checkpoints_fail_means_not_protected_while_it_is_there():
    project = ProjectSummary("/p", "live", NOW - 9, NOW - 1, "no room", "", "")
    found = verdict(projects=ProjectSummaries("/c", (project,)))
    assert (found.exit_code, found.text) == (3, "Partly protected: checkpoints of /p fail: no room")
    gone = dataclasses.replace(project, presence="orphan")
    better = dataclasses.replace(project, last=NOW)
    assert verdict(projects=ProjectSummaries("/c", (gone, better))).exit_code == 0


def test_a_rollback_that_was_cut_off_is_an_alarm():
    project = ProjectSummary("/p q", "live", NOW, 0.0, "", "", "", cut_off=True)
    found = verdict(projects=ProjectSummaries("/c", (project,)))
    assert found.text == "ALARM, partly protected: a rollback of /p q was cut off half way"
    assert steps(found) == ("Finish it or take it back: `safekept rollback --dir '/p q'`",)


def test_the_worst_comes_first_and_nothing_is_left_out():
    alarm = Alarm(
        kind="loss", text="skills 9 → 0", home="/h/.hermes", restore=("safekept snapshot restore x",)
    )
    home = dataclasses.replace(last(time=NOW - 99 * HOUR), failure=FailedAttempt("o", NOW, "failed", "x"))
    found = verdict(home, alarms=(alarm,))
    assert codes(found) == ["alarm-loss", "stale", "snapshot-failed"]
    assert found.text == "ALARM, partly protected: lost in /h/.hermes: skills 9 → 0"
    assert steps(found) == (
        "`safekept snapshot restore x`",
        f"If it is meant to be so: `safekept status --acknowledge {alarm.id}`",
    )


def test_a_failed_drill_is_told_once_where_there_is_an_alarm_about_it():
    alarm = Alarm(kind="drill", text="the drill failed", home="/h/.hermes")
    found = verdict(changed(drill=drilled(False)), alarms=(alarm,))
    assert codes(found) == ["alarm-drill"]


@pytest.mark.parametrize(
    ("changed", "codes_found"),
    [
        (ChangedSince(files=24, bytes=1000, looked=30), []),
        (ChangedSince(files=30, bytes=1000, looked=40), ["much-changed"]),
        (ChangedSince(files=2, bytes=60_000_000, looked=40), ["much-changed"]),
        (ChangedSince(files=2, bytes=1000, looked=40), []),
        (ChangedSince(looked=40, grown={"state.db": (1_000_000, 5_000_000)}), []),
        (ChangedSince(looked=40, grown={"state.db": (40_000_000, 50_000_000)}), []),
    ],
)
def test_a_young_snapshot_of_a_home_that_is_mostly_another_one_by_now_is_not_green(changed, codes_found):
    one = dataclasses.replace(LAST, time=NOW - 5 * HOUR, files=40, bytes=1000)
    found = verdict(changed_home := dataclasses.replace(HOME, last=one, whole=one, changed=changed))
    assert (codes(found), found.exit_code) == (codes_found, 3 if codes_found else 0)
    if codes_found:
        text = "Partly protected: much of /h/.hermes is newer than its last snapshot, which is 5 h old"
        assert (found.text, steps(found)) == (text, ("`safekept snapshot`",))
    old = dataclasses.replace(one, time=NOW - 99 * HOUR)
    assert codes(verdict(dataclasses.replace(changed_home, last=old, whole=old))) == ["stale"], "said once"


@pytest.mark.parametrize("then", [0, 1_000_000, 40_000_000])
def test_a_database_that_is_mostly_new_since_a_young_snapshot_is_not_green(then):
    one = dataclasses.replace(LAST, time=NOW - 5 * HOUR, files=40)
    grown = ChangedSince(looked=40, grown={"kanban.db": (10, 20), "state.db": (then, then * 2 + 6_000_000)})
    found = verdict(dataclasses.replace(HOME, last=one, whole=one, changed=grown))
    text = "much of state.db in /h/.hermes is newer than its last snapshot, which is 5 h old"
    assert (found.text, found.exit_code) == (f"Partly protected: {text}", 3)
    assert (codes(found), steps(found)) == (["much-changed"], ("`safekept snapshot`",))
    assert found.reasons[0].evidence[0].startswith(f"it has {then * 2 / 1e6 + 6:,.1f} MB now, and had ")


def test_of_databases_the_size_counts_with_what_lies_beside_them_however_deep(tmp_path):
    home = str(tmp_path / ".hermes")
    layout = load_layouts()["hermes"]
    for number in range(5):
        put(os.path.join(home, f"a{number}"), "x")
    put(os.path.join(home, "state.db"), "x" * 10)
    put(os.path.join(home, "state.db-wal"), "x" * 90)
    deep = "profiles/coder/state.db"
    put(os.path.join(home, deep), "x" * 50)
    put(os.path.join(home, "kanban.db"), "x" * 7)
    look = partial(changed_since, home, layout, 0.0)
    assert look({"state.db": 30, deep: 20, "kanban.db": 7}, most=1).grown == {
        "state.db": (30, 100),
        deep: (20, 50),
    }
    assert look({"state.db": 100, deep: 60}).grown == {"kanban.db": (0, 7)}, "new, or not larger"
    assert look({"gone.db": 9, "state.db": 100, "kanban.db": 7, deep: 50}).grown == {}
    assert look().grown == {}, "where nobody wrote it down, nobody knows"


def test_how_much_changed_leaves_out_databases_and_what_no_snapshot_takes(tmp_path):
    home = str(tmp_path / ".hermes")
    layout = load_layouts()["hermes"]
    for name in ("SOUL.md", "skills/a/SKILL.md", "state.db", "state.db-wal", "skills/a/__pycache__/x.pyc"):
        put(os.path.join(home, name), "x" * 10)
    assert changed_since(home, layout, 0.0) == ChangedSince(2, 20, 4)
    assert changed_since(home, layout, time.time() + 60).files == 0
    assert changed_since(home, layout, 0.0, most=1).looked <= 3, "what is at the top, and no further"
