"""The verdict: what makes a user protected, what does not, and what is an alarm; each with what to do."""

from __future__ import annotations

import dataclasses

import pytest

from safekept.actions.alarms.alarms import Alarm
from safekept.actions.drill.receipts import Receipt, Row
from safekept.actions.status.coverage import Coverage, coverage_of
from safekept.actions.status.destination_status import DestinationStatus
from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.home_summary import Failure, LastSnapshot
from safekept.actions.status.project_summaries import KeptProject, KeptProjects
from safekept.actions.status.vault_status import OPEN, SHUT, Checked, VaultStatus
from safekept.actions.status.verdict import Verdict, judge
from safekept.actions.vault.keys.keys import GENERATED, ListedKey
from safekept.home.landing.leftover import Leftover

NOW = 1_800_000_000.0
HOUR = 3600.0
LAST = LastSnapshot("a" * 64, NOW - HOUR, "manual", "sound", True, 10, 1000)
HOME = HomeStatus("/h/.hermes", "hermes", True, True, snapshots=1, last=LAST, whole=LAST, verified=LAST)
KEY = ListedKey("k" * 64, GENERATED, "", "ada@here", True)
VAULT = VaultStatus("/v", OPEN, id="v" * 64, keys=(KEY,), key_file="/c/vault.key")
NAS = DestinationStatus("nas", "sftp://nas/x", ("vault",), last=NOW - HOUR)


def verdict(
    home: HomeStatus = HOME,
    vault: VaultStatus = VAULT,
    destinations: tuple[DestinationStatus, ...] = (),
    projects: KeptProjects | None = None,
    alarms: tuple[Alarm, ...] = (),
) -> Verdict:
    return judge((home,), vault, projects or KeptProjects("/c"), destinations, alarms, now=NOW)


def changed(**changes: object) -> HomeStatus:
    return dataclasses.replace(HOME, **changes)  # type: ignore[arg-type]


def last(**changes: object) -> HomeStatus:
    return changed(last=dataclasses.replace(LAST, **changes))  # type: ignore[arg-type]


def remark(outcome: str, path: str = "x") -> Coverage:
    return coverage_of(
        "a" * 64, {"remarks": [{"outcome": outcome, "path": path, "reason": "why", "files": 1}]}
    )


def drilled(ok: bool) -> Receipt:
    row = Row("databases", "passed" if ok else "failed")
    return Receipt("o", "snapshot", "a" * 64, "/h/.hermes", NOW - HOUR, 1.0, ok, (row,))


PROTECTED = {
    "an hour old": HOME,
    "almost stale": last(time=NOW - 26 * HOUR + 1),
    "not verified yet": last(databases="unverified"),
    "rules leave something out": changed(coverage=remark("excluded")),
    "a link leads out": changed(coverage=remark("outside"), last=dataclasses.replace(LAST, complete=False)),
    "a quick one after a whole one": last(kind="quick", quick=True),
    "litter of a landing": changed(leftovers=(Leftover("o", False, "/p"),)),
    "a proven restore": changed(drill=drilled(True), proof=drilled(True)),
}


@pytest.mark.parametrize("name", PROTECTED)
def test_what_is_well_is_protected(name):
    found = verdict(PROTECTED[name])
    assert (found.level, found.exit_code, found.reasons) == ("protected", 0, ())
    assert found.text.startswith("Protected, on this machine only: the last snapshot is ")


def test_the_advice_follows_what_is_missing_for_the_worst_day():
    assert verdict().next == ("Keep the key elsewhere, too: `safekept vault kit`",)
    kept = dataclasses.replace(VAULT, second_way="passphrase")
    assert verdict(vault=kept).next == ("Copy it off this machine: `safekept push URL`",)
    found = verdict(vault=kept, destinations=(NAS,))
    assert (found.text, found.next) == ("Protected: the last snapshot is 60 min old", ())


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
        changed(failure=Failure("o", NOW - 60, "failed", "no room", ("Make room",))),
        "the last attempt to take a snapshot of /h/.hermes failed 60 s ago: no room",
        "Make room",
    ),
    "incomplete": (
        changed(coverage=remark("locked", "state.db")),
        "state.db in /h/.hermes could not be stored: why",
        "`safekept snapshot`",
    ),
    "quick-only": (
        changed(last=dataclasses.replace(LAST, quick=True), whole=None),
        "only state files of /h/.hermes are kept; there is no whole snapshot",
        "`safekept snapshot`",
    ),
    "no-home": (
        changed(exists=False, last=None),
        "there is no home at /h/.hermes, and nothing is kept",
        "Name the home: `safekept status --home PATH`",
    ),
}


@pytest.mark.parametrize("code", STALE)
def test_what_is_missing_or_old_means_not_protected(code):
    home, text, step = STALE[code]
    found = verdict(home)
    assert (found.level, found.exit_code) == ("not-protected", 3)
    assert [reason.code for reason in found.reasons] == [code]
    assert (found.text, found.next[0]) == (f"Not protected: {text}", step)


def test_an_older_failure_does_not_count_and_an_interrupted_one_says_so():
    assert verdict(changed(failure=Failure("o", NOW - 2 * HOUR, "failed", "x"))).level == "protected"
    found = verdict(changed(failure=Failure("o", NOW - 5, "interrupted", "Ctrl-C")))
    assert "was interrupted 5 s ago: Ctrl-C" in found.text


ALARMS = {
    "database-damaged": (
        changed(last=dataclasses.replace(LAST, databases="damaged"), damaged={"state.db": "b" * 64}),
        "state.db in /h/.hermes is damaged; its last sound state is kept",
        "`safekept snapshot restore bbbbbbbb state.db`",
    ),
    "drill-failed": (
        changed(drill=drilled(False)),
        "the last drill of /h/.hermes failed: databases",
        "`safekept drill`",
    ),
    "home-gone": (
        changed(exists=False),
        "the home /h/.hermes is gone; aaaaaaaa has it",
        "`safekept snapshot restore latest`",
    ),
    "interrupted-landing": (
        changed(leftovers=(Leftover("o", True, "/p"),)),
        "a restore or import into /h/.hermes was cut off half way; the next command takes it back",
        "`safekept snapshot`",
    ),
}


@pytest.mark.parametrize("code", ALARMS)
def test_what_is_lost_or_would_be_is_an_alarm(code):
    home, text, step = ALARMS[code]
    found = verdict(home)
    assert (found.level, found.exit_code) == ("alarm", 4)
    assert [reason.code for reason in found.reasons] == [code]
    assert (found.text, found.next[0]) == (f"ALARM: {text}", step)


def test_advice_never_names_a_generation_that_was_not_verified():
    bad = dataclasses.replace(LAST, databases="damaged")
    found = verdict(changed(last=bad, verified=None, damaged={"state.db": ""}))
    assert found.next == ("`safekept doctor`",)
    found = verdict(changed(last=bad, damaged={"state.db": "", "kanban.db": "c" * 64}))
    assert found.next == ("`safekept snapshot restore cccccccc kanban.db`",)


def test_commands_name_a_home_that_is_not_the_default_one():
    found = verdict(changed(default=False, home="/h/o'clock", last=None))
    assert found.next == ("`safekept snapshot --home '/h/o'\"'\"'clock'`",)


def test_another_home_that_is_gone_is_no_reason():
    assert verdict(changed(default=False, exists=False)).level == "protected"


def test_a_vault_that_is_shut_comes_with_its_own_advice():
    error = {"code": "wrong-key", "what": "The key does not fit", "next": ["Use the right one"]}
    found = verdict(vault=VaultStatus("/v", SHUT, error))
    assert (found.exit_code, found.text, found.next) == (
        4,
        "ALARM: The key does not fit",
        ("Use the right one",),
    )


def test_damage_that_is_known_of_the_vault_is_an_alarm():
    found = verdict(vault=dataclasses.replace(VAULT, check=Checked(NOW, False, 1.0, 3)))
    assert (found.exit_code, found.next) == (4, ("`safekept vault repair`",))
    found = verdict(vault=dataclasses.replace(VAULT, damaged={"f": "torn"}))
    assert found.text == "ALARM: 1 snapshot file in the vault cannot be read"
    assert verdict(vault=dataclasses.replace(VAULT, check=Checked(NOW, True, 0.0))).exit_code == 0


def test_a_vault_on_another_machine_is_off_this_host_and_needs_a_second_way_in():
    remote = dataclasses.replace(VAULT, place="sftp://nas/vault")
    assert verdict(vault=remote).reasons[0].code == "no-recovery-key"
    found = verdict(vault=dataclasses.replace(remote, second_way="kit"))
    assert found.text == "Protected: the last snapshot is 60 min old"
    beside = dataclasses.replace(VAULT, place="file:/mnt/vault")
    assert verdict(vault=beside).text.startswith("Protected, on this machine only")


def test_copies_that_only_this_host_could_open_are_no_protection():
    found = verdict(destinations=(NAS,))
    assert found.exit_code == 4
    assert found.text.startswith("ALARM: not protected: only this machine holds the vault's key")
    assert found.next == ("`safekept vault key add --recovery`",)
    for way in ("passphrase", "kit"):
        assert verdict(vault=dataclasses.replace(VAULT, second_way=way), destinations=(NAS,)).exit_code == 0


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        (dataclasses.replace(NAS, last=0.0), "nothing is in nas yet"),
        (
            dataclasses.replace(NAS, last=0.0, failure=Failure("o", NOW, "failed", "no route")),
            "nothing is in nas yet: no route",
        ),
        (dataclasses.replace(NAS, last=NOW - 9 * 24 * HOUR), "the copy in nas is 9 days old"),
    ],
)
def test_a_copy_off_this_host_that_is_missing_or_old_means_not_protected(destination, text):
    found = verdict(vault=dataclasses.replace(VAULT, second_way="kit"), destinations=(destination,))
    assert (found.exit_code, found.text, found.next) == (
        3,
        f"Not protected: {text}",
        ("`safekept push nas`",),
    )


def test_a_project_whose_checkpoints_fail_means_not_protected_while_it_is_there():
    project = KeptProject("/p", "live", NOW - 9, NOW - 1, "no room", "", "")
    found = verdict(projects=KeptProjects("/c", (project,)))
    assert (found.exit_code, found.text) == (3, "Not protected: checkpoints of /p fail: no room")
    gone = dataclasses.replace(project, presence="orphan")
    better = dataclasses.replace(project, last=NOW)
    assert verdict(projects=KeptProjects("/c", (gone, better))).exit_code == 0


def test_a_rollback_that_was_cut_off_is_an_alarm():
    project = KeptProject("/p q", "live", NOW, 0.0, "", "", "", cut_off=True)
    found = verdict(projects=KeptProjects("/c", (project,)))
    assert found.text == "ALARM: a rollback of /p q was cut off half way; the next one makes it right"
    assert found.next == ("`safekept rollback --dir '/p q'`",)


def test_the_worst_comes_first_and_nothing_is_left_out():
    alarm = Alarm(
        kind="loss", text="skills 9 → 0", home="/h/.hermes", restore=("safekept snapshot restore x",)
    )
    home = changed(
        last=dataclasses.replace(LAST, time=NOW - 99 * HOUR), failure=Failure("o", NOW, "failed", "x")
    )
    found = verdict(home, alarms=(alarm,))
    assert [reason.code for reason in found.reasons] == ["alarm-loss", "stale", "snapshot-failed"]
    assert found.text == "ALARM: lost in /h/.hermes: skills 9 → 0"
    assert found.next == (
        "`safekept snapshot restore x`",
        f"Once you have seen to it: `safekept status --acknowledge {alarm.id}`",
    )


def test_a_failed_drill_is_told_once_where_there_is_an_alarm_about_it():
    alarm = Alarm(kind="drill", text="the drill failed", home="/h/.hermes")
    found = verdict(changed(drill=drilled(False)), alarms=(alarm,))
    assert [reason.code for reason in found.reasons] == ["alarm-drill"]
