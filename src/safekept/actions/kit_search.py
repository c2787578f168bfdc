"""The commands that fill the search indexes of restored databases, for a machine without safekept."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence

from safekept.actions.surroundings import Surroundings
from safekept.core.errors import SafekeptError
from safekept.core.sqlite.lean import read_facts
from safekept.core.sqlite.lean_wish import rebuild_statement
from safekept.vault.homes import read_manifest
from safekept.vault.repo import Repository
from safekept.vault.snapshot import Snapshot
from safekept.vault.tags import layout_of


def search_commands(
    surroundings: Surroundings, repository: Repository, snapshots: Sequence[Snapshot]
) -> list[str]:
    """One for each database that a snapshot may hold without its search, by the newest of each home."""
    newest: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        for path in snapshot.paths[:1]:
            if path not in newest or newest[path].time_ns < snapshot.time_ns:
                newest[path] = snapshot
    found: dict[str, list[str]] = {}
    for home, snapshot in sorted(newest.items()):
        for database, statement in _statements(surroundings, repository, snapshot):
            found.setdefault(f"./restored{home}/{database}", []).append(statement)
    return [
        f"sqlite3 {shlex.quote(path)} {shlex.quote('; '.join(statements) + ';')}"
        for path, statements in found.items()
    ]


def _statements(
    surroundings: Surroundings, repository: Repository, snapshot: Snapshot
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
        elif layout := surroundings.layouts.get(layout_of(snapshot)):
            yield from ((path, rebuild_statement(recipe)) for recipe in layout.recipes(path))
