"""A vault in memory."""

from __future__ import annotations

from safekept.core.objects.memory import MemoryObjects
from safekept.vault.storage import ObjectStorage


class MemoryStorage(ObjectStorage):
    """`files` and `times` may be looked at and tampered with."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        memory = MemoryObjects(files)
        super().__init__(memory)
        self.files, self.times = memory.objects, memory.times
