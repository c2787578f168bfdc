"""Comparing bytes: what is already exactly there is neither staged nor touched."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator

from safekept.core.entries import CHUNK
from safekept.core.sqlite import SIDECARS, is_database

from ..items import Item
from ..tree import LandingTree


def same_content(
    first: LandingTree, path: str, second: LandingTree, other: str, facts: os.stat_result
) -> bool:
    """Whether two files have the same bytes, or two links the same target."""
    if stat.S_ISLNK(facts.st_mode):
        return first.link_text(path) == second.link_text(other)
    with _opened(first, path) as ours, _opened(second, other) as theirs:
        while True:
            data = os.read(ours, CHUNK)
            if data != os.read(theirs, CHUNK):
                return False
            if not data:
                return True


def already_there(tree: LandingTree, item: Item) -> os.stat_result | None:
    """The facts of a target that has the same bytes, and mode and time as well; None if it has not.

    It cannot have changed between the facts and the bytes: both come from one descriptor.
    """
    now = tree.look(item.place)
    if now is None or not stat.S_ISREG(now.st_mode) or not item.looks_like(now):
        return None
    try:
        with _opened(tree, item.place) as descriptor:
            facts = os.fstat(descriptor)
            head = os.pread(descriptor, 16, 0)
            same = item.equals(descriptor) if item.equals is not None else _has_hash(descriptor, item.sha256)
    except OSError:
        return None
    if not same or (facts.st_ino, facts.st_ctime_ns) != (now.st_ino, now.st_ctime_ns):
        return None
    if is_database(head) and any(tree.look(item.place + suffix) is not None for suffix in SIDECARS):
        return None  # a log beside it may hold more than the file does
    return facts


def _has_hash(descriptor: int, sha256: str) -> bool:
    digest = hashlib.sha256()
    while data := os.read(descriptor, CHUNK):
        digest.update(data)
    return digest.hexdigest() == sha256


def untouched(now: os.stat_result | None, then: os.stat_result) -> bool:
    """Whether nothing at all happened to a file since: a change of any kind moves its change time."""
    return now is not None and (now.st_dev, now.st_ino, now.st_ctime_ns) == (
        then.st_dev,
        then.st_ino,
        then.st_ctime_ns,
    )


@contextlib.contextmanager
def _opened(tree: LandingTree, path: str) -> Iterator[int]:
    descriptor = tree.open(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
