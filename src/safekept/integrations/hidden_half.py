"""The hidden half of an agent's points: what a call waits for, and what is left to a process of its own.

A call waits a moment, and only where everything is loaded already. What takes longer (the first time, a
large file, a database) is kept by a process in the background; until it is done, the record of the
project says what is not kept.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError

from .calls import Call, Outcome, problem

if TYPE_CHECKING:
    from safekept.checkpoints.scan import HiddenLook
    from safekept.checkpoints.take import Protection, TakeSettings

    from .places import Place

#: Seconds that a call waits for the hidden half, over what it waits for the visible half.
WAIT = 0.15
#: Seconds that a mark, made in the background, gives it before it is left to a process of its own.
MARK_WAIT = 5.0
#: Such a process is not started again within so many seconds, nor while one is at work.
_PAUSE = 3.0
_STAMP = "hidden-started"
_LATE = "what is hidden there was not kept in time: a process of its own keeps it now"


def bounded(settings: TakeSettings, wait: float = WAIT) -> TakeSettings:
    """The same for a call in the foreground."""
    if settings.hidden is None:
        return settings
    return replace(settings, hidden=replace(settings.hidden, wait=wait))


def keep_hidden_half(call: Call, place: Place, protection: Protection, wait: float = WAIT) -> tuple[str, ...]:
    """Keep what the points of a call found hidden, or see that it is kept; what was not, in words.

    Nothing is raised.
    """
    if place.policy.take.hidden is None:
        return ()
    from safekept.actions.projects.hidden.record import save_rows
    from safekept.actions.projects.hidden.trouble import forget_trouble
    from safekept.checkpoints.scan import KeptHidden

    not_kept: list[str] = []
    for taken in protection.taken:
        point = taken.checkpoint or taken.latest
        if point is None or not point.full:
            continue
        records = _records(place, point.project)
        look = taken.hidden
        if look is not None:
            not_kept += [f"{os.path.join(point.project, one.path)}: {one.why}" for one in look.exposed]
        with contextlib.suppress(OSError):
            if look is not None:
                kept = KeptHidden(records).looks.get(look.id)
                known = kept is not None
                at_once = place.later is not None or look.empty
                if kept is not None and not kept.missing:
                    forget_trouble(records)
                if known or (at_once and _kept(call, place, point.project, look, wait)):
                    _strike_out(protection, point.project, look)
                    continue
                if not at_once:
                    save_rows(place.context, point.project, look)
            not_kept.append(f"{point.project}: {_LATE}")
            keep_apart(call, place, point.project)
    return tuple(not_kept)


def _strike_out(protection: Protection, project: str, look: HiddenLook) -> None:
    """What was named and is in the hidden half is kept after all."""
    protection.skipped = [
        one
        for one in protection.skipped
        if one.reason not in ("secret", "oversize")
        or not look.folders.has(os.fsencode(os.path.relpath(os.path.join(project, one.path), project)))
    ]


def _kept(call: Call, place: Place, project: str, look: HiddenLook, wait: float) -> bool:
    """Whether it is kept within the time that is left; the trouble of it is written down."""
    from safekept.actions.projects.hidden.record import keep_look

    deadline = max(look.began + wait, time.monotonic() + wait / 3)
    found = keep_look(place.acting(call.host), project, look, deadline=deadline, create=False)
    return not isinstance(found, SafekeptError)


def keep_apart(call: Call, place: Place, project: str) -> None:
    """Have it kept by a process of its own, if none was started a moment ago."""
    from safekept.core.locks import lock_is_held

    from .in_process import run_apart

    records = _records(place, project)
    stamp = os.path.join(records, _STAMP)
    with contextlib.suppress(OSError):
        try:
            if 0 <= time.time() - os.stat(stamp).st_mtime < _PAUSE:
                return
            if lock_is_held(os.path.join(records, "hidden.lock")):
                return
        except FileNotFoundError:
            pass
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        os.utime(stamp, follow_symlinks=False)
        run_apart(Call("hidden", call.host, directory=project), place.environment)


def begin_hidden_half(call: Call, place: Place) -> None:
    """A turn or a session begins: what is hidden is looked at before any tool has to wait for it, and what
    was changed since the last turn is kept. The first time by a process of its own."""
    if place.policy.take.hidden is None or not os.path.isabs(call.directory) or call.out_of_reach:
        return
    from safekept.checkpoints.project import find_root, holds_too_much
    from safekept.core.files import private_directory
    from safekept.core.owner import foreign_owner

    with contextlib.suppress(OSError, SafekeptError):
        root = find_root(call.directory, forbidden=place.forbidden)
        if root is None or not root.walked or holds_too_much(root.path, place.forbidden):
            return
        if foreign_owner(root.path) is not None:
            return
        records, project = _records(place, root.path), root.path
        first = not os.path.exists(os.path.join(records, "hidden.jsonl"))
        private_directory(records)
        if first or place.later is None:
            keep_apart(call, place, project)
        else:
            place.later(("hidden", project), lambda: _look_and_keep(call, place, project))


def _look_and_keep(call: Call, place: Place, project: str) -> None:
    """In the background; what takes long is left to a process of its own."""
    from safekept.actions.projects.project import checkpoint_directory
    from safekept.checkpoints.store import Store
    from safekept.checkpoints.take import look_now

    with contextlib.suppress(OSError, SafekeptError):
        with Store.open(checkpoint_directory(place.context)) as store:
            look = look_now(store, project, bounded(place.policy.take, MARK_WAIT)).hidden
        if look is None or not _kept(call, place, project, look, MARK_WAIT):
            keep_apart(call, place, project)


def keep_now(call: Call, place: Place) -> Outcome:
    """In a process of its own: look, keep, and drop what no checkpoint needs any more."""
    from safekept.actions.projects.hidden.background import keep_project

    try:
        keep_project(place.acting(call.host), call.directory, place.policy)
    except (SafekeptError, OSError, ValueError) as error:
        return Outcome(failures=(problem(error, call.directory),))
    return Outcome()


def _records(place: Place, project: str) -> str:
    from safekept.actions.projects.hidden.record import project_records

    return project_records(place.context, project)
