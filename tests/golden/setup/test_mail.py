"""Mail that cannot work is said where it is set, by the doctor, and by the test message, with what to do."""

from __future__ import annotations

import json
import os

import pytest

from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway


@pytest.fixture
def user(tmp_path):
    home = throwaway(tmp_path).places.user_home
    make_hermes_home(os.path.join(home, ".hermes"), profiles=(), awkward=False)
    return home


@pytest.fixture
def say(monkeypatch, user):
    return spoken(monkeypatch, user)


@pytest.mark.parametrize(
    "address", ["notanemail", "me@", "@example.org", "a@b@c", "a@x.org, b@x.org", "me@example..org"]
)
def test_what_is_no_address_is_refused(say, address):
    said = say("settings", "notify.email", address)
    assert said.code == 2 and "is no mail address" in said.err and "me@example.org" in said.err
    assert say("settings", "notify.email").out.startswith("notify.email = (none)")


@pytest.mark.parametrize("address", ["me@example.org", "me@localhost", "root", "a@x.org:ü.b+c@x.org"])
def test_addresses_and_users_of_this_machine_are_taken(say, address):
    assert say("settings", "notify.email", address).code == 0


def test_a_file_that_names_an_alias_of_the_mail_program_goes_on_working(say, user):
    assert say("settings", "notify.email", "me@example.org").code == 0
    file = json.loads(say("settings", "--json").out)["file"]
    with open(file, encoding="utf-8") as before:
        text = before.read()
    with open(file, "w", encoding="utf-8") as after:
        after.write(text.replace("me@example.org", "operators"))
    assert say("status").code != 2 and "operators" in say("settings").out


def test_a_mail_program_that_is_not_there_is_said_at_once_and_by_the_doctor(say, tmp_path):
    program = str(tmp_path / "sendmail")
    assert say("settings", "notify.sendmail", program).code == 0
    said = say("settings", "notify.email", "me@example.org")
    assert said.code == 0 and "Set notify.email to me@example.org\n" in said.out
    shown = " ".join(said.out.split())
    assert f"No mail goes out yet: there is no program {program}" in shown
    assert "Install one that sends mail" in shown and "safekept notify test" in shown
    document = json.loads(say("settings", "notify.email", "me@example.org", "--json").out)
    assert document["missing"] == program

    findings = json.loads(say("doctor", "--json").out)["findings"]
    (one,) = [one for one in findings if one["code"] == "program-missing"]
    assert one["text"] == f"{program} is not installed; it is needed to send mail, as `notify.email` says"
    assert "Install one that sends mail" in str(one["fix"])

    tried = say("notify", "test")
    assert tried.code == 1 and f"{program} cannot be run: No such file" in " ".join(tried.out.split())


def test_where_it_is_there_nothing_is_said(say, tmp_path):
    program = tmp_path / "sendmail"
    program.write_text("#!/bin/sh\ncat > /dev/null\n")
    program.chmod(0o755)
    say("settings", "notify.sendmail", str(program))
    assert "No mail" not in say("settings", "notify.email", "me@example.org").out
    findings = json.loads(say("doctor", "--json").out)["findings"]
    assert "program-missing" not in [one["code"] for one in findings]
    assert say("notify", "test").code == 0
    assert "No mail goes out yet" in say("settings", "notify.sendmail", str(tmp_path / "other")).out
    assert "No mail" not in say("settings", "notify.email", "--unset").out
