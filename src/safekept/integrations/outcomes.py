"""What one call came to: what holds the old bytes, what does not, and what the user should hear."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from safekept.core.errors import SafekeptError


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not protected, and why."""

    what: str
    code: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A path that was named and is in no point."""

    path: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a call."""

    checkpoints: tuple[str, ...] = ()  # the points that hold what was there before
    home_point: str = ""
    skipped: tuple[Uncovered, ...] = ()
    failures: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()  # sentences for the user, each given once in a session
    context: str = ""  # for the model, where its host has a way to tell it; given once
    off: bool = False  # safekept is switched off for this session

    @property
    def complete(self) -> bool:
        """Whether everything that was named is in a point."""
        return not self.off and not self.failures and not self.skipped

    def as_dict(self) -> dict[str, object]:
        return {
            "checkpoints": list(self.checkpoints),
            "home_point": self.home_point,
            "skipped": [dataclasses.asdict(one) for one in self.skipped],
            "failures": [dataclasses.asdict(one) for one in self.failures],
            "notices": list(self.notices),
            "context": self.context,
            "off": self.off,
        }


def problem(error: Exception, project: str = "") -> Problem:
    """An error as something to say."""
    if isinstance(error, SafekeptError):
        return Problem(error.what, error.code, project)
    if isinstance(error, OSError):
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        return Problem(what, "unexpected", project)
    return Problem(f"{type(error).__name__}: {error}", "unexpected", project)
