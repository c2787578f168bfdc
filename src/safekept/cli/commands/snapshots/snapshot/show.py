"""`safekept snapshot show`: what a snapshot holds, a directory of it, or the text of one file."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from safekept.actions.snapshots.contents import Opened, StoredFile, Summary, look, node_dict, opened, summary
from safekept.core.ages import seconds_text
from safekept.vault.format import Node

from ....console import Console, count_text, path_text, size_text
from ....lines import harmless
from ....options import common_options, source_options, start
from ....words.lists import standing_in
from ....words.remarks import lean_text, show_census
from ....words.snapshots import age_text, amount, incomplete_text, named_home

_SHOWN = 12


@click.command("show")
@click.argument("snapshot", metavar="[ID|N|latest]", required=False, default="latest")
@click.argument("path", required=False, default=None)
@source_options
@common_options
def command(snapshot: str, path: str | None, home: str, layout: str, as_json: bool) -> int:
    """See what a snapshot holds, the newest where none is named.

    Its counts, its databases and how sound they are, what it could not read.

    With PATH: the entries of that directory, or the content of that file where it is a text. Exit code 3:
    part of it is damaged in the vault.
    """
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with opened(context, place, snapshot, layout, console.listener()) as found:
        console.finish()
        if path is None:
            return _show_summary(console, found, summary(found), named_home(home, layout))
        shown = look(found, path, standing_in())
        if isinstance(shown, StoredFile):
            return _show_file(console, found, shown, named_home(home, layout))
        console.document({"snapshot": found.chosen.as_dict(), "path": path, "entries": _documents(shown)})
        for line in _lines(shown):
            console.line(line)
        return 0


def _documents(nodes: list[Node]) -> list[dict[str, object]]:
    return [node_dict(node) for node in nodes]


def _lines(nodes: list[Node]) -> list[str]:
    return [
        f"{_letter(node)} {node.mode:04o}  {_when(node.mtime_ns)}  "
        f"{size_text(node.size) if node.type == 'file' else '':>9}  {path_text(node.name)}"
        + (f" -> {path_text(node.target)}" if node.target else "/" if node.type == "dir" else "")
        for node in nodes
    ]


def _letter(node: Node) -> str:
    return {"file": "-", "dir": "d", "symlink": "l"}.get(node.type, "?")


def _when(moment_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_ns / 1e9))


def _show_summary(console: Console, found: Opened, summary: Summary, named: list[str]) -> int:
    chosen = found.chosen
    console.document(
        {
            "snapshot": chosen.as_dict(),
            "layout": found.stored.layout.name,
            "tool": summary.tool,
            "scope": dict(summary.scope),
            "census": dict(summary.census),
            "databases": {path: dict(facts) for path, facts in summary.databases.items()},
            "remarks": [dict(one) for one in summary.remarks],
            "damage": [remark.as_dict() for remark in summary.damage],
            "entries": _documents(summary.entries),
        }
    )
    whole = chosen.complete and not summary.damage
    console.heading(f"Snapshot {chosen.short}{incomplete_text(chosen, ', ')}", whole)
    console.fact("Taken", f"{chosen.snapshot.time[:19].replace('T', ' ')}, {age_text(chosen, word='ago')}")
    console.fact("Home", f"{path_text(found.stored.home)} on {path_text(chosen.snapshot.hostname)}")
    console.fact("Kind", chosen.kind + (f", {path_text(chosen.label)}" if chosen.label else ""))
    if chosen.proven_ns is not None:
        ago = seconds_text(max(0.0, (time.time_ns() - chosen.proven_ns) / 1e9))
        console.fact("Proven", f"restored and checked by a drill {ago} ago")
    if chosen.pinned:
        console.fact("Pinned", f"until {chosen.pinned_until}" if chosen.pinned_until else "for good")
    if chosen.files is not None:
        console.fact("Files", f"{chosen.files:,}, {amount(chosen.bytes)}; added {amount(chosen.added)}")
    show_census(console, summary.census)
    for path, facts in sorted(summary.databases.items()):
        console.fact("Database", f"{path_text(path)}: {_database(facts)}")
        if lean := lean_text(facts.get("lean")):
            console.fact("", lean)
    _show_remarks(console, summary)
    names = ", ".join(path_text(node.name) + ("/" if node.type == "dir" else "") for node in summary.entries)
    console.fact("At the top", names)
    console.line(f"Restore with: `{console.command('snapshot', 'restore', chosen.short, *named)}`")
    return 3 if summary.damage else 0


def _database(facts: Mapping[str, Any]) -> str:
    words = {"sound": "checked and sound", "unverified": "not checked", "damaged": "DAMAGED"}
    text = words.get(str(facts.get("state")), str(facts.get("state", "not checked")))
    detail = str(facts.get("detail") or "").split("\n")[0]
    counts = facts.get("counts")
    counted = ", ".join(
        f"{count:,} {name}"
        for name, count in (counts.items() if isinstance(counts, Mapping) else ())
        if count
    )
    return text + (f" ({detail})" if detail else "") + (f"; {counted}" if counted else "")


def _show_remarks(console: Console, summary: Summary) -> None:
    for damage in summary.damage:
        console.fact("Damage", f"{path_text(damage.path)}: {damage.reason}")
    missing = [
        one for one in summary.remarks if one.get("outcome") not in ("excluded", "passed-over", "noted")
    ]
    for one in missing[:_SHOWN]:
        console.fact("Missing", f"{path_text(str(one.get('path', '')))}: {one.get('reason', '')}")
    left = [one for one in summary.remarks if one.get("outcome") == "excluded"]
    if left:
        console.fact("Left out", f"{count_text(len(left), 'place')} by rule (all of them: --json)")


def _show_file(console: Console, found: Opened, shown: StoredFile, named: list[str]) -> int:
    node = shown.node
    console.document(
        {
            "snapshot": found.chosen.as_dict(),
            "path": shown.path,
            **node_dict(node),
            "text": shown.text,
            "database": dict(shown.database) if shown.database else None,
        }
    )
    if console.as_json:
        return 0
    if shown.text is not None:
        # To a file the bytes as they are; a terminal must not obey what was written into a memory.
        click.echo(harmless(shown.text) if sys.stdout.isatty() else shown.text, nl=False)
        return 0
    restore = console.command("snapshot", "restore", found.chosen.short, shown.path, "--into", "DIR", *named)
    console.heading(path_text(shown.path))
    if node.type == "symlink":
        console.fact("Link to", path_text(node.target))
    else:
        console.fact("Size", size_text(node.size))
        console.fact("Written", _when(node.mtime_ns))
    if shown.database:
        console.fact("Database", _database(shown.database))
        if lean := lean_text(shown.database.get("lean")):
            console.fact("", lean)
    console.line(f"It is not a text; to have it as a file: `{restore}`")
    return 0
