"""What is known of a filesystem: its kind, and whether a directory's times tell of its names."""

from __future__ import annotations

import contextlib
import os

#: Filesystems on which a directory's times tell whether its names changed.
_TELLING = frozenset(
    "ext2 ext3 ext4 xfs btrfs tmpfs ramfs zfs f2fs overlay bcachefs jfs reiserfs nilfs2".split()
)


def names_are_told(device: int) -> bool:
    """Whether a directory's times can be trusted on the filesystem with that device number."""
    return kind_of_filesystem(device) in _TELLING


def kind_of_filesystem(device: int) -> str:
    """`ext4`, `nfs4`, …; "" where the system does not say."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            if line.split(b" ", 3)[2] == wanted:
                return line.partition(b" - ")[2].split(b" ", 1)[0].decode()
    return ""
