"""The kit: one page that opens the vault on a bare machine, without safekept.

It says where the vault is, holds its key, and gives the exact commands for plain restic; a test runs
them as they stand. It also carries copies of the two small files without which no key helps: `config`
and the key file. Everything on it together is the power to read the vault, so it is 0600.
"""

from __future__ import annotations

import base64
import os
import shlex
import time
from collections.abc import Mapping, Sequence

from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.versions import version_text
from safekept.vault.errors import WrongKey
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind
from safekept.vault.tags import kind_of

from ...base.context import UserContext
from ..place import is_remote
from .key_file import secret_from_file
from .kit_commands import copies_of, rebuild_commands, restic_name, search_commands
from .kit_reading import TITLE

#: Kinds of which every snapshot holds the whole home; a quick one holds the state files only.
WHOLE = ("manual", "scheduled", "pre-update", "pre-migration")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what is to know, and what is to type."""

    title: str
    text: tuple[str, ...]
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kit:
    """The page before it is set as text or HTML."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    key_id: str = ""  # of the key on it


def make_kit(context: UserContext, repository: Repository) -> Kit:
    """Everything that a person needs who has this page, the vault, and restic."""
    key, key_id = key_on_kit(context, repository)
    snapshots, _ = list_snapshots(repository)
    homes: dict[str, bool] = {}  # and whether a snapshot holds it whole
    for snapshot in reversed(snapshots):
        for path in snapshot.paths:
            homes[path] = homes.get(path, False) or kind_of(snapshot) in WHOLE
    if not homes:
        homes[context.locate(existing=False).home] = True
    searching = _searching(context, repository, snapshots)
    facts = [
        ("Written", time.strftime("%Y-%m-%d %H:%M %z")),
        ("Machine", os.uname().nodename),
        ("Vault", context.places.vault),
        ("Vault id", repository.id),
        *(("Copy", copy) for copy in copies_of(context, repository)),
        ("Key", key or "not on this page: the passphrase that you chose"),
        *(("Home", home) for home in homes),
    ]
    return Kit(
        f"{TITLE}: how to open the vault of {os.uname().nodename}",
        tuple(facts),
        (
            _preparing(context, key),
            _restoring(homes, bool(key), bool(searching)),
            _looking(bool(key)),
            _mending(repository),
            _rebuilding(context, repository.id, bool(key)),
            *searching,
        ),
        key_id,
    )


def key_on_kit(context: UserContext, repository: Repository) -> tuple[str, str]:
    """The key in the key file, and its id; empty where a passphrase opens the vault."""
    secret = secret_from_file(context.places.vault_key_file)
    if secret is None:
        return "", ""
    try:
        return secret.text, Repository.open(repository.storage, secret).key_id
    except WrongKey:
        return "", ""  # it belongs to another vault, and does not belong on this page


def _restic(with_key: bool) -> str:
    return 'restic -r "$VAULT" --password-file "$KEYFILE"' if with_key else 'restic -r "$VAULT"'


def _preparing(context: UserContext, key: str) -> Section:
    commands = [f"VAULT={shlex.quote(_for_restic(context))}"]
    if key:
        commands += ["KEYFILE=./safekept-vault.key", f'(umask 077; echo {shlex.quote(key)} > "$KEYFILE")']
    return Section(
        "1. Prepare",
        (
            "Install restic, 0.14 or newer (every distribution has it: `apt install restic`, "
            "`dnf install restic`, `brew install restic`). safekept itself is not needed.",
            "Say where the vault is now. If it was copied or is mounted elsewhere, write that place; the "
            "copies off this machine are named above."
            + (" Then put the key into a file that only you can read." if key else ""),
        ),
        tuple(commands),
    )


def _for_restic(context: UserContext) -> str:
    """The vault of this machine as restic's `-r` takes it."""
    place = context.places.vault
    if not is_remote(context, place):
        return place
    from ...offsite.place import find_destination

    return restic_name(find_destination(context, place), "").rstrip("/")


def _restoring(homes: Mapping[str, bool], with_key: bool, searching: bool) -> Section:
    restic, tags = _restic(with_key), " ".join(f"--tag kind:{kind}" for kind in WHOLE)
    commands = []
    for home, whole in homes.items():
        only = f"{tags} " if whole else ""
        commands.append(f"{restic} restore latest {only}--path {shlex.quote(home)} --target ./restored")
    last = [f"./restored{home}" for home in homes]
    search = "; the end of this page fills their search again" if searching else ""
    return Section(
        "2. Bring the newest whole snapshot back",
        (
            "Into a new directory; nothing on the machine is replaced.",
            f"The home is then in {', '.join(last)}. Look at it, move it where the agent expects it, and "
            f"start the agent. Databases hold every row{search}.",
        ),
        tuple(commands),
    )


def _looking(with_key: bool) -> Section:
    restic = _restic(with_key)
    return Section(
        "3. Other points in time",
        (
            "See all snapshots. Those with the tag kind:quick hold the state files only. Put an id of the "
            "first column in the place of `latest` above to bring that one back.",
            "The second command proves every byte of the vault.",
        ),
        (f"{restic} snapshots", f"{restic} check --read-data"),
    )


def _mending(repository: Repository) -> Section:
    storage = repository.storage
    config = base64.b64encode(storage.read(FileKind.CONFIG)).decode()
    key = base64.b64encode(storage.read(FileKind.KEY, repository.key_id)).decode()
    return Section(
        "4. Only if the file `config` or the directory `keys` of the vault is lost",
        ("These lines put them back. They are sealed: without the key or passphrase they open nothing.",),
        (
            'mkdir -p "$VAULT/keys"',
            f'echo {config} | base64 -d > "$VAULT/config"',
            f'echo {key} | base64 -d > "$VAULT/keys/{repository.key_id}"',
        ),
    )


def _rebuilding(context: UserContext, vault: str, with_key: bool) -> Section:
    asked = "" if with_key else " It asks for the passphrase."
    return Section(
        "5. With safekept, one command",
        (
            "Get safekept the way you got it the first time: a clone of its repository, or a wheel. "
            f"This page was written by safekept {version_text()}. "
            "On a machine that has it and nothing else: it finds the newest whole snapshot, restores "
            "it where the agent expects it, sets owners and permissions, proves it, and says what to start."
            f"{asked} A home that is there is put aside, not deleted. With this page as a file, "
            f"{NextStep('rebuild', ('FILE',))} is enough; else one of these. What opens a place off "
            "this machine (the keys of a cloud, an SSH key, rclone.conf) is not on this page:",
        ),
        rebuild_commands(context, vault, ' --key-file "$KEYFILE"' if with_key else ""),
    )


def _searching(
    context: UserContext, repository: Repository, snapshots: Sequence[Snapshot]
) -> tuple[Section, ...]:
    """How the search indexes are filled that snapshots leave out."""
    commands = search_commands(context, repository, snapshots)
    if not commands:
        return ()
    text = (
        "Snapshots may leave out the search indexes of a database, which can be rebuilt. Every row is "
        "there; only a search finds nothing before these commands were run. They need the program `sqlite3` "
        "(3.34 or newer), and the agent must not run. They do no harm where nothing was left out."
    )
    return (Section("6. Fill the search of a database again", (text,), tuple(commands)),)
