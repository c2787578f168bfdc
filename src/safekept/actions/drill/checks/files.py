"""Every restored file against what the store recorded: its bytes by their hash, its mode, time and target.

The files are read again from disk, so what is proven is what a restore left there, not what passed by.
"""

from __future__ import annotations

import hashlib
import os
import stat

from safekept.core.entries import CHUNK, Entry, EntryLost, Kind
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.sqlite import SIDECARS
from safekept.home.landing import Item, database_of

from ..receipts import UNKNOWN
from .restored import Findings, Problems, RestoredHome, plural

FILES, METADATA, SECRETS = "files", "metadata", "secrets"

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Some filesystems keep whole seconds, FAT two of them.
_COARSE_NS = 2_000_000_000
_EVENTS_EVERY = 64 << 20


def prove_files(restored: RestoredHome, findings: Findings, listener: Listener) -> int:
    """The row `files`; how many bytes were proven."""
    problems: Problems = sorted(restored.lost.items())
    count = size = reported = without_hash = 0
    total = sum(item.size for item in restored.items.values())
    for path in restored.files():
        if _was_folded_into_database(restored, path):
            continue
        count += 1
        if path in restored.lost:
            continue
        why, hashed = _compare(restored, path)
        if why:
            problems.append((path, why))
        size += restored.items[path].size
        without_hash += not hashed
        if size - reported >= _EVENTS_EVERY:
            reported = size
            listener(Event("prove", size, total, path=path))
    if not count and not problems:
        findings.add(FILES, UNKNOWN, 0, "no file was restored, so none could be looked at")
        return 0
    how = "each against its recorded hash"
    if without_hash:
        how = f"{without_hash:,} of them by size only: no hash was recorded for them"
    left = f"; {plural(restored.passed_over, 'other file')} not restored" if restored.passed_over else ""
    findings.judge(FILES, count, problems, f"{plural(count, 'file')}, {size:,} bytes, {how}{left}")
    return size


def _was_folded_into_database(restored: RestoredHome, path: str) -> bool:
    """A log that another tool stored beside its database; the restore folded it in."""
    return path.endswith(tuple(SIDECARS)) and database_of(path) in restored.items


def _compare(restored: RestoredHome, path: str) -> tuple[str, bool]:
    """What is wrong with a file, if anything, and whether a hash said so."""
    entry, full = restored.entries[path], restored.full(path)
    try:
        descriptor = _open(full)
    except OSError as error:
        return f"was not restored: {(error.strerror or str(error)).lower()}", True
    try:
        if path in restored.folded:
            return "", True  # it is more than the stored file now; SQLite judges it
        if entry.sha256:
            return ("" if _digest(descriptor) == entry.sha256 else "has not the recorded hash"), True
        if entry.equals is not None:
            return _by_pieces(entry, descriptor), True
        size = os.fstat(descriptor).st_size
        return ("" if size == entry.size else f"has {size:,} bytes instead of {entry.size:,}"), False
    finally:
        os.close(descriptor)


def _open(full: str) -> int:
    """Open it, also where its mode lets not even its owner read it; the mode stays what it was."""
    try:
        return os.open(full, _READ)
    except PermissionError:
        mode = stat.S_IMODE(os.lstat(full).st_mode)
        os.chmod(full, mode | 0o400)
        try:
            return os.open(full, _READ)
        finally:
            os.chmod(full, mode)


def _by_pieces(entry: Entry, descriptor: int) -> str:
    """Against the hashes of its pieces; where the index cannot tell those, against the stored bytes."""
    assert entry.equals is not None
    same = entry.equals(descriptor)
    if same is None:
        try:
            same = _same_bytes(entry, descriptor)
        except EntryLost as lost:
            return lost.remark.reason
        except SafekeptError as error:
            return error.what
    return "" if same else "its pieces have not the recorded hashes"


def _same_bytes(entry: Entry, descriptor: int) -> bool:
    offset = 0
    with entry.open() as content:
        for chunk in content.chunks():
            if os.pread(descriptor, len(chunk), offset) != chunk:
                return False
            offset += len(chunk)
    return not os.pread(descriptor, 1, offset)


def _digest(descriptor: int) -> str:
    digest = hashlib.sha256()
    while data := os.read(descriptor, CHUNK):
        digest.update(data)
    return digest.hexdigest()


def prove_metadata(restored: RestoredHome, findings: Findings) -> None:
    """The row `metadata`: permissions, times, links and empty directories."""
    problems: Problems = []
    count = 0
    for path, item in restored.items.items():
        if path in restored.lost or _was_folded_into_database(restored, path):
            continue
        count += 1
        why = _differs(restored, path, item)
        if why:
            problems.append((path, why))
    if not count:
        findings.add(METADATA, UNKNOWN, 0, "nothing was restored")
        return
    text = f"times, links and directories of {plural(count, 'entry')}"
    text = f"permissions, {text}" if restored.keeps_modes else f"{text}; this disk keeps no permissions"
    findings.judge(METADATA, count, problems, text, "entry")


def _differs(restored: RestoredHome, path: str, item: Item) -> str:
    try:
        now = os.lstat(restored.full(path))
    except OSError:
        return "" if item.kind is Kind.FILE else "is not there"  # a file is the matter of the row above
    kinds = {Kind.FILE: stat.S_ISREG, Kind.DIRECTORY: stat.S_ISDIR, Kind.SYMLINK: stat.S_ISLNK}
    if not kinds[item.kind](now.st_mode):
        return f"is no {item.kind.value}"
    if item.kind is Kind.SYMLINK:
        target = os.readlink(restored.full(path))
        return "" if target == item.target else f"leads to `{target}` instead of `{item.target}`"
    if restored.keeps_modes and stat.S_IMODE(now.st_mode) != item.mode:
        return f"has mode {stat.S_IMODE(now.st_mode):04o} instead of {item.mode:04o}"
    apart = abs(now.st_mtime_ns - item.mtime_ns)
    if apart and (restored.exact_times or apart > _COARSE_NS):
        return "has another time than was recorded"
    return ""


def prove_secrets(restored: RestoredHome, findings: Findings) -> None:
    """The row `secrets`: no other user can read them, restored by us or by hand."""
    layout = restored.layout
    problems: Problems = []
    count = 0
    for path in restored.files():
        if not layout.private(path) or not restored.there(path):
            continue
        count += 1
        mode = stat.S_IMODE(os.lstat(restored.full(path)).st_mode)
        if mode & 0o077:
            problems.append((path, f"was restored with mode {mode:04o}: others can read it"))
        elif layout.secret(path) and (wide := _exposed(restored, path)):
            problems.append((path, wide))
    if not count:
        findings.nothing(SECRETS, restored)
        return
    findings.judge(SECRETS, count, problems, f"{plural(count, 'file')}, readable by their owner only")


def _exposed(restored: RestoredHome, path: str) -> str:
    """Whether others could read it where it was stored, or where another tool restores it.

    A wide file inside a directory that no other user may enter is not exposed.
    """
    mode = restored.entries[path].mode
    if not mode & 0o077 or restored.root_mode is None or not restored.root_mode & 0o011:
        return ""
    above = path
    while "/" in above:
        above = above.rpartition("/")[0]
        entry = restored.entries.get(above)
        if entry is not None and not entry.mode & 0o011:
            return ""
    return (
        f"was stored with mode {mode:04o}: others can read it in the home, and wherever another tool "
        "restores it"
    )
