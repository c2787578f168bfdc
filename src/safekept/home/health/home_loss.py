"""One thing that a home has lost, where, and what brings it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from safekept.core.events import Listener, silent
from safekept.core.sqlite.capture import CaptureOptions

from ..layout.layout import Layout
from .losses import Shrinkage
from .recorded import Recorded, Since

#: So many names are listed in a sentence.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class HomeLoss:
    """Something that was there and is not any more."""

    kind: str  # "wiped", "owner", "closed", "database-…", "fewer", "gone", "emptied", "changed", …
    path: str  # in the home; empty: the home itself
    text: str  # a sentence, with the path in it
    unambiguous: bool = False  # beyond doubt a loss: may be brought back unasked
    restore_paths: tuple[str, ...] = ()  # what to restore; nothing: see `whole` and `fix`
    whole: bool = False  # the whole home is to be restored
    fix: str = ""  # a command of the system, where no restore can help
    losses: tuple[Shrinkage, ...] = ()  # the counts that fell, where they are known

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "path": self.path,
            "text": self.text,
            "unambiguous": self.unambiguous,
            "restore_paths": list(self.restore_paths),
            "whole": self.whole,
            "losses": [one.as_dict() for one in self.losses],
        }


class StoredState(Protocol):
    """Reads what the snapshot holds."""

    def data(self, path: str) -> bytes | None:
        """A file's bytes; None where there is none, or it cannot be read or is too large."""

    def owner(self, path: str) -> tuple[int, int] | None:
        """User and group of a file or directory; None where they are not known."""


@dataclass(slots=True)
class Examination:
    """What is looked at, and what was found so far."""

    layout: Layout
    recorded: Recorded
    since: Since
    stored: StoredState
    options: CaptureOptions
    listener: Listener = silent
    findings: list[HomeLoss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what could not be told: unknown is not lost
    told: set[str] = field(default_factory=set)  # paths that a finding speaks for already
    paths: list[str] = field(default_factory=list)  # everything that was recorded, once somebody asked

    def found(self, finding: HomeLoss, *paths: str) -> None:
        self.findings.append(finding)
        self.told.update((finding.path, *paths))

    def shrinkage(self, path: str, name: str, before: int, after: int) -> tuple[Shrinkage, ...]:
        """What a fall in one file means for the census of its profile; nothing where that did not fall."""
        profile = self.layout.profile_of(path)
        total = self.recorded.census.get(profile, {}).get(name)
        if total is None or after >= before:
            return ()
        return (Shrinkage(profile, name, total, max(0, total - before + after)),)


Look = Callable[[Examination], None]


def counted(name: str, count: int) -> str:
    """`1 cron job`, `4 cron jobs`, `12 memories`."""
    noun = name.replace("_", " ")
    if count == 1:
        noun = "memory" if noun == "memories" else noun.removesuffix("s")
    return f"{count:,} {noun}"


def some(names: list[str]) -> str:
    """`a, b, c and 4 more`."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown


def of_them(gone: int, before: int, name: str) -> str:
    """`all 4 cron jobs are gone`, `1 of 4 cron jobs is gone`."""
    if gone >= before:
        return (
            f"the only {counted(name, 1)[2:]} is gone"
            if before == 1
            else f"all {counted(name, before)} are gone"
        )
    return f"{gone:,} of {counted(name, before)} {'is' if gone == 1 else 'are'} gone"
