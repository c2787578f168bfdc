"""What hosts are asked, as text: words that mean the same to them as to us, and only our own lines."""

from __future__ import annotations

import plistlib

import pytest

from safekept.schedule.hosts import cron, launchd, systemd
from safekept.schedule.hosts.call import MARK, Call, NoSchedule
from safekept.schedule.tasks import Cadence

CALL = Call(("/opt/hold fast", "schedule", "run", "--quiet"), home="/home/ada/.hermes")
ADA = Call(("/usr/bin/safekept", "schedule", "run", "--quiet"), user="ada", home="/home/ada/.hermes")


# ── systemd ────────────────────────────────────────────────────────────────────────────────────────


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_timer_catches_up_spreads_and_looks_every_hour():
    found = lines(systemd.timer(CALL))
    for wanted in (
        "OnCalendar=*-*-* 03:30:00",
        "OnCalendar=*-*-* *:00:00",
        "Persistent=true",
        "RandomizedDelaySec=15min",
        "WantedBy=timers.target",
    ):
        assert wanted in found


def test_several_times_and_hourly_are_written_as_systemd_wants_them():
    twice = Call(("/x",), Cadence.parse("15:00, 3:05"))
    assert systemd.calendar(twice) == ["*-*-* 03:05:00", "*-*-* 15:00:00", "*-*-* *:00:00"]
    assert systemd.calendar(Call(("/x",), Cadence.parse("hourly"))) == ["*-*-* *:00:00"]


def test_the_service_steps_back_and_ends():
    found = lines(systemd.service(CALL))
    for wanted in (
        "Type=oneshot",
        "Nice=10",
        "IOSchedulingClass=idle",
        "UMask=0077",
        "TimeoutStartSec=260min",
    ):
        assert wanted in found
    assert "TimeoutStartSec=infinity" in lines(systemd.service(Call(("/x",), time_limit=0)))


def test_words_and_values_are_quoted_for_systemd():
    odd = Call(
        ("/a b/100%", "$HOME", 'say "x"', "back\\slash"), environment={"NAME": "50% of 'it'"}, home="/h/%n"
    )
    found = lines(systemd.service(odd))
    assert 'ExecStart="/a b/100%%" "$$HOME" "say \\"x\\"" "back\\\\slash"' in found
    assert "Environment=\"NAME=50%% of 'it'\"" in found
    assert "Description=safekept: look after /h/%%n" in found


def test_a_program_with_a_dollar_in_its_name_is_found_all_the_same():
    found = lines(systemd.service(Call(("/a$b/safekept", "x"))))
    assert 'ExecStart="/usr/bin/env" "/a$$b/safekept" "x"' in found


def test_a_users_service_that_mails_is_not_kept_from_changing_its_group():
    assert "NoNewPrivileges=yes" in lines(systemd.service(CALL))
    mailing = lines(systemd.service(Call(("/x",), mails=True)))
    implied = ("NoNewPrivileges", "LockPersonality", "Restrict", "SystemCall")
    assert not [line for line in mailing if line.startswith(implied)]


def test_the_service_of_the_system_may_write_the_vault_and_not_the_system():
    found = lines(systemd.service(ADA))
    assert "ProtectSystem=full" in found
    assert not [line for line in found if line.startswith(("ProtectHome", "ReadOnlyPaths", "User="))]
    assert any("CAP_DAC_READ_SEARCH" in line for line in found)


def test_names_of_units_are_one_for_each_user():
    assert set(systemd.unit_files(ADA, "/etc/systemd/system")) == {
        "/etc/systemd/system/safekept-ada.service",
        "/etc/systemd/system/safekept-ada.timer",
    }
    assert systemd.start_commands(ADA)[-1] == ("systemctl", "enable", "--now", "safekept-ada.timer")
    assert systemd.stop_commands(CALL) == [("systemctl", "--user", "disable", "--now", "safekept.timer")]


@pytest.mark.parametrize("user", ["../evil", "a b", "a/b", "-x", "a\n"])
def test_a_name_that_could_leave_the_directory_is_refused(user):
    with pytest.raises(ValueError, match="not a user name"):
        Call(("/x",), user=user)


@pytest.mark.parametrize("text", ["a\nExecStart=/evil", "a\rb", "a\x00b", "a\x1bb"])
def test_a_line_break_can_add_no_line_to_a_unit(text):
    for given in ({"command": ("/x", text)}, {"command": ("/x",), "environment": {"A": text}}):
        with pytest.raises(NoSchedule, match="control character"):
            Call(**given)
    with pytest.raises(NoSchedule, match="control character"):
        Call(("/x",), home=text)


# ── launchd ────────────────────────────────────────────────────────────────────────────────────────


def test_the_property_list_says_what_to_run_when_and_gently():
    call = Call(("/opt/hold fast", "a&b", "<c>"), environment={"A": "x y"}, logs="/Users/ada/logs")
    ((path, text),) = launchd.unit_files(call, "/Users/ada/Library/LaunchAgents").items()
    assert path == "/Users/ada/Library/LaunchAgents/dev.safekept.schedule.plist"
    found = plistlib.loads(text.encode())
    assert found["Label"] == "dev.safekept.schedule"
    assert found["ProgramArguments"] == ["/opt/hold fast", "a&b", "<c>"]
    assert found["EnvironmentVariables"] == {"A": "x y"}
    assert found["StartCalendarInterval"] == [{"Hour": 3, "Minute": 30}, {"Minute": call.minute_of_run}]
    assert (found["Nice"], found["LowPriorityIO"], found["ProcessType"]) == (10, True, "Background")
    assert found["Umask"] == 0o077
    assert found["StandardErrorPath"] == "/Users/ada/logs/schedule.log"


def test_launchd_is_asked_in_the_domain_of_the_user_or_of_the_system():
    assert launchd.start_commands(CALL, "/p", 501) == [("launchctl", "bootstrap", "gui/501", "/p")]
    assert launchd.stop_commands(ADA, 0) == [
        ("launchctl", "bootout", "system/dev.safekept.schedule.ada"),
    ]


# ── cron ───────────────────────────────────────────────────────────────────────────────────────────


def test_lines_of_cron_are_quoted_for_the_shell_and_for_cron():
    odd = Call(("/a b/safekept", "x'y"), environment={"A": "50% $HOME"}, home="/h")
    begin, nightly, why, look, end = cron.lines(odd)
    assert why.startswith("# ") and "every hour" in why and why.endswith("where nothing is due")
    assert begin.startswith("# safekept: begin. ")
    assert nightly == """30 3 * * * env A='50\\% $HOME' '/a b/safekept' 'x'"'"'y'"""
    assert look.startswith(f"{odd.minute_of_run} * * * * env ")
    assert end == "# safekept: end"


def test_the_minute_of_the_look_differs_between_machines_and_not_between_days():
    homes = [Call(("/x",), home=f"/home/{number}") for number in range(40)]
    minutes = [call.minute_of_run for call in homes]
    assert all(0 <= minute < 60 for minute in minutes)
    assert len(set(minutes)) > 10
    assert minutes == [call.minute_of_run for call in homes]


def test_a_file_of_the_system_names_who_runs_it_and_has_no_dot_in_its_name():
    call = Call(("/x",), user="ada.b")
    ((path, text),) = cron.system_file(call, "/etc/cron.d").items()
    assert path == "/etc/cron.d/safekept-ada_b"
    assert all(" root env " in line for line in lines(text))


TABLE = "MAILTO=ada\n# mine\n*/5 * * * * echo 100\\%\n\n"


@pytest.mark.parametrize("table", ["", TABLE, "0 1 * * * true\n"])
def test_taking_our_lines_out_gives_back_the_table_that_was_there(table):
    ours = "\n".join(cron.lines(CALL)) + "\n"
    once = cron.joined(table, ours)
    assert once == table + ours
    assert cron.joined(once, ours) == once  # a second time changes nothing
    assert cron.without_lines(once) == table
    assert cron.has_lines(once)
    assert not cron.has_lines(table)
    after = once + "5 5 * * * later\n"
    assert cron.without_lines(after) == table + "5 5 * * * later\n"


def test_a_block_without_its_end_costs_nobody_a_line():
    ours = [line for line in cron.lines(CALL) if line != "# safekept: end"]
    table = TABLE + "\n".join(ours) + "\n0 6 * * * not ours\n"
    assert cron.without_lines(table) == TABLE + "0 6 * * * not ours\n"


def test_lines_that_lost_their_marks_are_replaced_and_a_persons_own_line_is_not():
    """Whatever copies a table without its comments leaves our lines of an older program behind."""
    own = "0 * * * * safekept schedule run --quiet\n"
    call = Call(("/old/bin/safekept", "schedule", "run", "--quiet"), environment={"PATH": "/usr/bin"})
    bare = "\n".join(line for line in cron.lines(call) if not line.startswith("#")) + "\n"
    assert cron.without_lines(TABLE + bare + own) == TABLE + own
    assert cron.has_lines(bare) and cron.own_lines(bare) == bare.splitlines()
    ours = "\n".join(cron.lines(CALL)) + "\n"
    assert cron.joined(TABLE + bare, ours) == TABLE + ours


def test_the_start_in_every_hour_is_explained_where_it_stands():
    at = systemd.timer(CALL).splitlines()
    assert "every hour" in at[at.index("OnCalendar=*-*-* *:00:00") - 1]
    ((_, text),) = cron.system_file(ADA, "/etc/cron.d").items()
    found = text.splitlines()
    hourly = next(number for number, line in enumerate(found) if " * * * * " in line)
    assert "every hour" in found[hourly - 1]


def test_every_file_is_marked_as_ours():
    texts = [*systemd.unit_files(CALL, "/d").values(), *cron.system_file(ADA, "/d").values()]
    assert all(MARK in text for text in texts)
