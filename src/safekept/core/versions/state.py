"""The version of the state directory: journal, receipts, connections, all that safekept remembers of a user.

A newer safekept reads what an older one wrote. The reverse cannot be promised, so the directory says which
version it is of, and an older safekept refuses it whole, before anything in it is read or changed. The number
grows only when an older safekept would misread what a newer one wrote. No number means the first version.
"""

from __future__ import annotations

import contextlib
import json
import os

from ..errors import BAD_SHAPE, SafekeptError
from ..files import quick_write
from ..files.small import read_regular

VERSION = 1
STATE_FILE = "state.json"
_LONGEST = 4096


class StateIsNewer(SafekeptError):
    code = "state-newer"


def refuse_newer_state(directory: str) -> None:
    """Raise where a newer safekept wrote this state directory in a way that is not understood here."""
    version, tool = _read(directory)
    if version <= VERSION:
        return
    raise StateIsNewer(
        f"`{directory}` was written by {tool}, which is newer than this safekept: its state has version "
        f"{version}, and this safekept knows {VERSION}",
        kept="Nothing changed there",
        next_steps=(f"Install {tool} or a newer one, then run the same command again",),
        directory=directory,
        version=version,
        known=VERSION,
    )


def mark_state(directory: str) -> None:
    """Say in the directory which version it has from now on. One that is newer is left as it is.

    Where that cannot be written it stays as it was, and the next command tries again: no number means the
    first version, which is the only one so far. A second version must not be written before its number is.
    """
    if _read(directory)[0] >= VERSION:
        return
    from .program import version_text

    document = {"version": VERSION, "tool": f"safekept {version_text()}"}
    with contextlib.suppress(OSError):
        quick_write(os.path.join(directory, STATE_FILE), json.dumps(document).encode() + b"\n")


def _read(directory: str) -> tuple[int, str]:
    try:
        document = json.loads(read_regular(os.path.join(directory, STATE_FILE), _LONGEST))
        version, tool = document["version"], document.get("tool")
    except (OSError, *BAD_SHAPE):
        return 0, ""  # nothing says it: the first version
    return (version if type(version) is int else 0), tool if isinstance(tool, str) else "a newer safekept"
