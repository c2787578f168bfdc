"""Which names may come out of an archive.

A name that could land outside the target, hide another one, or be written through a link is never
handed on: the whole archive is refused, since nobody makes such a name by accident.
"""

from __future__ import annotations

import os
import re
import unicodedata

from safekept.core.entries import Kind

from ..errors import unsafe
from .limits import Limits

_DRIVE = re.compile(r"[A-Za-z]:")
#: The longest path, the most parts of one, and the longest part: what a Linux filesystem takes.
LONGEST, MOST_PARTS, LONGEST_PART = 4096, 255, 255


def beyond_bounds(path: str) -> str:
    """What is wrong with the length of a path; "" for one that can lie in an archive and on a disk."""
    raw = path.encode("utf-8", "surrogatepass")
    if len(raw) > LONGEST:
        return f"a path of more than {LONGEST:,} bytes"
    if raw.count(b"/") > MOST_PARTS - 1:
        return f"a path of more than {MOST_PARTS} parts"
    if len(raw) > LONGEST_PART and max(map(len, os.fsencode(path).split(b"/"))) > LONGEST_PART:
        return f"a name of more than {LONGEST_PART} bytes"
    return ""


def clean_name(archive: str, raw: str, own: bool) -> str:
    """The name as a relative path, `""` for the root itself; raises for one that is not safe.

    `own`: the archive carries our manifest. A home on Linux may hold `a\\b` or `c:x`, and must get
    it back; in a foreign archive such a name is a trick played on another system.
    """
    # Looked at before anything is taken apart: a name of 100,000 parts would cost gigabytes.
    if len(raw) > LONGEST_PART and (reason := _bounds(raw)):
        raise unsafe(archive, f"{raw[:80]}…", reason)
    if "\0" in raw:
        raise unsafe(archive, raw.replace("\0", "\\0"), "a name with a NUL byte")
    if not raw.isascii() and not _is_path(raw):
        raise unsafe(archive, raw, "a name that no file can have")
    if raw.startswith("/"):
        raise unsafe(archive, raw, "an absolute path")
    strict = not own or os.name == "nt"
    if strict:
        if _DRIVE.match(raw):
            raise unsafe(archive, raw, "a path with a drive letter")
        if "\\" in raw and (raw.startswith("\\") or ".." in raw.replace("\\", "/").split("/")):
            raise unsafe(archive, raw, "a path that leaves the target by backslashes")
    if ".." not in raw and "//" not in raw and "./" not in raw and not raw.endswith(("/", ".")):
        return raw  # the common case, without taking the name apart
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise unsafe(archive, raw, "a path that leaves the target by `..`")
    return "/".join(parts)


def _bounds(raw: str) -> str:
    try:
        return beyond_bounds(raw.rstrip("/"))
    except UnicodeError:
        return "a name that no file can have"


def _is_path(raw: str) -> bool:
    """Whether a name can be one: a lone half of a pair, as JSON can carry it, stands for no byte."""
    try:
        os.fsencode(raw)
    except UnicodeError:
        return False
    return True


def check_target(archive: str, name: str, target: str) -> None:
    """Raise for a link whose target no filesystem could hold."""
    if "\0" in target or not _is_path(target):
        raise unsafe(archive, name, "a link whose target is no path")
    if len(target) > LONGEST or len(os.fsencode(target)) >= LONGEST:
        raise unsafe(archive, name, f"a link whose target has {LONGEST:,} bytes or more")


class NameBook:
    """Every name of one archive: finds duplicates, collisions, and links or files used as parents."""

    def __init__(self, archive: str, limits: Limits) -> None:
        self.archive, self.limits = archive, limits
        self.kinds: dict[str, Kind] = {}

    def add(self, name: str, kind: Kind) -> bool:
        """Note a name; False for a directory listed twice, which harms nobody."""
        if name in self.kinds:
            if kind is Kind.DIRECTORY and self.kinds[name] is Kind.DIRECTORY:
                return False
            raise unsafe(self.archive, name, "the same name twice")
        self.kinds[name] = kind
        return True

    def close(self) -> None:
        """Look at all names together, once every one is known."""
        kinds = self.kinds
        checked: set[str] = set()
        for name in kinds:
            parent = name.rpartition("/")[0]
            while parent and parent not in checked:
                checked.add(parent)
                kind = kinds.get(parent, Kind.DIRECTORY)
                if kind is Kind.SYMLINK:
                    raise unsafe(self.archive, name, f"a path through the link `{parent}`")
                if kind is Kind.FILE:
                    raise unsafe(self.archive, name, f"a path through the file `{parent}`")
                parent = parent.rpartition("/")[0]
        if self.limits.folds_case:
            self._refuse_collisions()

    def _refuse_collisions(self) -> None:
        folded: dict[str, str] = {}
        for name, kind in self.kinds.items():
            if kind is Kind.DIRECTORY:
                continue
            key = unicodedata.normalize("NFC", name).casefold()
            other = folded.setdefault(key, name)
            if other != name:
                raise unsafe(
                    self.archive, name, f"which the target cannot tell from `{other}`: it ignores case"
                )


def leaves_target(link: str, target: str) -> bool:
    """Whether a link points outside the tree it lies in; it is kept as it is, and said."""
    if target.startswith("/"):
        return True
    depth = link.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in ("", "."):
            depth += 1
    return False
