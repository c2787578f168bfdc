"""What a drill is of: a snapshot of the vault, an archive, or what lies at a destination, open for reading.

Opened as a stranger would open it: from the bytes of the store alone. No cache is read, so nothing that
this machine remembers can stand in for something that the store has lost.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from safekept.core.archive_names import READ_ENDINGS, SEALED_ENDINGS
from safekept.core.entries import Entry, Kind, Outcome, Source
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.records import dataclass
from safekept.home.layout import Layout

from ..base.context import UserContext
from .checks.restored import Problems, plural
from .place import drill_place
from .receipts import ARCHIVE, DESTINATION, SNAPSHOT

if TYPE_CHECKING:
    from safekept.vault.format import Snapshot
    from safekept.vault.repo import Repository

    from ..alarms.alarms import Alarm
    from ..snapshots.listing import Listed, Listing

ARCHIVE_ENDINGS = (*READ_ENDINGS, *SEALED_ENDINGS)


@dataclass(slots=True)
class Subject:
    """What is to be restored and proven."""

    kind: str
    name: str  # the snapshot's id, or the archive's path
    home: str  # the home that it was taken of
    layout: Layout
    source: Source
    entries: list[Entry]
    manifest: Mapping[str, Any] | None
    store: str  # where it lies
    taken: float = 0.0
    root_mode: int | None = None
    external: tuple[str, ...] = ()  # names of places outside the home
    damage: Problems = field(default_factory=list)  # of the store itself
    unreadable: tuple[str, ...] = ()  # directories whose contents are unknown
    store_text: str = ""  # what is said of the store where nothing is wrong
    store_count: int = 0
    snapshot: Snapshot | None = None  # to be marked as proven
    finish: Callable[[], None] = lambda: None  # looks at what follows the last byte that was read
    older: str = ""  # how to name the one before it
    lost: tuple[Alarm, ...] = ()  # what was lost before it was taken, and is not back

    @property
    def complete(self) -> bool:
        """Whether it says of itself that it holds everything it was asked to."""
        return self.manifest is None or self.manifest.get("complete") is not False


def is_archive(word: str) -> bool:
    """Whether a word names a file, and not a snapshot."""
    if os.sep in word or word.endswith(ARCHIVE_ENDINGS):
        return True
    return word != "latest" and not word.isdigit() and os.path.isfile(word)


@contextlib.contextmanager
def open_archived(
    context: UserContext, file: str, layout: str, identity: Sequence[str], listener: Listener
) -> Iterator[Subject]:
    """An archive, sealed or not. Raises the typed errors of one that cannot be opened."""
    from safekept.archive import HASH_NONE, NO_LIMITS, open_archive
    from safekept.home.layout import recognise

    from ..archives.sealing import identity_of

    listener(Event("read"))
    path = os.path.abspath(os.path.expanduser(file))
    # No limits: there is room, or the drill says so; and it holds the bytes against their hashes itself.
    with open_archive(path, NO_LIMITS, HASH_NONE, identity_of(context, identity)) as archive:
        source: Source = archive
        head = archive.head
        name = layout or (str(head.get("layout", "")) if head else "")
        if head is None:
            found = recognise((entry.path for entry in archive.entries), context.choices.layouts)
            if found is not None:
                name = layout or found[0]
                source = archive.under(found[1]) if found[1] else archive
        chosen = context.layout(name if name in context.choices.layouts else "generic")
        entries = list(source)
        made = str(head.get("created", "")) if head else ""
        yield Subject(
            ARCHIVE,
            path,
            str(head.get("home", "")) if head else "",
            chosen,
            source,
            entries,
            head,
            path,
            taken=_seconds(made) or os.path.getmtime(path),
            external=tuple(chosen.external_targets("")),
            store_text=f"the list of its {plural(len(entries), 'entry')} is whole"
            if head
            else f"{plural(len(entries), 'entry')}; made by another tool, without hashes",
            store_count=len(entries),
            finish=archive.finish,
        )


@contextlib.contextmanager
def open_archive_there(
    context: UserContext,
    destination: str,
    word: str,
    layout: str,
    identity: Sequence[str],
    scratch: str,
    listener: Listener,
) -> Iterator[Subject]:
    """An archive that lies at a destination: fetched into scratch, as it is, and opened there."""
    from ..offsite.archives_there import choose, fetch, host_directory, list_archives
    from ..offsite.place import find_destination, open_destination

    setting = find_destination(context, destination)
    with contextlib.closing(open_destination(context, setting)) as objects:
        own = host_directory()
        there = list_archives(objects, own) or list_archives(objects)
        chosen = choose(there, word, own if any(one.host == own for one in there) else "")
        with drill_place(context, chosen.size, scratch) as place:
            path = fetch(objects, chosen, place.path, listener)
            with open_archived(context, path, layout, identity, listener) as subject:
                yield replace(subject, kind=DESTINATION, name=chosen.name, store=setting.name)


def archives_only(context: UserContext, destination: str) -> bool:
    """Whether nothing but archives goes to a destination."""
    from ..offsite.destination import VAULT
    from ..offsite.place import find_destination

    return VAULT not in find_destination(context, destination).takes


def _seconds(text: str) -> float:
    """`2026-06-01T12:00:00Z` as seconds since 1970; 0 where it is no such text."""
    import calendar

    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0


@contextlib.contextmanager
def open_stored_snapshot(
    context: UserContext,
    word: str,
    home: str,
    layout: str,
    *,
    small: bool,
    destination: str = "",
    listener: Listener,
) -> Iterator[Subject]:
    """A snapshot of the vault that `context` name."""
    from ..snapshots.choosing import choose
    from ..snapshots.listing import list_home
    from ..snapshots.stored_home import reading
    from ..vault.opening import open_vault

    blind = context.changed(cache_directory="")
    with open_vault(blind, listener=listener) as repository, reading(repository, listener):
        listener(Event("read"))
        place = context.locate(home, layout, existing=False)
        listing = list_home(repository, place.home, named=place.named)
        refuse_unreadable(listing, word)
        chosen = choose(listing, word)
        yield subject_of(blind, repository, listing, chosen, word, layout, destination)


def subject_of(
    context: UserContext,
    repository: Repository,
    listing: Listing,
    chosen: Listed,
    word: str,
    layout: str = "",
    destination: str = "",
) -> Subject:
    """One snapshot of an open vault; `word` is how it was asked for."""
    from ..snapshots.stored_home import open_stored

    stored = open_stored(context, repository, chosen, layout)
    entries = list(stored.source)
    damage = _damage(repository, listing, word)
    unreadable = [
        (remark.path, remark.reason)
        for remark in stored.source.remarks
        if remark.outcome is Outcome.UNREADABLE
    ]
    subject = Subject(
        DESTINATION if destination else SNAPSHOT,
        chosen.id,
        stored.home,
        stored.layout,
        stored.source,
        entries,
        stored.manifest,
        destination or context.places.reads_from,
        taken=chosen.snapshot.time_ns / 1e9,
        root_mode=_root_mode(stored.source),
        external=tuple(root.prefix for root in stored.source.roots if root.prefix),
        damage=damage + unreadable,
        unreadable=tuple(path for path, _ in unreadable if not path.startswith(".safekept")),
        snapshot=None if context.places.source_vault else chosen.snapshot,
        older=_older(context, listing, chosen),
        lost=_lost(context, listing, chosen),
    )
    _look_up(repository, chosen.snapshot, subject)
    return subject


def refuse_unreadable(listing: Listing, word: str) -> None:
    """A snapshot that is there and cannot be read is damage, and not an absence."""
    from safekept.vault.errors import VaultDamaged

    for name, why in sorted(listing.damaged.items()):
        if (word == "latest" and not listing.shown) or (len(word) > 3 and name.startswith(word)):
            raise VaultDamaged.file(f"snapshots/{name}", why)


def _damage(repository: Repository, listing: Listing, word: str) -> Problems:
    """Files of the vault that cannot be read, as far as they concern what was asked for."""
    found: Problems = []
    if word == "latest":  # one of these may be the newest; that is unknown
        found += [(f"snapshots/{name[:12]}", why) for name, why in sorted(listing.damaged.items())]
    repository.reload_index(without_cache=True)
    found += [(f"index/{name[:12]}", why) for name, why in sorted(repository.damaged_indexes.items())]
    return found


def _look_up(repository: Repository, snapshot: Snapshot, subject: Subject) -> None:
    from safekept.vault.read import coverage

    seen = coverage(repository, snapshot)
    if seen.unnamed:
        pieces = plural(seen.unnamed, "piece")
        why = f"{pieces} that no index names: found in the packs all the same, which restic could not"
        subject.damage.append(("index", why))
    subject.store_count = seen.directories + seen.pieces
    directories = f"{seen.directories:,} {'directory' if seen.directories == 1 else 'directories'}"
    subject.store_text = f"{directories} read, {plural(seen.pieces, 'piece')} in the index"


def _root_mode(source: Any) -> int | None:
    try:
        node = source.node("")
    except SafekeptError:
        return None
    return node.mode if node is not None else None


def _older(context: UserContext, listing: Listing, chosen: Listed) -> str:
    """The next older one of the whole home that may be tried instead; one that is sound, if any is."""
    from ..alarms.alarms import losses_in_snapshots
    from ..snapshots.soundness import advised_for, sound_ones

    losses = losses_in_snapshots(context, listing.home)
    every = (*sound_ones(listing.shown, losses), *advised_for(listing.shown, ("",), losses))
    older = (one for one in every if one.snapshot.time_ns < chosen.snapshot.time_ns and not one.partial)
    found = next(older, None)
    return found.short if found else ""


def _lost(context: UserContext, listing: Listing, chosen: Listed) -> tuple[Alarm, ...]:
    from ..alarms.alarms import losses_in_snapshots
    from ..snapshots.soundness import open_losses_of

    return open_losses_of(chosen, listing.shown, losses_in_snapshots(context, listing.home))


def needed_bytes(entries: list[Entry], chosen: set[str] | None) -> int:
    """Room for what would be restored: whole blocks, and some more for databases that are opened."""
    block = 4096
    total = 0
    for entry in entries:
        if chosen is not None and entry.path not in chosen:
            continue
        total += block
        if entry.kind is Kind.FILE:
            total += -(-entry.size // block) * block
            if entry.database:
                total += (entry.size + entry.left_out) // 10 + entry.left_out // 4
    return total
