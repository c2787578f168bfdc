"""What `run` says, all of it to stderr and none of it while the agent runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from safekept.checkpoints.checkpoint import REASONS
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.integrations.run.running import Ran, RunRequest

from ..console import count_text, path_text, time_text
from ..questions import prompt
from ..report_file import BesideConsole, write_report_file
from .lists import SHOWN, ago, changes_text, listing, styled, table
from .rollback import show_rollback

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.points import PointRollback, Points


class RunWords:
    """Speaks before an agent starts and after it ended."""

    def __init__(self, console: BesideConsole, request: RunRequest) -> None:
        self._console, self._request = console, request
        self._current = console.listener()

    def listen(self, event: Event) -> None:
        """A terminal that is gone stops nothing."""
        with contextlib.suppress(OSError):
            self._current(event)

    # -- before ----------------------------------------------------------------------------

    def protected(self, ran: Ran) -> Listener:
        """What is kept, and what is not; then silence, since the screen is the agent's."""
        console, project = self._console, path_text(self._request.project)
        console.finish()
        if ran.problem is not None:
            console.say(f"Run: NOT PROTECTED: {ran.problem.clause}; it runs anyway, and nothing is kept")
            self._current = console.notes()
            return self.listen
        home = f", home snapshot {ran.snapshot[:8]}" if ran.snapshot else ""
        console.say(f"Run: checkpoint {ran.first} of {project}{home}")
        if ran.no_snapshot:
            console.say(f"Run: NO SNAPSHOT of the home: {ran.no_snapshot}")
        if not ran.watch.get("native"):
            console.say(f"Run: {ran.watch.get('why')}; the project is looked at again and again instead")
        for text in ran.texts("notices")[:SHOWN]:
            console.say(f"  note    {text}")
        self._current = console.notes()
        return self.listen

    # -- after -----------------------------------------------------------------------------

    def ended(self, ran: Ran) -> Listener:
        with contextlib.suppress(OSError):
            if ran.problem is None:
                self._current = self._console.listener()
        return self.listen

    def show_result(self, ran: Ran) -> None:
        """How it ended, what changed, what was lost on the way, and every point."""
        console = self._console
        console.finish()
        assert ran.ended is not None
        console.heading(
            f"Run: {self._request.agent} {ran.ended.text} after {time_text(ran.ended.seconds)}",
            ran.ended.status == 0,
        )
        account = ran.account
        if account is not None:
            if account.project_gone:
                console.fact("Gone", f"{path_text(account.project)} was removed while the agent ran")
            if account.changes is not None:
                # What no checkpoint holds may have changed, too, and was not looked at.
                nothing = "nothing that a checkpoint holds"
                changed = changes_text(account.changes) if account.changes.files else nothing
                console.fact("Changed", f"{changed} in {path_text(account.project)}")
            for name in account.files[:SHOWN]:
                console.fact("", path_text(name))
            if len(account.files) > SHOWN:
                console.fact("", f"… and {len(account.files) - SHOWN:,} more")
            if account.gone:
                listing(
                    console,
                    "Lost",
                    [f"{one.path}: {REASONS.get(one.reason, one.reason)}" for one in account.gone],
                )
                console.fact("", "in no checkpoint, and gone now: no checkpoint can bring that back")
        for text in self.troubles(ran):
            console.fact("Trouble", text)
        if account is not None and account.rows and account.files:
            rows: list[tuple[str, ...]] = [("#", "ID", "WHEN", "THEN CHANGED", "REASON")]
            for row in account.rows[: SHOWN * 2]:
                point = row.point
                number = str(row.number) if row.number else ""
                rows.append(
                    (number, point.id, ago(point.time_ns), changes_text(row.changes), path_text(point.reason))
                )
            table(console, rows, cut=True)
            if len(account.rows) > SHOWN * 2:
                console.line(f"  … and {len(account.rows) - SHOWN * 2:,} older ones")

    def troubles(self, ran: Ran) -> list[str]:
        """What went wrong with the protection, in sentences."""
        found = []
        if ran.problem is not None:
            found.append("nothing was kept: there was no checkpoint before the agent started")
        if ran.no_snapshot:
            found.append(f"no snapshot of the home was taken: {ran.no_snapshot}")
        if ran.unwatched:
            found.append(f"{ran.unwatched}: the state before it started is kept, and how it ended")
        if ran.account is not None and ran.account.missing:
            missing = count_text(len(ran.account.missing), "point")
            everything = len(ran.account.missing) == len(ran.texts("points"))
            found.append(
                f"{missing} that had been taken {'is' if len(ran.account.missing) == 1 else 'are'} gone: "
                + (
                    "the store of checkpoints was removed or emptied while the agent ran"
                    if everything
                    else "dropped by the limits of checkpoints, or deleted"
                )
            )
        if ran.settings_touched:
            what = "were removed" if ran.settings_touched == "gone" else "were changed"
            found.append(
                f"safekept's own settings {what} while the agent ran: {path_text(ran.request.settings_file)}"
            )
        for one in ran.failures[:SHOWN]:
            times = int(str(one.get("times", 1)))
            found.append(f"{one['what']}" + (f" ({times} times)" if times > 1 else ""))
        if ran.unread:
            found.append(f"what changed cannot be told: {ran.unread}")
        return found

    def next_commands(self, ran: Ran) -> list[tuple[str, str]]:
        """What can be done about it: words and the exact command."""
        account = ran.account
        if not ran.first or (account is not None and (account.first is None or not account.files)):
            return []
        where = self.where(ran.request.project)
        return [
            ("Undo all of it", self._console.command("rollback", ran.first, *where)),
            ("See it first", self._console.command("rollback", ran.first, "--diff", *where)),
            ("Choose another point", self._console.command("rollback", *where)),
        ]

    @staticmethod
    def where(project: str) -> list[str]:
        """The option that a printed command needs; where we stand may be gone by now."""
        try:
            return [] if os.getcwd() == project else ["--dir", project]
        except OSError:
            return ["--dir", project]

    # -- the report ------------------------------------------------------------------------

    def document(self, ran: Ran, choice: str, rolled_back: dict[str, object] | None) -> dict[str, object]:
        assert ran.ended is not None
        return {
            **self._about(),
            "operation": ran.operation,
            "ran": True,
            **ran.facts.document("session", "status", "seconds", "checkpoint", "snapshot"),
            "signal": ran.ended.signal,
            "watching": "notifications" if ran.watch.get("native") else "looking" if ran.watch else None,
            "passes": ran.watch.get("passes", 0),
            "after": ran.watch.get("after") or None,
            "account": ran.account.as_dict() if ran.account else None,
            "troubles": self.troubles(ran),
            "notices": ran.texts("notices"),
            "failures": ran.failures,
            "commands": dict(self.next_commands(ran)),
            "choice": choice,
            "rolled_back": rolled_back,
            "exit_code": ran.ended.status,
            "error": ran.problem.as_dict() if ran.problem else None,
        }

    def refused(self, error: Exception) -> dict[str, object]:
        """The same where the agent was not started."""
        known = error.as_dict() if isinstance(error, SafekeptError) else {"what": str(error)}
        code = error.exit_code if isinstance(error, SafekeptError) else 1
        return {**self._about(), "ran": False, "exit_code": code, "error": known}

    def _about(self) -> dict[str, object]:
        return {"command": list(self._request.command), "project": self._request.project}


def write_run_report(console: BesideConsole, path: str, document: dict[str, object]) -> None:
    """The agent has run by now, so a report that cannot be written is said and no more."""
    write_report_file(path, document, lambda text: console.say(f"Run: {text}"))


# The question after a run: keep what the agent did, or go back. Only a person at a terminal is asked.

KEPT, ROLLED_BACK, NOT_ASKED = "kept", "rolled-back", "not-asked"
_QUESTION = "[k]eep it, [r]oll back before the run, [c]hoose a point, see the [d]iff"


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
                    self._console.say("Everything was kept")
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
            self._console.say("Everything was kept")
            return KEPT

    def _prompt(self, question: str, default: str) -> str:
        return prompt(f"{question} [{default}]" if default else question, default=default)

    def _roll_back(self, target: str) -> bool:
        try:
            with self._points() as points:
                self.outcome = points.apply(points.resolve(target))
        except SafekeptError as error:
            self._console.error(error)
            return False
        finally:
            self._console.finish()
        show_rollback(self._console, self.outcome)
        return True

    def _difference(self, target: str) -> None:
        try:
            with self._points() as points:
                found = points.diff(points.resolve(target))
        except SafekeptError as error:
            self._console.error(error)
            return
        finally:
            self._console.finish()
        for line in found.lines:
            self._console.verbatim(line, **styled(line))
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
