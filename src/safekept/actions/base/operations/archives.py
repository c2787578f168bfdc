"""What is written down of archives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class BackupFacts(Facts):
    """An archive that was written, and those that went for it."""

    verb: ClassVar[str] = "backup"

    layout: str | None = None
    archive: str | None = None
    files: int | None = None
    bytes: int | None = None
    stored_bytes: int | None = None
    damaged: tuple[str, ...] | None = None
    census: Mapping[str, object] | None = None
    rotated: tuple[str, ...] | None = None
    rotated_until: float | None = None
    sealed: Mapping[str, object] | None = (
        None  # to whom, and the fingerprint by which the file is known again
    )
    scope: Mapping[str, object] | None = None
    created: str | None = None


@dataclass(kw_only=True, slots=True)
class AdoptFacts(Facts):
    """Backups of Hermes's own that were taken over."""

    verb: ClassVar[str] = "adopt"

    copies: tuple[Mapping[str, object], ...] | None = None
    freed_bytes: int | None = None
