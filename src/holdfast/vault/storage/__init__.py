"""Where a vault's files live: one small contract, and the places that keep it."""

from __future__ import annotations

from holdfast.vault.storage.base import AlreadyStored, FileKind, NotStored, Storage
from holdfast.vault.storage.local import LocalStorage
from holdfast.vault.storage.memory import MemoryStorage

__all__ = ["AlreadyStored", "FileKind", "LocalStorage", "MemoryStorage", "NotStored", "Storage"]
