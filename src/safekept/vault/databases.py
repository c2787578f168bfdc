"""Databases on their way into a snapshot: left unread, or captured and stored block by block.

One whose file, log and journal are what they were is not opened: what was known about it is said
again, the check of those very bytes included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from safekept.core.entries import DatabaseFacts, Entry, Outcome
from safekept.vault.account import Account, StoredDatabase
from safekept.vault.blocks import BlockStore
from safekept.vault.memory import KnownDatabase, Memory, all_stored, identity_of, old_enough
from safekept.vault.saver import BlobSaver
from safekept.vault.trees import Item

Reread = Callable[[str, KnownDatabase], bool]


class DatabaseIntake:
    """The databases of one snapshot. Close it."""

    def __init__(
        self, saver: BlobSaver, memory: Memory, account: Account, reread: Reread, started: int
    ) -> None:
        self._saver, self._memory, self._account, self._reread = saver, memory, account, reread
        self._started = started
        self._blocks = BlockStore(saver, memory.print_key)
        #: Those that were read, for the next snapshot to know.
        self.read: dict[str, KnownDatabase] = {}

    def close(self) -> None:
        self._blocks.close()

    def unread(self, entry: Entry) -> KnownDatabase | None:
        """What is known of a database that is as it was; None: it must be read."""
        known, identity = self._memory.database(entry.path), identity_of(entry)
        if known is None or not identity or identity != known.identity or self._reread(entry.path, known):
            return None
        if not self._memory.database_indexed(entry.path) and not all_stored(self._saver, known.ids):
            return None
        if entry.known is not None and not entry.known(known.facts):
            return None
        self._account.databases[entry.path] = StoredDatabase(known.facts, known.checked_ns, False)
        self._account.remarks += known.remarks
        return known

    def store(self, entry: Entry, progress: Callable[[int], None]) -> Item:
        """Capture a database and store what is new of it."""
        known = self._memory.database(entry.path)
        indexed = self._memory.database_indexed(entry.path)
        now = time.time_ns()
        with entry.open() as content:
            blocks = self._blocks.store(content, known, indexed, progress)
            facts, remarks = content.database, list(content.remarks)
            mtime_ns = content.mtime_ns
        facts = facts or DatabaseFacts("unverified", "")
        checked_ns = 0 if facts.state == "unverified" else now
        last_check_ns = checked_ns or (known.last_check_ns if known else 0)
        unchanged = known is not None and known.ids == blocks.ids and known.size == blocks.size
        if unchanged and known is not None and not checked_ns and known.checked_ns:
            # The very bytes that were checked before.
            old = known.facts
            facts = replace(facts, state=old.state, detail=old.detail)
            checked_ns = known.checked_ns
            remarks += [remark for remark in known.remarks if remark.outcome is Outcome.DAMAGED]
        identity = identity_of(entry)
        new = KnownDatabase(
            identity if old_enough(identity, self._started) else (),
            blocks.size,
            mtime_ns,
            blocks.block,
            blocks.ids,
            blocks.prints,
            blocks.segments,
            facts,
            remarks,
            checked_ns,
            last_check_ns,
        )
        self.read[entry.path] = new
        self._account.databases[entry.path] = StoredDatabase(facts, checked_ns, True)
        self._account.remarks += remarks
        return database_item(entry, new)


def database_item(entry: Entry, known: KnownDatabase) -> Item:
    return Item(entry, known.mtime_ns, known.size, known.ids, copy=True)


def stamps(databases: Iterable[KnownDatabase | None]) -> tuple[int, ...]:
    """What a node of a database says beside its content and the status of its file."""
    return tuple(number for one in databases if one is not None for number in (one.mtime_ns, one.size))
