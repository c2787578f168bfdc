"""The kit as a page: plain text, and HTML that prints well. Commands stand alone on their lines."""

from __future__ import annotations

import contextlib
import html
import os
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from .kit import Kit


# The commands of the kit that rebuild a bare machine with safekept: one for each copy of the vault.

#: What the settings say of an S3-compatible server; a machine without settings is told by variables.
VARIABLES = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION", "profile": "AWS_PROFILE"}


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


# The commands that fill the search indexes of restored databases, for a machine without safekept.


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


#: Seconds to wait for a database that is being written to: the page can do without its search.
_PATIENCE = 5.0


#: What every command starts with in the text, so that it is known from prose, also by a test.
INDENT = "    "

_WARNING = (
    "Anyone with this page and the vault can read everything in it. Print it or keep it somewhere else than "
    "the machine: it is of no use if it is lost together with the key."
)

_STYLE = """
body { font: 11pt/1.5 serif; max-width: 46em; margin: 2em auto; padding: 0 1em; color: #000 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 1.6em }
pre, td + td { font-family: monospace; overflow-wrap: anywhere }
pre { white-space: pre-wrap; border: 1px solid #999; padding: .6em; font-size: .9em }
td { vertical-align: top; padding: .1em 1em .1em 0 }
.warning { border-left: 4px solid #000; padding-left: 1em }
@media print { body { margin: 0 } h2, pre { break-inside: avoid } }
"""


def as_text(kit: Kit) -> str:
    lines = [kit.title, "=" * len(kit.title), "", *textwrap.wrap(_WARNING, 96), ""]
    lines += [f"{name:<9} {value}" for name, value in kit.facts]
    for section in kit.sections:
        lines += ["", section.title, "-" * len(section.title)]
        for paragraph in section.text:
            lines += textwrap.wrap(paragraph, 96, break_long_words=False, break_on_hyphens=False)
        if section.commands:
            lines += ["", *(INDENT + command for command in section.commands)]
    return "\n".join(lines) + "\n"


def as_html(kit: Kit) -> str:
    rows = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in kit.facts
    )
    parts = []
    for section in kit.sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in section.text]
        if section.commands:
            parts.append("<pre>" + html.escape("\n".join(section.commands)) + "</pre>")
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(kit.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(kit.title)}</h1>\n"
        f'<p class="warning">{html.escape(_WARNING)}</p>\n'
        f"<table>\n{rows}\n</table>\n{body}\n</body>\n</html>\n"
    )
