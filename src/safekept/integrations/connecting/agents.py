"""Every agent on this machine and every profile of one, each with the way to connect and to disconnect it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import partial

from safekept.actions.alarms.declined import take_back
from safekept.actions.base.context import UserContext
from safekept.actions.base.own_places import known_homes, within
from safekept.actions.hosts.connections import connections
from safekept.actions.setup.survey import AgentPlace, remembering
from safekept.actions.status.host_status import SWITCHED_OFF, profile_name
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent

from .carrying_out import carry_out
from .host import HostSettings
from .hosts import HOSTS
from .overview import place_status
from .plan import plan_connect, plan_disconnect
from .program import Program


def agents_here(
    context: UserContext, program: Program, listener: Listener = silent
) -> tuple[AgentPlace, ...]:
    """Those that are used here; a program that was never started has no settings to write into."""
    recorded = {(one.host, one.scope): one.place for one in connections(context)}
    found = []
    for host in HOSTS.values():
        if not host.found(context):
            continue
        usual = host.scope(context)
        for scope in (usual, *host.profiles(context)):
            status = place_status(context, host, scope, recorded.get((host.name, scope), ""))
            # Who switched it off in the agent's own settings meant it.
            connected = status is not None and status.trouble in ("", SWITCHED_OFF)
            entries = status is not None
            found.append(_agent(context, host, scope, connected, program, listener, entries=entries))
    return tuple(found)


def connected_here(
    context: UserContext, program: Program, listener: Listener = silent, homes: Sequence[str] = ()
) -> tuple[AgentPlace, ...]:
    """Every place with something of ours in it, those in projects and those that are broken too.

    `homes`: looked into as well, where the settings do not name them.
    """
    places = {(one.host, one.scope): one.connected for one in agents_here(context, program)}
    for one in connections(context):
        places[one.host, one.scope] = True
    wider = remembering(context, {"schedule.homes": [*known_homes(context), *homes]})
    for name, host in HOSTS.items():
        for scope in (host.scope(context), *host.profiles(wider)):
            if not places.get((name, scope)) and place_status(context, host, scope, "") is not None:
                places[name, scope] = True
    return tuple(
        _agent(context, HOSTS[name], scope, True, program, listener)
        for (name, scope), connected in places.items()
        if connected and name in HOSTS
    )


def connect_again(context: UserContext, program: Program, home: str) -> list[str]:
    """A home that came from another machine with entries of ours: they call the safekept of this one now.

    The names of its agents; those that could not be written stay as they are, and `status` says so.
    """
    done = []
    for one in connected_here(context, program, homes=(home,)):
        if within(os.path.realpath(one.scope), home):
            with contextlib.suppress(SafekeptError):
                one.connect()
                done.append(one.name)
    return done


def _agent(
    context: UserContext,
    host: HostSettings,
    scope: str,
    connected: bool,
    program: Program,
    listener: Listener,
    *,
    entries: bool = True,
) -> AgentPlace:
    return AgentPlace(
        host.name,
        host.title,
        profile_name(scope),
        scope,
        connected,
        entries,
        partial(_connect, context, host, scope, program, listener),
        partial(_disconnect, context, host, scope, listener),
        partial(_written, context, host, scope, program),
    )


def _written(context: UserContext, host: HostSettings, scope: str, program: Program) -> Mapping[str, int]:
    return plan_connect(context, host, program, scope).written


def _connect(
    context: UserContext, host: HostSettings, scope: str, program: Program, listener: Listener
) -> None:
    host.check(context, scope)
    carry_out(context, plan_connect(context, host, program, scope), listener)
    take_back(context, (f"not-connected:{host.name}", f"profile-not-connected:{host.name}"))


def _disconnect(context: UserContext, host: HostSettings, scope: str, listener: Listener) -> None:
    carry_out(context, plan_disconnect(context, host, scope), listener)
