"""Who works for whom, and where: the conversation of a subagent, the directory of a conversation."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TypeVar

Value = TypeVar("Value")
_MOST = 1_000


@dataclass(frozen=True)
class Worker:
    """On whose behalf a tool is called."""

    session: str
    turn: str
    agent: str = ""  # empty: the agent that the user talks to


class Sessions:
    """What this process of Hermes knows of its conversations; many threads may ask."""

    def __init__(self) -> None:
        self._children: OrderedDict[str, Worker] = OrderedDict()
        self._tasks: OrderedDict[str, Worker] = OrderedDict()
        self._places: OrderedDict[str, str] = OrderedDict()
        self._begun: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def subagent_began(self, parent: str, turn: str, child: str, name: str) -> None:
        with self._lock:
            above = self._children.get(parent, Worker(parent, turn))
            label = f"{above.agent}/{name}" if above.agent else name
            _put(self._children, child, replace(above, agent=label[:80]))

    def subagent_ended(self, child: str) -> None:
        with self._lock:
            self._children.pop(child, None)

    def worker(self, session: str, turn: str, task: str = "") -> Worker:
        """Whose work this is: a subagent's counts for the turn of the user that started it.

        A tool that is called by code names its task only: then it is the session that last worked for it.
        """
        with self._lock:
            if not session:
                return self._tasks.get(task) or Worker(session, turn)
            found = self._children.get(session) or Worker(session, turn)
            if task:
                _put(self._tasks, task, found)
            return found

    def begins(self, session: str) -> bool:
        """Whether this conversation is heard of for the first time."""
        with self._lock:
            new = session not in self._begun
            _put(self._begun, session, None)
            return new

    def ended(self, session: str) -> None:
        with self._lock:
            self._begun.pop(session, None)

    def works_in(self, session: str, directory: str, unless_known: bool = False) -> None:
        with self._lock:
            if unless_known and session in self._places:
                return
            self._places.pop(session, None)
            _put(self._places, session, directory)

    def place_of(self, session: str) -> str:
        """Where a conversation last changed something; empty if it did not."""
        with self._lock:
            return self._places.get(session, "")

    def latest(self) -> tuple[str, str]:
        """The conversation that last changed something, and where."""
        with self._lock:
            if not self._places:
                return next(reversed(self._begun), ""), ""
            session = next(reversed(self._places))
            return session, self._places[session]


def _put(table: OrderedDict[str, Value], key: str, value: Value) -> None:
    table[key] = value
    if len(table) > _MOST:
        table.popitem(last=False)
