"""Where a vault's files live: one small contract, and the places that keep it.

All stand on `core/objects`, where a new kind of place is added: `objects` gives one the shape of a vault, and
`local` is a directory written as restic writes it.
"""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .base import DIRECTORIES, AlreadyStored, FileKind, NotStored, Storage, stored_name
    from .local import RESERVE, LocalStorage
    from .objects import ObjectStorage

__getattr__ = doors(
    __name__,
    {
        "base": "AlreadyStored DIRECTORIES FileKind NotStored Storage stored_name",
        "local": "LocalStorage RESERVE",
        "objects": "ObjectStorage",
    },
)
