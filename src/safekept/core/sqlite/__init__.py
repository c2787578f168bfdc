"""SQLite files: capture one that is in use, judge one, fold one, put one back.

Known by their header, not by their name. See `pin` for how each state of a database is read, and
`descriptors` for the one rule that keeps all of it safe.
"""

from typing import TYPE_CHECKING

from ..doors import doors

if TYPE_CHECKING:
    from .capture import CaptureOptions, look
    from .check import verify
    from .fold import DatabaseDamaged
    from .format import HEADER, SIDECARS, is_database
    from .hold.rows import look_quickly
    from .holders import Holder
    from .restore import DatabaseHeld, DatabaseLocked, Watch, restore_into, watching

__getattr__ = doors(
    __name__,
    {
        "capture": "CaptureOptions look",
        "check": "verify",
        "fold": "DatabaseDamaged",
        "format": "HEADER SIDECARS is_database",
        "hold.rows": "look_quickly",
        "holders": "Holder",
        "restore": "DatabaseHeld DatabaseLocked Watch restore_into watching",
    },
)
