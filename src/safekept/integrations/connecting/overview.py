"""All hosts at a glance: on this machine or not, connected or not, and whether the entries would work."""

from __future__ import annotations

import contextlib
import os
import time

from safekept.actions.base.context import UserContext
from safekept.actions.hosts.connections import Connection, connections
from safekept.actions.status.host_status import (
    ELSEWHERE,
    GONE,
    HALF,
    NO_PROGRAM,
    PARTLY,
    SWITCHED_OFF,
    UNREADABLE,
    WORKS_DAYS,
    ConnectionStatus,
    HostStatus,
    UnconnectedProfile,
    with_calls,
)
from safekept.core.spelling import shown

from .host import HostFile, HostSettings
from .hosts import HOSTS
from .program import Program, runs
from .settings_file import Unfit, read_settings


def host_statuses(context: UserContext) -> tuple[HostStatus, ...]:
    """How it stands with every host. Only looks; whatever cannot be looked at is part of the answer."""
    known = connections(context)
    return with_calls(context, (_status(context, host, known) for host in HOSTS.values()))


def _status(context: UserContext, host: HostSettings, known: tuple[Connection, ...]) -> HostStatus:
    own = [one for one in known if one.host == host.name]
    recorded = {one.scope: one.place for one in own}
    places = []
    for scope in dict.fromkeys([host.scope(context), *recorded]):
        found = place_status(context, host, scope, recorded.get(scope, ""))
        if found is not None:
            places.append(found)
    connected = any(one.trouble not in (GONE, ELSEWHERE) for one in places)
    return HostStatus(
        host.name,
        host.title,
        host.found(context),
        host.program(context),
        tuple(places),
        waiting=host.waiting,
        used=_used(host.found(context)),
        connected_at=max((one.time for one in own), default=0.0),
        unconnected=_unconnected(context, host, places),
        everywhere=any(one.scope == host.scope(context) for one in places),
        unguarded=host.unguarded(context) if connected else "",
    )


def _used(directory: str) -> float:
    """When anything at the top of a directory last changed."""
    if not directory:
        return 0.0
    with contextlib.suppress(OSError), os.scandir(directory) as listing:
        times = [os.stat(directory).st_mtime]
        for item in listing:
            with contextlib.suppress(OSError):
                times.append(item.stat(follow_symlinks=False).st_mtime)
        return max(times)
    return 0.0


def _unconnected(
    context: UserContext, host: HostSettings, places: list[ConnectionStatus]
) -> tuple[UnconnectedProfile, ...]:
    """Profiles beside the one that is connected, each with settings of its own."""
    known = {one.scope for one in places}
    recent = time.time() - WORKS_DAYS * 86400.0
    return tuple(
        UnconnectedProfile(shown(os.path.basename(scope)), host.option(context, scope))
        for scope in host.profiles(context)
        if scope not in known and _used(scope) > recent and place_status(context, host, scope, "") is None
    )


def place_status(
    context: UserContext, host: HostSettings, scope: str, recorded: str
) -> ConnectionStatus | None:
    """The entries of one place; None where there are none and none are expected."""
    if scope and not os.path.isdir(scope):
        return None  # a project that is gone misses nothing
    files = host.files(context, scope)
    place, expected = files[-1].path, files[-1].path == recorded

    def status(trouble: str, detail: str = "") -> ConnectionStatus:
        return ConnectionStatus(place, scope, trouble, detail, host.option(context, scope))

    def worth_parsing(one: HostFile, content: bytes) -> bool:
        """Settings that were not connected and lack our name need no look at their meaning."""
        return expected or one is not files[-1] or b"safekept" in content

    commands: list[tuple[str, ...]] = []
    lacking = ""  # what of it is not as connecting leaves it
    for one in files:
        try:
            content = read_settings(one.path).content
            found = one.commands(content) if content is not None and worth_parsing(one, content) else []
            lacking = _lacking(one, content, found, calls=one is files[-1]) or lacking
        except Unfit as unfit:
            return status(UNREADABLE, str(unfit)) if expected else None
        commands += found
    if not commands:
        return status(GONE) if expected else None
    off = host.switched_off(context, scope)
    if off:
        return status(SWITCHED_OFF, off)
    if user := host.elsewhere(context, scope):
        return status(ELSEWHERE, shown(user))
    missing = next((words[0] for words in commands if "hook" in words and not runs(words)), "")
    if missing:
        return status(NO_PROGRAM, shown(missing))
    return status(PARTLY, lacking) if lacking else status("")


def _lacking(one: HostFile, content: bytes | None, found: list[tuple[str, ...]], *, calls: bool) -> str:
    """What of this file is not as connecting leaves it; `calls`: it is the one that has the host load us."""
    above, name = os.path.split(shown(one.path))
    if content is not None and found:
        return "" if _current(one, content, found) else f"connected by old entries in its {name}"
    if calls:
        return f"{HALF}: no entry in its {name}"
    return f"{HALF}: {os.path.basename(above)}/{name} is missing"


def _current(one: HostFile, content: bytes, found: list[tuple[str, ...]]) -> bool:
    """Whether connecting with the command that stands there would change nothing."""
    words = next((words for words in found if words), ())
    return one.current(content, Program(words[:-2]))
