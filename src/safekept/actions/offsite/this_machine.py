"""What is lost with this machine: the hosts that are this very one, its disks, and its memory.

Nothing is asked of a network: a name server that does not answer must not hold a verdict up.
"""

from __future__ import annotations

import contextlib
import os
import stat

from safekept.core.platform.filesystems import block_device, disk_of_device, mount_of

_HOSTS = "/etc/hosts"
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
#: No disk is stacked deeper: a partition, in a RAID, in a volume, encrypted.
_DEEPEST = 8


def is_this_machine(host: str) -> bool:
    """Whether a host name or address means the machine that asks."""
    name = host.strip("[]").rstrip(".").lower()
    if not name:
        return False
    own = os.uname().nodename.lower()
    names = {"localhost", "ip6-localhost", own, own.partition(".")[0], f"{own.partition('.')[0]}.local"}
    if name in names or name.endswith(".localhost"):
        return True
    return any(map(_is_own_address, [name, *_in_hosts_file(name)]))


def _is_own_address(text: str) -> bool:
    import ipaddress
    import socket

    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        # Only an address of this machine can be bound.
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((str(address), 0))
    except OSError:
        return False
    return True


def _in_hosts_file(name: str) -> list[str]:
    found = []
    with contextlib.suppress(OSError), open(_HOSTS, encoding="utf-8", errors="replace") as file:
        for line in file:
            address, *names = line.partition("#")[0].split() or [""]
            if name in (one.lower() for one in names):
                found.append(address)
    return found


def in_memory(path: str) -> bool:
    """Whether a directory, or where it would be made, lies in memory: gone at the next start."""
    return mount_of(_there(path)).kind in _IN_MEMORY


def disks_of(path: str) -> frozenset[str]:
    """The disks under a directory, or under where it would be made, by names that can be compared.

    Two partitions, volumes or subvolumes of one disk have that disk in common.
    """
    there = _there(path)
    try:
        device = os.stat(there).st_dev
    except OSError:
        return frozenset()
    source = mount_of(there).source
    with contextlib.suppress(OSError):
        facts = os.stat(source)  # of a subvolume, the filesystem has a number that no disk has
        device = facts.st_rdev if source.startswith("/dev/") and stat.S_ISBLK(facts.st_mode) else device
    whole = disk_of_device(source) or f"device {device}"
    return frozenset(_whole_disks(block_device(device))) or frozenset({whole})


def _whole_disks(block: str, depth: int = 0) -> set[str]:
    real = os.path.realpath(block)
    if depth > _DEEPEST or not os.path.isdir(real):
        return set()
    if os.path.exists(os.path.join(real, "partition")):
        real = os.path.dirname(real)
    below = os.path.join(real, "slaves")
    parts = os.listdir(below) if os.path.isdir(below) else []
    if image := _image_of(real):
        return set(disks_of(os.path.dirname(image)))
    found = {disk for part in parts for disk in _whole_disks(os.path.join(below, part), depth + 1)}
    return found or {os.path.basename(real)}


def _image_of(block: str) -> str:
    """The file that a loop device shows as a disk; empty for a disk that is one."""
    try:
        with open(
            os.path.join(block, "loop", "backing_file"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def _there(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
