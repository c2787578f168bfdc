"""Places off this host: one small contract, and what keeps it."""

from __future__ import annotations

from holdfast.core.objects.address import Options, is_address, open_objects
from holdfast.core.objects.base import Abilities, Content, NotThere, ObjectStore, Stored, Taken

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
