"""What is written down of what goes to a destination, and comes from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class PushFacts(Facts):
    """A push to one destination."""

    verb: ClassVar[str] = "push"

    destination: str | None = None
    place: str | None = None
    absent: bool | None = None  # a disk that is not plugged in
    vault: str | None = None  # its id
    snapshots: int | None = None
    files: int | None = None
    bytes: int | None = None
    archive: str | None = None  # the last one that was sent
    archives: tuple[Mapping[str, object], ...] | None = None  # every one of ours that is there: name, home
    problems: tuple[Mapping[str, object], ...] | None = None


@dataclass(kw_only=True, slots=True)
class PullFacts(Facts):
    """A copy of the vault that was fetched."""

    verb: ClassVar[str] = "pull"

    destination: str | None = None
    place: str | None = None
    path: str | None = None
    mend: bool | None = None
    archive: str | None = None
    files: int | None = None
    bytes: int | None = None
    problems: tuple[Mapping[str, object], ...] | None = None
