"""`safekept history PATH`: every version of one file, and the command that brings one back."""

from __future__ import annotations

import os
import time

import click

from safekept.actions.snapshots.history import History, Version, history
from safekept.actions.snapshots.listing import is_of

from ...console import Console, count_text, path_text, size_text
from ...options import common_options, source_options, start
from ...words.lists import standing_in
from ...words.snapshots import age_text, named_home

_LIVE = {
    "same": "The file in the home is the version marked `now`",
    "changed": "The file in the home is none of these: it changed since the last snapshot",
    "missing": "The file is no longer in the home",
    "directory": "In the home there is a directory of that name now",
    "database": "",
}
#: The column of what is long: its further lines go below it.
_SEEN_AT = 44


@click.command("history")
@click.argument("path")
@click.option(
    "--diff", "diff", is_flag=True, help="Also show the lines that changed from each version to the next."
)
@click.option("--all", "every", is_flag=True, help="Look into snapshots of this agent's other homes, too.")
@source_options
@common_options
def command(path: str, diff: bool, every: bool, home: str, layout: str, as_json: bool) -> int:
    """See every distinct version of one file in the vault: a memory, SOUL.md, a skill, the settings.

    PATH may be absolute, relative to the home, or relative to where you are; the home is the one that an
    absolute PATH lies in, else the one that you stand in, else the usual one. Snapshots that hold the same
    content are one version; the one that the home has now is marked, and the command that brings one back is
    printed. A home that was rebuilt under another path has its older versions, too. Exit code 3:
    some snapshots could not be looked into; they are named.
    """
    from safekept.actions.base.own_places import home_holding

    _, context, console = start(as_json)
    path = os.path.expanduser(path) if path.startswith("~/") else path
    if not home and not layout:
        home = home_holding(context, [path if os.path.isabs(path) else standing_in()])
    place = context.locate(home, layout, existing=False)
    found = history(
        context,
        place,
        path,
        directory=standing_in(),
        with_patches=diff,
        every=every,
        listener=console.listener(),
    )
    console.finish()
    named = named_home(home, layout)
    versions = []
    for number, version in enumerate(found.versions):
        document = {**version.as_dict(), "restore": _restore(console, found, version, named)}
        if diff:
            document["diff"] = found.patches[number]
        versions.append(document)
    console.document(
        {
            "path": found.path,
            "home": place.home,
            "live": found.live,
            "searched": found.searched,
            "elsewhere": len(found.elsewhere),
            "versions": versions,
            "remarks": [remark.as_dict() for remark in found.remarks],
        }
    )
    _show(console, found, named, diff)
    return 3 if found.remarks else 0


def _restore(console: Console, found: History, version: Version, named: list[str]) -> str:
    return console.command("snapshot", "restore", version.last.short, found.path, *named)


def _show(console: Console, found: History, named: list[str], diff: bool) -> None:
    versions = count_text(len(found.versions), "version")
    of = f" of {path_text(found.place.home)}" if found.place.named else ""
    console.heading(f"{path_text(found.path)}: {versions} in {count_text(found.searched, 'snapshot')}{of}")
    console.line("  ID        WRITTEN                   SIZE  SEEN")
    newer: dict[tuple[object, str], str] = {}
    for number, version in enumerate(found.versions):
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.node.mtime_ns / 1e9))
        seen = f"first seen {age_text(version.first, word='ago')}"
        if version.snapshots > 1:
            seen += f", last {age_text(version.last, word='ago')}, in {version.snapshots:,} snapshots"
        if not version.last.here:
            seen += f", on {path_text(version.last.snapshot.hostname)}"
        if not is_of(version.last.snapshot, found.place.home):
            seen += f", of {path_text(version.last.home)}"
        content = version.node.content, version.node.target
        if content in newer:
            seen += f", the same as {newer[content]}"
        newer.setdefault(content, version.last.short)
        now = "  now" if version.now else ""
        console.line(
            f"  {version.last.short}  {written}  {size_text(version.node.size):>9}  {seen}{now}",
            _SEEN_AT,
            bold=version.now,
        )
        if diff:
            for line in found.patches[number]:
                console.verbatim(f"      {line}")
    for remark in found.remarks:
        console.fact("Not seen", f"{remark.reason}")
    if _LIVE[found.live]:
        console.line(_LIVE[found.live])
    if found.elsewhere:
        every = console.command("history", found.path, "--all", *named)
        console.line(f"Not looked at: {found.elsewhere_text} (`{every}`)")
    old = next((version for version in found.versions if not version.now), found.versions[0])
    console.line(f"Bring one back, for example: `{_restore(console, found, old, named)}`")
