"""What may come next on a command line, for the shells that ask: never slow, and never heard.

Commands and options come from the commands themselves, of which only the one on the line is imported. What
its words stand for is told by the placeholder that `--help` shows. Whatever goes wrong is an empty answer:
a person who presses Tab wants no error.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import click

from safekept.core.records import dataclass

from .console import path_text

if TYPE_CHECKING:
    from safekept.settings import Settings


# Values that this machine knows of: checkpoints, snapshots, destinations, agents; no network is asked.
# Each is known by the placeholder of the option or argument that takes it. None of them opens the vault:
# the journal says which snapshots were taken, and a vault that is a directory says which of them are
# there.

#: (value, a few words about it), the likeliest first.
Values = Iterable[tuple[str, str]]
Completer = Callable[[click.Context], Values]

_MOST = 50
#: What the journal calls changes of what is said of a snapshot.
_MARKS = ("forget", "unforget", "pin", "unpin")


def completer_for(parameter: click.Parameter) -> Completer | None:
    """What lists the values of a parameter; None: nothing does, or the parameter itself."""
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

    from .words.lists import ago, directory_of

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

    from .words.lists import ago

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

    from .words.lists import ago

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


FILES, DIRECTORIES, COMMANDS = "files", "directories", "commands"
#: Placeholders of values that the shell itself knows how to complete.
_BY_THE_SHELL = {"DIR": DIRECTORIES, "FILE": FILES, "PATH": FILES, "COMMAND": COMMANDS, "AGENT": COMMANDS}


@dataclass(slots=True)
class Completions:
    """Values with a word about each; and what the shell is to complete by itself."""

    values: list[tuple[str, str]] = field(default_factory=list)
    by_the_shell: str = ""  # FILES, DIRECTORIES, COMMANDS or nothing

    def lines(self, prefix: str = "") -> list[str]:
        """`value<tab>words`; a line without a value names what the shell is to do."""
        found = [f"{prefix}{value}\t{path_text(' '.join(words.split()))}" for value, words in self.values]
        return [*found, *([f"\t{self.by_the_shell}"] if self.by_the_shell else [])]


def complete(group: click.Group, words: Sequence[str]) -> Completions:
    """What the last of the words, which may be empty, can become. The program itself is not among them."""
    from click.shell_completion import _resolve_context, _resolve_incomplete

    before, last = list(words[:-1]), words[-1] if words else ""
    if last.startswith("--") and "=" in last:
        name, _, last = last.partition("=")
        before.append(name)
    ctx = _resolve_context(group, {}, group.name or "", before)
    thing, last = _resolve_incomplete(ctx, before, last)
    answer = Completions()
    if isinstance(thing, click.Parameter):
        return _value_of(thing, ctx, last)
    for item in thing.shell_complete(ctx, last):
        if item.type == "plain" and item.value.startswith(last):
            answer.values.append((item.value, item.help or ""))
    answer.values = list(dict(answer.values).items())  # a group and its default command share `--help`
    return answer


def _value_of(parameter: click.Parameter, ctx: click.Context, last: str) -> Completions:
    """What a parameter may be: its choices, what we know of, or what the shell finds."""
    answer = Completions()
    found = completer_for(parameter)
    if found is not None:
        answer.values = [(value, words) for value, words in found(ctx) if value.startswith(last)]
    else:
        items = parameter.shell_complete(ctx, last)
        answer.values = [(item.value, item.help or "") for item in items if item.type == "plain"]
    for word in placeholder(parameter).replace("|", " ").split():
        answer.by_the_shell = answer.by_the_shell or _BY_THE_SHELL.get(word, "")
    if isinstance(parameter.type, click.Path):
        answer.by_the_shell = FILES
    if answer.by_the_shell == COMMANDS and parameter.nargs == -1 and ctx.params.get(parameter.name or ""):
        answer.by_the_shell = FILES  # the program is named already
    if parameter.name in ("home", "scratch"):
        answer.by_the_shell = DIRECTORIES
    return answer


def placeholder(parameter: click.Parameter) -> str:
    """`ID|N|latest`, `DIR`: as `--help` shows it, without brackets and dots."""
    return (parameter.metavar or "").strip("[].")
