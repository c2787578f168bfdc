"""What the journal says of homes: snapshots, restores, imports, rebuilds, undos, conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from safekept.core.records import dataclass

from .facts import Facts, documented


@dataclass(kw_only=True, slots=True)
class SnapshotFacts(Facts):
    """A snapshot of a home that was stored, or could not be; also a home point."""

    verb: ClassVar[str] = "snapshot"

    layout: str | None = documented()
    snapshot: str | None = documented("id")
    kind: str | None = documented()
    label: str | None = documented()
    files: int | None = documented()
    bytes: int | None = documented()
    added: int | None = documented("added_bytes")  # plain bytes that were new to the vault
    stored_bytes: int | None = documented()  # what they take there
    census: Mapping[str, object] | None = documented()
    databases: Mapping[str, object] | None = None  # path: sound, unverified or damaged; documents say more
    database_bytes: Mapping[str, object] | None = None  # path: what it and its log took in the home
    forgotten: tuple[str, ...] | None = documented()  # by retention, afterwards
    lost_packs: int | None = documented()  # missing or cut; what the home has was stored again
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

    @property
    def is_part(self) -> bool:
        """Whether it holds less than the settings select; older lines say it by kind and profile."""
        return bool(self.partial or self.profile or self.kind == "quick")


@dataclass(kw_only=True, slots=True)
class MarkFacts(Facts):
    """Snapshots that were forgotten, pinned, or the other way round."""

    vault: str | None = None
    snapshots: tuple[str, ...] | None = documented()


@dataclass(kw_only=True, slots=True)
class ForgetFacts(MarkFacts):
    """They go when their grace is over."""

    verb: ClassVar[str] = "forget"

    snapshots: tuple[str, ...] | None = documented("forgotten")


@dataclass(kw_only=True, slots=True)
class UnforgetFacts(MarkFacts):
    """They stay after all."""

    verb: ClassVar[str] = "unforget"

    snapshots: tuple[str, ...] | None = documented("called_back")


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

    database: str | None = documented()  # inside the home
    snapshot: str | None = None
    session: str | None = documented()
    stored_session: str | None = None  # what it is called in the snapshot
    as_: str | None = None  # the new name that was asked for
    undoes: str | None = None
    directory: str | None = None  # where the one who asked for it stood
    undo_point: str | None = documented()  # a snapshot of what was there
    title: str | None = documented()
    messages: int | None = documented()
    parents: tuple[str, ...] | None = documented()  # conversations above it that came along
    renumbered: bool | None = documented()
    already_there: bool | None = documented()
    proof: str | None = documented()  # of the rows that were put in; without it they are not taken out
    notes: tuple[str, ...] | None = documented()


@dataclass(kw_only=True, slots=True)
class SessionUndoFacts(SessionFacts):
    """A conversation that was taken out again."""

    verb: ClassVar[str] = "undo-session"


# What is written down of everything that lands in a home, and of its undo.


@dataclass(kw_only=True, slots=True)
class LandingFacts(Facts):
    """What an import, a restore and an undo have in common: what changed, and where the old is kept."""

    layout: str | None = documented()
    exact: bool | None = None
    only: tuple[str, ...] | None = None
    undo_point: str | None = documented()  # a snapshot of what was there
    operation: str | None = documented()
    created: int | None = documented()
    replaced: int | None = documented()
    removed: int | None = documented()
    same: int | None = documented()
    kept: int | None = documented()
    bytes: int | None = documented()
    replaced_in: str | None = documented()
    undoes: str | None = documented()
    remarks: tuple[Mapping[str, object], ...] | None = documented()
    timings: Mapping[str, object] | None = documented()
    wrappers: tuple[Mapping[str, object], ...] | None = (
        None  # commands of profiles that were made: path, text
    )
    wrappers_gone: tuple[Mapping[str, object], ...] | None = None  # that were taken away
    outcome: str | None = None  # of one that was cut off: what the next command did with it
    set_aside: tuple[str, ...] | None = None
    directory: str | None = None  # where the one who asked for it stood
    place: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything in the home is other than before."""
        return bool(self.created or self.replaced or self.removed)

    def landed(self) -> dict[str, object]:
        """What documents say of the landing itself."""
        counts = self.document("operation", "home", "created", "replaced", "removed", "same", "kept", "bytes")
        more = self.document("seconds", "replaced_in", "undoes", "remarks", "timings")
        return {**counts, **more}


@dataclass(kw_only=True, slots=True)
class ImportFacts(LandingFacts):
    """An archive that was brought into a home."""

    verb: ClassVar[str] = "import"

    archive: str | None = None
    code_files: int | None = None  # of the agent's own code that it brought


@dataclass(kw_only=True, slots=True)
class RestoreFacts(LandingFacts):
    """A snapshot, or some paths of it, that was brought into a home; also a home point."""

    verb: ClassVar[str] = "restore"

    snapshot: str | None = documented()
    home_point: str | None = None
    session: str | None = None
    conversation: str | None = None  # the one that these paths are
    left: int | None = None
    rebuild: str | None = None  # the rebuild that brought the home back by it
    counts: Mapping[str, object] | None = None  # of each profile, as the snapshot counted: what is gone by it


@dataclass(kw_only=True, slots=True)
class UndoFacts(LandingFacts):
    """A landing that was taken back."""

    verb: ClassVar[str] = "undo"

    of: str | None = None  # its verb
    changed_since: int | None = None


@dataclass(kw_only=True, slots=True)
class BringBackFacts(Facts):
    """What was dropped before, and was brought back."""

    verb: ClassVar[str] = "bring-back"

    undoes: str | None = None
    of: str | None = None
    what: str | None = documented()
    back: tuple[str, ...] | None = documented()
    lost: tuple[str, ...] | None = documented()
    notes: tuple[str, ...] | None = documented()


@dataclass(kw_only=True, slots=True)
class RebuildHereFacts(Facts):
    """What an `rm -rf ~` took and came back from what survived on this machine."""

    verb: ClassVar[str] = "rebuild-here"

    files: tuple[str, ...] | None = None  # of safekept's own; documents name them
    lines: int | None = None  # of the journal
    receipts: int | None = None
    homes: tuple[str, ...] | None = None  # each landed by a restore of its own, which `undo` takes back
    projects: tuple[str, ...] | None = None  # each by a rollback of its own
    from_keeper: int | None = None  # files of the stores
    bytes_from_keeper: int | None = None


@dataclass(kw_only=True, slots=True)
class RebuildFacts(Facts):
    """A home that was built again from a vault or an archive."""

    verb: ClassVar[str] = "rebuild"

    layout: str | None = documented()
    from_: str | None = None
    host: str | None = None
    archive: str | None = None
    snapshot: str | None = None
    taken: float | None = None  # when that was taken: so new is what lies in the place
    aside: str | None = documented()  # where the home before it lies
    receipt: str | None = documented()
    files: int | None = documented()
    bytes: int | None = documented()
    outside: int | None = documented("outside_files")
    outside_operation: str | None = documented()  # the landing of what lies outside, which `undo` takes back
    ok: bool | None = documented("proven")
    wrappers: tuple[Mapping[str, object], ...] | None = None
