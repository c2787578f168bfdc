"""The copies that Hermes keeps in its home: quick snapshots (`state-snapshots/*`) and zips (`backups/*.zip`).

Found and judged by what they are. A directory without a readable manifest is what a killed snapshot
left: what lies in it is offered, and never as a whole one. Nothing is written or removed here.
"""

from __future__ import annotations

import calendar
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from safekept.core.agents import compose, members
from safekept.core.entries import Entry, Kind, Outcome, Remark
from safekept.core.events import Listener, silent
from safekept.core.files.small import read_regular, read_start
from safekept.core.records import dataclass

from .census import Census
from .layout.layout import Layout
from .scan.opener import HEADER, Opener

if TYPE_CHECKING:
    from safekept.core.sqlite import CaptureOptions


QUICK_COPIES, ZIP = "state-snapshots", "backups"
MANIFEST = "manifest.json"
_UTC = re.compile(r"(\d{8}-\d{6})(?:-.*)?")
_LOCAL = re.compile(r".*?(\d{4}-\d\d-\d\d-\d{6})(?:-\d+)?\.zip")
_LARGEST_MANIFEST = 16 << 20


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy as it lies in the home; `reason` says why it cannot be used, where it cannot."""

    name: str  # its path below the home, which is also its name for ever
    path: str
    kind: str  # QUICK_COPIES or ZIP
    below: str  # the profile that it is of (`profiles/coder`); empty: the home itself
    time_ns: int
    label: str
    disk_bytes: int
    files: dict[str, int] = field(default_factory=dict)  # what its manifest promises: path -> size
    reason: str = ""
    doubt: str = ""  # why it can be used, but not be taken for whole


def find_copies(home: str, layout: Layout) -> list[Copy]:
    """Every copy in a home and its profiles, oldest first."""
    found: list[Copy] = []
    for below in ("", *_profiles(home, layout)):
        place = os.path.join(home, below)
        for name in _names(os.path.join(place, QUICK_COPIES)):
            path = os.path.join(place, QUICK_COPIES, name)
            if os.path.isdir(path) and not os.path.islink(path):
                found.append(_quick(home, path, below))
        for name in _names(os.path.join(place, ZIP)):
            path = os.path.join(place, ZIP, name)
            if name.lower().endswith(".zip") and stat.S_ISREG(os.lstat(path).st_mode):
                found.append(_zip(home, path, below))
    return sorted(found, key=lambda copy: (copy.time_ns, copy.name))


def _profiles(home: str, layout: Layout) -> list[str]:
    if not layout.profiles:
        return []
    return [f"{layout.profiles}/{name}" for name in _names(os.path.join(home, layout.profiles))]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _quick(home: str, path: str, below: str) -> Copy:
    name = os.path.basename(path)
    relative = os.path.relpath(path, home)
    manifest = _read_manifest(path)
    match = _UTC.fullmatch(name)
    taken_ns = _time(match[1], "%Y%m%d-%H%M%S", utc=True) if match else 0
    taken_ns = taken_ns or os.stat(path).st_mtime_ns
    if manifest is None:
        doubt = "its manifest is missing or cannot be read: a snapshot that was interrupted"
        empty = "" if any(names for _, _, names in os.walk(path)) else f"it holds no files; {doubt}"
        size = disk_bytes(path)
        return Copy(relative, path, QUICK_COPIES, below, taken_ns, name, size, reason=empty, doubt=doubt)
    listed = manifest.get("files")
    files = {
        str(file): size
        for file, size in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(size, int)
    }
    label = str(manifest.get("label") or "")
    reason = "" if files else "it holds no files"
    return Copy(relative, path, QUICK_COPIES, below, taken_ns, label, disk_bytes(path), files, reason)


def _zip(home: str, path: str, below: str) -> Copy:
    name = os.path.basename(path)
    match = _LOCAL.fullmatch(name)
    taken_ns = _time(match[1], "%Y-%m-%d-%H%M%S", utc=False) if match else 0
    return Copy(
        os.path.relpath(path, home),
        path,
        ZIP,
        below,
        taken_ns or os.stat(path).st_mtime_ns,
        name.removesuffix(".zip"),
        disk_bytes(path),
    )


def _read_manifest(path: str) -> dict[str, Any] | None:
    try:
        found = json.loads(read_regular(os.path.join(path, MANIFEST), _LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _time(text: str, form: str, *, utc: bool) -> int:
    try:
        parsed = time.strptime(text, form)
        return int(calendar.timegm(parsed) if utc else time.mktime(parsed)) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


def disk_bytes(path: str) -> int:
    """What a file or directory takes on the disk: what removing it would free."""
    facts = os.lstat(path)
    total = facts.st_blocks * 512 if facts.st_nlink == 1 or stat.S_ISDIR(facts.st_mode) else 0
    if stat.S_ISDIR(facts.st_mode):
        for name in _names(path):
            total += disk_bytes(os.path.join(path, name))
    return total


class QuickSource:
    """One quick snapshot of Hermes's as a Source, its paths those of the home."""

    ordered = False

    def __init__(
        self, copy: Copy, layout: Layout, options: CaptureOptions, listener: Listener = silent
    ) -> None:
        self.copy = copy
        self._prefix = f"{copy.below}/" if copy.below else ""
        self._opener = Opener(copy.path, self._prefix, options, Census(layout), listener)
        self._remarks: list[Remark] = []

    @property
    def remarks(self) -> list[Remark]:
        return self._remarks

    def __iter__(self) -> Iterator[Entry]:
        self._remarks = []
        if self.copy.doubt:
            self._remark(MANIFEST, self.copy.doubt)
        promised = dict(self.copy.files)
        for directory, names, files in os.walk(self.copy.path):
            names.sort()
            inside = os.path.relpath(directory, self.copy.path)
            start = "" if inside == "." else inside + "/"
            if start:
                facts = os.lstat(directory)
                yield Entry(
                    self._prefix + start.rstrip("/"),
                    Kind.DIRECTORY,
                    stat.S_IMODE(facts.st_mode),
                    facts.st_mtime_ns,
                )
            for name in sorted(files):
                relative = start + name
                if relative == MANIFEST or self._is_sidecar(directory, name):
                    continue
                entry = self._file(os.path.join(directory, name), relative)
                if entry is not None:
                    if promised.pop(relative, entry.size) != entry.size:
                        self._remark(relative, "it does not have the size that the manifest says")
                    yield entry
        for relative in sorted(promised):
            # Hermes lists what lay beside a database when it copied it; the copy has it inside.
            if not self._is_sidecar(*os.path.split(os.path.join(self.copy.path, relative))):
                self._remark(relative, "listed by Hermes, but missing")

    @staticmethod
    def _is_sidecar(directory: str, name: str) -> bool:
        """What lies beside a database travels with it; alone it would harm whatever it is put beside."""
        for suffix in ("-wal", "-shm", "-journal"):
            if name.endswith(suffix) and _is_database(os.path.join(directory, name.removesuffix(suffix))):
                return True
        return False

    def _file(self, path: str, relative: str) -> Entry | None:
        facts = os.lstat(path)
        if not stat.S_ISREG(facts.st_mode):
            self._remarks.append(
                Remark(self._prefix + relative, Outcome.PASSED_OVER, "not a regular file, in a copy of files")
            )
            return None
        name, database = self._prefix + relative, _is_database(path)
        opening = (
            partial(self._opener.database, name, "", ())
            if database
            else partial(self._opener.plain, name, facts.st_ino)
        )
        return Entry(
            name,
            Kind.FILE,
            stat.S_IMODE(facts.st_mode),
            facts.st_mtime_ns,
            facts.st_size,
            database=database,
            open=opening,
        )

    def _remark(self, relative: str, reason: str) -> None:
        self._remarks.append(Remark(self._prefix + relative, Outcome.UNREADABLE, reason))


def _is_database(path: str) -> bool:
    try:
        return read_start(path, len(HEADER)) == HEADER
    except OSError:
        return False


# What an agent's `config.yaml` says about backups before updates, read as Hermes reads it.
# `updates.pre_update_backup` is `quick`, `full` or `off`; booleans mean full and off. An unknown word
# means quick, as in Hermes: a slip in a setting must not switch protection off.

QUICK, FULL, OFF = "quick", "full", "off"
KEEP = 5

# The words that YAML 1.1, which Hermes reads, takes for booleans and for nothing when not quoted.
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NOTHING = frozenset({"", "~", "null"})

_LARGEST = 4 << 20  # a settings file of more bytes is not one


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """Which copy is made before an update, and how many zips stay."""

    mode: str = QUICK
    keep: int = KEEP


def read_updates(home: str) -> UpdateSettings:
    """The section `updates` of a home's `config.yaml`; what is missing or unreadable is the default."""
    try:
        data = read_regular(os.path.join(home, "config.yaml"), _LARGEST)
        if b"updates" not in data:  # most do not say: loading a parser would cost more than the answer
            return UpdateSettings()
        section = members((members(compose(_text(data))) or {}).get("updates")) or {}
    except (OSError, ValueError):
        return UpdateSettings()
    return UpdateSettings(_mode(section.get("pre_update_backup")), _keep(section.get("backup_keep")))


def mode_of(text: str, *, quoted: bool = True) -> str:
    """`quick`, `full` or `off` for a word that a person wrote."""
    word = text.strip().lower()
    if not quoted and word in _TRUE:
        return FULL
    if not quoted and (word in _FALSE or word in _NOTHING):
        return OFF
    if word in ("off", "false", "none", "disabled"):
        return OFF
    return FULL if word in ("full", "zip", "true") else QUICK


def _mode(node: Any) -> str:
    from ruamel.yaml.nodes import ScalarNode

    if not isinstance(node, ScalarNode):
        return QUICK
    return mode_of(str(node.value), quoted=node.style is not None)


def _keep(node: Any) -> int:
    try:
        return max(int(str(node.value)), 1)
    except (AttributeError, ValueError):
        return KEEP


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")
