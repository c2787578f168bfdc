"""Why an SFTP server says no.

SFTP version 3 has one word, "Failure", for a full disk, a read-only filesystem, a quota and much else. Where
the server can describe its filesystem (`statvfs@openssh.com`), the word gets its meaning back.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import SafekeptError
from ...files import NoRoom
from ..errors import WHOLE, refused
from .channel import Channel, Refusal
from .wire import Status, text

_READ_ONLY = 1  # in the flags of statvfs@openssh.com
_LITTLE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Filesystem:
    free: int
    total: int
    read_only: bool


def filesystem(channel: Channel, path: str) -> Filesystem | None:
    """What the server says about the filesystem of a path; None where it cannot."""
    if "statvfs@openssh.com" not in channel.extensions:
        return None
    try:
        facts = channel.answer(channel.extended("statvfs@openssh.com", text(path)))
    except Refusal:
        return None
    values = [facts.long_number() for _ in range(11)]
    unit = values[1] or values[0]
    return Filesystem(values[4] * unit, values[2] * unit, bool(values[9] & _READ_ONLY))


def explain_refusal(
    place: str, facts: Filesystem | None, verb: str, refusal: Refusal, size: int
) -> SafekeptError:
    """The error that fits. `size`: how many bytes were to be written."""
    if refusal.status == Status.PERMISSION_DENIED:
        return refused(place, verb, refusal.words or "permission denied", "See whom that place belongs to")
    if refusal.status == Status.FAILURE and facts is not None and facts.read_only:
        return refused(place, verb, "its filesystem is read-only", "Mount it writable on that server")
    full = facts is not None and facts.free <= max(size, _LITTLE)
    if refusal.status == Status.FAILURE and verb == "write there" and facts is not None and full:
        return NoRoom(
            f"There is no room left at `{place}`: {facts.free} bytes are free",
            kept=WHOLE,
            next_steps=("Make room on that server and run the command again",),
            place=place,
        )
    said = refusal.words or f"status {refusal.status}"
    return refused(
        place,
        verb,
        f"the server says only `{said}`",
        "See that there is room (a quota counts too) and that the directory is writable on that server",
    )
