"""Where a vault's files live: one small contract, and the places that keep it."""

from __future__ import annotations

from safekept.vault.storage.base import AlreadyStored, FileKind, NotStored, Storage
from safekept.vault.storage.local import LocalStorage
from safekept.vault.storage.memory import MemoryStorage

__all__ = ["AlreadyStored", "FileKind", "LocalStorage", "MemoryStorage", "NotStored", "Storage"]
