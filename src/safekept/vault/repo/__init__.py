"""One open vault: its keys, locks and index, and blobs in and out of it."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .index import find_lost_packs
    from .keys import FOR_PASSPHRASE, BadKeyFile, KeyFile, Secret, check_secret, generate_secret
    from .lock_file import LockFile, read_locks
    from .locks import Lock, unlock
    from .opening import no_config, refuse_taken
    from .repository import Repository

__getattr__ = doors(
    __name__,
    {
        "index": "find_lost_packs",
        "keys": "BadKeyFile FOR_PASSPHRASE KeyFile Secret check_secret generate_secret",
        "lock_file": "LockFile read_locks",
        "locks": "Lock unlock",
        "opening": "no_config refuse_taken",
        "repository": "Repository",
    },
)
