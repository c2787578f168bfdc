"""How the last run of maintenance went: small, replaced whole, and worth nothing but its news."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, field

from safekept.core.files.small import read_document, write_document
from safekept.core.records import dataclass

_STATE = "maintenance.json"


@dataclass(slots=True)
class Upkeep:
    """How the last run went; what `status` shows."""

    started: float = 0.0
    ended: float = 0.0
    succeeded: float = 0.0
    full: float = 0.0  # the last run that looked at everything
    failures: int = 0  # in a row
    error: str = ""
    dropped: int = 0
    freed: int = 0
    still_over: int = 0
    damage: dict[str, float] = field(
        default_factory=dict
    )  # what cannot be read, and since when that is known
    remarks: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def read_upkeep(directory: str) -> Upkeep:
    """How the last run went; an empty record where there was none or it cannot be read."""
    return read_document(os.path.join(directory, _STATE), _upkeep_from, Upkeep())


def _upkeep_from(fields: Mapping[str, object]) -> Upkeep:
    known = Upkeep()
    for name, default in asdict(known).items():
        value = fields.get(name, default)
        if isinstance(value, int | float) and isinstance(default, int | float):
            setattr(known, name, type(default)(value))
        elif isinstance(value, type(default)):
            setattr(known, name, value)
    return known


def write_upkeep(directory: str, upkeep: Upkeep) -> None:
    with contextlib.suppress(OSError):  # news only: a full disk must not keep it from being made empty
        write_document(os.path.join(directory, _STATE), upkeep.as_dict())
