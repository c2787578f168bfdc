"""The record of one landing: every change it will make, written down before the first one.

JSON lines. The first is the header, then directories as they are now, then the steps. Notes are
appended while the steps are carried out, for the two things that cannot be seen on disk later. A
torn last line is a note that was never made.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, field
from json.encoder import encode_basestring_ascii as quote
from typing import BinaryIO

from safekept.core.files import durable_file, write_all
from safekept.core.owner import ours
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass
from safekept.core.sqlite import SIDECARS

FORMAT, VERSION = "safekept-landing", 1

PUT, AWAY, MAKE, UNMAKE, IN_PLACE = "put", "away", "make", "unmake", "pour"
_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True, slots=True)
class Root:
    """A place that may be written: everything is addressed relative to its base directory."""

    label: str  # "home", "external-1", …: also the directory inside `replaced/`
    base: str  # an existing directory, links resolved
    name: str  # of the root below its base; several components where parents are missing


@dataclass(slots=True)
class Step:
    """One change of the home, with what is needed to take it back from any instant."""

    number: int
    do: str
    root: int
    path: str  # below the root's base
    entry: str  # the same for people: relative to the home
    had: bool = False  # something was under this name
    staged: str = ""  # of what is put: its name in `staged/`
    size: int = 0  # of what is put, to know it again
    mtime_ns: int = 0
    database: bool = False  # sidecars go with it
    carries: tuple[str, ...] = ()  # sidecars that are staged beside it


@dataclass(frozen=True, slots=True)
class DirectoryBefore:
    """A directory that will be touched, as it was."""

    root: int
    path: str
    mode: int
    mtime_ns: int


@dataclass(slots=True)
class LandingRecord:
    """The whole record in memory."""

    operation: str
    home: str
    verb: str  # "land" or "undo"
    undoes: str  # the operation that an undo takes back
    time: float
    process: int
    roots: list[Root]
    directories: list[DirectoryBefore] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    notes: list[dict[str, object]] = field(default_factory=list)

    def noted(self, note: str) -> set[int]:
        """The steps that a note was made about."""
        return {int(str(line["step"])) for line in self.notes if line.get("note") == note}

    def temporary(self, step: Step) -> str:
        """The temporary name of one step in the target's directory; only this landing uses it."""
        return f".safekept-tmp-{self.process}-{self.operation}-{step.number}"


def write_record(path: str, record: LandingRecord) -> None:
    """Write the intent, durable and whole when this returns."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "operation": record.operation,
        "home": record.home,
        "verb": record.verb,
        "undoes": record.undoes,
        "time": record.time,
        "process": record.process,
        "roots": [asdict(root) for root in record.roots],
    }
    with durable_file(path) as file:
        descriptor = file.fileno()
        write_all(descriptor, _line(header))
        for batch in _batches([_directory_line(item) for item in record.directories]):
            write_all(descriptor, batch)
        for batch in _batches([_step_line(step) for step in record.steps]):
            write_all(descriptor, batch)


def append_note(path: str, note: str, step: int) -> None:
    """Add a note about one step; durable when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write_all(descriptor, _line({"note": note, "step": step}))
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def read_record(path: str) -> LandingRecord:
    """Read a record back; raises ValueError where it is not one that this version can act on."""
    record: LandingRecord | None = None
    with _opened(path) as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            line = json.loads(raw)
            if record is None:
                record = _header(line)
            elif "note" in line:
                record.notes.append(line)
            elif "do" in line:
                record.steps.append(Step(**line))
            else:
                record.directories.append(DirectoryBefore(**line))
    if record is None:
        raise ValueError("an empty record")

    check_record(record, os.path.basename(os.path.dirname(path)))
    return record


def read_header(path: str) -> LandingRecord:
    """Only the header: enough for listings, whatever the length of the record."""
    with _opened(path) as file:
        header = _header(json.loads(file.readline(_LONGEST_HEADER)))

    check_header(header, os.path.basename(os.path.dirname(path)))
    return header


def _opened(path: str) -> BinaryIO:
    """A record of ours, open; ValueError for a link, a pipe, a second name, another user's file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ValueError("a record that is no plain file") from error
        raise
    if not ours(descriptor):
        os.close(descriptor)
        raise ValueError("a record that is not ours")
    return os.fdopen(descriptor, "rb")


def _header(line: dict[str, object]) -> LandingRecord:
    if line.get("format") != FORMAT or line.get("version") != VERSION:
        raise ValueError(f"not a landing record of version {VERSION}")
    roots = line["roots"]
    if not isinstance(roots, list):
        raise ValueError("a record without roots")
    return LandingRecord(
        operation=str(line["operation"]),
        home=str(line["home"]),
        verb=str(line["verb"]),
        undoes=str(line["undoes"]),
        time=float(str(line["time"])),
        process=int(str(line["process"])),
        roots=[Root(**root) for root in roots],
    )


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _directory_line(item: DirectoryBefore) -> bytes:
    return _line({"root": item.root, "path": item.path, "mode": item.mode, "mtime_ns": item.mtime_ns})


def _step_line(step: Step) -> bytes:
    """Built by hand: `json.dumps` for each of tens of thousands would keep the home waiting."""
    return (
        f'{{"number": {step.number}, "do": {quote(step.do)}, "root": {step.root}, '
        f'"path": {quote(step.path)}, "entry": {quote(step.entry)}, '
        f'"had": {"true" if step.had else "false"}, "staged": {quote(step.staged)}, '
        f'"size": {step.size}, "mtime_ns": {step.mtime_ns}, '
        f'"database": {"true" if step.database else "false"}, "carries": {json.dumps(step.carries)}}}\n'
    ).encode("ascii")


def _batches(lines: list[bytes], count: int = 2000) -> Iterable[bytes]:
    for start in range(0, len(lines), count):
        yield b"".join(lines[start : start + count])


# Whether a landing's record says only what a landing of ours can have written. It is acted on without
# asking a person, so nothing in it is believed: every field has its kind, every number its range, every
# name stays where it belongs. A wrong one is a ValueError, and nothing of it is done.

_OPERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LABEL = re.compile(r"home|external-[1-9][0-9]{0,5}")
_VERBS = ("land", "undo")
_KINDS = (PUT, AWAY, MAKE, UNMAKE, IN_PLACE)


def check_header(record: LandingRecord, operation: str) -> None:
    """`operation` is the name of the landing's own directory."""
    _need(record.operation == operation and _is(record.operation), "an operation of another name")
    _need(not record.undoes or _is(record.undoes), "a name of an operation that is none")
    _need(record.verb in _VERBS, "something that is neither a landing nor an undo")
    _need(0 <= record.process < 1 << 32, "a process that cannot be")
    _need(bool(record.roots), "no root")
    for number, root in enumerate(record.roots):
        _need(
            all(isinstance(one, str) for one in (root.label, root.base, root.name)), "a root without a name"
        )
        label = "home" if number == 0 else f"external-{number}"
        _need(root.label == label and bool(_LABEL.fullmatch(root.label)), "a root of another label")
        _need(root.base.startswith("/") and "\0" not in root.base, "a base that is no place")
        _need({"..", "."}.isdisjoint(root.base.split("/")), "a base that leads elsewhere")
        _need(_stays(root.name), "a root that leaves its base")


def check_record(record: LandingRecord, operation: str) -> None:
    """The header, and every step and directory: each within the root that it names."""
    check_header(record, operation)
    for number, step in enumerate(record.steps):
        _check_step(step, record.roots)
        _need(step.number == number, "steps that are not in their order")
    for before in record.directories:
        numbers = (before.root, before.mode, before.mtime_ns)
        _need(all(type(one) is int for one in numbers), "a directory of odd facts")
        _need(0 <= before.root < len(record.roots) and 0 <= before.mode <= 0o7777, "a directory of odd facts")
        _need(_within(before.path, record.roots[before.root], above=True), "a directory outside its root")
    for note in record.notes:
        _need(type(note.get("step")) is int, "a note about nothing")


def _check_step(step: Step, roots: list[Root]) -> None:
    numbers = (step.number, step.root, step.size, step.mtime_ns)
    _need(all(type(one) is int for one in numbers) and step.size >= 0, "a step of odd numbers")
    _need(type(step.had) is bool and type(step.database) is bool, "a step of odd facts")
    _need(step.do in _KINDS and isinstance(step.entry, str), "a step of an odd kind")
    _need(0 <= step.root < len(roots), "a step in no root")
    making = step.do in (MAKE, UNMAKE)
    _need(_within(step.path, roots[step.root], above=making), "a step that leaves its root")
    _need(step.staged == "" or _stays(step.staged), "a step that leaves what is staged")
    _need(
        isinstance(step.carries, list | tuple) and set(step.carries) <= set(SIDECARS),
        "a step with odd sidecars",
    )


def _within(path: object, root: Root, *, above: bool) -> bool:
    """At or below the root; with `above` also a directory that leads to it."""
    if not isinstance(path, str) or not _stays(path):
        return False
    return (
        path == root.name or path.startswith(root.name + "/") or (above and root.name.startswith(path + "/"))
    )


def _stays(path: object) -> bool:
    """Relative, and no part of it leads anywhere else."""
    return isinstance(path, str) and "\0" not in path and {"", ".", ".."}.isdisjoint(path.split("/"))


def _is(operation: str) -> bool:
    return bool(_OPERATION.fullmatch(operation))


def _need(held: bool, otherwise: str) -> None:
    if not held:
        raise ValueError(f"a record with {otherwise}")
