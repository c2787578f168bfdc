"""Places off this host: one small contract, and what keeps it."""

from __future__ import annotations

from .address import Options, is_address, open_objects
from .base import Abilities, Content, NotThere, ObjectStore, Stored, Taken

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
