"""Which agents call safekept: what was written into whose settings, when, and what was there before.

One file in the data directory; the copies of what was there lie beside it, named by their content, and
are never replaced. A record that cannot be read counts as none and is put aside, not written over: the
entries in the settings tell the rest.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, private_directory
from safekept.core.files.small import read_document, read_start, write_document
from safekept.core.records import dataclass

from ..base.context import UserContext
from .calls import integrations_directory

if TYPE_CHECKING:
    from ..base.context import UserContext

VERSION = 1


@dataclass(frozen=True, slots=True)
class ConnectedFile:
    """One file of a host that connecting changed."""

    path: str
    copy: str = ""  # the copy that disconnecting brings back, by its name; "": there was no file
    left: str = ""  # the digest of the file as connecting left it

    def as_dict(self) -> dict[str, object]:
        return {"path": self.path, "copy": self.copy, "left": self.left}


@dataclass(frozen=True, slots=True)
class Connection:
    """One host that calls safekept: for this user, in one project, or in one home of Hermes (`scope`)."""

    host: str
    time: float
    command: tuple[str, ...]
    files: tuple[ConnectedFile, ...]
    scope: str = ""
    directories: tuple[str, ...] = ()  # made for it, outermost first

    @property
    def place(self) -> str:
        """The settings that it is about: the last file, which is written last."""
        return self.files[-1].path if self.files else ""

    @property
    def copy(self) -> str:
        return self.files[-1].copy if self.files else ""

    def file(self, path: str) -> ConnectedFile | None:
        return next((one for one in self.files if one.path == path), None)

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "place": self.place,
            "scope": self.scope or None,
            "time": iso_time(self.time),
            "command": list(self.command),
        }


def _directory(context: UserContext) -> str:
    return integrations_directory(context.places.data_directory)


def lock_path(context: UserContext) -> str:
    """Held while settings of hosts or the record are changed."""
    return os.path.join(_directory(context), "connections.lock")


def connections(context: UserContext) -> tuple[Connection, ...]:
    """Every host that was connected, oldest first."""
    return read_document(
        _record(context), lambda document: tuple(_read(one) for one in document["connections"]), ()
    )


def connection_of(context: UserContext, host: str, scope: str, place: str) -> Connection | None:
    for one in connections(context):
        if (one.host, one.scope, one.place) == (host, scope, place):
            return one
    return None


def remember_connection(context: UserContext, connection: Connection) -> None:
    """Put a connection into the record, instead of an earlier one of the same host and settings."""
    others = _others(context, connection.host, connection.scope, connection.place)
    _write(context, [*others, connection])


def forget_connection(context: UserContext, host: str, scope: str, place: str) -> None:
    left = _others(context, host, scope, place)
    if len(left) != len(connections(context)):
        _write(context, left)


def keep_copy(context: UserContext, name: str, content: bytes) -> str:
    """Keep what was there, under the name of its content; where it lies is the answer."""
    directory = os.path.join(_directory(context), "copies")
    private_directory(directory)
    path = os.path.join(directory, name)
    if read_copy(context, name) != content:
        durable_write(path, content)
    return path


def read_copy(context: UserContext, name: str) -> bytes | None:
    if not name:
        return None
    try:
        with open(os.path.join(_directory(context), "copies", name), "rb") as file:
            return file.read()
    except OSError:
        return None


def _record(context: UserContext) -> str:
    return os.path.join(_directory(context), "connections.json")


def _others(context: UserContext, host: str, scope: str, place: str) -> list[Connection]:
    return [one for one in connections(context) if (one.host, one.scope, one.place) != (host, scope, place)]


def _write(context: UserContext, found: Iterable[Connection]) -> None:
    private_directory(_directory(context))
    path = _record(context)
    empty = read_document(path, lambda document: document["connections"] == [], False)
    if os.path.exists(path) and not connections(context) and not empty:
        with contextlib.suppress(OSError):
            os.rename(path, f"{path}.unreadable-{int(time.time())}")
    document = {
        "version": VERSION,
        "connections": [
            {
                "host": one.host,
                "time": one.time,
                "command": list(one.command),
                "scope": one.scope,
                "directories": list(one.directories),
                "files": [file.as_dict() for file in one.files],
            }
            for one in found
        ],
    }
    write_document(path, document)


def _read(row: Mapping[str, object]) -> Connection:
    return Connection(
        str(row["host"]),
        float(str(row["time"])),
        _texts(row["command"]),
        tuple(
            ConnectedFile(str(one["path"]), str(one.get("copy") or ""), str(one.get("left") or ""))
            for one in _rows(row["files"])
        ),
        str(row.get("scope") or ""),
        _texts(row.get("directories") or []),
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return tuple(map(str, value))


def _rows(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


# What came of the agents' connections when a home was put back to an earlier state.


@contextlib.contextmanager
def staying_connected(context: UserContext, home: str) -> Iterator[list[str]]:
    """Around a landing: connections of this home are there afterwards as before; the list says what was done.

    The face that calls knows how to connect. Where it does not, what was lost is reported.
    """
    from .connections import connections

    notes: list[str] = []
    inside = [one for one in connections(context) if _within(one.place, home)]
    hold = context.caller.keep_connected
    again = None
    if inside and hold is not None:
        with contextlib.suppress(SafekeptError, OSError):
            again = hold(context, home)
    standing = [one for one in inside if _has_ours(one.place)]
    yield notes
    with contextlib.suppress(SafekeptError, OSError):
        notes += again() if again is not None else ()
    if hold is None:
        lost = [one.host for one in standing if not _has_ours(one.place)]
        notes += [f"{name} is not connected any more: connect it again" for name in lost]


def _within(path: str, home: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(home) + os.sep)


def _has_ours(path: str) -> bool:
    try:
        return b"safekept" in read_start(path, 1 << 20)
    except OSError:
        return False
