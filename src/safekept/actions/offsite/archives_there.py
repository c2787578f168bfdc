"""Archives in a destination: `archives/<host>/NAME`, with `NAME.sha256` beside it, written last.

What the place gives back is held against the checksum. Older ones go only where this machine
itself sent them, of the same home, when there are more than `keep`: archives of others, and whatever else
lies there, are left alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Collection, Sequence

from safekept.core.archive_names import is_archive_name
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import durable_file, free_bytes, write_all
from safekept.core.files.small import open_regular
from safekept.core.objects.base import NotThere, ObjectStore, Taken
from safekept.core.owner import held_output
from safekept.core.records import dataclass

from .archive_fitness import when

DIRECTORY = "archives"
_CHECKSUM = ".sha256"


class ArchiveTaken(SafekeptError):
    code = "archive-taken"


class NoSuchArchive(SafekeptError):
    code = "no-such-archive"


class ArchiveAltered(SafekeptError):
    code = "archive-altered"


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """One archive in a destination."""

    host: str
    name: str
    size: int
    modified: float
    checked: bool  # its checksum lies beside it, so it arrived whole

    @property
    def place(self) -> str:
        return f"{DIRECTORY}/{self.host}/{self.name}"

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "name": self.name,
            "bytes": self.size,
            "modified": self.modified or None,
            "checksum": self.checked,
        }


def host_directory(hostname: str = "") -> str:
    """This host's name as a directory: what no place could take is replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", hostname or os.uname().nodename).strip(".-") or "host"


def list_archives(objects: ObjectStore, host: str = "") -> list[StoredArchive]:
    """Every archive of a host, or of all hosts; the newest last, by name within a host."""
    if host and (host_directory(host) != host or len(host) > 255):
        raise NoSuchArchive(
            f"No host has an archive there under the name `{host[:100]}`: it is no name of a host",
            kept="Nothing was fetched",
            next_steps=("Leave `--host` out to look at the archives of all hosts",),
        )
    found: dict[str, tuple[int, float]] = {}
    prefix = f"{DIRECTORY}/{host}/" if host else f"{DIRECTORY}/"
    for stored in objects.list(prefix):
        found[stored.name] = (stored.size, stored.modified)
    archives = []
    for place, (size, modified) in found.items():
        parts = place.split("/")
        if len(parts) == 3 and not place.endswith(_CHECKSUM) and is_archive_name(place):
            archives.append(StoredArchive(parts[1], parts[2], size, modified, place + _CHECKSUM in found))
    return sorted(archives, key=lambda one: (one.host, when(one.name), one.name))


def send(objects: ObjectStore, path: str, host: str, listener: Listener = silent) -> bool:
    """Store one archive and then its checksum; False where the very same is there already."""
    name = os.path.basename(path)
    place, size = f"{DIRECTORY}/{host}/{name}", os.path.getsize(path)
    listener(Event("send", 0, size, path=path))
    checksum = digest_of(path)
    text = f"{checksum}  {name}\n".encode()
    there = _checksum_there(objects, place)
    if there == checksum and _size(objects, place) == size:
        return False
    if there is not None:
        raise ArchiveTaken(
            f"`{objects.location}/{place}` is another archive with the same name",
            kept="What is there was not touched",
            next_steps=("Give the archive another name, and push it again",),
        )
    with os.fdopen(open_regular(path), "rb") as file:
        try:
            objects.write(place, file)
        except Taken:
            # A push that was cut short before the checksum: the same bytes, as a rule.
            if _size(objects, place) != size or _digest_there(objects, place) != checksum:
                file.seek(0)
                objects.write(place, file, replace=True)
    with contextlib.suppress(Taken):
        objects.write(place + _CHECKSUM, text)
    listener(Event("send", size, size, path=path))
    return True


def digest_of(path: str) -> str:
    with os.fdopen(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_there(objects: ObjectStore, place: str) -> str | None:
    try:
        text = objects.read(place + _CHECKSUM, 0, 4096)
    except NotThere:
        return None
    match = re.match(rb"([0-9a-f]{64})  ", text)
    return match[1].decode() if match else ""


def _digest_there(objects: ObjectStore, place: str) -> str:
    digest = hashlib.sha256()
    for piece in objects.stream(place):
        digest.update(piece)
    return digest.hexdigest()


def _size(objects: ObjectStore, place: str) -> int:
    try:
        return objects.size(place)
    except NotThere:
        return -1


def to_remove(
    there: Sequence[StoredArchive], ours: Collection[str], keep: int, coming: int = 0
) -> list[StoredArchive]:
    """What is beyond the newest `keep` of one home; `coming` counts those just sent, which always stay."""
    counted = [one for one in there if one.name in ours and one.checked and when(one.name)]
    return counted[: max(0, len(counted) + coming - keep)] if keep else []


def remove(objects: ObjectStore, archive: StoredArchive) -> None:
    # The checksum first: what is left of a removal that was cut short does not count as an archive.
    objects.delete(archive.place + _CHECKSUM)
    objects.delete(archive.place)


def choose(there: Sequence[StoredArchive], word: str, host: str) -> StoredArchive:
    """The archive of that name, or `latest`: the newest that arrived whole."""
    of_host = [one for one in there if not host or one.host == host]
    if word == "latest":
        whole = [one for one in of_host if one.checked] or of_host
        hosts = {one.host for one in whole}
        if len(hosts) > 1:
            raise NoSuchArchive(
                f"There are archives of several hosts: {', '.join(sorted(hosts))}",
                kept="Nothing was fetched",
                next_steps=("Say whose: `--host NAME`",),
            )
        if whole:
            return max(whole, key=lambda one: (when(one.name), one.modified, one.name))
    found = [one for one in of_host if one.name == word]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"`{one.name}`" for one in of_host[-5:])
    raise NoSuchArchive(
        f"There is no archive `{word}` there" if not found else f"Several hosts have an archive `{word}`",
        kept="Nothing was fetched",
        next_steps=(
            "Say whose: `--host NAME`"
            if found
            else f"The newest are: {names}"
            if names
            else "There are none",
        ),
        hosts=sorted({one.host for one in there}),
    )


def fetch(objects: ObjectStore, archive: StoredArchive, directory: str, listener: Listener = silent) -> str:
    """Bring one archive here, whole and held against its checksum; the path it got."""
    expected = _checksum_there(objects, archive.place)
    digest, done = hashlib.sha256(), 0
    if archive.size > free_bytes(directory):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)
    with (
        held_output(os.path.join(directory, archive.name)) as held,
        durable_file(held, replace=False) as file,
    ):
        for piece in objects.stream(archive.place):
            done += len(piece)
            if done > archive.size:  # it goes on beyond what the list says: perhaps for ever
                break
            write_all(file.fileno(), piece)
            digest.update(piece)
            listener(Event("pull", done, archive.size))
        if done != archive.size or (expected and digest.hexdigest() != expected):
            raise ArchiveAltered(
                f"`{objects.location}/{archive.place}` is not what was sent there: "
                + (
                    f"{done:,} of {archive.size:,} bytes came"
                    if done != archive.size
                    else "its checksum differs"
                ),
                kept="Nothing was kept of it here",
                next_steps=("Try again; then try another archive, and do not trust that place",),
                archive=archive.name,
            )
    return os.path.join(directory, os.path.basename(file.final_path))
