"""Small files about hosts: replaced whole, not synced, and worth nothing but their news.

A file that cannot be read is as good as none, and one that cannot be written stops nobody.
"""

from __future__ import annotations

import contextlib
import json
import os

from safekept.core.files import private_directory, quick_write

#: Nothing of ours is larger; what is was not written by us.
_LARGEST = 1 << 20


def integrations_directory(data_directory: str) -> str:
    """Where everything about hosts is kept."""
    return os.path.join(data_directory, "integrations")


def read_small(path: str) -> dict[str, object]:
    """The document in a file; an empty one where there is none, or none of ours."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        with open(path, "rb") as file:
            document = json.loads(file.read(_LARGEST))
        if isinstance(document, dict):
            return document
    return {}


def write_small(path: str, document: dict[str, object]) -> None:
    """Replace it, atomically; an OSError where that cannot be."""
    data = json.dumps(document).encode()
    try:
        quick_write(path, data)
    except FileNotFoundError:
        private_directory(os.path.dirname(path))
        quick_write(path, data)
