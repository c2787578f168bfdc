"""Freed memory is kept for the next use instead of going back to the system.

Compressing and unpacking a gigabyte allocates and frees a megabyte some thousand times. By default
the C library maps each anew and gives it back, and the system clears every page of it again and
again (measured on one gigabyte: an eighth of a backup and a tenth of an import). The peak is the same:
it is what is in use at once, and that is bounded by design.
"""

from __future__ import annotations

import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of <malloc.h>


def keep_freed_memory() -> None:
    """Tell the C library once, before the first thread; where it is not glibc, nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        # What one thread frees, another takes: with an arena for each they would all keep their own.
        mallopt(_ARENA_MAX, 2)
