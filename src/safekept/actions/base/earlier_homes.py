"""Where a home was before it was rebuilt: remembered here, so that each snapshot of it can say so.

The snapshots are what carries it on: a machine that is rebuilt from one of them learns it from there.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.files.small import read_document, write_document
from safekept.vault.format import Snapshot
from safekept.vault.tags import EarlierHome, earlier_homes

from .context import UserContext

_FILE = "earlier-homes.json"


def remember_earlier(context: UserContext, home: str, origin: Snapshot) -> None:
    """A home was rebuilt from this snapshot. Where that cannot be written down, the home is in place all
    the same, and what was kept of it before is that of another home."""
    last = EarlierHome(origin.hostname, origin.paths[0] if origin.paths else "", origin.time_ns)
    host = os.uname().nodename
    lives = [
        one for one in (*earlier_homes(origin), last) if one.home and (one.host, one.home) != (host, home)
    ]
    known = _read(context)
    if lives or home in known:
        document = {"version": 1, "homes": {**known, home: [one.tag for one in lives]}}
        with contextlib.suppress(OSError):
            write_document(_path(context), document)


def earlier_tags(context: UserContext, home: str) -> list[str]:
    """What a snapshot of this home says of it."""
    return _read(context).get(home, [])


def _read(context: UserContext) -> dict[str, list[str]]:
    return read_document(
        _path(context),
        lambda document: {str(home): [str(one) for one in tags] for home, tags in document["homes"].items()},
        {},
    )


def _path(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, _FILE)
