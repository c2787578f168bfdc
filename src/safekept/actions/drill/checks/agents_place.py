"""Where an agent works during a drill: within the drill's own place, or where its owner can reach it.

Root's places are closed to others. Where the agent runs as somebody else, what it gets is put into a
directory of its own, filled while it is still root's, and then given away: from then on only a child that
is that user touches what is in it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator

from safekept.core.owner import Owner
from safekept.home.as_owner import Worker
from safekept.home.landing import discard

#: Where everybody may have files that outlive nothing; tried in this order.
_OPEN = ("/var/tmp", "/tmp")  # noqa: S108
_PREFIX = "safekept-drill-"


class AgentsPlace:
    """A directory that is filled, then handed over."""

    def __init__(self, path: str, owner: Owner | None) -> None:
        self.path, self.owner = path, owner
        os.mkdir(path, 0o700)

    def hand_over(self) -> None:
        """Give everything in it to whoever runs the agent; the directory itself last."""
        if self.owner is None:
            return
        for parent, directories, files in os.walk(self.path, topdown=False):
            for name in (*directories, *files):
                os.lchown(os.path.join(parent, name), self.owner.uid, self.owner.gid)
        os.lchown(self.path, self.owner.uid, self.owner.gid)


@contextlib.contextmanager
def agents_place(owner: Owner | None, scratch: str, number: int) -> Iterator[AgentsPlace]:
    """A place for one run of the agent; gone afterwards."""
    if owner is None:
        yield AgentsPlace(os.path.join(scratch, f"agent-{number}"), None)  # it goes with the drill's place
        return
    base = next((place for place in _OPEN if os.access(place, os.W_OK | os.X_OK)), _OPEN[-1])
    outer = os.path.join(base, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
    os.mkdir(outer, 0o711)
    os.chmod(outer, 0o711)  # noqa: S103 - whatever the umask: its owner must be able to walk through
    inner = os.path.join(outer, f"agent-{number}")
    try:
        yield AgentsPlace(inner, owner)
    finally:
        with contextlib.suppress(OSError):
            if os.lstat(inner).st_uid == 0:  # it was never given away
                discard(inner)
            else:
                Worker(owner).do("empty", inner)
                os.rmdir(inner)
        with contextlib.suppress(OSError):
            os.rmdir(outer)
