"""A machine with everything that a bare one can be rebuilt from, and ways to compare the two."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.base.context import UserContext
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.opening import open_vault
from safekept.vault.repo.keys import Secret
from support.home.homes import differences, make_hermes_home, tree_facts
from support.users.contexts import throwaway
from support.vault.snapshots import take

PASSPHRASE = "four words are enough"
#: What no backup of a Hermes home holds, or what is bound to the machine that is gone.
LEFT_BEHIND = re.compile(
    r"(\.|\.safekept.*|gateway\.(pid|sock)|gateway_state\.json|processes\.json|pipe|backups.*|hermes-agent|hermes-agent/.*"
    r"|state-snapshots.*|tools/real-venv.*|tools/web/node_modules.*|skills/keeper/__pycache__.*)$"
)


@dataclass(frozen=True)
class Gone:
    """The machine that will be lost, and what is left of it elsewhere."""

    here: UserContext
    home: str
    disk: str  # a destination: the copy of the vault, and an archive
    zip: str
    sealed: str
    identity: str
    kit: str  # the text

    @property
    def key(self) -> str:
        return self.here.places.vault_key_file

    @property
    def copy(self) -> str:
        """The directory of the vault in the destination."""
        (name,) = [name for name in os.listdir(self.disk) if re.fullmatch("[0-9a-f]{16}", name)]
        return os.path.join(self.disk, name)


def lose_a_machine(
    directory: str, destination: DestinationSetting | None = None, *, small: bool = False, **changes: object
) -> Gone:
    """Build one: a home with a place outside of it, a snapshot, a push, archives, a recovery passphrase.

    A small one has the home and the vault only.
    """
    from pyrage import x25519

    here = throwaway(directory, **changes)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    with open(os.path.join(home, "config.yaml"), "a") as file:
        file.write("memory:\n  provider: honcho\n")
    os.makedirs(os.path.join(here.places.user_home, ".honcho"))
    with open(os.path.join(here.places.user_home, ".honcho", "config.json"), "w") as file:
        file.write('{"apiKey": "hk-1"}\n')
    take(here, home)
    if small:
        return Gone(here, home, "", "", "", "", "")
    disk = os.path.join(directory, "disk")
    setting = destination or DestinationSetting("disk", f"file:{disk}", same_disk=True)
    here = here.changed(destinations=(setting,))
    identity = x25519.Identity.generate()
    path = os.path.join(directory, "identity")
    with open(path, "w") as file:
        file.write(f"{identity}\n")
    archives = [
        backup(
            here,
            BackupRequest(
                here.locate(home), output=os.path.join(directory, "out", name), form=form, seal=seal
            ),
        ).written.path
        for name, form, seal in (
            ("plain.zip", "zip", ()),
            ("hermes-backup-20261101-033000.tar.zst.age", "tar.zst", (str(identity.to_public()),)),
        )
    ]
    with open_vault(here) as repository:
        add_passphrase(here, repository, Secret(PASSPHRASE), recovery=True)
        text, _ = write_kit(here, repository, directory)
    pushed = push(here, PushRequest(setting.name, archives=(archives[1],)))
    assert pushed.state == "done", pushed
    with open(text) as file:
        return Gone(here, home, disk, archives[0], archives[1], path, file.read())


def equal(home: str, rebuilt: str, *, left: bool = True) -> None:
    """Every byte, mode, time, link and row of a home is there, and nothing else."""
    lines = differences(tree_facts(home), tree_facts(rebuilt))
    odd = [line for line in lines if not LEFT_BEHIND.match(line.split(": ", 1)[1].split(" ('")[0])]
    assert odd == [], odd
    assert left is False or any("gateway_state.json" in line for line in lines), "a machine's own names came"


def owners(root: str) -> set[tuple[int, int]]:
    found = set()
    for directory, names, files in os.walk(root):
        for name in (".", *names, *files):
            facts = os.lstat(os.path.join(directory, name))
            found.add((facts.st_uid, facts.st_gid))
    return found


def add_sessions(home: str, names: Sequence[str]) -> None:
    with closing(sqlite3.connect(os.path.join(home, "state.db"), isolation_level=None)) as connection:
        for name in names:
            connection.execute("insert into sessions(id, source, started_at) values (?, 'cli', 1)", (name,))
