"""Guard: three outcomes before the command, its own terminal and status, and an honest word after it."""

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

import pytest

from conftest import run_safekept
from safekept.actions.alarms.alarms import open_alarms
from safekept.actions.guard.guard import guard
from safekept.actions.guard.guard_types import GuardRequest, kind_for
from safekept.core.entries import EntryLost, Outcome, Remark
from support.commands.error_texts import error_code
from support.commands.terminals import Terminal
from support.home import damages
from support.home.homes import differences, make_hermes_home, tree_facts
from support.places import CHECKOUT
from support.users.contexts import throwaway
from support.users.unprivileged import as_nobody, nobodys  # noqa: F401
from support.vault.snapshots import take

ROOT = (".",)


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)


@pytest.fixture
def ran(tmp_path):
    """A file that the guarded command makes, and whether it did."""
    return os.path.join(str(tmp_path), "ran")


def damaging(name, home):
    return [sys.executable, "-I", "-S", damages.__file__, name, home]


def printed(text):
    return re.findall(r"`(safekept [^`]+)`", text)


def journal(here, verb):
    return [entry for entry in here.journal.read() if entry.verb == verb]


# Before the command


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("hermes", "update"), "pre-update"),
        (("hermes", "claw", "migrate"), "pre-migration"),
        (("/opt/bin/hermes", "claw", "status"), "pre-update"),
        (("env", "A=b", "hermes", "-v", "claw", "--yes", "migrate", "--dry-run"), "pre-migration"),
        (("claw", "migrate"), "pre-update"),
        (("sh", "-c", "hermes claw migrate"), "pre-update"),
    ],
)
def test_the_kind_follows_the_command(command, kind):
    assert kind_for(command) == kind


def test_done_says_which_snapshot_and_that_nothing_was_lost(here, home, say):
    said = say("guard", "--label", "big one", "--", "true")
    assert (said.code, said.out) == (0, "")
    lines = said.err.splitlines()[-2:]
    assert re.fullmatch(
        rf"Guard: pre-update snapshot [0-9a-f]{{8}} \([\d.]+ s\) of {re.escape(home)}", lines[0]
    )
    assert re.match(
        r"Guard: `true` ended with status 0 after [\d.]+ s; nothing was lost \(63 files looked at", lines[1]
    ), lines[1]
    [one] = json.loads(say("snapshot", "list", "--json").out)["snapshots"]
    assert (one["kind"], one["label"]) == ("pre-update", "big one")


@pytest.mark.parametrize("how", ["option", "home", "setting"])
def test_opted_out_is_not_failed_and_not_done(here, home, say, ran, how, monkeypatch):
    options = ["--no-backup"] if how == "option" else []
    if how == "home":
        with open(os.path.join(home, "config.yaml"), "a") as file:
            file.write("updates:\n  pre_update_backup: off\n")
    if how == "setting":
        monkeypatch.setenv("SAFEKEPT_UPDATES_PRE_UPDATE_BACKUP", "off")
    said = say("guard", *options, "--", *damaging("emptied-database", home))
    why = {
        "option": "`--no-backup` was given",
        "home": f"`updates.pre_update_backup` is off in {home}/config.yaml",
        "setting": "the setting `updates.pre_update_backup` is `off`",
    }
    assert said.code == 0
    assert said.err == f"Guard: no snapshot, since {why[how]}; nothing will be checked\n"
    assert not os.path.exists(here.places.vault)
    assert journal(here, "guard")[-1].facts["protection"] == "opted-out"


def test_failed_runs_nothing_and_says_why_and_what_to_do(here, home, say, ran, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_VAULT_PATH", os.path.join(home, "vault"))
    report = os.path.join(here.places.user_home, "report.json")
    said = say("guard", "--report", report, "--", "touch", ran)
    assert said.code == 1
    assert not os.path.exists(ran)
    assert error_code(said.err) == "not-protected"
    assert "No pre-update snapshot could be taken: the vault at" in said.err
    assert f"Kept       `touch` was not run; the home {home} was only read" in said.err
    assert "Run it without a snapshot, if you must: `safekept guard --anyway -- COMMAND`" in said.err
    with open(report) as file:
        document = json.load(file)
    assert (document["ran"], document["exit_code"]) == (False, 1)
    assert document["protection"]["outcome"] == "failed"
    assert document["error"]["code"] == "not-protected"
    assert [entry.state for entry in journal(here, "guard")] == ["begun", "failed"]


def test_anyway_runs_it_unprotected_and_says_so(here, home, say, ran, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_VAULT_PATH", os.path.join(home, "vault"))
    said = say("guard", "--anyway", "--", "sh", "-c", f"touch {ran}; exit 4")
    assert said.code == 4
    assert os.path.exists(ran)
    assert f"Guard: NO SNAPSHOT of {home}; the command runs anyway, and nothing will be checked" in said.err
    assert "  failed  The vault at " in said.err


def test_a_home_that_is_not_there_is_a_failed_snapshot(here, say, ran):
    assert say("guard", "--", "touch", ran).code == 1
    assert not os.path.exists(ran)
    assert say("guard", "--anyway", "--", "touch", ran).code == 0
    assert os.path.exists(ran)


@pytest.mark.parametrize(("words", "code"), [(["no-such-command"], 127), (["/etc/passwd"], 126)])
def test_a_command_that_cannot_run_costs_no_snapshot(here, home, say, words, code):
    said = say("guard", "--", *words)
    assert said.code == code
    assert "Kept       The command was not run" in said.err
    assert not os.path.exists(here.places.vault)


def test_a_report_that_cannot_be_written_stops_it_before_anything_runs(here, home, say, ran):
    said = say("guard", "--report", "/no/such/place/report.json", "--", "touch", ran)
    assert said.code == 2
    assert not os.path.exists(ran)


def test_options_of_the_command_are_its_own_also_without_dashes(here, home, say):
    assert say("guard", "sh", "-c", "exit 6").code == 6
    assert say("guard", "--home", home, "--", "sh", "-c", "exit 7", "--home", "/x").code == 7


def test_with_backup_there_is_a_zip_too(here, home, say):
    said = say("guard", "--backup", "--", "true")
    assert said.code == 0
    [name] = os.listdir(os.path.join(home, "backups"))
    assert f"zip {home}/backups/{name}" in said.err


# The command


def test_the_command_has_its_output_and_its_status(here, home, launcher_environment):
    """As a user calls it; its standard output is nobody else's."""
    done = run_safekept(
        "guard", "--", "sh", "-c", "read x; echo got $x; echo trouble >&2; kill -KILL $$",
        environment=launcher_environment, stdin=None, input="hello\n",
    )  # fmt: skip
    assert done.returncode == 137
    assert done.stdout == "got hello\n"
    assert "trouble\n" in done.stderr
    assert re.search(r"Guard: `sh` was ended by SIGKILL after [\d.]+ s", done.stderr), done.stderr
    assert "; nothing was lost (" in done.stderr


#: Waits for Ctrl-C, which cannot slip by, and breaks something before it ends as a program does then.
INTERRUPTED = """
import shutil, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
shutil.rmtree(sys.argv[1])
sys.exit(130)
"""


def test_ctrl_c_is_the_commands_and_the_check_comes_all_the_same(here, home, launcher_environment):
    words = [sys.executable, "-I", "-m", "safekept", "guard", "--", sys.executable, "-c", INTERRUPTED]
    with Terminal(*words, os.path.join(home, "skills"), environment=launcher_environment) as terminal:
        terminal.until("ready")
        terminal.type("\x03")
        terminal.until("all 5 skills are gone")
        assert terminal.end() == 130


@pytest.mark.parametrize("phase", ["snapshot", "check"])
def test_ctrl_c_in_every_other_phase_is_an_orderly_end(here, home, say, ran, monkeypatch, phase):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    where = "guard.pre_update._snapshot" if phase == "snapshot" else "guard.check.examine"
    monkeypatch.setattr(f"safekept.actions.{where}", interrupted)
    said = say("guard", "--", "touch", ran)
    assert said.code == 130
    if phase == "snapshot":
        assert "Interrupted" in said.err
        assert not os.path.exists(ran), "no snapshot, no command"
        assert journal(here, "guard")[-1].state == "interrupted"
    else:
        assert os.path.exists(ran)
        assert "; NOT CHECKED: the check was interrupted" in said.err
        [command] = printed(said.err)
        assert say(*shlex.split(command)[1:]).code == 0, "the way to see what it changed runs as printed"
        assert journal(here, "guard")[-1].facts["unchecked"] == "the check was interrupted"
    assert say("guard", "--", "sh", "-c", "exit 5").code == (130 if phase == "snapshot" else 5)


def test_what_the_command_was_given_is_not_kept_in_the_journal(here, home, say):
    say("guard", "--", "env", "TOKEN=secret-word", "true", "--password", "other-secret")
    with open(here.journal.path) as file:
        text = file.read()
    assert "secret-word" not in text and "other-secret" not in text
    assert journal(here, "guard")[-1].facts["command"] == "env"


# Unknown is never lost


def test_a_schema_that_changed_is_unknown_and_no_loss(here, home, say):
    path = os.path.join(home, "state.db")
    rename = "c.execute('alter table sessions rename to talks')"
    script = f"import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); {rename}; c.commit()"
    said = say("guard", "--", sys.executable, "-c", script, path)
    assert said.code == 0, said.err
    assert "  unknown the sessions in state.db cannot be counted any more; there were 4" in said.err
    assert open_alarms(here) == ()


def test_a_database_that_was_damaged_before_is_not_blamed_on_the_command(here, home, say):
    damages.DAMAGES["page-corruption"](home)
    said = say("guard", "--", "touch", os.path.join(home, "state.db"))
    assert said.code == 0, said.err
    assert "  unknown state.db was damaged before, and was not judged again" in said.err
    assert ", INCOMPLETE (" in said.err
    assert "  missing state.db: stored exactly as it is, but the database is damaged: " in said.err


def test_a_locked_database_is_unknown_and_no_loss(here, home, say, monkeypatch):
    def locked(*arguments, **options):
        raise EntryLost(Remark("state.db", Outcome.LOCKED, "locked by pid 1 for 30 s"))

    monkeypatch.setattr("safekept.core.sqlite.look", locked)
    said = say("guard", "--", "touch", os.path.join(home, "state.db"))
    assert said.code == 0
    assert "  unknown state.db could not be checked: locked by pid 1 for 30 s" in said.err


def test_what_only_moved_grew_or_was_edited_is_no_loss(here, home, say):
    script = f"""cd {home} && mkdir skills/sorted && mv skills/keeper skills/sorted/
        printf '\\n§\\none more thing\\n' >> memories/MEMORY.md
        echo 'display: {{}}' >> config.yaml
        echo 'OTHER_KEY=x' >> .env
        : > logs/agent.log && rm cron/output/job0/2026-06-01.md && touch SOUL.md && chmod 600 auth.json"""
    said = say("guard", "--", "sh", "-c", script)
    assert said.code == 0, said.err
    assert "nothing was lost" in said.err


def test_an_agent_at_work_meanwhile_is_no_loss(here, home, say, live_writer):
    with_agent = live_writer(os.path.join(home, "state.db"))
    said = say("guard", "--", "sleep", "0.1")
    with_agent.stop()
    assert said.code == 0, said.err
    assert "unknown" not in said.err


# After a loss


def test_a_loss_is_an_alarm_and_restoring_as_printed_ends_it(here, home, say):
    said = say("guard", "--", *damaging("everything-at-once", home))
    assert said.code == 3
    [alarm] = open_alarms(here)
    assert alarm.text.startswith("after `python3`: state.db was a database") or "after `python" in alarm.text
    assert alarm.pinned in say("snapshot", "list", "--json").out
    assert take(here, home).alarm is None, "the next snapshot does not tell it a second time"
    assert list(alarm.restore) == printed(said.err)[-1:]
    assert say(*shlex.split(alarm.restore[0])[1:], "--yes").code == 0
    assert open_alarms(here) == ()
    assert say("undo").code == 0
    assert open_alarms(here) == (alarm,), "and taking that back opens it again"


def test_a_persona_and_keys_that_a_command_removed_are_not_told_a_second_time(here, home, say):
    with open(os.path.join(home, ".env"), "w") as file:
        file.write("A_KEY=1\n")
    names = [os.path.join(home, name) for name in ("SOUL.md", ".env")]
    assert say("guard", "--", "rm", *names).code == 3
    [alarm] = open_alarms(here)
    assert take(here, home).alarm is None, "the next snapshot does not tell it a second time"
    assert open_alarms(here) == (alarm,)


def test_auto_restore_brings_back_only_what_is_beyond_doubt_and_undo_takes_it_back(here, home, say):
    before = tree_facts(home, skip=ROOT)
    script = " && ".join(
        shlex.join(damaging(name, home)) for name in ("zeroed-database", "emptied-cron", "truncated-memories")
    )
    report = os.path.join(here.places.user_home, "report.json")
    said = say("guard", "--auto-restore", "--report", report, "--", "sh", "-c", script)
    assert said.code == 3, "it is back, and it was lost all the same"
    assert re.findall(r"^  (back|lost)    (\S+)", said.err, flags=re.MULTILINE) == [
        ("back", "state.db"),
        ("back", "cron/jobs.json:"),
        ("lost", "memories/MEMORY.md:"),
    ]
    broken = [line.split()[1] for line in differences(before, tree_facts(home, skip=ROOT))]
    assert [name for name in broken if name not in ("cron", "memories")] == ["memories/MEMORY.md"]
    with open(report) as file:
        document = json.load(file)
    assert [one["restored"] for one in document["check"]["findings"]] == [True, True, False]
    commands = printed(said.err)
    assert document["undo"] == commands[-1]
    assert [alarm.paths for alarm in open_alarms(here)] == [("memories/MEMORY.md",)]
    assert say(*shlex.split(commands[-1])[1:]).code == 0
    assert os.path.getsize(os.path.join(home, "state.db")) > 0
    with open(os.path.join(home, "state.db"), "rb") as file:
        assert not file.read().strip(b"\0"), "undone: the zeros are back"


def test_where_all_of_it_is_back_the_alarm_is_over_at_once(here, home, say):
    said = say("guard", "--auto-restore", "--", *damaging("deleted-cron", home))
    assert said.code == 3
    assert "  back    cron/jobs.json is gone, with 4 cron jobs" in said.err
    assert open_alarms(here) == ()
    assert len(journal(here, "alarm")) == 1, "but it is in the journal, and somebody was told"


def test_without_auto_restore_nothing_is_changed(here, home, say):
    say("guard", "--", *damaging("emptied-database", home))
    assert os.path.getsize(os.path.join(home, "state.db")) == 0


def test_the_report_says_what_the_reference_says(here, home, say):
    report = os.path.join(here.places.user_home, "report.json")
    say("guard", "--report", report, "--", *damaging("partly-emptied-cron", home))
    with open(report) as file:
        document = json.load(file)
    assert os.stat(report).st_mode & 0o777 == 0o600
    with open(os.path.join(CHECKOUT, "docs", "reference", "json.md")) as file:
        section = file.read().split("\n## guard\n")[1].split("\n## undo\n")[0]
    documented = set(re.findall(r"`(\w+)`", section))
    inner = {
        *document["check"],
        *document["protection"],
        *document["check"]["findings"][0],
        *document["alarm"],
    }
    assert ({*document} | inner) - documented == set()
    [finding] = document["check"]["findings"]
    assert finding["losses"] == [{"profile": "default", "name": "cron_jobs", "before": 4, "after": 1}]
    assert (document["exit_code"], document["status"], document["ran"]) == (3, 0, True)


# Bad luck


def test_a_command_that_deletes_the_vault_too_is_told_from_one_that_does_not(here, home, say, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_SEAT_BELT", "false")
    ours = f"{here.places.data_directory} {here.places.cache_directory}"
    script = f"rm -r {ours}; : > {home}/state.db; rm {home}/cron/jobs.json"
    said = say("guard", "--", "sh", "-c", script)
    assert said.code == 3, said.err
    assert "  lost    state.db was a database and is empty (0 bytes)" in said.err
    assert "  lost    cron/jobs.json is gone\n" in said.err
    assert "  unknown the snapshot could not be read to compare: " in said.err


def test_a_command_that_fills_the_disk_is_checked_all_the_same(
    tmp_path, small_filesystem, launcher_environment
):
    place = small_filesystem(60_000)
    home = make_hermes_home(os.path.join(place, ".hermes"), awkward=False)
    environment = {**launcher_environment, "HOME": place}
    fill = f"rm -r {home}/skills; head -c 100M /dev/zero > {place}/full 2>/dev/null; true"
    done = run_safekept("guard", "--", "sh", "-c", fill, environment=environment)
    assert done.returncode == 3, done.stderr
    assert "  lost    all 5 skills are gone: " in done.stderr
    os.unlink(os.path.join(place, "full"))
    [command] = printed(done.stderr)
    again = run_safekept(*shlex.split(command)[1:], "--yes", environment=environment)
    assert again.returncode == 0, again.stderr
    assert len(os.listdir(os.path.join(home, "skills"))) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="changing owners needs root")
@pytest.mark.parametrize("whole", [True, False])
def test_a_home_that_changed_its_owner_is_a_finding_with_the_command_that_gives_it_back(
    here, home, say, whole
):
    target = "" if whole else "/memories"
    said = say("guard", "--", "chown", "-R", "65534:65534", home + target)
    assert said.code == 3, said.err
    what = f"the home {home} belongs to 65534:65534; it belonged to 0:0"
    part = "2 files do not belong to the home's owner any more, such as memories/MEMORY.md"
    assert f"  lost    {what if whole else part}\n" in said.err
    fix = f"chown -hR 0:0 {home}"
    assert f"          `{fix}`\n" in said.err
    subprocess.run(shlex.split(fix), check=True)
    assert {os.lstat(os.path.join(d, n)).st_uid for d, _, names in os.walk(home) for n in names} == {0}


def test_what_may_not_be_entered_any_more_is_said_and_is_not_gone(nobodys):  # noqa: F811
    def attempt():
        here = throwaway(nobodys)
        home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)
        request = GuardRequest(
            here.locate(home), ("chmod", "000", f"{home}/skills", f"{home}/memories/USER.md")
        )
        done = guard(here.changed(environment={"PATH": os.environ["PATH"]}), request)
        return [(one.kind, one.text, one.fix) for one in done.findings], done.exit_code, home

    findings, code, home = as_nobody(attempt)
    shutil.rmtree(home, ignore_errors=True)
    assert code == 3
    closed = [text for kind, text, _ in findings if kind == "closed"]
    assert any(text.endswith("cannot be entered any more: Permission denied") for text in closed)
    assert "memories/USER.md cannot be read any more: Permission denied" in closed
    assert not [text for kind, text, _ in findings if "gone" in text], "closed is not gone"
    assert all(fix.startswith(f"chmod u+rwx {home}/skills") for _, text, fix in findings if "entered" in text)


def test_twice_at_once_is_no_trouble(here, home, say):
    """A guard inside a guard: a script that guards, called under guard."""
    inner = f"{sys.executable} -I -m safekept guard -- {shlex.join(damaging('emptied-cron', home))}"
    said = say("guard", "--", "sh", "-c", inner)
    assert said.code == 3
    assert "cron/jobs.json: all 4 cron jobs are gone" in said.err
    with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        assert connection.execute("select count(*) from messages").fetchone() == (40,)
