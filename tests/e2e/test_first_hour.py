"""The first hour of a new user, and the worst one: two commands and four answers, from nothing to the end.

In a real terminal, beside the real Hermes with three profiles, with a real server by SSH for the second copy.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from support.commands.terminals import Terminal
from support.home.homes import database_rows, differences, tree_facts
from support.places import CHECKOUT
from support.users.another_user import as_another_user, give
from support.users.first_hour import PASSPHRASE, PROFILES, Newcomer, running_cron
from support.users.unprivileged import NOBODY
from support.vault.closed import open_below

SAFEKEPT = os.path.join(CHECKOUT, "safekept")
VERDICT = "Protected if the machine is lost"


class Person:
    """Sits at the terminal; counts what has to be typed."""

    def __init__(self) -> None:
        self.commands = self.answers = 0

    def call(self, machine: Newcomer, *words: str, user: Sequence[str] = ()) -> Terminal:
        self.commands += 1
        environment = {**machine.environment, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        del environment["SAFEKEPT_LAUNCHER"]
        return Terminal(*user, SAFEKEPT, *words, environment=environment)

    def answer(self, terminal: Terminal, question: str, text: str) -> None:
        self.answers += 1
        terminal.until(question)
        terminal.type(text + "\n")

    def secret(self, terminal: Terminal, question: str, text: str, again: str) -> None:
        """One answer, although it is typed twice."""
        self.answers += 1
        for asked in (question, again):
            terminal.until(asked)
            terminal.until_hidden()
            terminal.type(text + "\n")


def connection(home: str) -> dict[str, object]:
    with open(os.path.join(home, "plugins", "safekept", "connection.json"), encoding="utf-8") as file:
        return json.load(file)


def other_than_bound(lines: list[str]) -> list[str]:
    """Without what is bound to a machine: how the plugin calls safekept there."""
    return [line for line in lines if "connection.json" not in line]


def facts(home: str) -> dict[str, tuple[object, ...]]:
    """Everything in a home; of databases every row but the search tables', which a restore makes again."""
    found = tree_facts(home, times=False)
    for name, fact in found.items():
        if fact[0] == "database":
            rows = database_rows(os.path.join(home, name))
            kept = {table: repr(content) for table, content in rows.items() if "_fts" not in table}
            found[name] = ("database", fact[1], *sorted(kept.items()))
    return found


def knows_the_way(machine: Newcomer, config: str) -> None:
    """An SSH that uses this configuration, first on the PATH."""
    ssh = os.path.join(machine.programs, "ssh")
    with open(ssh, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {shlex.quote(config)} "$@"\n')
    os.chmod(ssh, 0o755)


def own_access(sftp_server, directory: str) -> str:
    """The server's key and configuration once more, for somebody who cannot read ours."""
    with open(sftp_server.ssh_config, encoding="utf-8") as file:
        text = file.read()
    for name in ("user", "known_hosts"):
        shutil.copy(os.path.join(sftp_server.root, name), directory)
    with open(os.path.join(directory, "ssh_config"), "w", encoding="utf-8") as file:
        file.write(text.replace(sftp_server.root + "/", directory + "/"))
    return file.name


@pytest.fixture
def machine(tmp_path, sftp_server, hermes, hermes_python):
    """A new user, a Hermes of his own, and an SSH that knows the way to the server."""
    new = Newcomer(tmp_path, hermes=hermes, hermes_python=hermes_python)
    knows_the_way(new, sftp_server.ssh_config)
    with running_cron(tmp_path):
        yield new


def test_two_commands_and_four_answers_from_nothing_to_a_rebuilt_machine(machine, sftp_server, tmp_path):
    person, place = Person(), sftp_server.place()
    before = facts(machine.home)

    # The server of the test is this machine; who says so means that it stands for another one.
    with person.call(machine, "setup", "--elsewhere") as terminal:
        terminal.until("the default profile and 3 more: coder, ops, writer")
        person.secret(terminal, "Passphrase (not shown)", PASSPHRASE, "The same again")
        person.answer(terminal, "Place [nowhere yet]", place.url)
        person.answer(terminal, "Connect [Y/n]", "")
        person.answer(terminal, "Time [03:30]", "")
        assert terminal.end() == 0, terminal.seen
    assert VERDICT in terminal.seen
    doctor = machine.run("doctor")
    assert (doctor.returncode, doctor.stdout) == (0, f"Nothing to do\n{VERDICT}\n")
    connected = [machine.home, *(os.path.join(machine.home, "profiles", name) for name in PROFILES)]
    assert all(connection(home)["command"] == [SAFEKEPT] for home in connected)
    protected = facts(machine.home)

    # The kit is kept elsewhere; the machine dies with everything on it. The new one belongs to another user.
    (kit,) = glob.glob(os.path.join(machine.user, "safekept-kit-*.txt"))
    kept = shutil.copy(kit, tmp_path / "kit.txt")
    hermes = os.readlink(os.path.join(machine.own, "hermes.before-safekept"))
    shutil.rmtree(open_below(machine.user))
    os.unlink(machine.table)
    new = Newcomer(tmp_path / "new", name="eve", agent=False)
    os.symlink(hermes, os.path.join(new.own, "hermes"))
    knows_the_way(new, own_access(sftp_server, new.user))
    kept = shutil.move(kept, new.user)
    user = as_another_user(give(new.place))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*user, SAFEKEPT, *words]
        return subprocess.run(command, env=new.environment, capture_output=True, text=True, cwd="/")

    with person.call(new, "rebuild", str(kept), user=user) as terminal:
        assert terminal.end() == 0, terminal.seen
    assert VERDICT in terminal.seen
    assert (person.commands, person.answers) == (2, 4)
    owners = {
        os.lstat(path).st_uid for path in glob.glob(f"{new.home}/**", recursive=True, include_hidden=True)
    }
    assert owners == {os.stat(new.user).st_uid} and (owners == {NOBODY} or os.geteuid() != 0)

    doctor = run("doctor")
    assert (doctor.returncode, doctor.stdout) == (0, f"Nothing to do\n{VERDICT}\n"), doctor.stderr
    status = json.loads(run("status", "--json").stdout)
    assert [one["url"] for one in status["destinations"]] == [place.url]
    assert status["destinations"][0]["last_push"]
    table = new.crontab()
    assert f"HOME={new.user}" in table and machine.user not in table
    assert other_than_bound(differences(protected, facts(new.home))) == []
    for home in (new.home, *(os.path.join(new.home, "profiles", name) for name in PROFILES)):
        assert machine.user not in json.dumps(connection(home)), "nothing of the machine that is gone"

    # Its mirror: what is left is the home as it was before the first command, and the stores.
    done = run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert differences(before, facts(new.home)) == []
    assert os.readlink(os.path.join(new.own, "hermes")) == hermes and new.crontab() == ""
