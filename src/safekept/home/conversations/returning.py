"""One conversation out of an older database into the live one: one transaction, nothing overwritten.

The agent may be running: SQLite's own locks keep both whole. Its triggers fill the full-text index as
the rows come in, and it is looked at before the commit. Ids that are taken are never reused: a session
whose id is taken by another conversation is refused, messages whose ids are taken get new ones, in order.
"""

from __future__ import annotations

import contextlib
import re
from abc import abstractmethod
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.sqlite.descriptors import in_use
from safekept.core.sqlite.format import BUSY, LOCKED, address, connect, error_code
from safekept.core.sqlite.restore import locked

from .removal import fingerprint
from .shapes import OPENCODE, belonging, columns_of, quoted, shape_of
from .tables import KEPT, Tables, begin

if TYPE_CHECKING:
    import sqlite3

_LONGEST_CHAIN = 1000
#: `content='messages'`, `content_rowid=id` among the arguments of a full-text table.
_OPTION = re.compile(r"\b(content|content_rowid)\s*=\s*['\"`\[]?(\w*)", re.IGNORECASE)


#: What to do where a live conversation is not as the snapshot has it.
LOOK_AT_OLDER = NextStep("sessions show", ("SESSION", "--from", "ID"), before="Look at the older one:")
BRING_BESIDE = NextStep(
    "sessions restore",
    ("SESSION", "--from", "ID", "--as", "NEWID"),
    before="Bring it back beside the live one, under a new id:",
)


class SessionDiffers(SafekeptError):
    code = "session-differs"


class SessionNotRestored(SafekeptError):
    code = "session-not-restored"


@dataclass(slots=True)
class Returned:
    """What came back."""

    session: str
    title: str = ""
    messages: int = 0
    parents: list[str] = field(default_factory=list)
    renumbered: bool = False
    already: bool = False  # all of it was there, so nothing was written
    proof: str = ""  # the fingerprint of every row that came, so that they can be taken out again
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {
            "session": self.session,
            "title": self.title,
            "messages": self.messages,
            "parents": self.parents,
            "renumbered": self.renumbered,
            "already_there": self.already,
            "proof": self.proof,
            "notes": self.notes,
        }


def bring_back(copy: str, live: str, session: str, *, new_id: str = "", deadline: float = 30.0) -> Returned:
    """Put one session of `copy` (a private file) into `live`, with its messages and missing parents.

    Raises DatabaseLocked past the deadline, SessionDiffers where another conversation has the id,
    SchemaDiffers where the live tables need what the copy has not. Then the live database is as it was.
    """
    import sqlite3

    with in_use(live), contextlib.closing(connect(live, "mode=rw", timeout=deadline)) as connection:
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("ATTACH ? AS old", (address(copy, "mode=ro&immutable=1"),))
            begin(connection, deadline)
            try:
                returned = _returner(connection, live).run(session, new_id)
                if not returned.already:
                    returned.proof = fingerprint(connection, live, [returned.session, *returned.parents])
                connection.execute("ROLLBACK" if returned.already else "COMMIT")
                return returned
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            if error_code(error) in (BUSY, LOCKED):
                raise locked(live, deadline) from error
            raise SessionNotRestored(
                f"Session `{session}` could not be put into `{live}`: SQLite said: {error}",
                kept=KEPT,
                next_steps=(
                    NextStep("sessions show", ("SESSION", "--from", "ID"), before="Look at it first:"),
                ),
                session=session,
            ) from error


def _returner(connection: sqlite3.Connection, live: str) -> Returner:
    shape = shape_of(live)
    if shape is OPENCODE:
        from .opencode import OpencodeReturn

        return OpencodeReturn(connection, live, shape)
    return _Return(connection, live, shape)


class Returner(Tables):
    """The work inside the transaction, as far as it is the same for every chat database."""

    @abstractmethod
    def run(self, session: str, new_id: str) -> Returned: ...

    def _there(self, session: str) -> bool:
        statement = (
            f"SELECT EXISTS (SELECT 1 FROM main.{self.shape.session} WHERE id = ?1)"
            f" OR EXISTS (SELECT 1 FROM main.{self.shape.message} WHERE session_id = ?1)"
        )
        return bool(self._one(statement, session)[0])

    def _chain(self, session: str, returned: Returned) -> list[str]:
        """The session and those above it that the live database has not; the nearest first."""
        chain, current, table, column = [session], session, self.shape.session, self.shape.parent
        while column in self._shared(table) and len(chain) < _LONGEST_CHAIN:
            parent = self._one(f"SELECT {column} FROM old.{table} WHERE id = ?", current)[0]
            if parent is None or parent in chain or self._there(parent):
                break
            if not self._one(f"SELECT count(*) FROM old.{table} WHERE id = ?", parent)[0]:
                returned.notes.append(f"its parent session `{parent}` is in neither database")
                break
            chain.append(parent)
            current = parent
        return chain

    def _dependents(self) -> list[tuple[str, str]]:
        """Other tables whose rows belong to a session, in both databases."""
        return [
            (table, column)
            for table, column in belonging(self.connection, self.shape)
            if table not in (self.shape.session, self.shape.message)
            and column in columns_of(self.connection, "old", quoted(table))
        ]


class _Return(Returner):
    """That of Hermes, and of those like it."""

    def run(self, session: str, new_id: str) -> Returned:
        returned = Returned(new_id or session)
        if self._there(returned.session):
            return self._compare(session, returned)
        chain = self._chain(session, returned)
        for one in reversed(chain[1:]):
            self._session(one, one, returned)
            self._messages(one, one, returned)
            returned.parents.insert(0, one)
        returned.messages = 0
        returned.title = self._session(session, returned.session, returned)
        self._messages(session, returned.session, returned)
        for one in {returned.session, *returned.parents}:
            self._check_search(one, returned)
        return returned

    def _compare(self, session: str, returned: Returned) -> Returned:
        """It is there: the same, the same and more, or another conversation."""
        names = [name for name in self._shared("messages") if name not in ("id", "session_id")]
        listed = ", ".join(map(quoted, names))
        old = self._all(f"SELECT {listed} FROM old.messages WHERE session_id = ? ORDER BY id", session)
        new = self._all(
            f"SELECT {listed} FROM main.messages WHERE session_id = ? ORDER BY id", returned.session
        )
        if (
            new[: len(old)] == old
            and self._one("SELECT count(*) FROM main.sessions WHERE id = ?", returned.session)[0]
        ):
            returned.already = True
            more = len(new) - len(old)
            if more:
                returned.notes.append(f"the live one has all of it, and {more:,} messages more")
            return returned
        parts = next(
            (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
        )
        raise SessionDiffers(
            f"`{self.live}` has another session `{returned.session}`: {len(new):,} messages there, "
            f"{len(old):,} in the snapshot, and they part at message {parts + 1:,}",
            kept=KEPT,
            next_steps=(LOOK_AT_OLDER, BRING_BESIDE),
            session=returned.session,
            live_messages=len(new),
            stored_messages=len(old),
        )

    def _session(self, old_id: str, new_id: str, returned: Returned) -> str:
        """Insert one row of `sessions`; the title that it got."""
        names = self._required("sessions")
        values = dict(zip(names, self._one(self._select("sessions", names, "id"), old_id), strict=True))
        values["id"] = new_id
        parent = values.get("parent_session_id")
        if parent is not None and not self._one("SELECT count(*) FROM main.sessions WHERE id = ?", parent)[0]:
            values["parent_session_id"] = None
        title = values.get("title")
        if title is not None:
            values["title"] = self._free_title(str(title))
            if values["title"] != title:
                returned.notes.append(f"its title is taken, so it is called `{values['title']}` now")
        self._bring_named(values)
        self._insert("sessions", values)
        for table, column in self._dependents():
            self._copy_rows(table, column, old_id, new_id)
        return str(values.get("title") or "")

    def _free_title(self, title: str) -> str:
        """Titles are unique where the agent has such an index; elsewhere two may be the same."""
        candidate, number = title, 1
        while self._one("SELECT count(*) FROM main.sessions WHERE title = ?", candidate)[0]:
            candidate = f"{title} (restored)" if number == 1 else f"{title} (restored {number})"
            number += 1
        return candidate

    def _messages(self, old_id: str, new_id: str, returned: Returned) -> None:
        names = self._required("messages")
        taken = self._one(
            "SELECT count(*) FROM main.messages WHERE id IN"
            " (SELECT id FROM old.messages WHERE session_id = ?)",
            old_id,
        )[0]
        if taken:
            # All of them, so that their order stays what it was: the agent reads them by id.
            names = [name for name in names if name != "id"]
            returned.renumbered = True
            returned.notes.append(f"{taken:,} message ids are taken by others; its messages got new ones")
        given = ", ".join("?" if name == "session_id" else quoted(name) for name in names)
        listed = ", ".join(map(quoted, names))
        cursor = self.connection.execute(
            f"INSERT INTO main.messages ({listed}) SELECT {given} FROM old.messages"
            " WHERE session_id = ? ORDER BY id",
            (new_id, old_id),
        )
        returned.messages += cursor.rowcount
        self._note_dropped("messages", old_id, returned)

    def _check_search(self, session: str, returned: Returned) -> None:
        """Every full-text index that triggers keep must know the new messages."""
        triggers = " ".join(
            str(row[0])
            for row in self._all(
                "SELECT sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = 'messages'"
            )
        )
        tables = self._all(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'table'"
            " AND sql LIKE 'CREATE VIRTUAL TABLE%fts5%'"
        )
        for name, statement in tables:
            if not re.search(rf"INSERT\s+INTO\s+\W?{re.escape(name)}\W", triggers, re.IGNORECASE):
                returned.notes.append(f"nothing keeps the search index `{name}` up to date in this database")
                continue
            missing = self._one(self._unindexed(str(name), str(statement)), session)[0]
            if missing and self._being_rebuilt():
                returned.notes.append(f"Hermes is rebuilding the search index `{name}`; it will take them up")
            elif missing:
                raise SessionNotRestored(
                    f"The search index `{name}` of `{self.live}` did not take {missing:,} of the messages",
                    kept=KEPT,
                    next_steps=("Have the agent repair it first: `hermes sessions repair`",),
                    session=session,
                )

    def _unindexed(self, name: str, statement: str) -> str:
        """Counts messages of a session that the index should have and has not.

        One over the text of another table or view has the rows of that one, which need not be all messages
        (Hermes from 0.20 on leaves those of tools out), and tells only by its sizes which it took."""
        options = {key.lower(): value for key, value in _OPTION.findall(statement)}
        source, key = options.get("content", ""), options.get("content_rowid", "rowid")
        if not source:
            return (
                "SELECT count(*) FROM main.messages AS m WHERE m.session_id = ? AND NOT EXISTS"
                f" (SELECT 1 FROM main.{quoted(name)} AS f WHERE f.rowid = m.id)"
            )
        return (
            f"SELECT count(*) FROM main.{quoted(source)} AS s WHERE s.{quoted(key)} IN"
            " (SELECT id FROM main.messages WHERE session_id = ?) AND NOT EXISTS"
            f" (SELECT 1 FROM main.{quoted(name + '_docsize')} AS f WHERE f.id = s.{quoted(key)})"
        )

    def _being_rebuilt(self) -> bool:
        """Whether Hermes fills its index in the background: its triggers leave the rest to that."""
        if not self._all("SELECT 1 FROM main.sqlite_master WHERE name = 'state_meta'"):
            return False
        statement = "SELECT count(*) FROM main.state_meta WHERE key = 'fts_rebuild_high_water'"
        return bool(self._one(statement)[0])

    def _note_dropped(self, table: str, session: str, returned: Returned) -> None:
        for name in self.columns["old"][table]:
            if name in self.columns["main"][table]:
                continue
            count = self._one(f"SELECT count({quoted(name)}) FROM old.{table} WHERE session_id = ?", session)[
                0
            ]
            if count:
                returned.notes.append(
                    f"the live table has no column `{name}`; {count:,} values were left out"
                )
