"""What the vault holds and what that costs."""

from __future__ import annotations

from dataclasses import asdict

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass
from safekept.vault.format import Snapshot
from safekept.vault.read import used_blobs
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind
from safekept.vault.tags import forgotten_at

from ..base.context import UserContext
from ..snapshots.stored_home import reading


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes in bytes. What cannot be known is None: damage, or snapshots that do not say."""

    vault: str
    id: str
    snapshots: int  # without the forgotten ones
    forgotten: int
    homes: int
    files: int | None  # of all snapshots together, each file as often as it was taken
    bytes: int | None  # the same: what all of them would take if each were a copy
    pieces: int
    plain_bytes: int  # the different pieces, before compression
    stored_bytes: int  # the packs
    other_bytes: int  # snapshots, marks, indexes and keys
    packs: int
    unused_bytes: int | None  # in packs, and needed by no snapshot
    free_bytes: int | None  # left on the disk

    @property
    def ratio(self) -> float | None:
        """How many bytes of copies one stored byte stands for."""
        total = self.stored_bytes + self.other_bytes
        return self.bytes / total if self.bytes and total else None

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "ratio": round(self.ratio, 3) if self.ratio else None}


def vault_stats(context: UserContext, repository: Repository, listener: Listener = silent) -> Stats:
    """Count; what is unused is found by reading every directory once. A shared lock holds prunes off."""
    with reading(repository, listener, 60.0):
        snapshots, _ = list_snapshots(repository)
        shown = [snapshot for snapshot in snapshots if forgotten_at(snapshot) is None]
        counted = [_counted(snapshot) for snapshot in shown]
        known = [pair for pair in counted if pair is not None]
        sizes = [size for _, size in repository.storage.list(FileKind.PACK)]
        pieces = plain = 0
        for _, entries in repository.index.by_pack():
            pieces += len(entries)
            plain += sum(entry.plain or entry.length for entry in entries)
        unused = _unused(repository, snapshots, listener)
    others = (FileKind.SNAPSHOT, FileKind.MARK, FileKind.INDEX, FileKind.KEY)
    room = repository.storage.room()
    return Stats(
        vault=context.places.reads_from,
        id=repository.id,
        snapshots=len(shown),
        forgotten=len(snapshots) - len(shown),
        homes=len({path for snapshot in shown for path in snapshot.paths}),
        files=sum(files for files, _ in known) if len(known) == len(shown) else None,
        bytes=sum(size for _, size in known) if len(known) == len(shown) else None,
        pieces=pieces,
        plain_bytes=plain,
        stored_bytes=sum(sizes),
        other_bytes=sum(size for kind in others for _, size in repository.storage.list(kind)),
        packs=len(sizes),
        unused_bytes=unused,
        free_bytes=room[0] if room else None,
    )


def _counted(snapshot: Snapshot) -> tuple[int, int] | None:
    """Files and bytes as the snapshot itself recorded them."""
    ours = snapshot.extra.get("safekept")
    for facts, names in ((ours, ("files", "bytes")), (snapshot.summary, _SUMMARY)):
        if isinstance(facts, dict) and all(isinstance(facts.get(name), int) for name in names):
            return facts[names[0]], facts[names[1]]
    return None


_SUMMARY = ("total_files_processed", "total_bytes_processed")


def _unused(repository: Repository, snapshots: list[Snapshot], listener: Listener) -> int | None:
    try:
        used = used_blobs(repository, snapshots, listener)
    except SafekeptError:
        return None
    seen: set[tuple[object, bytes]] = set()
    unused = 0
    for _, entries in repository.index.by_pack():
        for entry in entries:
            # A second copy of a piece is as unused as one that no snapshot needs.
            if entry.id not in used[entry.kind] or (entry.kind, entry.id) in seen:
                unused += entry.length
            else:
                seen.add((entry.kind, entry.id))
    return unused
