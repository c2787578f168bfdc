"""Why the hidden half of a project is not kept, as it was last tried: one small file beside its records."""

from __future__ import annotations

import contextlib
import os
import time

from safekept.core.files.small import read_fields, write_document
from safekept.core.locks import lock_is_held
from safekept.core.records import dataclass

_NAME, LOCK = "hidden-trouble.json", "hidden.lock"
#: Seconds within which a process of its own makes up for what a call could not wait for.
_SOON = 120.0


@dataclass(frozen=True, slots=True)
class HiddenTrouble:
    """What stands written down; without a word: nothing is wrong."""

    what: str = ""
    since: float = 0.0  # seconds since 1970

    def lasting(self, records: str) -> bool:
        """Whether it will last: no process is at work on it, and it is not new."""
        old = bool(self.what) and not 0 <= time.time() - self.since < _SOON
        return old and not lock_is_held(os.path.join(records, LOCK))


def note_trouble(records: str, what: str) -> None:
    with contextlib.suppress(OSError):
        since = read_trouble(records).since or time.time()
        write_document(os.path.join(records, _NAME), {"time": since, "what": what[:500]}, durable=False)


def forget_trouble(records: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(records, _NAME))


def read_trouble(records: str) -> HiddenTrouble:
    fields = read_fields(os.path.join(records, _NAME))
    since = fields.get("time")
    when = float(since) if isinstance(since, int | float) else 0.0
    return HiddenTrouble(str(fields.get("what") or ""), when)
