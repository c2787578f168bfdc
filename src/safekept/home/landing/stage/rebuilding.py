"""Rebuilding what a lean capture left out: through SQLite, in the staged file, before it is proven.

The home is not touched meanwhile, so a kill, Ctrl-C or a full disk leaves it as it was. The file is
not in use yet, which is why it needs neither a journal nor a sync: it becomes whole or is thrown away.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.entries import Outcome, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.files import NoRoom, free_bytes
from safekept.core.next_step import NextStep
from safekept.core.sqlite.format import FULL, connect, error_code
from safekept.core.worker import Worker

from ..search import Unfilled
from ..swap.in_place_restore import mode_of_file, set_mode
from .staging import Staged, Staging

if TYPE_CHECKING:
    import sqlite3

    from safekept.core.sqlite.lean import LeanFacts, Recipe

    from ...layout.layout import Layout

_QUICK = (
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-65536",
)


#: Below so many bytes of what was left out it takes a few seconds: then it is done before anything lands.
WORTH_FILLING_BEHIND = 64 << 20
#: Of what was left out, filled beside an agent on a machine of two cores.
_BYTES_A_SECOND = 12_000_000


class SearchNotRebuilt(SafekeptError):
    code = "search-not-rebuilt"


def rebuild_lean(
    staging: Staging, layout: Layout | None, without_search: bool, behind: bool, listener: Listener
) -> None:
    """Fill every index that was left out. Raises SearchNotRebuilt, or NoRoom.

    With `without_search` they stay empty, and a remark says how they are filled later. With `behind` so do
    those that take long and can be filled beside a running agent: `staging.unfilled` names their databases.
    """
    for staged in list(staging.things.values()):
        if staged.lean is None or staged.wrong:
            continue
        facts = _facts(staged)
        if without_search:
            staging.remarks.append(Remark(staged.item.path, Outcome.NOTED, empty_text(facts)))
            continue
        later = _later(staging, staged, facts, layout) if behind and layout is not None else ()
        behind_names = {one.table for one in later}
        now = tuple(one for one in facts.tables if one.table not in behind_names)
        if now:
            _Rebuild(staging, staged, replace(facts, tables=now), listener).run()
        if later:
            staging.unfilled.append(Unfilled(staged.item.path, later, facts.bytes / _BYTES_A_SECOND))
            names = ", ".join(f"`{one.table}`" for one in later)
            reason = f"its search index {names} is filled behind the restore; until then searches find less"
            staging.remarks.append(Remark(staged.item.path, Outcome.NOTED, reason))


def _later(staging: Staging, staged: Staged, facts: LeanFacts, layout: Layout) -> tuple[Recipe, ...]:
    """The tables that may be filled when the agent is at work again: known to the layout, word for word."""
    from safekept.core.sqlite.lean import fillable, rebuild_statement

    if facts.bytes < WORTH_FILLING_BEHIND or staged.item.root:
        return ()
    ways = {one.table: one.rebuild for one in facts.tables}
    known = layout.recipes(staged.item.path)
    recipes = [one for one in known if ways.get(one.table) == (rebuild_statement(one),)]
    with contextlib.closing(connect(staging.path(staged), "mode=ro&immutable=1")) as connection:
        return tuple(fillable(connection, recipes))


def empty_text(facts: LeanFacts) -> str:
    """What is said of a database whose indexes stay empty, with the statements that fill them."""
    names = ", ".join(f"`{one.table}`" for one in facts.tables)
    statements = "; ".join(statement for one in facts.tables for statement in one.rebuild)
    return f"restored without its search index {names}; to fill it, with the agent stopped: {statements};"


def _facts(staged: Staged) -> LeanFacts:
    from safekept.core.sqlite.lean import read_facts

    try:
        return read_facts(staged.lean or {})
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise not_rebuilt(
            staged.item.path, "", f"how it is made was not stored as it should be: {error}"
        ) from error


class _Rebuild:
    """One database. SQLite works in a thread of its own, so that Ctrl-C is heard at once."""

    def __init__(self, staging: Staging, staged: Staged, facts: LeanFacts, listener: Listener) -> None:
        self.path, self.name = staging.path(staged), staged.item.path
        self.staged, self.facts, self.listener = staged, facts, listener
        self.table = ""
        self.before = os.stat(self.path)

    def run(self) -> None:
        import sqlite3

        from safekept.core.sqlite.lean import NotRebuilt

        mode = mode_of_file(self.path)
        os.chmod(self.path, 0o600)
        set_mode(self.path, "delete")
        with contextlib.closing(connect(self.path, "mode=rw")) as connection:
            try:
                self._in_thread(connection)
            except NotRebuilt as error:
                raise not_rebuilt(self.name, self.table, str(error)) from error
            except sqlite3.Error as error:
                if error_code(error) == FULL:
                    raise self._no_room() from error
                raise not_rebuilt(self.name, self.table, f"SQLite: {error}") from error
        set_mode(self.path, mode)
        self._set_metadata()

    def _in_thread(self, connection: sqlite3.Connection) -> None:
        from safekept.core.sqlite.lean import rebuild

        def work() -> None:
            for pragma in _QUICK:
                connection.execute(pragma).fetchall()
            rebuild(connection, self.facts, self._begin)

        worker = Worker(work, "safekept-rebuild")
        try:
            self._tell()
            while not worker.wait(0.5):
                self._tell()
        finally:
            while worker.running:
                with contextlib.suppress(Exception):
                    connection.interrupt()
                worker.wait(0.02)
        if worker.error is not None:
            raise worker.error

    def _begin(self, table: str) -> None:
        self.table = table

    def _tell(self) -> None:
        """How far it is: what the file has grown by on disk, of what was left out."""
        grown = (os.stat(self.path).st_blocks - self.before.st_blocks) * 512
        done = max(0, min(grown, self.facts.bytes))
        self.listener(Event("rebuild", done, self.facts.bytes, path=self.name))

    def _set_metadata(self) -> None:
        item, before = self.staged.item, self.before
        if os.geteuid() == 0:
            os.chown(self.path, before.st_uid, before.st_gid)
        os.chmod(self.path, item.mode)
        os.utime(self.path, ns=(item.mtime_ns, item.mtime_ns))
        self.staged.size = os.stat(self.path).st_size

    def _no_room(self) -> NoRoom:
        free = free_bytes(os.path.dirname(self.path))
        return NoRoom(
            f"The disk is full: the search index of `{self.name}` could not be rebuilt, "
            f"{free:,} bytes are free",
            kept="The home is as it was; what was staged has been removed",
            next_steps=(
                "Make room on that disk, then run the command again",
                NextStep(
                    "import", ("FILE", "--without-search"), before="Or restore without the search index:"
                ),
            ),
            needed=self.facts.bytes,
            free=free,
        )


def not_rebuilt(path: str, table: str, why: str) -> SearchNotRebuilt:
    index = f"The search index `{table}` of `{path}`" if table else f"The search index of `{path}`"
    return SearchNotRebuilt(
        f"{index} could not be rebuilt: {why}",
        kept="The home is as it was; what was staged has been removed",
        next_steps=(
            NextStep("import", ("FILE", "--without-search"), before="Restore everything but the index:"),
            "Try an older backup of this home",
        ),
        path=path,
        table=table,
    )
