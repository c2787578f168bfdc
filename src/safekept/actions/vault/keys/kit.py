"""The kit: one page that opens the vault on a bare machine, without safekept.

It says where the vault is, holds its key, and gives the exact commands for plain restic; a test runs
them as they stand. It also carries copies of the two small files without which no key helps: `config`
and the key file. Everything on it together is the power to read the vault, so it is 0600.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import html
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import durable_write
from safekept.core.files.small import read_start
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.owner import held_output
from safekept.core.records import dataclass
from safekept.core.versions import version_text
from safekept.vault.errors import WrongKey
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind
from safekept.vault.tags import kind_of

from ...base.context import UserContext
from ...base.operations.stores import VaultKitFacts
from ...base.record import record
from ...offsite.destination import VAULT, DestinationSetting
from ..opening import open_vault, vault_exists
from ..place import is_remote
from .key_file import secret_from_file
from .kit_page import rebuild_commands
from .kit_record import (
    KitRecord,
    KitStatus,
    key_ids,
    kit_status,
    note_written,
    places_now,
    usual_stem,
    written_kit,
)

TITLE = "safekept kit"
#: Kinds of which every snapshot holds the whole home; a quick one holds the state files only.
WHOLE = ("manual", "scheduled", "pre-update", "pre-migration")


#: Characters of a kit that are read; one is a few pages.
_LONGEST = 1 << 20


class KitTaken(SafekeptError):
    code = "kit-place-taken"


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


def copies_of(context: UserContext, repository: Repository) -> list[str]:
    """Where the copies of the vault are: how safekept names each place, and what restic calls it."""
    found = []
    for one in context.choices.destinations:
        if VAULT in one.takes:
            restic = restic_name(one, f"{repository.id[:16]}")
            found.append(f"{one.url} (for restic: VAULT={shlex.quote(restic)})")
    return found


def restic_name(destination: DestinationSetting, directory: str) -> str:
    """The repository in a destination as restic's `-r` takes it."""
    scheme, _, rest = destination.url.rstrip("/").partition(":")
    if scheme == "file":
        return f"/{rest.lstrip('/')}/{directory}"
    if scheme == "s3":
        endpoint = destination.options.get("endpoint", "").rstrip("/") or "https://s3.amazonaws.com"
        return f"s3:{endpoint}/{rest.lstrip('/')}/{directory}"
    if scheme == "rest":
        # The password stands in the address, as restic has it; here is only the place for it.
        protocol, _, host = rest.partition("://")
        user, at, host = host.rpartition("@")
        return f"rest:{protocol}://{f'{user}:PASSWORD@' if at else ''}{host}/{directory}"
    if scheme == "sftp":
        host, _, path = rest.lstrip("/").partition("/")
        # A second slash: restic takes a path without it as one below the login directory, as ours with `~`.
        below = path.removeprefix("~/") if path.startswith("~/") else f"/{path}"
        return f"sftp://{host}/{below}/{directory}"
    return f"{destination.url.rstrip('/')}/{directory}"


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
    from .kit_page import search_commands

    commands = search_commands(context, repository, snapshots)
    if not commands:
        return ()
    text = (
        "Snapshots may leave out the search indexes of a database, which can be rebuilt. Every row is "
        "there; only a search finds nothing before these commands were run. They need the program `sqlite3` "
        "(3.34 or newer), and the agent must not run. They do no harm where nothing was left out."
    )
    return (Section("6. Fill the search of a database again", (text,), tuple(commands)),)


def write_kit(context: UserContext, repository: Repository, output: str = "") -> tuple[str, str]:
    """Write the page as text and as HTML to print; their paths. Only a kit of before is replaced.

    `output` is a directory, or a name without suffix; empty: the user's home directory. In a directory a kit
    that this machine did not write is kept, and the new one goes beside it.
    """
    from .kit_page import as_html, as_text

    kit = make_kit(context, repository)
    output = output or context.places.user_home
    if os.path.isdir(output):
        output = usual_stem(context, output, repository.id, is_kit)
    stem = output.removesuffix(".txt").removesuffix(".html")
    pages = {f"{stem}.txt": as_text(kit), f"{stem}.html": as_html(kit)}
    new, made = set[str](), list[str]()
    try:
        for path in pages:
            with held_output(path) as held:
                if not os.path.lexists(held):
                    new.add(path)
                elif not is_kit(held):
                    raise KitTaken(
                        f"`{path}` exists and is not a kit",
                        kept="It was not touched; nothing was written",
                        next_steps=(NextStep("vault kit", ("-o", "PATH"), before="Name another place:"),),
                    )
        for path, page in pages.items():
            with held_output(path) as held:
                if path in new:
                    made.append(path)
                durable_write(held, page.encode("utf-8", "surrogateescape"))
        places = tuple(places_now(context))
        note_written(context, repository.id, KitRecord(time.time(), tuple(pages), places, kit.key_id))
    except BaseException as error:
        # Half a kit holds the whole key, and its owner would not know that it lies there.
        for half in made:
            with contextlib.suppress(OSError), held_output(half) as held:
                os.unlink(held)
        if not isinstance(error, OSError):
            raise
        raise KitTaken(
            f"`{path}` cannot be written: {error.strerror}",
            kept="The vault was not touched",
            next_steps=(NextStep("vault kit", ("-o", "PATH"), before="Name another place:"),),
        ) from error
    work = VaultKitFacts(vault=context.places.vault, written=tuple(pages))
    record(context, work.line(new_id(), "done"), silent)
    text, html = pages
    return text, html


def refresh_kit(context: UserContext, listener: Listener = silent) -> KitStatus:
    """Write the kit again where it lies, if it was overtaken. How it stands then; never raises.

    One that was moved away is left alone: a key is not put back where a person took it from.
    """
    try:
        if not vault_exists(context):
            return KitStatus()
        with open_vault(context, listener=listener) as repository:
            keys = key_ids(repository)
            written = written_kit(context, repository.id)
            before = kit_status(context, repository.id, keys, written)
            if written is None or not (before.outdated or before.beyond) or before.here_current:
                return before
            if not all(map(is_kit, written.files)) or not written.files:
                return before
            write_kit(context, repository, written.files[0])
            after = kit_status(context, repository.id, keys, written_kit(context, repository.id))
            return replace(after, rewritten=True)
    except (SafekeptError, OSError):
        return KitStatus()  # the verdict says it, and what to do


@dataclass(frozen=True, slots=True)
class ReadKit:
    """What a kit says to a person who rebuilds a machine."""

    key: str  # "" where a passphrase opens the vault
    places: tuple[str, ...]  # of the copies, then of the vault itself
    variables: Mapping[str, str] = field(default_factory=dict)  # what the commands on it set
    vault_id: str = ""
    written: str = ""  # when, as it stands there
    machine: str = ""

    @property
    def written_before(self) -> float:
        """It was written before this time for sure; 0 where it does not say when."""
        day, _, offset = self.written.rpartition(" ")
        try:
            if re.fullmatch(r"[+-]\d{4}", offset):
                return datetime.datetime.strptime(f"{day} {offset}", "%Y-%m-%d %H:%M %z").timestamp() + 60
            # An older kit says it by a clock of that place: no place is further behind Greenwich than this.
            plain = datetime.datetime.strptime(self.written, "%Y-%m-%d %H:%M")
            return plain.replace(tzinfo=datetime.UTC).timestamp() + 60 + 12 * 3600
        except ValueError:
            return 0.0


def read_kit(path: str) -> ReadKit | None:
    """Read a kit, as text or as HTML; None where the file is none."""
    if not is_kit(path):
        return None
    return parse_kit(read_start(path, _LONGEST).decode("utf-8", "surrogateescape"))


def parse_kit(text: str) -> ReadKit:
    """What a kit says, by its text."""
    text = text.replace("\r\n", "\n")
    if "<html" in text[:200]:
        text = html.unescape(re.sub(r"<[^>]*>", " ", text.replace("</td><td>", " ")))
    key = re.search(r"^\s*Key\s+([A-Z2-7]{4}(?:-[A-Z2-7]{4})+)\s*$", text, re.MULTILINE)
    places, variables = [], {}
    for line in re.findall(r"^\s*((?:[A-Z_]+=\S+ )*safekept rebuild .*)$", text, re.MULTILINE):
        words = shlex.split(line)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        places.append(words[2])
    vault = re.search(r"^\s*Vault id\s+([0-9a-f]{64})\s*$", text, re.MULTILINE)
    machine = re.search(r"^\s*Machine\s+(\S+)\s*$", text, re.MULTILINE)
    when = re.search(r"^\s*Written\s+([\d-]+ [\d:]+(?: [+-]\d{4})?)\s*$", text, re.MULTILINE)
    return ReadKit(
        key[1] if key else "",
        tuple(places),
        variables,
        vault[1] if vault else "",
        when[1] if when else "",
        machine[1] if machine else "",
    )


def is_kit(path: str) -> bool:
    """Whether a file is a kit, as text or as HTML."""
    try:
        return TITLE in read_start(path, 4096).decode("utf-8", "replace")
    except OSError:
        return False
