"""A connection outlives a restore: safekept's own entries are not rolled back with the settings around them.

A restore of a state of before `connect` should bring the settings of then, not an agent that is not watched.
Which connections stand is looked at before; what the landing took of them is put back, and reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from safekept.actions.base.context import UserContext
from safekept.core.errors import SafekeptError


def holding(context: UserContext, home: str) -> Callable[[], tuple[str, ...]]:
    """Look which agents are connected in a home; the answer puts that right again and says what it did."""
    from safekept.actions.hosts.connections import Connection, connections

    from .hosts import HOSTS
    from .overview import place_status

    place = os.path.realpath(home)
    standing: list[Connection] = []
    for one in connections(context):
        host = HOSTS.get(one.host)
        inside = any(os.path.realpath(file.path).startswith(f"{place}/") for file in one.files)
        if host is not None and inside:
            status = place_status(context, host, one.scope, one.place)
            if status is not None and not status.trouble:
                standing.append(one)

    def again() -> tuple[str, ...]:
        return tuple(note for one in standing if (note := _put_back(context, one)))

    return again


def _put_back(context: UserContext, connection: object) -> str:
    from safekept.actions.hosts.connections import Connection

    from .carrying_out import carry_out
    from .hosts import HOSTS
    from .plan import plan_connect
    from .program import Program

    assert isinstance(connection, Connection)
    if _is_bare(os.path.dirname(connection.place)):
        return ""  # the agent went from there with all it had: settings of ours alone would be its ghost
    host = HOSTS[connection.host]
    try:
        plan = plan_connect(context, host, Program(connection.command[:-2]), connection.scope)
        if not plan.changes:
            return ""
        carry_out(context, plan)
    except (SafekeptError, OSError) as error:
        why = error.clause if isinstance(error, SafekeptError) else error.strerror or str(error)
        return f"{host.title} is not connected any more, and could not be: {why}"
    return f"{host.title} stays connected: safekept's own entries were kept in {connection.place}"


def _is_bare(directory: str) -> bool:
    """Whether there is nothing in it but empty directories; or it is not there."""
    return not any(names for _, _, names in os.walk(directory))
