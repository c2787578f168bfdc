"""Do the agents on this machine call safekept? What a connection that broke costs, the verdict has said."""

from __future__ import annotations

from collections.abc import Iterator

from ..status.host_status import PARTLY, SWITCHED_OFF, UNREADABLE
from .finding import ADVICE, Case, Finding


def look_at_connections(case: Case) -> Iterator[Finding]:
    for host in case.status.hosts:
        if not host.places:
            yield Finding(
                "host-not-connected",
                ADVICE,
                f"{host.title} is on this machine and does not call safekept before it changes files",
                (host.found,),
                (f"`safekept connect {host.host}`",),
            )
        for kind, text, step in host.troubles:
            if kind in (PARTLY, SWITCHED_OFF, UNREADABLE):
                yield Finding(f"connection-{kind}", ADVICE, text, (), (step,))
