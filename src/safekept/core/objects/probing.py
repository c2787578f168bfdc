"""Finding out what a credential may do by doing it, with one small object."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from .base import Abilities, ObjectStore, Taken
from .errors import PlaceRefused

#: Names of probes start like this; one that could not be deleted stays.
PROBE = "safekept-probe-"


def probe_name() -> str:
    return PROBE + secrets.token_hex(6)


def probe_by_doing(
    place: ObjectStore, *, versioning: bool | None, again: Callable[[str], None] | None = None
) -> Abilities:
    """Write, replace and delete. `again` writes under a taken name without looking first, where that goes."""
    name = probe_name()
    place.write(name, b"safekept")
    once: bool | None = False
    if again is not None:
        try:
            again(name)
        except Taken:
            once = True
        except PlaceRefused:
            once = None
    overwrite = allowed(lambda: place.write(name, b"safekept again", replace=True))
    delete = allowed(lambda: place.delete(name))
    return Abilities(True, overwrite, delete, versioning, once, left="" if delete else name)


def allowed(work: Callable[[], None]) -> bool:
    """Whether something is not refused."""
    try:
        work()
    except PlaceRefused:
        return False
    return True
