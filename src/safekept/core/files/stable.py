"""Reading a file that others may be writing: what came, and whether it stayed the same meanwhile.

What is done about a file that did not is for the caller: read it again, store it with a remark.
"""

from __future__ import annotations

import os

#: Opens a file for reading: never through a link, never waiting for a pipe.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Two changes within one tick of a filesystem's clock look like one. Most tick every 4 to 10 ms.
TICK_NS = 20_000_000
#: Filesystems whose times are whole milliseconds or seconds are not trusted with less than this; FAT has two.
_COARSE_NS = 2_100_000_000


def settled(time_ns: int, read_at: int) -> bool:
    """Whether a change after `read_at` would look different from what was seen with this time."""
    slack = _COARSE_NS if time_ns % 1_000_000 == 0 else TICK_NS
    return time_ns < read_at - slack


def read_once(descriptor: int, before: os.stat_result) -> tuple[bytes, os.stat_result, bool]:
    """The bytes of an open file, what it looks like after that, and whether size and time are as `before`.

    No more than one byte beyond the size it had is read: a file that grows faster than we read ends, too.
    """
    size = before.st_size
    data = os.pread(descriptor, size + 1, 0)
    while len(data) < size and (more := os.pread(descriptor, size + 1 - len(data), len(data))):
        data += more
    after = os.fstat(descriptor)
    same = len(data) == after.st_size == size and after.st_mtime_ns == before.st_mtime_ns
    return data, after, same
