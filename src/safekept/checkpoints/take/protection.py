"""What one call before or after an agent's change came to; what went wrong is a part of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from safekept.core.errors import SafekeptError

from ..checkpoint import Skipped
from .taking import Taken


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that is not protected, and why."""

    project: str
    code: str
    what: str


@dataclass(slots=True)
class Protection:
    """What one call came to."""

    taken: list[Taken] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)  # named, and not covered
    failures: list[Failure] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)  # sentences for the user, each given once

    @property
    def complete(self) -> bool:
        """Whether everything that was named is in a checkpoint."""
        return not self.failures and not self.skipped


def failure_of(project: str, error: Exception) -> Failure:
    """An error as something that is not protected."""
    if isinstance(error, SafekeptError):
        return Failure(project, error.code, error.what)
    return Failure(project, "internal-error", f"{type(error).__name__}: {error}")
