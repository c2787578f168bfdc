"""Root's side: which part of a call is about another user's project, and the child that keeps it.

The point lies in that user's store, where `rollback` finds it for any caller. Root only remembers in whose
projects a turn was at work, so that its end is marked there, too.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

from safekept.core.files import private_directory, quick_write
from safekept.core.files.small import read_regular
from safekept.core.owner import Owner, child_of, foreign_owner, own_place

from ..take.taking import Protection, failure_of
from .wire import protection_in

_SERVER = "safekept.checkpoints.as_owner.server"
_NAME = "others.json"
#: Where a user's checkpoints are, from the home directory.
_STORE = (".local", "share", "safekept", "checkpoints")
#: Turns that are remembered; those that never ended must not pile up.
_TURNS = 50


def by_owner(paths: Sequence[str], directory: str) -> tuple[list[str], dict[Owner, list[str]]]:
    """What is ours to keep, and what is another user's, by owner. All of it is ours but for root."""
    if os.geteuid() != 0:
        return list(paths), {}
    own: list[str] = []
    others: dict[Owner, list[str]] = {}
    for path in paths:
        full = os.path.join(directory or os.sep, path)
        owner = foreign_owner(full) if "\0" not in path else None
        if owner is None:
            own.append(path)
        else:
            others.setdefault(owner, []).append(full)
    return own, others


class OtherUsersProjects:
    """The projects of others that an agent of root's works in. `directory` is root's store."""

    def __init__(self, directory: str, settings: dict[str, Any]) -> None:
        self._directory, self._settings = directory, settings

    def before(self, protection: Protection, owner: Owner, session: str, turn: str, **given: Any) -> None:
        self._remember(owner, [session, turn])
        self._ask(protection, owner, "before", {**given, "session": session, "turn": turn})

    def after(self, protection: Protection, session: str, turn: str, **given: Any) -> None:
        for owner in self._touched([session, turn], bool(given.get("over"))):
            self._ask(protection, owner, "after", {**given, "session": session, "turn": turn})

    def _ask(self, protection: Protection, owner: Owner, what: str, given: dict[str, Any]) -> None:
        """Have it done; its trouble stays its own."""
        try:
            home = own_place(owner)
            settings = {**self._settings, "directory": os.path.join(home, *_STORE)}
            answer, _ = child_of(owner, _SERVER, home).ask(what, settings, given)
            found = protection_in(answer)
        except Exception as error:
            protection.failures.append(failure_of("", error))
            return
        protection.taken += found.taken
        protection.skipped += found.skipped
        protection.failures += found.failures
        protection.notices += found.notices

    def _remember(self, owner: Owner, turn: list[str]) -> None:
        key = [*([owner.uid, owner.gid, *owner.groups], owner.name, owner.home), *turn]
        kept = [one for one in self._read() if one != key][-_TURNS:]
        with contextlib.suppress(OSError):
            private_directory(self._directory)
            quick_write(os.path.join(self._directory, _NAME), json.dumps([*kept, key]).encode())

    def _touched(self, turn: list[str], over: bool) -> list[Owner]:
        """Whose projects this turn was at work in; with `over` they are forgotten."""
        known = self._read()
        found = [one for one in known if one[3:] == turn and any(turn)]
        if found and over:
            with contextlib.suppress(OSError):
                left = [one for one in known if one not in found]
                quick_write(os.path.join(self._directory, _NAME), json.dumps(left).encode())
        return list(dict.fromkeys(_owner(*one[:3]) for one in found))

    def _read(self) -> list[Any]:
        """Of root's own making: no other user can write there."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            found = json.loads(read_regular(os.path.join(self._directory, _NAME)))
            return [one for one in found if isinstance(one, list) and len(one) == 5]
        return []


def _owner(numbers: list[int], name: str, home: str) -> Owner:
    uid, gid, *groups = numbers
    return Owner(uid, gid, tuple(groups), name, home)
