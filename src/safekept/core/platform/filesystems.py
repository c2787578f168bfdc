"""Filesystems: what is mounted where, on which disk, and which names a directory takes for one.

Linux: `/proc/self/mountinfo`, `/sys/dev/block`. macOS: `mount`, and the name of the device. Elsewhere
nothing is known of mounts: a restore does not say beforehand that a file is a mount point, and two volumes
of one disk are taken for two disks. Which names fall into one is asked of the directory itself, by trying.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from ..records import dataclass
from .system import has, output_of

_TABLE = "/proc/self/mountinfo"
#: `/dev/disk3s5 on / (apfs, local)`; `proc on /proc type proc (rw)`
_LINE = r"(.*?) on (/.*?)(?: type (\S+))? \(([^(),]*)[^()]*\)$"
#: What a filesystem says that cannot give a file a second name, or no more of them: FAT, exFAT, some shares.
NO_HARD_LINKS = frozenset({errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
#: And one that has no symbolic links.
NO_SYMBOLIC_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True)
class Mount:
    place: str
    kind: str  # `ext4`, `apfs`, …
    source: str
    device: str  # `8:1`; "" where the system does not say


def mounts() -> list[Mount]:
    """What is mounted, later ones last; none where the system does not say."""
    if has("proc"):
        with contextlib.suppress(OSError), open(_TABLE, "rb") as table:
            return list(_listed(table.read()))
    return list(_printed(output_of(["mount"]) or ""))


def _listed(table: bytes) -> Iterator[Mount]:
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        fields, filesystem = before.split(b" "), after.split(b" ")
        if len(fields) > 4 and len(filesystem) > 1:
            place, kind, source, device = fields[4], filesystem[0], filesystem[1], fields[2]
            yield Mount(_plain(place), os.fsdecode(kind), os.fsdecode(source), os.fsdecode(device))


def _plain(name: bytes) -> str:
    """Without the escapes of the table: a blank is `\\040` there."""
    first, *rest = name.split(b"\\")
    return os.fsdecode(first + b"".join(bytes([int(one[:3], 8) & 0xFF]) + one[3:] for one in rest))


def _printed(text: str) -> Iterator[Mount]:
    import re  # a hook that looks up one filesystem does without

    for line in text.splitlines():
        if match := re.match(_LINE, line):
            source, place, kind, first = match.groups()
            yield Mount(place, kind or first, source, "")


def mount_of(path: str) -> Mount:
    """The one that a path without links lies in; an empty one where the system does not say."""
    best = Mount("", "", "", "")
    for one in mounts():
        inside = path == one.place or path.startswith(one.place.rstrip("/") + "/")
        if inside and len(one.place) >= len(best.place):  # of two in one place the later one hides the other
            best = one
    return best


def kind_of_filesystem(device: int) -> str:
    """`ext4`, `nfs4`, … for a device number; "" where the system does not say."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for one in mounts():
        if one.device == wanted:
            return one.kind
        if not one.device:
            with contextlib.suppress(OSError):
                if os.stat(one.place).st_dev == device:
                    return one.kind
    return ""


def keeps_numbers(path: str) -> bool:
    """Whether a file has the same number after its disk was mounted again; not on FAT, exFAT and FUSE."""
    kind = mount_of(os.path.realpath(path)).kind
    return kind not in ("exfat", "vfat", "msdos") and not kind.startswith(("fuse", "osxfuse", "macfuse"))


def block_device(device: int) -> str:
    """Where Linux describes a disk; a place that is not there on other systems."""
    return f"/sys/dev/block/{os.major(device)}:{os.minor(device)}" if has("proc") else ""


def disk_of_device(source: str) -> str:
    """`disk3` for the volume `/dev/disk3s5`, as macOS calls them; "" for other names."""
    name = source.removeprefix("/dev/")
    number = name.removeprefix("disk").partition("s")[0]
    return f"disk{number}" if source != name != number and number.isdigit() else ""


@dataclass(frozen=True, slots=True)
class Folding:
    """Which differences between two names a directory does not see."""

    case: bool
    forms: bool  # `é` as one sign or as two

    def __bool__(self) -> bool:
        return self.case or self.forms

    def key(self, name: str) -> str:
        """The same for two names that the directory takes for one."""
        import unicodedata

        name = unicodedata.normalize("NFC", name) if self.forms else name
        return name.casefold() if self.case else name


def folding_of(directory: int, name: str) -> Folding:
    """Ask an open directory, by a file that is made and removed; `name`: in small letters. OSError."""
    probe, other = name + "\u00e9", name + "e\u0301"
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory))
    try:
        return Folding(_is_there(directory, probe.upper()), _is_there(directory, other))
    finally:
        os.unlink(probe, dir_fd=directory)


def keeps_modes(descriptor: int) -> bool:
    """Whether a disk keeps the rights that a file is given; asked by trying, of an open file of ours."""
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    try:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, mode ^ 0o040)
        return stat.S_IMODE(os.fstat(descriptor).st_mode) != mode
    finally:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, mode)


#: What no FAT and no share of Windows takes in a name, beside control characters and bytes that are no text.
_ODD = frozenset('"*:<>?\\|')


def takes_name(directory: int, name: str) -> bool:
    """Whether a name can be had in an open directory; one that is odd is tried by a file that is removed."""
    if _ODD.isdisjoint(name) and name.isprintable():
        return True
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory))
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EILSEQ, errno.EINVAL):
            return False
        raise
    os.unlink(name, dir_fd=directory)
    return True


def _is_there(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True
