"""What is written down of drills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class DrillFacts(Facts):
    """A drill: what was restored, where, and whether it passed."""

    verb: ClassVar[str] = "drill"

    subject: str | None = None
    name: str | None = None
    small: bool | None = None
    destination: str | None = None
    store: str | None = None
    snapshot: str | None = None
    projects: tuple[str, ...] | None = None
    rebuild: str | None = None  # the rebuild that it belongs to
    scratch: str | None = None  # while it works
    ok: bool | None = None
    files: int | None = None
    bytes: int | None = None
    failed: tuple[str, ...] | None = None
    receipt: str | None = None
