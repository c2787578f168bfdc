"""`safekept rebuild` without a place: something emptied this machine; bring back what survived on it.

Stores that are gone come from the keeper, where there is one. Then small files, since the settings say where
everything is; then homes, projects, and last what protects them. Each part stands by itself: what fails is
listed, and everything else comes back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from safekept.actions.base.kept_copies import copies_directory
from safekept.actions.base.record import record
from safekept.actions.base.unfinished import Unfinished, finished, read_unfinished
from safekept.actions.restoring.here.homes import HomePlan, bring_home, plan_home
from safekept.actions.restoring.here.lost import Lost, LostHome, find_lost
from safekept.actions.restoring.here.projects import bring_project, waits_for_another
from safekept.actions.restoring.here.small_files import bring_files, bring_lines, bring_receipts
from safekept.actions.restoring.here.survivors import KeeperHas, anything_here, keeper_has
from safekept.actions.restoring.rebuild_request import NothingToRebuild
from safekept.actions.restoring.restore import RestoreRequest
from safekept.core.ages import ago_text, seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.settings import load_settings
from safekept.settings.policies import take_settings_from

from ...console import Console, count_text, path_text, size_text
from ...options import context_from
from ...screen import Screen
from ...words.kit import gone_kit_text
from ...words.landing_plan import ask_consent
from .rebuild_errors import NotWhole, NotWritten, RepositoryNotWhole, nothing_survived

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.settings import Settings

#: So many projects are named on the screen; the JSON has all.
_SHOWN = 12
_Value = TypeVar("_Value")


class RebuildHere:
    """One of them on its way."""

    def __init__(
        self, settings: Settings, context: UserContext, console: Console, *, yes: bool, dry_run: bool
    ) -> None:
        self._settings, self._context, self._console = settings, context, console
        self._yes, self._dry_run = yes, dry_run
        self._screen = Screen(console, settings.user_home)
        self._failed: list[SafekeptError] = []
        self._document: dict[str, object] = {"keeper": None}
        self._operation = new_id()
        self._brought = (0, 0)  # files and bytes that came from the keeper

    def run(self) -> int:
        """All of it; the exit code."""
        console = self._console
        self._as_they_were()
        begun = read_unfinished(self._context)
        going_on = begun is not None and begun.verb == "rebuild" and not begun.arguments
        kept = self._stores(begun.place if begun is not None and going_on else "")
        lost = find_lost(self._context, console.listener())
        console.finish()
        if kept is not None and self._dry_run:
            lost = replace(lost, vault="")  # that it is not here yet is no problem of it
        if not lost and not going_on and kept is None:
            return self._nothing(lost)
        homes = self._planned(lost)
        if lost or kept is None:
            self._show(lost, homes)
        self._document |= {**lost.as_dict(), "homes": [one.as_dict() for one in homes]}
        if self._dry_run:
            console.document({"dry_run": True, **self._document})
            if kept is not None:
                console.line("The homes and projects in it are known when it is here")
            console.line("Nothing was changed")
            return 0 if not self._failed else 3
        self._consent(lost, homes, going_on or kept is not None)
        return self._carry_out(lost, homes)

    def _as_they_were(self, text: str = "") -> None:
        """Settings that are gone hold as their copy has them: they say where the vault is."""
        copy = os.path.join(copies_directory(self._context), "config.toml")
        copied = os.path.isfile(copy)
        if os.path.lexists(self._context.places.settings_file) or not (copied or text):
            return
        self._settings = load_settings(
            self._settings.environment, file=copy if copied else "", text="" if copied else text
        )
        self._context = context_from(self._settings, can_ask=self._console.can_ask())

    def _reload(self) -> None:
        self._settings = load_settings(self._settings.environment)
        self._context = context_from(self._settings, can_ask=self._console.can_ask())

    def _stores(self, begun: str) -> KeeperHas | None:
        """What the keeper has of the stores and is not here is put where it was; None where nothing is."""
        here = anything_here(self._context)
        try:
            found = keeper_has(self._context, begun)
        except SafekeptError as error:
            if not here:
                raise
            self._failed.append(error)
            found = None
        if found is not None and found.held.settings:
            text = found.held.settings
            self._tried(lambda: self._as_they_were(text))
            found = found.seen_by(self._context)
        if found is None or not found.missing:
            if not here:
                raise nothing_survived(self._context)
            return None
        self._document["keeper"] = found.as_dict()
        self._show_keeper(found)
        if not self._dry_run:
            self._from_keeper(found, going_on=bool(begun))
        return found

    def _show_keeper(self, found: KeeperHas) -> None:
        points = (
            count_text(number, noun)
            for number, noun in ((found.snapshots, "snapshot"), (found.checkpoints, "checkpoint"))
            if number
        )
        files = f"{count_text(len(found.missing), 'file')}, {size_text(found.bytes)}"
        age = ago_text(found.held.manifest.time)
        self._console.heading(f"The keeper has what is gone of the vault and the checkpoints, as of {age}")
        self._console.fact("From it", "; ".join([*points, files]))
        if found.held.passed_over:
            self._console.fact("", "what was sent later names less than half of it, and is passed over")

    def _from_keeper(self, found: KeeperHas, going_on: bool) -> None:
        if not found.whole_gone and not going_on and not self._yes:
            question = f"{count_text(len(found.missing), 'file')} that you may have deleted come back"
            see, agree = (self._console.command("rebuild", word) for word in ("--dry-run", "--yes"))
            ask_consent(self._console, "rebuild", [question], see, agree)
        on_its_way = Unfinished("rebuild", (), place=found.name)
        on_its_way.add(["history"])
        on_its_way.write(self._context)
        done = found.put_back(self._context, self._console.listener())
        self._console.finish()
        self._console.fact("Back", f"{count_text(done.files, 'file')}, {size_text(done.bytes)}")
        for path in done.aside[:_SHOWN]:
            self._console.fact("Aside", path_text(path))
        for path, why in done.lost:
            self._failed.append(NotWhole(path, why))
        self._document["keeper"] = {**found.as_dict(), "aside": list(done.aside)}
        self._brought = (done.files, done.bytes)
        self._reload()

    def _nothing(self, lost: Lost) -> int:
        if lost.vault:
            raise NothingToRebuild(
                f"Nothing was found that is gone, and the vault could not be read: {lost.vault}",
                kept="Nothing was changed",
                next_steps=(NextStep("doctor", before="See what is wrong:"),),
            )
        self._console.document({"dry_run": self._dry_run, **lost.as_dict()})
        self._console.heading("Nothing is gone: every home and project that safekept keeps is here")
        self._console.line(NextStep("rebuild", ("FROM",), before="From a kit, a destination or an archive:"))
        return 0

    # ── the plan ───────────────────────────────────────────────────────────────────────────────────

    def _request(self, lost: LostHome) -> RestoreRequest:
        return RestoreRequest(
            word=lost.snapshot if lost.forgotten else "latest",
            forgotten=bool(lost.forgotten),
            home=lost.home,
            layout=lost.layout,
            search_behind=True,
            rebuild=self._operation,
            deadline=self._settings.number("database.deadline"),
            keep_days=self._settings.whole("import.keep_days"),
            offers_sound=True,  # where the newest is not sound, the newest that is
        )

    def _planned(self, lost: Lost) -> list[HomePlan]:
        found = (
            self._tried(lambda one=one: plan_home(self._context, self._request(one), one))  # type: ignore[misc]
            for one in lost.homes
        )
        return [one for one in found if one is not None]

    def _show(self, lost: Lost, homes: list[HomePlan]) -> None:
        screen, now = self._screen, time.time()
        self._console.heading(f"Bring back what is gone: {summary(lost) or 'the rest of it'}")
        for label, text in self._own(lost):
            screen.fact(label, text)
        for one in homes:
            age = seconds_text(max(0.0, now - one.taken))
            files = f"{count_text(one.files, 'file')}, {size_text(one.bytes)}"
            screen.fact("Home", f"{screen.path(one.lost.home)}: snapshot {one.snapshot}, {age} old; {files}")
            if one.lost.forgotten:
                screen.fact("", f"that snapshot was forgotten {ago_text(one.lost.forgotten)}")
        for project in lost.projects[:_SHOWN]:
            age = seconds_text(max(0.0, now - project.time))
            files = count_text(project.files, "file")
            screen.fact("Project", f"{screen.path(project.project)}: as it was {age} ago; {files}")
        if len(lost.projects) > _SHOWN:
            screen.fact("", f"… and {len(lost.projects) - _SHOWN:,} more")
        if lost.vault:
            screen.fact("Beware", f"no home can come back, the vault could not be read: {lost.vault}")
        if then := then_words(lost):
            screen.fact("Then", then)

    def _own(self, lost: Lost) -> Iterator[tuple[str, str]]:
        """What of safekept's own comes back."""
        places = self._context.places
        for label, path in (("Key", places.vault_key_file), ("Settings", places.settings_file)):
            if path in lost.files:
                yield label, self._screen.path(path)
        if lost.lines:
            yield "Journal", f"{count_text(lost.lines, 'earlier line')}"
        if lost.receipts:
            yield "Receipts", f"{count_text(len(lost.receipts), 'proof')} of earlier drills"

    def _consent(self, lost: Lost, homes: list[HomePlan], going_on: bool) -> None:
        questions = [one.question for one in homes if one.question]
        if lost.projects and not (lost.homes or lost.files or going_on):
            # An old project was deleted on purpose; nothing else is gone that would say otherwise.
            questions.append(
                f"{count_text(len(lost.projects), 'project')} that you may have deleted come back"
            )
        if questions and not self._yes:
            see, agree = (self._console.command("rebuild", word) for word in ("--dry-run", "--yes"))
            ask_consent(self._console, "rebuild", questions, see, agree)

    # ── doing it ───────────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, lost: Lost, homes: list[HomePlan]) -> int:
        from safekept.actions.base.operations.homes import RebuildHereFacts

        console, operation, began = self._console, self._operation, time.monotonic()
        work = RebuildHereFacts(files=tuple(lost.files), receipts=len(lost.receipts), lines=lost.lines)
        work.from_keeper, work.bytes_from_keeper = self._brought
        self._tried(lambda: _written(lambda: bring_files(self._context), self._context))
        self._reload()
        self._tried(lambda: _written(lambda: bring_lines(self._context), self._context))
        self._tried(lambda: _written(lambda: bring_receipts(self._context), self._context))
        begun = Unfinished("rebuild", ())
        begun.add([*(one.lost.home for one in homes), *(one.project for one in lost.projects), *_parts(lost)])
        begun.write(self._context)
        if homes or lost.projects:
            console.heading("Brought back")
        brought = [one.lost.home for one in homes if self._home(one)]
        projects = self._projects(lost)
        work.homes, work.projects = tuple(brought), tuple(projects)
        work.seconds = round(time.monotonic() - began, 3)
        record(
            self._context, work.line(operation, "incomplete" if self._failed else "done"), console.listener()
        )
        console.finish()
        code = self._protect(lost, begun)
        for error in self._failed:
            console.error_beside(error)
        self._document |= {
            "operation": operation,
            "brought": {"homes": brought, "projects": projects, "files": sorted(lost.files)},
            "failed": [error.as_dict() for error in self._failed],
        }
        console.document(self._document)
        return 3 if self._failed else code

    def _home(self, plan: HomePlan) -> bool:
        restored = self._tried(
            lambda: bring_home(self._context, self._request(plan.lost), self._console.listener())
        )
        self._console.finish()
        if restored is None:
            return False
        landed, screen = restored.landed, self._screen
        undo = NextStep("undo", (restored.operation, "--home", restored.place.home), before="Take it back:")
        screen.fact(
            "Home",
            f"{screen.path(restored.place.home)}: {landed.created:,} new, {landed.replaced:,} replaced",
        )
        screen.fact("", undo)
        for path, reason in restored.lost[:_SHOWN]:
            screen.fact("Missing", f"{path_text(path)}: {reason}")
        return True

    def _projects(self, lost: Lost) -> list[str]:
        """A worktree comes once more where the repository that it belongs to came after it."""
        settings = take_settings_from(self._settings, self._context)
        outcomes: dict[str, RollbackOutcome] = {}
        waiting = list(lost.projects)
        for last in (False, True):
            for one in waiting:
                bring = partial(
                    bring_project,
                    *(self._context, one, settings, self._console.listener()),
                    rebuild=self._operation,
                )
                outcome = self._tried(bring)
                self._console.finish()
                if outcome is not None and (last or not waits_for_another(outcome)):
                    self._show_project(one.project, outcome, outcomes.get(one.project, outcome))
                if outcome is not None:
                    outcomes.setdefault(one.project, outcome)
            waiting = [
                one for one in waiting if one.project in outcomes and waits_for_another(outcomes[one.project])
            ]
        return [one.project for one in lost.projects if one.project in outcomes]

    def _show_project(self, project: str, outcome: RollbackOutcome, first: RollbackOutcome) -> None:
        repository = ", its repository too" if outcome.moves else ""
        text = f"{self._screen.path(project)}: {count_text(len(first.steps), 'path')}{repository}"
        self._screen.fact("Project", text)
        for path, why in outcome.stays[:_SHOWN]:
            self._screen.fact("Missing", f"{path_text(path)}: {why}")
        if outcome.rolled_back is not None and not all(
            one.complete for one in outcome.rolled_back.repositories
        ):
            self._failed.append(RepositoryNotWhole(project, outcome.point.id))

    def _protect(self, lost: Lost, begun: Unfinished) -> int:
        """Connections and the schedule, as the newest snapshot says that they were."""
        from ..setup.answers import Answers
        from ..setup.protecting import Protecting, looked

        self._reload()
        if not lost.record.connected and not lost.record.schedule:
            finished(self._context)
            self._say_kit()
            return 0
        found, machine = looked(self._settings, self._context)
        at = lost.record.schedule if not found.scheduled and machine.can_schedule else ""
        work = Protecting(self._console, self._settings, self._context, found, machine, begun)
        ended = work.carry_out(Answers(reconnect=bool(lost.record.connected), at=at))
        self._document["protection"] = ended.document
        return ended.code

    def _say_kit(self) -> None:
        """Where no verdict follows, which says it."""
        from safekept.actions.status.status import look

        status = self._tried(lambda: look(self._context))
        if status is not None and (text := gone_kit_text(self._console, status)):
            self._screen.fact("Your part", text)

    def _tried(self, work: Callable[[], _Value]) -> _Value | None:
        """What it gives; where it fails, that is listed in the end."""
        try:
            return work()
        except SafekeptError as error:
            self._failed.append(error)
            return None


def summary(lost: Lost) -> str:
    """`1 home, 3 projects and what safekept keeps for itself`."""
    parts = [count_text(len(lost.homes), "home")] if lost.homes else []
    parts += [count_text(len(lost.projects), "project")] if lost.projects else []
    parts += ["what safekept keeps for itself"] if lost.files or lost.lines or lost.receipts else []
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def then_words(lost: Lost) -> str:
    """What follows, as the machine was set up."""
    parts = [f"{', '.join(lost.record.connected)} will call safekept again"] if lost.record.connected else []
    parts += [f"every night at {lost.record.schedule}"] if lost.record.schedule else []
    return path_text("; ".join(parts))


def _parts(lost: Lost) -> list[str]:
    wanted = (("connect", lost.record.connected), ("schedule", lost.record.schedule))
    return [name for name, given in wanted if given]


def _written(work: Callable[[], object], context: UserContext) -> object:
    try:
        return work()
    except OSError as error:
        raise NotWritten(
            f"What safekept keeps for itself could not be written: {error.strerror or error}",
            kept=f"The copies in `{copies_directory(context)}` have it all",
            next_steps=(NextStep("rebuild", before="See who may write there, then run it again:"),),
            path=error.filename or "",
        ) from error
