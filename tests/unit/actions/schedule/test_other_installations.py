"""What calls another installation of this user's is named by its HOME, and one's own never is."""

from __future__ import annotations

import os

import pytest

from safekept.actions.schedule.host import Machine
from safekept.actions.schedule.other_installations import other_installations
from safekept.schedule.hosts import cron, systemd
from safekept.schedule.hosts.call import Call
from safekept.schedule.hosts.stores import Stores
from safekept.schedule.tasks import Cadence

KNOWN = "/home/ada"  # as the machine knows it


def stores(home: str) -> Stores:
    return Stores(f"{home}/.local/share/safekept", f"{home}/.config/safekept", KNOWN)


def call(home: str, *, marked: bool = True) -> Call:
    moved = {} if home == KNOWN else {"HOME": home}
    words = (f"{home}/safekept", "schedule", "run", "--quiet")
    whose = stores(home) if marked else None
    return Call(words, Cadence.parse("03:30"), {**moved, "PATH": "/usr/bin"}, home=home, stores=whose)


class Answers(Machine):
    """A machine whose programs answer from these."""

    def has(self, program):
        return program in self.answers

    def run(self, words, given=""):
        for ask, text in self.answers.items():
            if ask in " ".join(words):
                return 0, text
        return 1, ""


def machine(tmp_path, answers):
    Answers.answers = answers
    os.makedirs(tmp_path / "systemd", exist_ok=True)
    (tmp_path / "systemd" / "private").touch()
    return Answers({"XDG_RUNTIME_DIR": str(tmp_path)}, KNOWN, f"{KNOWN}/.config", platform="linux")


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("other", [KNOWN, "/srv/trial"])
def test_a_crontab_tells_the_home_of_the_other_installation(tmp_path, other, marked):
    own = KNOWN if other != KNOWN else "/srv/trial"
    table = "\n".join([*cron.lines(call(own)), *cron.lines(call(other, marked=marked)), ""])
    (found,) = other_installations(machine(tmp_path, {"crontab": table}), stores(own))
    assert (found.host, found.home) == ("cron", other)
    alone = "\n".join(cron.lines(call(own))) + "\n"
    assert other_installations(machine(tmp_path, {"crontab": alone}), stores(own)) == ()


@pytest.mark.parametrize("other", [KNOWN, "/srv/trial"])
def test_systemd_tells_the_home_of_the_other_installation(tmp_path, other):
    own = KNOWN if other != KNOWN else "/srv/trial"
    answers = {"list-unit-files": ""}
    for home in (own, other):
        for path, text in systemd.unit_files(call(home), str(tmp_path)).items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            name = os.path.basename(path)
            answers[f"FragmentPath {name}"] = f"FragmentPath={path}\n"
            answers["list-unit-files"] += f"{name} linked enabled\n" if name.endswith(".timer") else ""
    assert answers["list-unit-files"].count("\n") == 2
    (found,) = other_installations(machine(tmp_path, answers), stores(own))
    assert (found.host, found.home) == ("systemd", other)
