"""One open vault: its keys, locks and index, and blobs in and out of it."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .keys import FOR_PASSPHRASE, BadKeyFile, KeyFile, Secret, check_secret, generate_secret
    from .lock_file import LockFile, read_locks
    from .locks import Lock, unlock
    from .opening import no_config, refuse_taken
    from .presence import find_lost_packs
    from .repository import Repository

__getattr__ = doors(
    __name__,
    {
        "keys": "FOR_PASSPHRASE BadKeyFile KeyFile Secret check_secret generate_secret",
        "lock_file": "LockFile read_locks",
        "locks": "Lock unlock",
        "opening": "no_config refuse_taken",
        "presence": "find_lost_packs",
        "repository": "Repository",
    },
)
