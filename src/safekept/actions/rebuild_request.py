"""What a person asks of a rebuild."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """From where, to where, and which of several."""

    place: str  # a destination by its name or URL, a vault by its path or URL, or the path of an archive
    home: str = ""  # where it is to go; empty: the agent's own place
    layout: str = ""
    snapshot: str = ""  # an id or the start of one; empty: the newest of the whole home
    host: str = ""  # whose, where several hosts are there
    of: str = ""  # which home of that host, by the path that it had
    archive: str = ""  # a name or `latest`: an archive of the destination, and not its vault
    allow_damaged: bool = False  # put it in place although a check failed
    deadline: float = 30.0
