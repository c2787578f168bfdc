"""Small documents, sealed and opened in memory: to keys only, so that no passphrase is typed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from ..container.handle import Handle
from ..errors import NOTHING_WRITTEN, ArchiveDamaged
from .age.file import CHUNK, sealed_bytes
from .age.keys import AgeRecipient
from .age.ssh_keys import SshRecipient
from .errors import BadRecipient, IdentityDoesNotFit, IdentityNeeded
from .identities import open_age
from .identity import Identity
from .seal import parse_recipients

#: Bytes in the clear that fit.
LONGEST_DOCUMENT = CHUNK


def document_keys(texts: Sequence[str], user_home: str) -> list[AgeRecipient | SshRecipient]:
    """The keys that are named, as `--seal` takes them; an error for anything that is no age or SSH key."""
    found = parse_recipients(texts, user_home)
    if found.gpg or found.passphrase or not found.keys:
        raise BadRecipient(
            "This is sealed to age and SSH keys only, and something else is named",
            kept=NOTHING_WRITTEN,
            next_steps=(
                "Name age recipients (`age1…`), SSH public keys, or files with one of them per line",
            ),
        )
    return found.keys


def seal_document(data: bytes, keys: Sequence[AgeRecipient | SshRecipient]) -> bytes:
    """Sealed in the format of age: a holder of one of the private keys opens it with `age -d`."""
    return sealed_bytes(data, keys)


def open_document(sealed: bytes, name: str, identity: Identity) -> bytes | None:
    """The clear text; None where no key fits, or it is damaged. `name` is for errors about the keys."""
    with tempfile.TemporaryFile() as file:
        file.write(sealed)
        file.flush()
        handle = Handle(name, os.dup(file.fileno()))
        try:
            handle = open_age(handle, identity)
            return handle.read(0, handle.size)
        except (IdentityDoesNotFit, IdentityNeeded, ArchiveDamaged):
            return None
        finally:
            handle.close()
