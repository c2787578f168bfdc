"""Writes down that a call was not protected, where `safekept status` looks for it.

The helper does so itself for every call it hears of; this is for those that it never heard of. The file is
the same, and is written the same way: whole, under its name, for its owner only.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from typing import Any

from .link import client

_LONGEST = 500


def remember_failure(data: str, what: str) -> bool:
    """Whether it could be written; nothing is raised."""
    try:
        return _remember(data, what)
    except (OSError, ValueError):
        return False


def _remember(data: str, what: str) -> bool:
    place = os.path.join(data, "integrations")
    client.private_directory(place)
    path = os.path.join(place, "hermes.json")
    document: dict[str, Any] = {}
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
        document = read if isinstance(read, dict) else {}
    except (OSError, ValueError):
        document = {}
    now = time.time()
    calls = document.get("calls")
    document |= {
        "host": "hermes",
        "last_call": now,
        "last_failure": {"time": now, "what": what[:_LONGEST]},
        "calls": (calls if isinstance(calls, int) else 0) + 1,
    }
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return True
