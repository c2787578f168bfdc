"""What is remembered of an agent's session: its switch, the turn it is in, where it began and last worked.

`/safekept off` holds for one session. A host that gives its turns no names gets them from us, so that the
first change after each word of the user is preceded by a look at the whole project. Where it worked is for
a chat whose front end was started again and does not know it any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace

from safekept.core.files.small import read_fields, write_document
from safekept.core.records import dataclass
from safekept.core.spelling import FLAGS

from .calls import integrations_directory

#: The variable that switches checkpoints off or on for everything that is started with it.
SWITCH = "SAFEKEPT_CHECKPOINTS"
#: Sessions are forgotten after so many seconds, and beyond so many.
_FORGOTTEN = 30 * 86400.0
_SESSIONS = 200
_LATELY = 86400.0
#: Held from reading a session to writing it: a turn must not be lost to a directory, nor the other way.
_changing = threading.Lock()


@dataclass(frozen=True, slots=True)
class HostSession:
    """One session of an agent."""

    session: str
    turn: str = ""
    on: bool | None = None  # None: nothing was said in this session
    directory: str = ""  # in the project that it last worked in
    began: str = ""  # the directory that its host was started in


@dataclass(frozen=True, slots=True)
class Switch:
    """Whether checkpoints are taken, and who said so."""

    on: bool = True
    by: str = ""  # "session", "variable", or "" where neither said anything
    strange: str = ""  # what the variable says, where that is neither on nor off


def read_session(data_directory: str, session: str) -> HostSession:
    """What is remembered of a session; nothing where it is new."""
    document = read_fields(_path(data_directory, session))
    if document.get("session") != session:
        return HostSession(session)
    turn, on = document.get("turn"), document.get("on")
    places = [document.get(name) for name in ("directory", "began")]
    return HostSession(
        session,
        turn if isinstance(turn, str) else "",
        on if isinstance(on, bool) else None,
        *(one if isinstance(one, str) and os.path.isabs(one) else "" for one in places),
    )


def switch(data_directory: str, environment: Mapping[str, str], session: str) -> Switch:
    """What holds for a session: what was said in it, else the variable, else on."""
    before = read_session(data_directory, session).on
    if before is not None:
        return Switch(before, "session")
    raw = environment.get(SWITCH, "").strip()
    if not raw:
        return Switch()
    flag = FLAGS.get(raw.lower())
    return Switch(strange=raw) if flag is None else Switch(flag, "variable")


def set_switch(data_directory: str, session: str, on: bool) -> None:
    """Switch a session on or off; an OSError where that cannot be remembered."""
    with _changing:
        _write(data_directory, replace(read_session(data_directory, session), on=on))


def begin_turn(data_directory: str, session: str, turn: str = "") -> str:
    """The user said something: the name of the turn that begins. Nothing is raised."""
    turn = turn or f"{time.time_ns():x}"
    with contextlib.suppress(OSError), _changing:
        _write(data_directory, replace(read_session(data_directory, session), turn=turn))
    return turn


def worked_in(data_directory: str, session: str, directory: str) -> None:
    """Remember where a session changes something. Nothing is raised."""
    with contextlib.suppress(OSError), _changing:
        known = read_session(data_directory, session)
        if known.directory != directory:
            _write(data_directory, replace(known, directory=directory))


def began_in(data_directory: str, session: str, directory: str, anew: bool = False) -> str:
    """Where a session began: as remembered, else here, which is remembered. `anew`: it begins now. A command
    line that goes into a subdirectory does not make another project of it. Nothing is raised."""
    with contextlib.suppress(OSError), _changing:
        known = read_session(data_directory, session)
        if known.began and not anew:
            return known.began
        if known.began != directory:
            _write(data_directory, replace(known, began=directory))
    return directory


def sessions_in(data_directory: str, place: str) -> tuple[str, ...]:
    """The sessions that last worked in a directory, or below it."""
    found = []
    with contextlib.suppress(OSError), os.scandir(_place(data_directory)) as listing:
        for document in (read_fields(item.path) for item in listing):
            directory = document.get("directory")
            if isinstance(directory, str) and f"{os.path.realpath(directory)}/".startswith(f"{place}/"):
                found.append(str(document.get("session", "")))
    return tuple(found)


def sessions_off(data_directory: str) -> tuple[str, ...]:
    """The sessions in which safekept was switched off, and that were heard of in the last day."""
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(_place(data_directory)) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                if item.name.endswith(".json") and item.stat().st_mtime > time.time() - _LATELY:
                    names.append(item.path)
    documents = [read_fields(path) for path in sorted(names)]
    return tuple(str(one.get("session", "")) for one in documents if one.get("on") is False)


def switched_off(data_directory: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences on where checkpoints are switched off, for the status."""
    found = []
    switched = switch(data_directory, environment, "")
    if switched.by == "variable" and not switched.on:
        found.append(f"{SWITCH}=0 switches checkpoints off for whatever is started from here")
    elif switched.strange:
        found.append(f"{SWITCH} is `{switched.strange[:20]}`, neither 0 nor 1: checkpoints are taken")
    if count := len(sessions_off(data_directory)):
        sessions = "one session" if count == 1 else f"{count:,} sessions"
        found.append(f"checkpoints are switched off in {sessions} (`/safekept on` there switches them on)")
    return tuple(found)


def _place(data_directory: str) -> str:
    return os.path.join(integrations_directory(data_directory), "sessions")


def _path(data_directory: str, session: str) -> str:
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return os.path.join(_place(data_directory), f"{name}.json")


def _write(data_directory: str, session: HostSession) -> None:
    path = _path(data_directory, session.session)
    new = not os.path.exists(path)
    write_document(path, asdict(session), durable=False)
    if new:
        _forget(_place(data_directory))


def _forget(place: str) -> None:
    """Sessions that ended long ago must not pile up."""
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError), os.scandir(place) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                found.append((item.stat(follow_symlinks=False).st_mtime, item.path))
    found.sort(reverse=True)
    for number, (when, path) in enumerate(found):
        if number >= _SESSIONS or when < time.time() - _FORGOTTEN:
            with contextlib.suppress(OSError):
                os.unlink(path)
