"""The full account of one operation as a file, so that no list has to be cut short on a screen."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

from safekept.core.files import durable_write, private_directory

#: Reports are small and dated; the oldest go when there are more than this.
KEPT = 100


def write_report(directory: str, operation: str, document: Mapping[str, object]) -> str:
    """Write `<operation>.json`; returns its path."""
    private_directory(directory)
    path = os.path.join(directory, f"{operation}.json")
    durable_write(path, json.dumps(document, indent=1).encode() + b"\n")
    older = sorted(name for name in os.listdir(directory) if name.endswith(".json"))[:-KEPT]
    for name in older:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))
    return path
