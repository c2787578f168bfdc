"""In which order points and marks come: no mark between a point and the change that it was taken for.

A mark says what an agent left behind, and what differs from it later counts as the user's own. It is made
while nothing waits, so the agent's next call may come first. Then the point before that call holds what the
mark would have held, and the mark is not made: made now, it would make the coming change the user's.
Nor is one made while another command of the same session still runs (calls side by side, a subagent): the
last of them to end, or the end of the turn, makes it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import field

from safekept.core.records import dataclass

_MOST = 1_000


@dataclass(slots=True)
class _Order:
    changes: int = 0
    turn: str = ""
    running: dict[str, int] = field(default_factory=dict)  # tool -> how many began and were not told to end
    ending: set[str] = field(default_factory=set)  # tools whose end this host tells
    marking: threading.Lock = field(default_factory=threading.Lock)


_lock = threading.Lock()
_orders: dict[tuple[str, str], _Order] = {}


def _order(data_directory: str, session: str) -> _Order:
    with _lock:
        while len(_orders) > _MOST:
            _orders.pop(next(iter(_orders)))
        return _orders.setdefault((data_directory, session), _Order())


def change_comes(data_directory: str, session: str, turn: str = "", command: str = "") -> None:
    """An agent is about to change something: marks that wait are void; one that is being made is awaited,
    as it has the project to itself anyway. `command`: the tool, where its end may be told."""
    order = _order(data_directory, session)
    with _lock:
        order.changes += 1
        if turn != order.turn:
            order.turn = turn
            order.running.clear()
        if command and session:
            order.running[command] = order.running.get(command, 0) + 1
    with order.marking:
        return


def command_ended(data_directory: str, session: str, command: str) -> bool:
    """Whether nothing runs any more. A call that was refused ends without a word, and some tools always
    do: the first holds up marks until the turn ends, the others never."""
    order = _order(data_directory, session)
    with _lock:
        if command:
            order.ending.add(command)
            order.running[command] = max(0, order.running.get(command, 0) - 1)
        return not any(order.running.get(one) for one in order.ending)


def nothing_runs(data_directory: str, session: str) -> bool:
    """Whether no command was begun whose end was not told, one in the background among them."""
    order = _order(data_directory, session)
    with _lock:
        return not any(order.running.values())


def all_ended(data_directory: str, session: str) -> None:
    """A turn ended or begins: nothing of the one before runs any more."""
    order = _order(data_directory, session)
    with _lock:
        order.running.clear()


def changes_so_far(data_directory: str, session: str) -> int:
    return _order(data_directory, session).changes


@contextlib.contextmanager
def marking(data_directory: str, session: str, changes: int) -> Iterator[bool]:
    """While a mark is made. Whether it is still to be: not where a change came since `changes`."""
    order = _order(data_directory, session)
    with order.marking:
        yield order.changes == changes
