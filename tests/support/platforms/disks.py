"""A disk that takes `A` and `a` for one name, for as long as a test runs: exFAT in a file."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

from safekept.core.platform.filesystems import mounts


class NoSuchDisk(Exception):
    """Why none can be had here."""


@contextlib.contextmanager
def exfat(image: str, place: str, megabytes: int) -> Iterator[str]:
    """An empty exFAT at `place`, kept in the file `image`. Raises NoSuchDisk."""
    if os.geteuid() != 0:
        raise NoSuchDisk("mounting needs root")
    programs = ("losetup", "mkfs.exfat", "mount.exfat-fuse", "umount")
    if absent := [name for name in programs if _program(name) is None]:
        raise NoSuchDisk(f"{', '.join(absent)} is not installed (Debian: exfat-fuse, exfatprogs)")
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    with contextlib.ExitStack() as stack:
        stack.callback(os.unlink, image)
        device = _run("losetup", "--find", "--show", image)
        stack.callback(_run, "losetup", "--detach", device)
        _run("mkfs.exfat", device)
        _run("mount.exfat-fuse", "-o", "umask=077", device, place)
        stack.callback(_run, "umount", "--lazy", place)
        yield place


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(name: str, *words: str) -> str:
    program = _program(name)
    assert program is not None
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise NoSuchDisk(f"{name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def mounted_again(place: str) -> None:
    """Unmount a disk of ours and mount it once more, as after a power cut."""
    device = next(one.source for one in mounts() if one.place == os.path.realpath(place))
    _run("umount", place)
    _run("mount.exfat-fuse", "-o", "umask=077", device, place)
