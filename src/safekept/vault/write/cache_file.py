"""One file of a cache beside the vault: authenticated, bound to its vault and its name, never needed.

What it holds is Python's own compact form, which only the Python that wrote it may read; the tag comes
first and covers all of that. A file that is torn, stale, of another vault, of another Python or
tampered with is simply not there.
"""

from __future__ import annotations

import contextlib
import hmac
import marshal
import os
import sys
from typing import Any

from blake3 import blake3

from safekept import __version__
from safekept.core.files import private_directory, temporary_name, write_all

from ..format.crypto import Key

_MAGIC = b"safekept cache 1\n"
_TAG = 32
_SHAPE = 3  # raised when what is kept changes its shape


def derived(key: Key, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose, made of the vault's own."""
    return blake3(key.mac_k + key.mac_r + key.encrypt, derive_key_context=f"safekept 2026 {purpose}").digest()


class CacheFile:
    """A value of plain numbers, bytes, texts, lists, tuples and dictionaries, kept in one file."""

    def __init__(self, directory: str, name: str, key: Key, vault: str) -> None:
        self.path = os.path.join(directory, name) if directory else ""
        self._secret = derived(key, "snapshot cache")
        # Of this safekept too: another one may keep other things.
        bound = (vault, name, __version__, _SHAPE, sys.implementation.cache_tag, marshal.version)
        self._bound = repr(bound).encode("utf-8", "surrogateescape")

    def load(self) -> Any:
        """What was kept last; None where there is nothing that can be trusted."""
        if not self.path:
            return None
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        start = len(_MAGIC)
        body = memoryview(data)[start + _TAG :]
        if data[:start] != _MAGIC or not hmac.compare_digest(self._tag(body), data[start : start + _TAG]):
            return None
        try:
            return marshal.loads(body)  # noqa: S302  (authenticated: we wrote it)
        except (ValueError, EOFError, TypeError):
            return None

    def save(self, value: Any) -> None:
        """Keep a value in place of the last one. A cache that cannot be written is no error.

        It is not made durable: after a power cut it is there, or it is not, or its tag does not fit.
        """
        if not self.path:
            return
        body = marshal.dumps(value)
        directory = os.path.dirname(self.path)
        temporary = ""
        try:
            private_directory(directory)
            temporary = temporary_name(directory)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                for part in (_MAGIC, self._tag(body), body):
                    write_all(descriptor, part)
            finally:
                os.close(descriptor)
            os.rename(temporary, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _tag(self, body: bytes | memoryview) -> bytes:
        length = len(self._bound).to_bytes(8, "big")
        return blake3(length + self._bound, key=self._secret).update(body).digest()
