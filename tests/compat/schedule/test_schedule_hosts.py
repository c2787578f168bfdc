"""What real hosts make of what we ask them: systemd's own checker, the real crontab, and on request a running
systemd and a running cron.

By default `systemd-analyze` judges the units and `crontab` takes and gives back the lines. The two storms of
`--soak schedule` go further: a real systemd of a user in a mount namespace of its own starts the service,
and a real cron daemon, which wakes once in a minute, runs a line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from conftest import NO_CRONTAB, missing_part, program
from safekept.actions.schedule.host import Machine, plan_installation
from safekept.actions.schedule.install import install, installed, remove
from safekept.actions.schedule.whose import stores_of
from safekept.schedule.hosts import cron, systemd
from safekept.schedule.hosts.call import Call
from safekept.schedule.tasks import Cadence
from support.places import SOURCE
from support.users.contexts import throwaway


@pytest.fixture(scope="module")
def odd_call(tmp_path_factory):
    """A program in a place whose name means something to everybody who reads it."""
    place = tmp_path_factory.mktemp("odd") / "a b%n$HOME'x\"y\\z"
    place.mkdir()
    shutil.copy("/bin/true", place / "hold fast")
    return Call(
        (str(place / "hold fast"), "schedule", "run", "--quiet", "$HOME", "100%"),
        environment={"NAME": "x y%z\"q\\n'$H"},
        home=str(place),
    )


def analyzed(*words: str, runtime: object) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "XDG_RUNTIME_DIR": str(runtime),
        "HOME": str(runtime),
        "LC_ALL": "C",
    }
    return subprocess.run(
        [program("systemd-analyze"), *words], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("user", ["", "ada"], ids=["user", "system"])
@pytest.mark.parametrize("mails", [False, True], ids=["quiet", "mails"])
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path, odd_call, user, mails):
    call = Call(odd_call.command, odd_call.cadence, odd_call.environment, user, odd_call.home, mails=mails)
    for path, text in systemd.unit_files(call, str(tmp_path)).items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    units = [os.path.join(tmp_path, f"{call.name}.{kind}") for kind in ("service", "timer")]
    found = analyzed("verify", *(() if user else ("--user",)), *units, runtime=tmp_path)
    assert (found.returncode, found.stderr + found.stdout) == (0, "")


def test_systemd_would_say_so_if_something_were_wrong(tmp_path):
    """The check above means something: a program that is not there, and a word that systemd does not know."""
    call = Call(("/nowhere/safekept", "x"))
    for path, text in systemd.unit_files(call, str(tmp_path)).items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("Nice=10", "Nicer=10"))
    found = analyzed("verify", "--user", str(tmp_path / "safekept.service"), runtime=tmp_path)
    assert found.returncode != 0
    assert "/nowhere/safekept is not executable" in found.stderr
    assert "Nicer" in found.stderr


@pytest.mark.parametrize("at", ["03:30", "03:30, 15:45", "hourly", "00:00"])
def test_systemd_understands_the_moments_as_we_do(tmp_path, at):
    call = Call(("/x",), Cadence.parse(at))
    for moment in systemd.calendar(call):
        found = analyzed("calendar", moment, runtime=tmp_path)
        assert found.returncode == 0, found.stderr
        assert re.search(r"Normalized form: (.*)", found.stdout)[1] == moment
        assert "Next elapse:" in found.stdout


def test_the_service_of_the_system_is_judged_to_be_well_confined(tmp_path, odd_call):
    path = tmp_path / "safekept-ada.service"
    path.write_text(systemd.service(Call(odd_call.command, user="ada")))
    found = analyzed("security", "--offline=true", str(path), runtime=tmp_path)
    level = re.search(r"exposure level for .*: ([\d.]+)", found.stdout)
    assert level, found.stdout + found.stderr
    assert float(level[1]) < 5.0  # 9.2 without anything; reading homes and the network keep it above 0


# ── cron ───────────────────────────────────────────────────────────────────────────────────────────


SPOOL = "/var/spool/cron/crontabs"
#: A directory of the test's own in the place of the machine's tables, for one program and what it starts.
ELSEWHERE = f'mount --bind "$0" {SPOOL} && exec "$@"'


@pytest.fixture
def own_tables(tmp_path) -> list[str]:
    """How to begin a program that sees its own tables of cron. Root's may be in use, also by another test."""
    if os.geteuid() != 0:
        missing_part("tables of cron of our own need root")
    program("crontab")
    place = tmp_path / "tables"
    shutil.copytree(SPOOL, place, ignore=lambda directory, names: names)
    like = os.stat(SPOOL)
    os.chown(place, like.st_uid, like.st_gid)
    os.chmod(place, like.st_mode & 0o7777)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", ELSEWHERE, str(place)]


@pytest.fixture
def own_crontab(monkeypatch, tmp_path, own_tables) -> str:
    """The real crontab, with a table that is empty and goes with the test."""
    places = os.environ["PATH"].split(os.pathsep)
    real = [place for place in places if os.path.basename(place) != NO_CRONTAB]
    monkeypatch.setenv("PATH", os.pathsep.join(real))
    words = shlex.join([*own_tables, program("crontab")])
    crontab = tmp_path / "programs" / "crontab"
    crontab.parent.mkdir()
    crontab.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    crontab.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(crontab.parent), *real]))
    return str(crontab)


def table(crontab: str) -> str:
    found = subprocess.run([crontab, "-l"], capture_output=True, text=True)
    return found.stdout if found.returncode == 0 else ""


def test_the_real_crontab_takes_our_lines_and_gives_the_table_back(tmp_path, own_crontab, odd_call):
    theirs = "MAILTO=nobody\n# mine\n5 5 29 2 * echo 100\\%\n"
    subprocess.run([own_crontab, "-"], input=theirs, text=True, check=True)
    here = throwaway(tmp_path)
    machine = Machine({"PATH": os.environ["PATH"]}, here.places.user_home, here.places.user_home, "root")
    plan = plan_installation(machine, "cron", replace(odd_call, stores=stores_of(here)), os.getuid())
    install(here, plan, machine.run)
    assert table(own_crontab) == theirs + plan.table
    remove(here, installed(here), machine.run)
    assert table(own_crontab) == theirs


def test_cron_hands_the_shell_the_words_that_we_meant(tmp_path, odd_call):
    """What cron does to a line, done as its manual says, then the real shell."""
    script = tmp_path / "hold fast"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$NAME" "$@"\n')
    script.chmod(0o755)
    call = Call((str(script), *odd_call.command[1:]), environment=odd_call.environment)
    line = cron.lines(call)[1].removeprefix("30 3 * * * ")
    handed = re.split(r"(?<!\\)%", line)  # an unescaped percent sign would end the command
    assert len(handed) == 1
    found = subprocess.run(
        ["/bin/sh", "-c", line.replace("\\%", "%")], capture_output=True, text=True, env={}
    )
    assert found.stdout.splitlines() == [*odd_call.environment.values(), *odd_call.command[1:]]


@pytest.mark.soak("schedule")
def test_a_real_cron_daemon_runs_a_line_of_ours(tmp_path, own_crontab, own_tables):
    """cron wakes at the full minute, so this takes up to one; every minute is asked for, not 03:30."""
    home = tmp_path / "user" / ".hermes"
    (home / "memories").mkdir(parents=True)
    (home / "config.yaml").write_text("a: 1\n")
    (home / "SOUL.md").write_text("kind\n")
    call = Call(
        (sys.executable, "-m", "safekept", "schedule", "run", "--quiet"),
        environment={"HOME": str(tmp_path / "user"), "PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]},
    )
    ours = [re.sub(r"^\S+ \S+ \* \* \* ", "* * * * * ", line) for line in cron.lines(call)]
    subprocess.run([own_crontab, "-"], input="\n".join(ours) + "\n", text=True, check=True)
    with subprocess.Popen([*own_tables, program("cron"), "-f"], start_new_session=True) as daemon:
        try:
            here = throwaway(tmp_path)
            while not any(
                entry.verb == "schedule" and entry.state == "done" for entry in here.journal.read()
            ):
                assert daemon.poll() is None, "cron ended by itself"
                time.sleep(0.2)
        finally:
            os.killpg(daemon.pid, signal.SIGTERM)
    (done,) = [entry for entry in here.journal.read() if entry.verb == "snapshot"]
    assert done.facts["actor"] == "schedule"
    assert done.facts["kind"] == "scheduled"


# ── a running systemd ──────────────────────────────────────────────────────────────────────────────

#: In a mount and process namespace of its own: a systemd for one user, then our commands beside it.
IN_NAMESPACE = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
export XDG_RUNTIME_DIR=/run/user/0
/lib/systemd/systemd --user > "$HOME/systemd.log" 2>&1 &
until systemctl --user is-system-running > "$HOME/state" 2>&1; do
    grep -q degraded "$HOME/state" && break
    sleep 0.1
done
$SAFEKEPT schedule install --yes > "$HOME/install" 2>&1
systemctl --user list-timers --all --no-pager > "$HOME/timers"
systemctl --user start safekept.service
systemctl --user show safekept.service -p Result -p ExecMainStatus > "$HOME/result"
$SAFEKEPT schedule remove --yes > "$HOME/remove" 2>&1
systemctl --user list-timers --all --no-pager > "$HOME/timers-after"
"""


@pytest.mark.soak("schedule")
def test_a_real_systemd_runs_the_service_and_forgets_it_when_it_is_removed(tmp_path):
    if os.geteuid() != 0 or not os.path.exists("/lib/systemd/systemd"):
        missing_part("a systemd of our own needs root and systemd")
    user = tmp_path / "user"
    (user / ".hermes" / "memories").mkdir(parents=True)
    (user / ".hermes" / "config.yaml").write_text("a: 1\n")
    (user / ".hermes" / "SOUL.md").write_text("kind\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(user),
        "PYTHONPATH": SOURCE,
        "SAFEKEPT": f"{sys.executable} -m safekept",
    }
    words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*words, "/bin/sh", "-c", IN_NAMESPACE], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "safekept.timer safekept.service" in (user / "timers").read_text()
    assert (user / "result").read_text() == "Result=success\nExecMainStatus=0\n"
    assert "safekept.timer" not in (user / "timers-after").read_text()
    assert not (user / ".config" / "systemd").exists()
    here = throwaway(tmp_path)
    (taken,) = [entry for entry in here.journal.read() if entry.verb == "snapshot"]
    assert taken.facts["actor"] == "schedule"
