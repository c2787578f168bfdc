"""Places off this host: one small contract, and what keeps it."""

from typing import TYPE_CHECKING

from ..doors import doors

if TYPE_CHECKING:
    from .address import Options, is_address, open_objects, program_for
    from .base import Content, CredentialRights, NotThere, ObjectStore, Stored, Taken

__getattr__ = doors(
    __name__,
    {
        "address": "Options is_address open_objects program_for",
        "base": "CredentialRights Content NotThere ObjectStore Stored Taken",
    },
)
