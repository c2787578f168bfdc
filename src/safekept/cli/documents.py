"""The one place where a document for programs becomes text: `--json`, and the `--report` of guard and run.

Each carries the version of its shape. Keys are only ever added under the same version; it grows when one is
taken away or means something else, so that a program can refuse what it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

VERSION = 1


def document_text(
    document: Mapping[str, object],
    indent: int | None = 2,
    default: Callable[[object], object] | None = None,
) -> str:
    """The document with its version first. What is in it may have a version of its own, one level down."""
    rest = {name: value for name, value in document.items() if name != "version"}
    return json.dumps({"version": VERSION, **rest}, indent=indent, default=default)
