"""opencode's conversations: rows of `opencode.db`, each message with its parts.

Seen in databases of opencode 1.18.33. What belongs to a session is every row with its id, and the events that
the session was made of; its project comes with it where the live database has it no longer.
"""

from __future__ import annotations

import json
from typing import Any

from safekept.core.next_step import NextStep

from .conversations import Rows
from .reader import Conversation, Message, latest_first, number
from .returning import LOOK_AT_OLDER, Returned, Returner, SessionDiffers, SessionNotRestored
from .shapes import OPENCODE, columns_of, quoted
from .tables import KEPT


class OpencodeChats(Rows):
    """The database, open for reading."""

    shape = OPENCODE

    def conversations(self) -> list[Conversation]:
        counts = dict(self._rows("SELECT session_id, count(*) FROM message GROUP BY session_id"))
        wanted = ("id", "title", "directory", "parent_id", "time_created")
        given = ", ".join(name if name in self.columns["session"] else "NULL" for name in wanted)
        return latest_first(
            [
                Conversation(
                    str(row[0]),
                    str(row[1] or ""),
                    str(row[2] or ""),
                    str(row[3] or ""),
                    number(row[4]) / 1000,
                    int(counts.get(row[0], 0)),
                )
                for row in self._rows(f"SELECT {given} FROM session")
            ]
        )

    def messages(self, session: str) -> list[Message]:
        rows = self._rows(
            "SELECT m.data, m.time_created, p.data FROM message AS m JOIN part AS p ON p.message_id = m.id"
            " WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id",
            session,
        )
        found = (_said(_fields(row[0]), number(row[1]) / 1000, _fields(row[2])) for row in rows)
        return [one for one in found if one is not None]


def _said(message: dict[str, Any], when: float, part: dict[str, Any]) -> Message | None:
    """One part of a message as a person would read it; None: a mark between two steps."""
    if part.get("type") == "text":
        return Message(str(message.get("role") or ""), str(part.get("text") or ""), when, "")
    if part.get("type") == "tool":
        state = part.get("state")
        output = state.get("output") if isinstance(state, dict) else ""
        return Message("tool", str(output or ""), when, str(part.get("tool") or ""))
    return None


def _fields(text: object) -> dict[str, Any]:
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class OpencodeReturn(Returner):
    """One session into the live database, inside a transaction."""

    def run(self, session: str, new_id: str) -> Returned:
        if new_id and new_id != session:
            raise SessionNotRestored(
                "A conversation of opencode cannot come back under another id: its messages keep theirs",
                kept=KEPT,
                next_steps=(NextStep("sessions show", ("SESSION", "--from", "ID"), before="Read it:"),),
                session=session,
            )
        returned = Returned(session)
        if self._there(session):
            return self._compare(session, returned)
        chain = self._chain(session, returned)
        for one in reversed(chain):
            count, title = self._bring(one)
            if one == session:
                returned.messages, returned.title = count, title
            else:
                returned.parents.insert(0, one)
        parts = self._one("SELECT count(*) FROM old.session WHERE parent_id = ?", session)[0]
        if parts:
            returned.notes.append(f"{parts:,} conversations of its subagents are in the snapshot, too")
        return returned

    def _compare(self, session: str, returned: Returned) -> Returned:
        """It is there: all of it, or another state of it."""
        old, new = (
            [row[0] for row in self._all(f"SELECT id FROM {schema}.message WHERE session_id = ?", session)]
            for schema in ("old", "main")
        )
        if set(old) <= set(new) and self._one("SELECT count(*) FROM main.session WHERE id = ?", session)[0]:
            returned.already = True
            if len(new) > len(old):
                more = len(new) - len(old)
                returned.notes.append(f"the live one has all of it, and {more:,} messages more")
            return returned
        raise SessionDiffers(
            f"`{self.live}` has session `{session}` without {len(set(old) - set(new)):,} of the messages "
            "that the snapshot has",
            kept=KEPT,
            next_steps=(
                LOOK_AT_OLDER,
                f"To have it as it was: delete it first (`{self.shape.delete}`), then do this again",
            ),
            session=session,
            live_messages=len(new),
            stored_messages=len(old),
        )

    def _bring(self, session: str) -> tuple[int, str]:
        """One session with everything that belongs to it; how many messages, and its title."""
        names = self._required("session")
        values = dict(zip(names, self._one(self._select("session", names, "id"), session), strict=True))
        for column, table in (("parent_id", "session"), ("workspace_id", "workspace")):
            named = values.get(column)
            if named is not None and not self._known(table, named):
                values[column] = None
        self._bring_named(values)
        self._insert("session", values)
        count = self._copy("message", "session_id", session)
        dependents = self._dependents()
        if ("event", "aggregate_id") in dependents and self._has_events(session):
            dependents = [one for one in dependents if one[1] != "aggregate_id"]
        for table, column in dependents:
            self._copy(table, column, session)
        return count, str(values.get("title") or "")

    def _has_events(self, session: str) -> bool:
        """The live database kept its own account of the session: that one goes on."""
        return bool(self._one("SELECT count(*) FROM main.event WHERE aggregate_id = ?", session)[0])

    def _known(self, table: str, key: object) -> bool:
        if not columns_of(self.connection, "main", table):
            return False
        return bool(self._one(f"SELECT count(*) FROM main.{table} WHERE id = ?", key)[0])

    def _copy(self, table: str, column: str, session: str) -> int:
        """Every row of the session; one whose id is taken stops everything, and nothing is overwritten."""
        for schema in ("main", "old"):
            self.columns[schema].setdefault(table, columns_of(self.connection, schema, quoted(table)))
        listed = ", ".join(map(quoted, self._required(table)))
        cursor = self.connection.execute(
            f"INSERT INTO main.{quoted(table)} ({listed}) SELECT {listed} FROM old.{quoted(table)}"
            f" WHERE {quoted(column)} = ? ORDER BY rowid",
            (session,),
        )
        return cursor.rowcount
