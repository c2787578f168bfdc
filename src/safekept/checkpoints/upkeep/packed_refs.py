"""Gathering refs in git's `packed-refs`: a ref of its own takes a block of the disk for 41 bytes.

Refs are made once and never moved, so a ref that is in both places is the same in both. The packed
file is whole and durable under its name before a single loose one is removed.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.files import fsync_directory, write_all

from ..store.refs import PREFIX, Refs, sweep_stale_lock

#: Fewer loose refs than this are not worth it.
_ENOUGH = 32


def pack_refs(refs: Refs, at_least: int = _ENOUGH) -> int:
    """Move loose refs of ours into `packed-refs`; returns how many. The caller holds the maintenance lock.

    Where somebody else is writing that file, nothing is done and 0 returned.
    """
    loose = _loose_refs(refs.repository)
    if len(loose) < at_least:
        return 0
    path = os.path.join(refs.repository, "packed-refs")
    lock = path + ".lock"
    sweep_stale_lock(lock)
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return 0
    try:
        try:
            packed = _packed_lines(path)
            packed.update({name: [f"{commit} {name}"] for name, commit in loose.items()})
            lines = ["# pack-refs with: peeled fully-peeled sorted "]
            for name in sorted(packed, key=os.fsencode):
                lines += packed[name]
            write_all(descriptor, ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(lock, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(lock)
        raise
    fsync_directory(refs.repository)
    for name in loose:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(refs.repository, name))
    # Directories of projects stay: a take that is about to rename its ref into one must find it.
    return len(loose)


def _loose_refs(repository: str) -> dict[str, str]:
    found = {}
    refs = Refs(repository)
    with contextlib.suppress(OSError):
        for project in os.listdir(os.path.join(repository, PREFIX)):
            place = os.path.join(repository, PREFIX, project)
            with contextlib.suppress(OSError):
                names = [name for name in os.listdir(place) if "." not in name]
                for name in names:
                    commit = refs.get(project, name)
                    if commit:
                        found[f"{PREFIX}/{project}/{name}"] = commit
    return found


def _packed_lines(path: str) -> dict[str, list[str]]:
    """Ref -> its line, and the line of what it stands for if there is one."""
    found: dict[str, list[str]] = {}
    last = ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file.read().splitlines():
                if line.startswith("#") or (" " not in line and not line.startswith("^")):
                    continue
                if line.startswith("^"):
                    if last:
                        found[last].append(line)
                    continue
                last = line.partition(" ")[2]
                found[last] = [line]
    except FileNotFoundError:
        pass
    return found
