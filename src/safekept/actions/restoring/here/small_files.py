"""The key, the settings, the journal and the receipts, from their copies behind the seat belt.

A file that is there is left as it is. The journal gets the lines that it lost before those it has.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator

from safekept.core.files import durable_write, private_directory
from safekept.core.files.small import open_regular, read_regular
from safekept.core.journal import put_before

from ...base.context import UserContext
from ...base.kept_copies import RECEIPTS, copies_directory, gone_originals, journal_copies


def bring_files(context: UserContext) -> list[str]:
    """Every file of which the copy is here and the original is gone; the paths. OSError."""
    made = []
    for path, copy in gone_originals(context).items():
        private_directory(os.path.dirname(path))
        content = read_regular(copy)
        durable_write(path, content, 0o600)
        # The next look sees that it is the same as its copy.
        facts = os.stat(copy)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns), follow_symlinks=False)
        made.append(path)
    return made


def lost_receipts(context: UserContext) -> tuple[str, ...]:
    """Receipts of drills that only their copies have."""
    kept = _names(os.path.join(copies_directory(context), RECEIPTS))
    return tuple(sorted(kept - _names(os.path.join(context.places.data_directory, RECEIPTS))))


def bring_receipts(context: UserContext) -> int:
    """Put them back; how many. OSError."""
    place = os.path.join(context.places.data_directory, RECEIPTS)
    lost = lost_receipts(context)
    for name in lost:
        private_directory(place)
        content = read_regular(os.path.join(copies_directory(context), RECEIPTS, name))
        durable_write(os.path.join(place, name), content, 0o600)
    return len(lost)


def lost_lines(context: UserContext) -> int:
    """How many lines of the journal only its copies have."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in _lost(context, _known(context.journal.path)))
    return 0


def bring_lines(context: UserContext) -> int:
    """Put the lost lines before those that the journal has; how many. OSError.

    Cut off, it is done again: the copies have every line.
    """
    path = context.journal.path
    return put_before(path, lambda: _lost(context, _known(path)))


def _lost(context: UserContext, known: set[bytes]) -> Iterator[bytes]:
    for copy in journal_copies(context):
        for line in _lines(copy):
            name = _name(line)
            if name not in known:
                known.add(name)
                yield line


def _known(path: str) -> set[bytes]:
    return {_name(line) for line in _lines(path)}


def _lines(path: str) -> Iterator[bytes]:
    """The whole lines of a file; none where there is none."""
    with contextlib.suppress(FileNotFoundError), os.fdopen(open_regular(path, follow=False), "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _name(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _names(directory: str) -> set[str]:
    with contextlib.suppress(OSError):
        return {name for name in os.listdir(directory) if name.endswith(".json")}
    return set()
