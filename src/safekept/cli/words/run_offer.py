"""The question after a run: keep what the agent did, or go back. Only a person at a terminal is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from safekept.core.errors import SafekeptError
from safekept.integrations.run.running import Ran

from ..beside import BesideConsole
from ..console import count_text
from .lists import styled
from .rollback import show_rollback

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.points import PointRollback, Points

KEPT, ROLLED_BACK, NOT_ASKED = "kept", "rolled-back", "not-asked"
_QUESTION = "[k]eep it, [r]oll back to before the run, [c]hoose a point, see the [d]iff"


class Offer:
    """Asks until there is an answer; what it did is in `outcome`."""

    def __init__(
        self, console: BesideConsole, context: UserContext, ran: Ran, where: Callable[[str], list[str]]
    ) -> None:
        self._console, self._context, self._ran, self._where = console, context, ran, where
        self.outcome: PointRollback | None = None

    def ask(self) -> str:
        """KEPT or ROLLED_BACK. The end of input and Ctrl-C keep everything."""
        account = self._ran.account
        assert account is not None and account.first is not None
        try:
            while True:
                answer = self._prompt(_QUESTION, "k").strip().lower()[:1]
                if answer == "k":
                    return KEPT
                if answer == "d":
                    self._difference(account.first.id)
                elif answer == "r" and self._roll_back(account.first.id):
                    return ROLLED_BACK
                elif answer == "c":
                    target = self._prompt("Its number or id (empty: none)", "").strip()
                    if target and self._roll_back(target):
                        return ROLLED_BACK
        except (click.Abort, KeyboardInterrupt):
            self._console.say("\nEverything was kept")
            return KEPT

    def _prompt(self, question: str, default: str) -> str:
        return str(click.prompt(question, default=default, show_default=bool(default), err=True))

    def _roll_back(self, target: str) -> bool:
        try:
            with self._points() as points:
                self.outcome = points.apply(points.resolve(target))
        except SafekeptError as error:
            self._console.error(error)
            return False
        finally:
            self._console.finish()
        show_rollback(self._console, self.outcome, self._where(self._ran.request.project))
        return True

    def _difference(self, target: str) -> None:
        try:
            with self._points() as points:
                found = points.diff(points.resolve(target))
        except SafekeptError as error:
            self._console.error(error)
            return
        for line in found.lines:
            self._console.line(line, **styled(line))
        self._console.line(f"{count_text(len(found.files), 'file')} changed since the run began")

    def _points(self) -> Points:
        from safekept.actions.projects.points import Points

        request = self._ran.request
        return Points(
            self._context,
            request.project,
            settings=request.policy.take,
            listener=self._console.listener(),
        )
