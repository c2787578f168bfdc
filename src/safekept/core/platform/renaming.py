"""Two names exchanged, or one given without replacing another, in one instant.

Linux: `renameat2`. macOS: `renameatx_np`. Elsewhere, and on filesystems that cannot, the answer is False,
and the caller does it in several steps: between them a kill leaves a name that recovery knows, and another
program may take the new name between the look and the rename.
"""

from __future__ import annotations

import errno
import os
import sys

from .system import function, has, last_error

#: The name of the call, and its numbers for "do not replace" and "exchange".
_CALL, _NO_REPLACE, _EXCHANGE = ("renameatx_np", 4, 2) if sys.platform == "darwin" else ("renameat2", 1, 2)
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
Place = tuple[int, str]  # an open directory, and a name in it


def rename_new(old: Place, new: Place) -> bool:
    """Rename to a name that is free: FileExistsError where it is not. False: this cannot be had here."""
    return _rename(old, new, _NO_REPLACE)


def exchange(one: Place, other: Place) -> bool:
    """Swap two names. False: this cannot be had here, and nothing was changed."""
    return _rename(one, other, _EXCHANGE)


def _rename(old: Place, new: Place, flags: int) -> bool:
    call = function(_CALL) if has("renameat2") else None
    if call is None:
        return False
    if call(old[0], os.fsencode(old[1]), new[0], os.fsencode(new[1]), flags) == 0:
        return True
    code = last_error()
    if code in _NOT_HERE:
        return False
    raise OSError(code, os.strerror(code), old[1], None, new[1])
