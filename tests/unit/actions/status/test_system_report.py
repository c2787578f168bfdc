"""`safekept doctor --report`: what somebody who helps from afar must know, and nothing that is the user's."""

from __future__ import annotations

import json
import os

import pytest

from safekept.core.platform.system import FEATURES
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home

SECRETS = (
    "sk-planted-1234",
    "planted-home",
    "planted-project",
    "planted.example",
    "planted-user",
    "planted-key",
)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A user with something private in every place that a report could take from."""
    user = tmp_path / "planted-user"
    home = user / "planted-home"
    make_hermes_home(str(home))
    (home / ".env").write_text("OPENAI_API_KEY=sk-planted-1234\n")
    (user / ".config" / "safekept").mkdir(parents=True)
    (user / ".config" / "safekept" / "config.toml").write_text(
        f'home = "{home}"\n[[destination]]\nname = "planted-key"\nurl = "sftp://planted.example/planted-project"\n'
    )
    for name, value in {
        "HOME": str(user),
        "HERMES_HOME": str(home),
        "XDG_CONFIG_HOME": str(user / ".config"),
        "XDG_DATA_HOME": str(user / ".local"),
        "USER": "planted-user",
        "AWS_SECRET_ACCESS_KEY": "planted-key",
        "OPENAI_API_KEY": "sk-planted-1234",
    }.items():
        monkeypatch.setenv(name, value)
    return user, spoken(monkeypatch, str(user))


@pytest.mark.parametrize("words", [["doctor", "--report"], ["doctor", "--report", "--json"]])
def test_a_report_has_what_is_needed_and_nothing_of_the_users(planted, words):
    user, say = planted
    before = sorted(os.listdir(user))
    done = say(*words)
    printed, noise = done.out, done.err
    assert done.code == 0, printed + noise
    assert [one for one in SECRETS if one in printed + noise] == []
    assert str(user.parent) not in printed and os.uname().nodename not in printed
    assert all(name in printed for name in FEATURES) and "no-" in printed
    if "--json" in words:
        document = json.loads(printed)
        assert document["features"].keys() == FEATURES and document["findings"] and not document["failure"]
        assert document["disks"]["temporary"]["tried"] is True
    assert sorted(os.listdir(user)) == before


def test_a_report_of_a_doctor_that_fails_says_where_and_not_what(planted, monkeypatch):
    user, say = planted

    def fails(*_: object) -> None:
        raise RuntimeError(f"{user}/sk-planted-1234")

    monkeypatch.setattr("safekept.actions.doctor.diagnosis.examine", fails)
    done = say("doctor", "--report")
    assert done.code == 0 and "RuntimeError" in done.out and "commands/status/doctor.py:" in done.out
    assert [one for one in SECRETS if one in done.out + done.err] == []
