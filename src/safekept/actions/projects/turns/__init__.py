"""Turns of an agent: which there are, and taking back what one of them changed, everywhere, as one thing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...base.context import UserContext


def any_records(context: UserContext) -> bool:
    """Whether a turn was ever taken back here; where none was, nothing more of this need be loaded."""
    return os.path.isdir(records_directory(context))


def records_directory(context: UserContext) -> str:
    """Where each rollback of a turn is written down."""
    return os.path.join(context.places.data_directory, "turns", "rollbacks")
