"""Snapshot files that were read before, so that a list opens only what is new since the last one.

A snapshot file never changes under its name, so what was once read under that name stays right. The
cache is sealed with the vault's own key: one that is torn, of another vault or tampered with is simply
not used, and nothing of a vault lies about in clear text.
"""

from __future__ import annotations

import contextlib
import json
import os

from safekept.core.files import durable_file, private_directory, write_all
from safekept.vault.compression import BadCompression, pack_unpacked, unpack_unpacked
from safekept.vault.crypto import Key, Unauthentic


class SnapshotCache:
    """Texts of snapshot files by name, of one vault, in a directory that may hold those of others."""

    def __init__(self, directory: str, key: Key, vault: str) -> None:
        self.path = os.path.join(directory, f"snapshots-{vault[:16]}")
        self._key, self._vault = key, vault

    def load(self) -> dict[str, str]:
        """Every text by its name; nothing where the cache cannot be used."""
        try:
            with open(self.path, "rb") as file:
                found = json.loads(unpack_unpacked(self._key.open(file.read())))
            texts = found["snapshots"] if found["vault"] == self._vault else {}
            return {str(name): str(text) for name, text in texts.items()}
        except (OSError, Unauthentic, BadCompression, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def save(self, texts: dict[str, str]) -> None:
        """Write it anew. A cache that cannot be written is no error."""
        document = {"vault": self._vault, "snapshots": texts}
        sealed = self._key.seal(pack_unpacked(json.dumps(document).encode()))
        with contextlib.suppress(OSError):
            private_directory(os.path.dirname(self.path))
            with durable_file(self.path) as file:
                write_all(file.fileno(), sealed)
