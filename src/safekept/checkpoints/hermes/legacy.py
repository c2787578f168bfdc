"""The archive of Hermes's older checkpoint repositories: `legacy-<time>/`, whole, with their history listed.

Each is an ordinary git repository and stays readable with plain git. Only what lies here, under a mark
of ours, is ever removed again; Hermes's own directories are not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from dataclasses import field
from typing import Any

from safekept.core.events import Event, Listener, silent
from safekept.core.files import durable_write, fsync_directory, private_directory
from safekept.core.files.small import read_document
from safekept.core.records import dataclass
from safekept.core.trash import weight

from .store import Foreign, older_repositories, older_workdir

PREFIX = "legacy-"
_MARK = "safekept-legacy.json"


@dataclass(slots=True)
class LegacyRepository:
    """One archived repository and its history, newest first."""

    name: str
    source: str
    workdir: str
    head: str
    history: list[dict[str, object]] = field(default_factory=list)  # commit, time, reason

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "source": self.source,
            "workdir": self.workdir,
            "head": self.head,
            "history": self.history,
        }


@dataclass(slots=True)
class LegacyArchive:
    """One `legacy-<time>` directory of ours."""

    path: str
    repositories: list[LegacyRepository] = field(default_factory=list)
    bytes: int = 0

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "bytes": self.bytes,
            "repositories": [repository.as_dict() for repository in self.repositories],
        }


def archive_legacy(
    directory: str, hermes_checkpoints: str, listener: Listener = silent
) -> LegacyArchive | None:
    """Copy every older repository that is not archived yet; None where there is none.

    The archive gets its name when it is whole.
    """
    known = {(one.source, one.head) for archive in legacy_archives(directory) for one in archive.repositories}
    waiting = [
        one
        for one in map(_described, older_repositories(hermes_checkpoints))
        if (one.source, one.head) not in known
    ]
    if not waiting:
        return None
    private_directory(directory)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    unfinished = os.path.join(directory, f".{PREFIX}{stamp}-{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    private_directory(unfinished)
    try:
        for number, one in enumerate(waiting):
            listener(Event("archive", number, len(waiting), unit="files", path=one.source))
            one.name = _free_name(unfinished, one.name)
            shutil.copytree(one.source, os.path.join(unfinished, one.name), symlinks=True)
        document = {"version": 1, "time": time.time(), "repositories": [one.as_dict() for one in waiting]}
        durable_write(os.path.join(unfinished, _MARK), json.dumps(document, indent=1).encode())
        target = _free_name(directory, f"{PREFIX}{stamp}")
        os.rename(unfinished, os.path.join(directory, target))
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    fsync_directory(directory)
    return next(one for one in legacy_archives(directory) if os.path.basename(one.path) == target)


def legacy_archives(directory: str) -> list[LegacyArchive]:
    """What is archived, oldest first. A directory without our mark is not ours."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            if name.startswith(PREFIX) and not os.path.islink(path):
                archive = _read(path)
                if archive is not None:
                    found.append(archive)
    return found


def clear_legacy(directory: str) -> tuple[int, int]:
    """Remove what safekept archived; returns how many archives and bytes."""
    archives = legacy_archives(directory)
    for archive in archives:
        # The mark goes last, so that an interrupted removal can be taken up again.
        for name in os.listdir(archive.path):
            if name != _MARK:
                shutil.rmtree(os.path.join(archive.path, name))
        shutil.rmtree(archive.path)
    return len(archives), sum(archive.bytes for archive in archives)


def _described(repository: str) -> LegacyRepository:
    foreign = Foreign(repository)
    try:
        head = foreign.head()
        history: list[dict[str, object]] = [
            {"commit": commit.oid.hex(), "time": commit.seconds, "reason": commit.reason}
            for commit in (foreign.chain(head) if head else ())
        ]
    finally:
        foreign.close()
    name = os.path.basename(repository)
    return LegacyRepository(name, os.path.realpath(repository), older_workdir(repository), head, history)


def _read(path: str) -> LegacyArchive | None:
    repositories = read_document(os.path.join(path, _MARK), _repositories, None)
    return None if repositories is None else LegacyArchive(path, repositories, weight(path))


def _repositories(document: dict[str, Any]) -> list[LegacyRepository]:
    return [
        LegacyRepository(
            str(one["name"]), str(one["source"]), str(one["workdir"]), str(one["head"]), list(one["history"])
        )
        for one in document["repositories"]
    ]


def _free_name(directory: str, name: str) -> str:
    candidate, number = name, 1
    while os.path.lexists(os.path.join(directory, candidate)):
        number += 1
        candidate = f"{name}-{number}"
    return candidate
