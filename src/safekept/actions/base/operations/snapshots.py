"""What is written down of snapshots, and of conversations that come back out of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class SnapshotFacts(Facts):
    """A snapshot of a home that was stored, or could not be; also a home point."""

    verb: ClassVar[str] = "snapshot"

    layout: str | None = None
    snapshot: str | None = None  # its id
    kind: str | None = None
    label: str | None = None
    files: int | None = None
    bytes: int | None = None
    added: int | None = None  # plain bytes that were new to the vault
    stored_bytes: int | None = None  # what they take there
    census: Mapping[str, object] | None = None
    databases: Mapping[str, object] | None = None  # path: sound, unverified or damaged
    forgotten: tuple[str, ...] | None = None  # by retention, afterwards
    lost_packs: int | None = None
    profile: str | None = None  # where only one was taken
    partial: bool | None = None  # it holds less than the settings select
    gaps: tuple[Mapping[str, object], ...] | None = None  # what was selected and could not be stored right
    version: int | None = None  # of a home point: how these are written
    paths: tuple[str, ...] | None = None  # of a home point: what it holds
    absent: tuple[str, ...] | None = None
    missing: tuple[str, ...] | None = None
    reason: str | None = None
    session: str | None = None
    turn: str | None = None
    host: str | None = None
    undo: bool | None = None


@dataclass(kw_only=True, slots=True)
class MarkFacts(Facts):
    """Snapshots that were forgotten, pinned, or the other way round."""

    vault: str | None = None
    snapshots: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class ForgetFacts(MarkFacts):
    """They go when their grace is over."""

    verb: ClassVar[str] = "forget"


@dataclass(kw_only=True, slots=True)
class UnforgetFacts(MarkFacts):
    """They stay after all."""

    verb: ClassVar[str] = "unforget"


@dataclass(kw_only=True, slots=True)
class PinFacts(MarkFacts):
    """They are kept whatever the policies say."""

    verb: ClassVar[str] = "pin"


@dataclass(kw_only=True, slots=True)
class UnpinFacts(MarkFacts):
    """The policies count for them again."""

    verb: ClassVar[str] = "unpin"


@dataclass(kw_only=True, slots=True)
class SessionFacts(Facts):
    """A conversation that was brought back."""

    verb: ClassVar[str] = "restore-session"

    database: str | None = None
    snapshot: str | None = None
    session: str | None = None
    stored_session: str | None = None  # what it is called in the snapshot
    as_: str | None = None  # the new name that was asked for
    undoes: str | None = None
    undo_point: str | None = None  # a snapshot of what was there
    title: str | None = None
    messages: int | None = None
    parents: tuple[str, ...] | None = None  # conversations above it that came along
    renumbered: bool | None = None
    already_there: bool | None = None
    proof: str | None = None  # of the rows that were put in; without it they are not taken out
    notes: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class SessionUndoFacts(SessionFacts):
    """A conversation that was taken out again."""

    verb: ClassVar[str] = "undo-session"
