"""Names in git trees: a project may hold any name, a tree may not.

Git refuses or distrusts names that could be taken for its own data on some filesystem (`.git` in many
disguises, `git~1`, `.gitmodules`, `.gitattributes`, names with a backslash before one of them). Such a
name is stored as `safekept%` and its bytes in hexadecimal, so that nothing has to be left out and
`git fsck --strict` stays quiet. What is stored is the blob of the file all the same.
"""

from __future__ import annotations

import re

ESCAPE = b"safekept%"
#: The blob that describes a directory, in the tree `meta/`.
META = b".meta"

_SUSPICIOUS = re.compile(rb"git|~|\\|safekept%|mailmap|\xe2\x80|\xe2\x81|\xef\xbb\xbf", re.IGNORECASE)
#: Code points that HFS+ does not see in names.
_INVISIBLE = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
_TAIL = rb"[ .]*(?::.*)?$"
_HOSTILE = re.compile(
    rb"(?:\.git(?:modules|attributes)?" + _TAIL + rb"|g[^~]{0,5}~\d)", re.IGNORECASE | re.DOTALL
)
_HOSTILE_LINK = re.compile(rb"(?:\.gitignore|\.mailmap|ma[^~]{0,4}~\d)", re.IGNORECASE)


def stored_name(name: bytes, link: bool = False) -> bytes:
    """The name of an entry of a tree for a name in the project."""
    if _SUSPICIOUS.search(name) is None:
        return name
    if name.startswith(ESCAPE):
        return ESCAPE + name.hex().encode()
    for part in _INVISIBLE.sub(b"", name).split(b"\\"):
        if _HOSTILE.match(part) or (link and _HOSTILE_LINK.match(part)):
            return ESCAPE + name.hex().encode()
    return name


def real_name(stored: bytes) -> bytes:
    """The name in the project for the name of an entry of a tree."""
    if not stored.startswith(ESCAPE):
        return stored
    try:
        return bytes.fromhex(stored[len(ESCAPE) :].decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        return stored  # foreign: no name of ours looks like this


def meta_name(name: bytes) -> bytes:
    """The name of a directory in `meta/`, where `.meta` is taken."""
    stored = stored_name(name)
    return stored + b"~" if stored.rstrip(b"~") == META else stored


def real_meta_name(stored: bytes) -> bytes:
    """The directory's own name for its name in `meta/`."""
    if stored != META and stored.rstrip(b"~") == META:
        stored = stored[:-1]
    return real_name(stored)
