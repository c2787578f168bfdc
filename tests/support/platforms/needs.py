"""What a test needs of the system or of the disk under it, and what is done where that is not there.

`@pytest.mark.needs("modes", "why")` stands on a test that asks for what some platform cannot give. Where the
feature is there, the mark does nothing. Where it is not, the test still runs and has to fail: one that passes
all the same is reported, so that no mark hides a test that could hold its promise.

A feature is a name of `SAFEKEPT_PLATFORM_WITHOUT`, or one of the disk, which is tried on the disk itself;
`proc or programs`: either will do. `only`: the part in brackets of a test's name, for those of its parameters
that need it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest

from safekept.core.platform import system
from safekept.core.platform.filesystems import folding_of

#: What a disk may lack, and what that means.
OF_DISKS = {
    "modes": "a file keeps the rights that it is given",
    "owners": "a file can belong to another user",
    "hard-links": "one file can have two names",
    "symlinks": "a name can point to another",
    "pipes": "pipes and sockets can lie in a directory",
    "case": "`A` and `a` are two names",
    "forms": "`é` as one sign and as two are two names",
    "names": "every byte but NUL and / can stand in a name",
    "times": "a file keeps its time to the nanosecond",
    "change-times": "when a file was changed is written down apart from the time that can be set",
    "blocks": "a small file takes a few KiB",
    "holes": "bytes that were never written take no room",
    "open-unlinked": "a file that is open is read and written after its name went",
}


def lacking(place: str) -> set[str]:
    """What is switched off, and what the disk under `place` cannot do."""
    work = tempfile.mkdtemp(prefix="needs-", dir=place)
    try:
        return {*system.off, *(name for name, works in _TRIED.items() if not _works(works, work))}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def mark(item: pytest.Item, missing: set[str]) -> None:
    """Expect a test to fail that needs what is not there."""
    for one in item.iter_markers("needs"):
        feature, why = one.args
        ways = set(feature.split(" or "))
        if unknown := ways - OF_DISKS.keys() - system.FEATURES:
            raise pytest.UsageError(f"{item.nodeid} needs {unknown}, which no platform is asked for")
        only, parameters = one.kwargs.get("only"), getattr(item, "callspec", None)
        if only is not None and (parameters is None or parameters.id not in only):
            continue
        if ways <= missing:
            item.add_marker(pytest.mark.xfail(reason=f"needs {feature}: {why}", strict=True))


def _works(tried: Callable[[str], bool], work: str) -> bool:
    try:
        return tried(work)
    except OSError:
        return False


def _file(work: str, name: str = "file") -> str:
    path = os.path.join(work, name)
    with open(path, "w", encoding="ascii") as file:
        file.write("text")
    return path


def _modes(work: str) -> bool:
    found = []
    for mode in (0o640, 0o400):
        path = _file(work, f"mode-{mode}")
        os.chmod(path, mode)
        found.append(os.stat(path).st_mode & 0o777 == mode)
    return all(found)


def _owners(work: str) -> bool:
    if os.geteuid() != 0:
        return True  # not to be tried
    path = _file(work, "owned")
    os.chown(path, 1, 1)
    return os.stat(path).st_uid == 1


def _folding(work: str) -> Iterator[bool]:
    descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        folding = folding_of(descriptor, "folding")
    finally:
        os.close(descriptor)
    yield from (not folding.case, not folding.forms)


def _times(work: str) -> bool:
    path = _file(work, "timed")
    os.utime(path, ns=(1_234_567_891, 1_234_567_891))
    return os.stat(path).st_mtime_ns == 1_234_567_891


def _holes(work: str) -> bool:
    path = _file(work, "holes")
    os.truncate(path, 8 << 20)
    return os.stat(path).st_blocks * 512 < 4 << 20


def _change_times(work: str) -> bool:
    path = _file(work, "changed")
    os.utime(path, ns=(0, 1_000_000_000_000))
    return os.stat(path).st_ctime_ns > 1_000_000_000_000


def _blocks(work: str) -> bool:
    return os.stat(_file(work, "small")).st_blocks * 512 <= 8 << 10


def _open_unlinked(work: str) -> bool:
    with open(_file(work, "gone"), "r+b") as file:
        os.unlink(file.name)
        return file.read() == b"text" and os.fstat(file.fileno()).st_nlink == 0 and os.listdir(work) == []


def _named(work: str) -> bool:
    for name in (b"\xff", b"a:b", b"a\nb", b"a\\b"):
        with open(os.path.join(os.fsencode(work), name), "wb"):
            pass
    return True


def _done(call: Callable[[], object]) -> bool:
    call()
    return True


_TRIED: dict[str, Callable[[str], bool]] = {
    "open-unlinked": _open_unlinked,  # first: it looks at what is left
    "modes": _modes,
    "owners": _owners,
    "hard-links": lambda work: _done(lambda: os.link(_file(work, "one"), os.path.join(work, "two"))),
    "symlinks": lambda work: _done(lambda: os.symlink("file", os.path.join(work, "link"))),
    "pipes": lambda work: _done(lambda: os.mkfifo(os.path.join(work, "pipe"))),
    "case": lambda work: next(_folding(work)),
    "forms": lambda work: list(_folding(work))[1],
    "names": _named,
    "times": _times,
    "change-times": _change_times,
    "blocks": _blocks,
    "holes": _holes,
}


#: What exFAT answers to a link, a pipe and a name that it does not have.
_REFUSALS = (errno.ENOSYS, errno.EPERM, errno.EIO, errno.ENOENT, errno.EILSEQ, errno.EINVAL, errno.EOPNOTSUPP)


@contextlib.contextmanager
def where_the_disk_can() -> Iterator[None]:
    """What is made within is left out of a fixture where the disk has no such thing, and only there."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS or not lacking(tempfile.gettempdir()) & OF_DISKS.keys():
            raise
