"""A guarded command: what was asked for, and what came of it from the snapshot to the check."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.agents import PUT_ASIDE
from safekept.core.processes.foreground import Ended
from safekept.core.records import dataclass
from safekept.home.health import Health, HomeLoss
from safekept.home.scan import Selection

from ..alarms.alarms import Alarm
from ..base.context import HomeRef
from ..base.operations.care import GuardFacts
from ..snapshots.create import SnapshotResult
from .pre_update import Protection

if TYPE_CHECKING:
    from ..restoring.restore import RestoreRequest


@dataclass(frozen=True, slots=True)
class GuardRequest:
    """What to run, and how it is protected."""

    place: HomeRef
    command: tuple[str, ...]
    kind: str = ""  # "pre-update" or "pre-migration"; empty: as the command says
    label: str = ""
    backup: bool | None = None  # True: a zip too; False: no snapshot; None: as the settings say
    anyway: bool = False  # run it even where the snapshot failed
    auto_restore: bool = False  # bring back at once what is lost beyond doubt
    selection: Selection = field(default_factory=Selection)
    mode: str = ""
    keep: int = 0
    deadline: float = 30.0
    keep_days: int = 14
    isolated: bool = False  # capture in a helper process: this one may have databases of the home open
    #: Does a restore elsewhere, for the same reason: its operation, and what it could not bring back.
    bring_back: Callable[[RestoreRequest], tuple[str, set[str]]] | None = None

    @property
    def chosen_kind(self) -> str:
        return self.kind or kind_for(self.command)

    @property
    def shown(self) -> str:
        """The command as it may be shown and kept: its program and what it was told to do, no options."""
        words = [os.path.basename(self.command[0]).removesuffix(PUT_ASIDE)]
        for word in self.command[1:3]:
            if word.startswith("-") or "=" in word or "/" in word:
                break
            words.append(word)
        return " ".join(words)


@dataclass(slots=True)
class Guarded:
    """What happened, from the snapshot to the check."""

    operation: str
    request: GuardRequest
    protection: Protection
    ended: Ended
    facts: GuardFacts  # what the journal says of it, and every document
    health: Health | None = None
    unchecked: str = ""  # why there was no check, or why it is not whole
    interrupted: bool = False  # Ctrl-C during the check
    restored: list[HomeLoss] = field(default_factory=list)  # brought back unasked
    undo: str = ""  # the operation of that
    problem: dict[str, object] | None = None  # why something was not brought back
    alarm: Alarm | None = None

    @property
    def snapshot(self) -> SnapshotResult | None:
        return self.protection.snapshot

    @property
    def findings(self) -> list[HomeLoss]:
        return self.health.findings if self.health else []

    @property
    def exit_code(self) -> int:
        """The command's own; where that is 0: 130 for Ctrl-C, 3 for a loss or where that is unknown."""
        if self.ended.status:
            return self.ended.status
        if self.interrupted:
            return 130
        blind = self.health is None and self.snapshot is not None
        return 3 if self.findings or blind else 0


def kind_for(command: tuple[str, ...]) -> str:
    """`pre-migration` for `hermes claw migrate`, however it is called; else `pre-update`."""
    words = [os.path.basename(word) for word in command]
    for number, word in enumerate(words):
        rest = [one for one in words[number + 1 :] if not one.startswith("-")]
        if word == "hermes" and rest[:2] == ["claw", "migrate"]:
            return "pre-migration"
    return "pre-update"
