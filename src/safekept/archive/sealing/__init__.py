"""Seals around a byte stream: age and OpenPGP, so that others' tools open what we wrote.

The age format is written and read here, on the primitives of `cryptography`: every chunk of it is
authenticated by itself and can be read at any place, which no Python binding offers (see
`docs/design/sealing.md`). OpenPGP is left to `gpg`, and what comes out of it is released only after the
whole message was proven.
"""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .age.file import sealed_bytes
    from .age.keys import AgeIdentity, Passphrase
    from .documents import LONGEST_DOCUMENT, document_keys, open_document, seal_document
    from .seal import Identity, Seal, make_seal, needs_key_file

__getattr__ = doors(
    __name__,
    {
        "age.file": "sealed_bytes",
        "age.keys": "AgeIdentity Passphrase",
        "documents": "LONGEST_DOCUMENT document_keys open_document seal_document",
        "seal": "Identity Seal make_seal needs_key_file",
    },
)
