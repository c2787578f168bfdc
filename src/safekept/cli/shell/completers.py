"""Values that this machine knows of: checkpoints, snapshots, destinations, agents; no network is asked.

Each is known by the placeholder of the option or argument that takes it. None of them opens the vault: the
journal says which snapshots were taken, and a vault that is a directory says which of them are there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from safekept.settings import Settings

#: (value, a few words about it), the likeliest first.
Values = Iterable[tuple[str, str]]
Completer = Callable[[click.Context], Values]

_MOST = 50
#: What the journal calls changes of what is said of a snapshot.
_MARKS = ("forget", "unforget", "pin", "unpin")


def completer_for(parameter: click.Parameter) -> Completer | None:
    """Who knows the values of a parameter; None: nobody, or the parameter itself."""
    place = (parameter.metavar or "").strip("[].")
    if parameter.name == "layout":
        return _layouts
    if parameter.name == "destination" or "DESTINATION" in place.split("|"):
        return _destinations
    if place == "HOST":
        return _hosts
    if place == "N|ID":
        return _checkpoints
    if {"latest", "ID"} <= set(place.split("|")) or parameter.name in ("before", "after"):
        return _snapshots
    if place == "ID" and parameter.name in ("word", "operation"):
        return _operations
    return None


def _settings() -> Settings:
    from safekept.settings import load_settings

    return load_settings(os.environ)


def _layouts(ctx: click.Context) -> Values:
    import safekept.home

    directory = os.path.join(os.path.dirname(safekept.home.__file__), "layouts")
    names = [name.removesuffix(".toml") for name in sorted(os.listdir(directory)) if name.endswith(".toml")]
    return [(name, "") for name in names if name != "common"]


def _hosts(ctx: click.Context) -> Values:
    from safekept.integrations.entry import HOSTS

    return [(name, "") for name in HOSTS]


def _destinations(ctx: click.Context) -> Values:
    return [(one.name, "") for one in _settings().destinations]


def _checkpoints(ctx: click.Context) -> Values:
    """The points of the project that is meant; nothing is taken, so only number 1 is known for sure."""
    from safekept.checkpoints.project import find_root
    from safekept.checkpoints.store import Store
    from safekept.core.events import silent

    from ..words.lists import ago, directory_of

    settings = _settings()
    store = Store(os.path.join(settings.data_directory, "checkpoints"), silent)
    try:
        place = os.path.realpath(directory_of(str(ctx.params.get("directory") or "")))
        points = store.checkpoints(place)
        if not points:
            root = find_root(place, forbidden=(settings.user_home, settings.data_directory))
            points = store.checkpoints(root.path) if root is not None else []
    finally:
        store.close()
    numbered = [point for point in points if point.numbered][:_MOST]
    found = [("1", "what the last change did")] if numbered else []
    return found + [(point.id, f"{ago(point.time_ns)}, {point.reason}") for point in numbered]


def _snapshots(ctx: click.Context) -> Values:
    from safekept.actions.base.operations.homes import MarkFacts, SnapshotFacts
    from safekept.core.journal import Journal
    from safekept.settings.context import vault_of

    from ..words.lists import ago

    settings = _settings()
    yield "latest", "the newest"
    there = _names(os.path.join(vault_of(settings), "snapshots"))
    journal = Journal(os.path.join(settings.data_directory, "journal.jsonl"))
    seen, forgotten, kept = 0, set[str](), set[str]()
    for record in itertools.islice(journal.backwards("snapshot", *_MARKS), 10 * _MOST):
        if record.verb in _MARKS:
            # Newest first: what was said last of a snapshot is what counts.
            marked = set(MarkFacts.read(record).snapshots or ()) - forgotten - kept
            (forgotten if record.verb == "forget" else kept).update(marked)
            continue
        taken = SnapshotFacts.read(record)
        forgotten.update(set(taken.forgotten or ()) - kept)
        name = taken.snapshot or ""
        # Earlier versions gave a snapshot's file another name when they pinned it.
        gone = there and name not in there and name not in kept
        if not name or gone or name in forgotten or seen == _MOST:
            continue
        seen += 1
        words = [ago(int(record.time * 1e9)), taken.kind or "", taken.label or ""]
        yield name[:8], ", ".join(word for word in words if word)


def _operations(ctx: click.Context) -> Values:
    from safekept.core.journal import Journal, parse_line

    from ..words.lists import ago

    journal = Journal(os.path.join(_settings().data_directory, "journal.jsonl"))
    seen: set[str] = set()
    for line in itertools.islice(journal.lines_backwards(), 4 * _MOST):
        record = parse_line(line)
        if record is not None and record.operation not in seen and len(seen) < _MOST:
            seen.add(record.operation)
            yield record.operation, f"{ago(int(record.time * 1e9))}, {record.verb} {record.state}"


def _names(directory: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(directory))
    except OSError:
        return frozenset()
