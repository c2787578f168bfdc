"""Places off this host: one small contract, and what keeps it."""

from __future__ import annotations

from safekept.core.objects.address import Options, is_address, open_objects
from safekept.core.objects.base import Abilities, Content, NotThere, ObjectStore, Stored, Taken

__all__ = [
    "Abilities",
    "Content",
    "NotThere",
    "ObjectStore",
    "Options",
    "Stored",
    "Taken",
    "is_address",
    "open_objects",
]
