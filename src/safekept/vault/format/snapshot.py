"""Snapshots: the small file that makes a point in time visible, written last of all.

Fields that we do not know are kept as they are, so that rewriting a snapshot of rustic's or of a
newer restic's loses nothing of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

from .blobs import ID
from .go_text import format_time, json_text, parse_time

_KNOWN = (
    "time",
    "parent",
    "tree",
    "paths",
    "hostname",
    "username",
    "uid",
    "gid",
    "excludes",
    "tags",
    "original",
    "program_version",
    "summary",
)


class BadSnapshot(Exception):
    """Text that is not a snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One point in time. `id` is its file's name, empty until it is stored."""

    time_ns: int
    tree: bytes
    paths: tuple[str, ...]
    hostname: str = ""
    username: str = ""
    uid: int = 0
    gid: int = 0
    tags: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    parent: str = ""
    original: str = ""
    program_version: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    offset: int | None = None  # seconds east of UTC; None when written: the local offset of that time
    extra: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    #: Never stored. Set by a listing where `original` is the id of another snapshot that is still there.
    public: str = ""
    #: Never stored in it. What records beside it say (`pin`, `proven`, `forgotten`), which goes before a tag
    #: of that name; None: it was taken away. See marks.py.
    marks: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def short_id(self) -> str:
        """The start of the id that people see; it stays the same when tags are rewritten."""
        return (self.public or self.original or self.id)[:8]

    @property
    def time(self) -> str:
        return format_time(self.time_ns, self.offset)

    def to_json(self) -> bytes:
        """In restic's order; empty fields are left out."""
        fields: list[tuple[str, Any]] = [
            ("time", self.time),
            ("parent", self.parent),
            ("tree", self.tree.hex()),
            ("paths", list(self.paths)),
            ("hostname", self.hostname),
            ("username", self.username),
            ("uid", self.uid),
            ("gid", self.gid),
            ("excludes", list(self.excludes)),
            ("tags", list(self.tags)),
            ("original", self.original),
            ("program_version", self.program_version),
            ("summary", dict(self.summary)),
            *self.extra.items(),
        ]
        always = ("time", "tree", "paths")
        parts = (f"{json_text(name)}:{_go(value)}" for name, value in fields if value or name in always)
        return ("{" + ",".join(parts) + "}").encode()

    @classmethod
    def from_json(cls, name: str, text: bytes) -> Snapshot:
        try:
            fields: dict[str, Any] = json.loads(text)
            time_ns, offset = parse_time(fields["time"])
            tree = bytes.fromhex(fields["tree"])
            if len(tree) != ID:
                raise ValueError("its tree is not an id")
            return cls(
                time_ns,
                tree,
                _texts(fields, "paths"),
                str(fields.get("hostname") or ""),
                str(fields.get("username") or ""),
                int(fields.get("uid") or 0),
                int(fields.get("gid") or 0),
                _texts(fields, "tags"),
                _texts(fields, "excludes"),
                str(fields.get("parent") or ""),
                str(fields.get("original") or ""),
                str(fields.get("program_version") or ""),
                dict(fields.get("summary") or {}),
                offset,
                {key: value for key, value in fields.items() if key not in _KNOWN},
                name,
            )
        except BAD_SHAPE as error:
            raise BadSnapshot(f"not a snapshot: {error}") from error


def _texts(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    return tuple(str(text) for text in fields.get(name) or ())


def _go(value: Any) -> str:
    """JSON as Go's encoder writes it."""
    if isinstance(value, str):
        return json_text(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(str(key))}:{_go(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_go, value)) + "]"
    return json.dumps(value)
