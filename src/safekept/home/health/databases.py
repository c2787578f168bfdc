"""Databases after something ran: is each still a database, sound, and does it hold as much as before?

Only those are looked at whose pages, log or journal changed. One that was damaged before is no loss of
this run; one that is locked or cannot be counted is unknown, and unknown is not lost.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace

from safekept.core.entries import DatabaseFacts, EntryLost, Outcome
from safekept.core.files.stable import READ
from safekept.core.sqlite.format import HEADER

from ..scan.content import amount
from ..scan.databases import HeaderReader
from .loss_rules import Examination, HomeLoss, Shrinkage

#: Beside the questions of the census: whether SQLite can read so much as the list of tables.
_OPENS = "safekept: opens"


def look_at_databases(examination: Examination) -> None:
    for path in sorted(examination.since.databases - examination.reported):
        before = examination.recorded.databases[path]
        if before.state == "damaged":
            examination.notes.append(f"{path} was damaged before, and was not judged again")
            examination.reported.add(path)
        elif path in examination.since.gone:
            _lost(examination, path, "database-gone", f"{path}, a database, is gone")
        else:
            _look(examination, path, before)


def judge(examination: Examination, path: str) -> DatabaseFacts | HomeLoss | str:
    """A database that has its header: its facts; else the finding, or why nothing can be said of it."""
    from safekept.core.sqlite import look

    full = examination.recorded.full(path)
    try:
        size, head = beginning(full, examination.options.isolated)
    except OSError as error:
        return HomeLoss(
            "database-closed",
            path,
            f"{path} cannot be opened any more: {error.strerror}",
            restore_paths=(path,),
        )
    if head != HEADER:
        return not_a_database(path, size, head)
    queries = {
        count.name: count.query
        for count, matcher in examination.layout.counted
        if count.kind == "query" and matcher.covers(path)
    }
    options = replace(examination.options, check=True)
    try:
        return look(
            full,
            path,
            options,
            {**queries, _OPENS: "SELECT count(*) FROM sqlite_master"},
            examination.listener,
        )
    except EntryLost as lost:
        if lost.remark.outcome is Outcome.UNREADABLE:
            return HomeLoss(
                "database-closed",
                path,
                f"{path} cannot be read any more: {lost.remark.reason}",
                restore_paths=(path,),
            )
        return f"{path} could not be checked: {lost.remark.reason}"


def beginning(full: str, isolated: bool) -> tuple[int, bytes]:
    """How large a file is, and its first bytes. `isolated`: by another process, for our locks."""
    if not isolated:
        descriptor = os.open(full, READ)
        try:
            return os.fstat(descriptor).st_size, os.read(descriptor, len(HEADER))
        finally:
            os.close(descriptor)
    facts = os.lstat(full)
    if not stat.S_ISREG(facts.st_mode) or not os.access(full, os.R_OK):
        code = errno.ELOOP if stat.S_ISLNK(facts.st_mode) else errno.EACCES
        raise OSError(code, os.strerror(code), full)
    reader = HeaderReader(isolated=True)
    try:
        return facts.st_size, reader.read(-1, os.path.basename(full), full)[: facts.st_size]
    finally:
        reader.close()


def not_a_database(path: str, size: int, head: bytes) -> HomeLoss:
    kind, what = "database-replaced", f"{amount(size)} of something else"
    if size == 0:
        kind, what = "database-emptied", "empty (0 bytes)"
    elif not head.strip(b"\0"):
        kind, what = "database-zeroed", f"{amount(size)} that begin with zero bytes"
    return HomeLoss(
        kind, path, f"{path} was a database and is {what}", unambiguous=True, restore_paths=(path,)
    )


def _look(examination: Examination, path: str, before: DatabaseFacts) -> None:
    found = judge(examination, path)
    if isinstance(found, str):
        examination.notes.append(found)
        examination.reported.add(path)
        return
    if isinstance(found, HomeLoss):
        examination.found(found)
        return
    if found.state == "damaged":
        detail = "; ".join(found.detail.splitlines()[:2])
        opens = found.counts.get(_OPENS) is not None
        examination.found(
            HomeLoss(
                "database-damaged",
                path,
                f"{path} is damaged: {detail}" if opens else f"{path} does not open any more: {detail}",
                unambiguous=not opens,
                restore_paths=(path,),
            )
        )
        return
    if found.state == "unverified" and found.detail:
        examination.notes.append(f"{path} could not be checked: {found.detail}")
    _compare(examination, path, before, found)


def _compare(examination: Examination, path: str, before: DatabaseFacts, after: DatabaseFacts) -> None:
    profile, losses = examination.layout.profile_of(path), []
    for name, count in before.counts.items():
        left = after.counts.get(name)
        if count is None:
            continue
        if left is None:
            noun = name.replace("_", " ")
            examination.notes.append(f"the {noun} in {path} cannot be counted any more; there were {count:,}")
        elif left < count:
            losses.append(Shrinkage(profile, name, count, left))
    if losses:
        falls = ", ".join(f"{one.name.replace('_', ' ')} {one.before:,} → {one.after:,}" for one in losses)
        examination.found(
            HomeLoss(
                "fewer",
                path,
                f"{path} holds less than before: {falls}",
                restore_paths=(path,),
                losses=tuple(losses),
            )
        )
    else:
        examination.reported.add(path)


def _lost(examination: Examination, path: str, kind: str, text: str) -> None:
    losses = tuple(
        Shrinkage(examination.layout.profile_of(path), name, count, 0)
        for name, count in examination.recorded.databases[path].counts.items()
        if count
    )
    examination.found(HomeLoss(kind, path, text, restore_paths=(path,), losses=losses))
