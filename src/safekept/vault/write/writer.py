"""A Source becomes a snapshot: whatever is new is stored, whatever is known is referred to.

The snapshot is written last, and what the next one may know only after that: everything that either of
them names is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from safekept import __version__
from safekept.core.entries import BytesContent, Source
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ..format.go_text import format_time
from ..format.snapshot import Snapshot
from ..repo.lock_file import LockIdentity
from ..repo.locks import Lock
from ..repo.saver import BlobSaver
from .chunks import store_content
from .databases import Reread, SnapshotAccount
from .intake import Intake
from .memory import EarlierManifest, Memory, all_stored

if TYPE_CHECKING:
    from ..repo.repository import Repository

__all__ = ["Description", "SnapshotAccount", "StoredSnapshot", "write_snapshot"]

#: Where a snapshot says what it is: a directory at the root of its tree, and the file in it.
ABOUT, MANIFEST = ".safekept", "manifest.json"


@dataclass(frozen=True, slots=True)
class Description:
    """What the caller says of a snapshot once everything in it is known."""

    manifest: Mapping[str, object]  # becomes `.safekept/manifest.json`
    tags: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)  # plain values for `Memory.notes` of the next one


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot that is stored, and what it took."""

    snapshot: Snapshot
    account: SnapshotAccount
    added: int  # plain bytes that were new
    stored: int  # what they take in the vault
    lost_packs: int = 0  # packs that are missing or cut; what the source has of them was stored again
    #: What the files were like, directory by directory; `memory.marks_in` reads it.
    records: Mapping[str, bytes] = field(default_factory=dict)


def write_snapshot(
    repository: Repository,
    source: Source,
    *,
    lock: Lock | None,
    roots: Mapping[str, str],
    describe: Callable[[SnapshotAccount], Description],
    memory: Memory | None = None,
    reread: Reread = lambda path, known: False,
    time_ns: int = 0,
    hostname: str = "",
    username: str = "",
    listener: Listener = silent,
) -> StoredSnapshot:
    """Store everything that a source gives, and the snapshot that makes it visible.

    `roots` says where entries lie: prefix of their paths -> absolute directory; "" is the home. `reread`
    is asked about a database that is as it was whether it must be read all the same. `time_ns` is now
    unless given (for copies of older things).
    """
    started = time.time_ns()
    person = LockIdentity.of_this_process()
    memory = memory or Memory(repository, "", "")
    with contextlib.ExitStack() as stack:
        saver = stack.enter_context(repository.saver(lock))
        intake = Intake(saver, memory, roots, reread, started, time_ns or started, listener)
        stack.callback(intake.close)
        intake.take(source)
        account = intake.account
        account.name_what_is_no_database(started)
        described = describe(account)
        about = _describe(intake, saver, memory, described.manifest, time_ns or started)
        tree = intake.trees.finish()
        saver.gather()
        snapshot = saver.finish(
            Snapshot(
                time_ns or started,
                tree,
                (roots[""],),
                hostname or person.hostname,
                username or person.username,
                person.uid,
                person.gid,
                described.tags,
                program_version=f"safekept {__version__}",
                summary=_summary(account, saver, started),
                extra={"safekept": _own_summary(account, saver), **described.extra},
            )
        )
    # For the next snapshot. Only now: everything that is named is stored.
    memory.save(intake.trees.records, about, described.notes)
    for path, known in intake.databases.read.items():
        memory.save_database(path, known)
    saved, records = saver.saved, intake.trees.records
    return StoredSnapshot(snapshot, account, saved.bytes_added, saved.bytes_stored, saver.lost_packs, records)


def _summary(account: SnapshotAccount, saver: BlobSaver, started: int) -> dict[str, object]:
    """As restic 0.17 and newer write it."""
    return {
        "backup_start": format_time(started),
        "backup_end": format_time(time.time_ns()),
        "files_new": account.new,
        "files_changed": account.changed,
        "files_unmodified": account.files - account.new - account.changed,
        "data_blobs": saver.saved.data_blobs,
        "tree_blobs": saver.saved.tree_blobs,
        "data_added": saver.saved.bytes_added,
        "data_added_packed": saver.saved.bytes_stored,
        "total_files_processed": account.files,
        "total_bytes_processed": account.bytes,
    }


def _own_summary(account: SnapshotAccount, saver: BlobSaver) -> dict[str, object]:
    """What a list shows without opening a tree; lost when restic rewrites the snapshot."""
    return {
        "version": 1,
        "databases": {path: one.facts.state for path, one in account.databases.items()},
        "files": account.files,
        "bytes": account.bytes,
        "added": saver.saved.bytes_added,
        **({} if account.complete else {"lacks": account.lacks}),
    }


def _describe(
    intake: Intake, saver: BlobSaver, memory: Memory, manifest: Mapping[str, object], time_ns: int
) -> EarlierManifest:
    """Put the manifest into the tree; one that says what an earlier one said is that one."""
    timeless = {key: value for key, value in manifest.items() if key != "created"}
    digest = hashlib.sha256(json.dumps(timeless).encode()).digest()
    about = next((one for one in memory.abouts if one.digest == digest), None)
    if about is None or not all_stored(saver, about.content):
        text = json.dumps(manifest, indent=1).encode() + b"\n"
        content, size = store_content(saver, BytesContent(text))
        about = EarlierManifest(digest, content, size, time_ns)
    intake.trees.generated_directory(ABOUT, MANIFEST, about.content, about.size, about.time_ns)
    return about
