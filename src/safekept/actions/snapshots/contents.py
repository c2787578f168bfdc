"""What one snapshot holds: its own account, one directory of it, or one file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from safekept.core.entries import EntryLost, Kind, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files.line_differences import unified
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.landing import NothingMatches
from safekept.vault.format import Node
from safekept.vault.read import HomeSource
from safekept.vault.repo import Repository

from ..base.context import HomeRef, UserContext
from ..vault.opening import open_vault
from .choosing import choose
from .listing import Listed, Listing, list_home
from .stored_home import Stored, near_paths, newest_with, open_stored, path_in_home, reading

# The lines that differ between two texts, as `diff -u` writes them.

#: More lines than this are cut: a screen is no place for them.
MOST_LINES = 4000


def patch(path: str, before: str | None, after: str | None) -> list[str]:
    """A unified diff; one sentence where one side is no text."""
    if before is None or after is None:
        return ["(not a text, or too large: no lines to show)"]
    lines = unified(before.splitlines(), after.splitlines(), f"before/{path}", f"after/{path}")
    found: list[str] = []
    for line in lines:
        if len(found) >= MOST_LINES:
            return [*found, f"(cut after {MOST_LINES:,} lines)"]
        found.append(line)
    return found


#: A text beyond this is not for a screen.
LARGEST_TEXT = 4 << 20


class NotReadable(SafekeptError):
    code = "not-readable"


@dataclass(frozen=True, slots=True)
class Opened:
    """A chosen snapshot, open for reading."""

    context: UserContext
    repository: Repository
    place: HomeRef
    listing: Listing
    chosen: Listed
    stored: Stored


@dataclass(frozen=True, slots=True)
class Summary:
    """The account of one snapshot."""

    census: Mapping[str, Any]
    databases: Mapping[str, Mapping[str, Any]]
    remarks: list[Mapping[str, Any]]  # as they were written when it was taken
    scope: Mapping[str, Any]
    tool: str
    damage: list[Remark]  # found in the vault now
    entries: list[Node] = field(default_factory=list)  # what lies at the top of the home


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a snapshot; `text` is None where it is no text, or too much of it."""

    path: str
    node: Node
    text: str | None
    database: Mapping[str, Any] | None


@contextlib.contextmanager
def opened(
    context: UserContext, place: HomeRef, word: str, layout: str = "", listener: Listener = silent
) -> Iterator[Opened]:
    """Open the vault and one snapshot of it, locked against a prune."""
    with (
        open_vault(context, listener=listener) as repository,
        reading(repository, listener, context.caller.patience),
    ):
        listing = list_home(repository, place.home, named=place.named)
        chosen = choose(listing, word)
        stored = open_stored(context, repository, chosen, layout)
        yield Opened(context, repository, place, listing, chosen, stored)


def summary(found: Opened) -> Summary:
    manifest = found.stored.manifest or {}
    return Summary(
        _mapping(manifest.get("census")),
        {path: _mapping(facts) for path, facts in _mapping(manifest.get("databases")).items()},
        [_mapping(one) for one in manifest.get("remarks") or ()],
        _mapping(manifest.get("scope")),
        str(manifest.get("tool", found.chosen.snapshot.program_version)),
        list(found.stored.source.remarks),
        found.stored.source.children(""),
    )


def look(found: Opened, path: str, directory: str = "") -> list[Node] | StoredFile:
    """A directory's entries, or one file with its text."""
    source = found.stored.source
    name = path_in_home(path, (found.stored.home, found.place.home), directory, source)
    node = source.node("" if name == "." else name)
    if node is None:
        raise nothing_there(found, name, lambda near: NextStep("snapshot show", (found.chosen.short, near)))
    if node.subtree is not None:
        return found.repository.load_tree(node.subtree).nodes
    databases = _mapping((found.stored.manifest or {}).get("databases"))
    facts = databases.get(name)
    text = None if facts or node.type != "file" else text_of(source, name, node)
    return StoredFile(name, node, text, _mapping(facts) if facts else None)


def text_of(source: HomeSource, path: str, node: Node) -> str | None:
    """A file as text; None where it is not UTF-8, has zero bytes, or is large."""
    if node.size > LARGEST_TEXT:
        return None
    data = bytes_of(source, path, node)
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def bytes_of(source: HomeSource, path: str, node: Node) -> bytes:
    """A small file whole; NotReadable where the vault cannot give it."""
    try:
        with source.content(path, node) as content:
            return b"".join(content.chunks())
    except EntryLost as lost:
        raise not_readable(path, source, lost.remark.reason) from lost


def not_readable(path: str, source: HomeSource, reason: str) -> NotReadable:
    return NotReadable(
        f"`{path}` cannot be read in snapshot {source.snapshot.short_id}: {reason}",
        kept="Nothing was changed; everything else in the snapshot can be read",
        next_steps=(
            NextStep("history", (path,), before="Look for another version of it:"),
            NextStep("vault check", before="See how the vault is:"),
        ),
        path=path,
    )


def nothing_there(found: Opened, path: str, instead: Callable[[str], NextStep | None]) -> NothingMatches:
    """`instead`: the same command of a path that may have been meant; None where that path is of no use."""
    steps = [step for near in near_paths(found.stored.source, path) if (step := instead(near))]
    steps = [replace(step, before="Did you mean:") for step in steps]
    if newest_with(found.context, found.repository, found.listing, found.place, [path]):
        steps.append(NextStep("history", (path,), before="See which other snapshots have it:"))
    steps.append(NextStep("snapshot show", (found.chosen.short,), before="See what it holds:"))
    home = ("--home", found.place.home) if found.place.named else ()
    return NothingMatches(
        f"There is no `{path}` in snapshot {found.chosen.short}",
        kept="Nothing was changed",
        next_steps=tuple(step.adding(*home) for step in steps),
        path=path,
    )


def node_dict(node: Node) -> dict[str, object]:
    """One entry for `--json`."""
    kinds = {"file": Kind.FILE.value, "dir": Kind.DIRECTORY.value, "symlink": Kind.SYMLINK.value}
    return {
        "name": node.name,
        "kind": kinds.get(node.type, node.type),
        "mode": f"{node.mode:04o}",
        "mtime_ns": node.mtime_ns,
        "size": node.size,
        "target": node.target,
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
