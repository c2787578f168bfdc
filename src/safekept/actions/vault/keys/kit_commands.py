"""What the kit tells to type: the places of the copies, how a machine is rebuilt, a search filled again."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence

from safekept.core.entries import EntryLost
from safekept.core.errors import SafekeptError
from safekept.core.owner import foreign_owner
from safekept.core.sqlite import CaptureOptions, look
from safekept.core.sqlite.lean import Recipe, read_facts, rebuild_statement
from safekept.vault.format import Snapshot
from safekept.vault.read import read_manifest
from safekept.vault.repo import Repository
from safekept.vault.tags import layout_of

from ...base.context import UserContext
from ...base.scratch import scratch
from ...offsite.destination import VAULT, DestinationSetting

#: What the settings say of an S3-compatible server; a machine without settings is told by variables.
VARIABLES = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION", "profile": "AWS_PROFILE"}
#: Seconds to wait for a database that is being written to: the page can do without its search.
_PATIENCE = 5.0


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


def rebuild_commands(context: UserContext, vault: str, key: str) -> tuple[str, ...]:
    """The copies off this host first: the reader of the page has lost the machine, as a rule."""
    copies = [
        f"{_variables(one)}safekept rebuild {shlex.quote(_copy(one, vault))}{key}"
        for one in context.choices.destinations
        if VAULT in one.takes
    ]
    return (*copies, f"safekept rebuild {shlex.quote(context.places.vault)}{key}")


def _variables(setting: DestinationSetting) -> str:
    if not setting.url.startswith("s3://"):
        return ""
    values = [(variable, setting.options.get(name, "")) for name, variable in VARIABLES.items()]
    return "".join(f"{variable}={shlex.quote(value)} " for variable, value in values if value)


def _copy(setting: DestinationSetting, vault: str) -> str:
    """The copy itself: its directory in the destination."""
    return f"{setting.url.rstrip('/')}/{vault[:16]}"


def search_commands(context: UserContext, repository: Repository, snapshots: Sequence[Snapshot]) -> list[str]:
    """One for each database that a snapshot may hold without its search, by the newest of each home."""
    newest: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        for path in snapshot.paths[:1]:
            if path not in newest or newest[path].time_ns < snapshot.time_ns:
                newest[path] = snapshot
    found: dict[str, list[str]] = {}
    for home, snapshot in sorted(newest.items()):
        for database, statement in _statements(context, repository, snapshot):
            found.setdefault(f"./restored{home}/{database}", []).append(statement)
    return [
        f"sqlite3 {shlex.quote(path)} {shlex.quote('; '.join(statements) + ';')}"
        for path, statements in found.items()
    ]


def _statements(
    context: UserContext, repository: Repository, snapshot: Snapshot
) -> Iterator[tuple[str, str]]:
    """As the snapshot says. One that holds everything says nothing, and a later one may leave it out."""
    manifest = None
    with contextlib.suppress(SafekeptError, OSError):
        manifest = read_manifest(repository, snapshot)
    databases = (manifest or {}).get("databases")
    for path, facts in sorted(databases.items()) if isinstance(databases, dict) else ():
        lean = facts.get("lean") if isinstance(facts, dict) else None
        if lean:
            with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
                for one in read_facts(lean).tables:
                    yield from ((path, statement) for statement in one.rebuild)
        elif layout := context.choices.layouts.get(layout_of(snapshot)):
            recipes = layout.recipes(path)
            there = _tables_there(context, os.path.join(snapshot.paths[0], path), recipes)
            yield from ((path, rebuild_statement(one)) for one in recipes if one.table in there)


def _tables_there(context: UserContext, database: str, recipes: Sequence[Recipe]) -> set[str]:
    """Which of these tables a database of this machine has now; none where it is not to be had."""
    if not recipes or not os.path.isfile(database) or foreign_owner(database) is not None:
        return set()
    there = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '{}'"
    queries = {one.table: there.format(one.table.replace("'", "''")) for one in recipes}
    with scratch(context) as directory:
        options = CaptureOptions(directory, deadline=_PATIENCE, check=False)
        try:
            counts = look(database, os.path.basename(database), options, queries).counts
        except (EntryLost, OSError):
            return set()
    return {table for table, count in counts.items() if count}
