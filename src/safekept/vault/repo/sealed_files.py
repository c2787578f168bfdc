"""The sealed files of a vault: index, snapshot and lock files, named by the hash of their bytes.

What is written was decoded again first; what is read is proven against its name before its seal
is opened.
"""

from __future__ import annotations

import contextlib
import hashlib

from ..errors import NotProven, VaultDamaged
from ..format.compression import BadCompression, pack_unpacked, unpack_unpacked
from ..format.crypto import Key, Unauthentic
from ..storage.base import AlreadyStored, FileKind, Storage, stored_name


def seal_file(key: Key, kind: FileKind, text: bytes) -> tuple[str, bytes]:
    """JSON as it is stored: the name that its sealed bytes give it, and those, decoded again."""
    sealed = key.seal(pack_unpacked(text))
    if unpack_unpacked(key.open(sealed)) != text:
        raise NotProven.of(f"file for `{kind.value}`")
    return hashlib.sha256(sealed).hexdigest(), sealed


def save_file(storage: Storage, key: Key, kind: FileKind, text: bytes) -> str:
    """Store JSON under the name that its sealed bytes give it; that name."""
    name, sealed = seal_file(key, kind, text)
    with contextlib.suppress(AlreadyStored):  # by its name it has the same bytes
        storage.write(kind, name, sealed)
    return name


def load_file(storage: Storage, key: Key, kind: FileKind, name: str) -> bytes:
    """The JSON of a file; NotStored where it is gone, VaultDamaged where it is not what it was."""
    sealed = storage.read(kind, name)
    if hashlib.sha256(sealed).hexdigest() != name:
        raise VaultDamaged.file(stored_name(kind, name), "its content does not match its name")
    try:
        return unpack_unpacked(key.open(sealed))
    except Unauthentic:
        reason = "it was not written with the key of this vault"
        raise VaultDamaged.file(stored_name(kind, name), reason) from None
    except BadCompression as error:
        raise VaultDamaged.file(stored_name(kind, name), str(error)) from error
