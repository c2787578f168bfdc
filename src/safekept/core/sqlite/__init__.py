"""SQLite files: capture one that is in use, judge one, fold one, put one back.

Known by their header, not by their name. See `pin` for how each state of a database is read, and
`descriptors` for the one rule that keeps all of it safe.
"""

from __future__ import annotations

from .capture import CaptureOptions, capture, look
from .check import verify
from .fold import DatabaseDamaged, fold
from .format import HEADER, SIDECARS, is_database
from .holders import Holder, holders
from .restore import DatabaseHeld, DatabaseLocked, restore_into
from .watch import Watch, watching

__all__ = [
    "HEADER",
    "SIDECARS",
    "CaptureOptions",
    "DatabaseDamaged",
    "DatabaseHeld",
    "DatabaseLocked",
    "Holder",
    "Watch",
    "capture",
    "fold",
    "holders",
    "is_database",
    "look",
    "restore_into",
    "verify",
    "watching",
]
