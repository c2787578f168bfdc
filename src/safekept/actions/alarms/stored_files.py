"""Single files as a snapshot holds them: what was in one, and which of a class it has.

Asked only where something fell, or a file that holds nothing was found: a look at a few names of the vault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from safekept.core.entries import EntryLost
from safekept.core.errors import SafekeptError
from safekept.home.census import LARGEST, is_blank
from safekept.home.health import Shrinkage, Stored, places_of
from safekept.home.layout import Layout

if TYPE_CHECKING:
    from safekept.core.entries import Remark
    from safekept.vault.format import Snapshot
    from safekept.vault.read import HomeSource
    from safekept.vault.repo import Repository

#: So many files are named one by one.
_NAMED = 6


def stored_in(repository: Repository, snapshot: Snapshot) -> Stored:
    """What a file of a home held in a snapshot; None where it has no such file, or it cannot be read."""
    chunks = _chunks_of(repository, snapshot)

    def stored(path: str) -> bytes | None:
        """Of a very large one the first bytes only."""
        data, some = b"", False
        try:
            for chunk in chunks(path):
                data, some = data + chunk, True
                if len(data) >= LARGEST:
                    break
        except (SafekeptError, EntryLost, OSError):
            return None
        return data if some else None

    return stored


def emptiness_in(repository: Repository, snapshot: Snapshot) -> Callable[[str], bool | None]:
    """Whether a file of a home holds nothing in a snapshot; None as above. Little of it is read."""
    chunks = _chunks_of(repository, snapshot)

    def empty(path: str) -> bool | None:
        some = False
        try:
            for chunk in chunks(path):
                some = True
                if not is_blank(chunk):
                    return False
        except (SafekeptError, EntryLost, OSError):
            return None
        return True if some else None

    return empty


def unknown(path: str) -> None:
    """Where no snapshot can be asked."""


def _chunks_of(repository: Repository, snapshot: Snapshot) -> Callable[[str], Iterator[bytes]]:
    """The bytes of a file, one empty piece at least; nothing where there is no such file."""
    sources: list[HomeSource] = []

    def chunks(path: str) -> Iterator[bytes]:
        from safekept.vault.read import snapshot_source

        if not sources:
            sources.append(snapshot_source(repository, snapshot)[0])
        node = sources[0].node(path)
        if node is None or node.type != "file":
            return
        yield b""
        with sources[0].content(path, node) as content:
            yield from content.chunks()

    return chunks


def missing_now(
    repository: Repository, snapshot: Snapshot, layout: Layout, fall: Shrinkage, there: Callable[[str], bool]
) -> tuple[str, ...]:
    """Files of a class that a snapshot has and the home has not, each with what lay beside it.

    Nothing where they are too many to be named, or another file of the same name came: then it was moved.
    """
    from safekept.vault.read import snapshot_source

    counts = [(count, matcher) for count, matcher in layout.counted if count.name == fall.name]
    if not counts or counts[0][0].kind == "query":
        return ()
    count, matcher = counts[0]
    source = snapshot_source(repository, snapshot)[0]
    files = [path for place in places_of(layout, fall) for path in _below(repository, source, place)]
    gone = [path for path in files if matcher.covers(path) and not there(path)]
    # What is known by a file of one name in a directory of its own is that directory.
    units = all(isinstance(pattern.parts[-1], str) for pattern in count.patterns)
    found = dict.fromkeys(_unit(path, there) if units and count.by_name else path for path in gone)
    return tuple(found) if len(found) <= _NAMED else ()


def _unit(path: str, there: Callable[[str], bool]) -> str:
    directory = os.path.dirname(path)
    return directory if directory and not there(directory) else path


def _below(repository: Repository, source: HomeSource, place: str) -> Iterator[str]:
    from safekept.vault.read import tree_changes

    node = source.node(place)
    if node is None:
        return
    if node.type == "file":
        yield place
        return
    unread: list[Remark] = []
    for path, stored, _ in tree_changes(repository, node.subtree, None, unread, place + "/"):
        if stored is not None and stored.type == "file":
            yield path
