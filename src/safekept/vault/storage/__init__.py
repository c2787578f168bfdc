"""Where a vault's files live: one small contract, and the places that keep it.

Places off this host come in by `remote`; a new kind of them is added in core/objects.
"""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .base import DIRECTORIES, AlreadyStored, FileKind, NotStored, Storage, stored_name
    from .local import RESERVE, LocalStorage
    from .remote import MemoryStorage, RemoteStorage

__getattr__ = doors(
    __name__,
    {
        "base": "AlreadyStored DIRECTORIES FileKind NotStored Storage stored_name",
        "local": "LocalStorage RESERVE",
        "remote": "MemoryStorage RemoteStorage",
    },
)
