"""`safekept guard -- COMMAND`: run something risky between a snapshot and a health check."""

from __future__ import annotations

import os

import click

from safekept.actions.alarms.ways_back import restore_words, set_aside_first
from safekept.actions.base.context import UserContext
from safekept.actions.guard.guard import guard
from safekept.actions.guard.guard_types import Guarded, GuardRequest
from safekept.actions.guard.pre_update import DONE, FAILED, OPTED_OUT, Protection
from safekept.cli.console import Console, count_text, path_text, time_text
from safekept.cli.report_file import write_report_file
from safekept.core.errors import SafekeptError
from safekept.core.events import Event
from safekept.core.processes.foreground import Ended
from safekept.home.health import HomeLoss
from safekept.home.scan import Selection

from ..options import home_options, report_option, start
from ..report_file import refuse_unwritable

# Commands of the group `guard`; what they do is in `actions/guard`.


@click.command("guard", context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] --")
@click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--kind",
    type=click.Choice(("pre-update", "pre-migration")),
    help="What the snapshot is for; default: pre-update, pre-migration before `hermes claw migrate`.",
)
@click.option("-l", "--label", metavar="TEXT", default="", help="A few words to know the snapshot by.")
@click.option(
    "--backup/--no-backup",
    "backup",
    default=None,
    help="Also write a zip into the home, or take no snapshot, so that nothing is checked either.",
)
@click.option("--anyway", is_flag=True, help="Run the command even where no snapshot could be taken.")
@click.option(
    "--auto-restore",
    is_flag=True,
    help="Bring back at once what is lost beyond doubt: databases that do not open any more, "
    "emptied cron jobs.",
)
@report_option
@home_options
def command(
    command: tuple[str, ...],
    kind: str | None,
    label: str,
    backup: bool | None,
    anyway: bool,
    auto_restore: bool,
    report: str,
    layout: str,
    home: str,
) -> int:
    """Run COMMAND between a snapshot of the home and a check that nothing was lost.

    The command has the terminal, the signals and the exit status to itself; what guard says goes to
    stderr. Each loss is named with the command that brings it back. Exit code: the command's own; where
    that is 0, 3 if something was lost; 1 if the command was not run because no snapshot could be taken.
    """
    settings, context, console = start(False)
    if report:
        report = refuse_unwritable(report, "the command was not run")
    request = GuardRequest(
        context.locate(home, layout, existing=False),
        command,
        kind or "",
        label,
        backup,
        anyway,
        auto_restore,
        Selection(include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude")),
        settings.text("updates.pre_update_backup"),
        settings.whole("updates.backup_keep"),
        settings.number("database.deadline"),
        settings.whole("import.keep_days"),
    )
    words = GuardWords(console, context, request)
    try:
        guarded = guard(context, request, words.listen, protected=words.protected, ended=words.ended)
    except Exception as error:
        if report:
            write_guard_report(console, report, words.refused(error))
        raise
    console.finish()
    words.checked(guarded)
    if report:
        write_guard_report(console, report, words.document(guarded))
    return guarded.exit_code


# What guard says, all of it to stderr: stdout belongs to the command that it runs.


#: So many findings are shown; the rest is in the report and the journal.
_SHOWN = 20
_MISSING = 5


class GuardWords:
    """Speaks between the phases of one guarded command."""

    def __init__(self, console: Console, context: UserContext, request: GuardRequest) -> None:
        self._console, self._context, self._request = console, context, request
        self._protection: Protection | None = None
        self._current = console.listener()

    def listen(self, event: Event) -> None:
        """Progress of the snapshot, then of the check; the screen belongs to the command in between."""
        self._current(event)

    # -- before ----------------------------------------------------------------------------

    def protected(self, protection: Protection) -> None:
        """One of three outcomes, never to be taken for another."""
        self._protection = protection
        self._console.finish()
        self._current = self._console.notes()
        home = path_text(protection.place.home)
        if protection.outcome == OPTED_OUT:
            self._say(f"Guard: no snapshot, since {self._switched_off()}; nothing will be checked")
            return
        if protection.outcome == FAILED and self._request.anyway:
            self._say(f"Guard: NO SNAPSHOT of {home}; the command runs anyway, and nothing will be checked")
        if protection.outcome == DONE:
            self._say(f"Guard: {self._taken(protection)} of {home}")
            self._missing(protection)
        for problem in protection.problems if protection.outcome == DONE or self._request.anyway else ():
            self._say(f"  failed  {problem['what']}")

    def _taken(self, protection: Protection) -> str:
        taken, zipped = protection.snapshot, protection.zip
        parts = []
        if taken:
            whole = "" if taken.complete else ", INCOMPLETE"
            parts.append(f"{protection.kind} snapshot {taken.id[:8]}{whole} ({time_text(taken.seconds)})")
        if zipped:
            parts.append(f"zip {path_text(zipped.written.path)}")
        if not taken:
            parts.append("no snapshot, so nothing will be checked")
        return ", ".join(parts)

    def _missing(self, protection: Protection) -> None:
        """What the snapshot does not hold, or holds damaged: it cannot be brought back."""
        remarks = (
            [one for one in protection.snapshot.remarks if one.incomplete] if protection.snapshot else []
        )
        for one in remarks[:_MISSING]:
            self._say(f"  missing {path_text(one.path)}: {one.reason}")
        if len(remarks) > _MISSING:
            self._say(f"  … and {len(remarks) - _MISSING:,} more")

    def _switched_off(self) -> str:
        if self._request.backup is False:
            return "`--no-backup` was given"
        if self._request.mode:
            return "the setting `updates.pre_update_backup` is `off`"
        config = os.path.join(self._request.place.home, "config.yaml")
        return f"`updates.pre_update_backup` is off in {path_text(config)}"

    # -- between ---------------------------------------------------------------------------

    def ended(self, end: Ended) -> None:
        """Nothing is said yet: the line about it follows with what the check found."""
        self._current = self._console.listener()

    # -- after -----------------------------------------------------------------------------

    def checked(self, guarded: Guarded) -> None:
        end, health = guarded.ended, guarded.health
        ending = f"`{path_text(self._request.shown)}` {end.text} after {time_text(end.seconds)}"
        if health is None:
            if guarded.snapshot is None:
                return
            self._say(f"Guard: {ending}; NOT CHECKED: {guarded.unchecked}")
            self._say(
                f"  See what it changed: `{self._command('snapshot', 'diff', guarded.snapshot.id[:8])}`"
            )
            return
        looked = f"{count_text(health.files, 'file')} looked at in {time_text(health.seconds)}"
        if not guarded.findings:
            # Whatever is so new that its status proves nothing counts as changed.
            changed = f"up to {health.changed:,}" if health.changed else "0"
            self._say(f"Guard: {ending}; nothing was lost ({looked}, {changed} changed)")
        else:
            losses = count_text(len(guarded.findings), "loss", "losses")
            self._say(f"Guard: {ending}; {losses} ({looked})")
        self._findings(guarded)
        for note in health.notes:
            self._say(f"  unknown {path_text(note)}")
        if guarded.unchecked:
            self._say(f"  stopped {guarded.unchecked}")

    def _findings(self, guarded: Guarded) -> None:
        left = [one for one in guarded.findings if one not in guarded.restored]
        for one in guarded.findings[:_SHOWN]:
            back = one in guarded.restored
            self._say(f"  {'back' if back else 'lost'}    {path_text(one.text)}", 10)
            if not back:
                self._say(f"          `{self.command_for(guarded, [one])}`")
        if len(guarded.findings) > _SHOWN:
            self._say(f"  … and {len(guarded.findings) - _SHOWN:,} more")
        if guarded.problem:
            self._say(f"  failed  not brought back: {guarded.problem['what']}")
        together = [one for one in left if one.restore_paths or one.whole]
        if len(together) > 1:
            self._say(f"  all     `{self.command_for(guarded, together)}`")
        if guarded.undo:
            self._say(f"  undo    `{self._command('undo', guarded.undo, *self._named())}`")

    def command_for(self, guarded: Guarded, findings: list[HomeLoss]) -> str:
        """The command that brings these back; it runs as printed."""
        if len(findings) == 1 and findings[0].fix:
            return findings[0].fix
        assert guarded.snapshot is not None
        whole = any(one.whole for one in findings)
        paths = [] if whole else list(dict.fromkeys(path for one in findings for path in one.restore_paths))
        home = guarded.request.place.home
        words = restore_words(self._context, home, guarded.snapshot.id, paths)
        return set_aside_first(home) + self._command(*words)

    # -- the report ------------------------------------------------------------------------

    def document(self, guarded: Guarded) -> dict[str, object]:
        health, alarm = guarded.health, guarded.alarm
        findings = [
            {
                **one.as_dict(),
                "command": self.command_for(guarded, [one]),
                "restored": one in guarded.restored,
            }
            for one in guarded.findings
        ]
        check = {**health.as_dict(), "findings": findings} if health else None
        return {
            **self._about(),
            "operation": guarded.operation,
            "ran": True,
            **guarded.facts.document("status", "seconds"),
            "signal": guarded.ended.signal,
            "check": check,
            "unchecked": guarded.unchecked,
            "undo": self._command("undo", guarded.undo, *self._named()) if guarded.undo else None,
            "problem": guarded.problem,
            "alarm": alarm.as_dict() if alarm else None,
            "exit_code": guarded.exit_code,
            "error": None,
        }

    def refused(self, error: Exception) -> dict[str, object]:
        """The same where the command was not run."""
        known = error.as_dict() if isinstance(error, SafekeptError) else {"what": str(error)}
        code = error.exit_code if isinstance(error, SafekeptError) else 1
        return {**self._about(), "ran": False, "check": None, "exit_code": code, "error": known}

    def _about(self) -> dict[str, object]:
        protection, request = self._protection, self._request
        taken = protection.snapshot if protection else None
        zipped = protection.zip if protection else None
        return {
            "command": list(request.command),
            "home": request.place.home,
            "layout": request.place.layout.name,
            "kind": request.chosen_kind,
            "protection": {
                "outcome": protection.outcome if protection else None,
                "mode": protection.mode if protection else None,
                "snapshot": taken.id if taken else None,
                "complete": protection.complete if protection else False,
                "seconds": round(taken.seconds, 3) if taken else None,
                "zip": zipped.written.path if zipped else None,
                "problems": list(protection.problems) if protection else [],
            },
        }

    # -- words -----------------------------------------------------------------------------

    def _say(self, text: str, indent: int | None = None) -> None:
        self._console.say(text, indent)

    def _command(self, *words: str) -> str:
        return self._console.command(*words)

    def _named(self) -> list[str]:
        words = restore_words(self._context, self._request.place.home, "", ())
        return [word for word in words if word == "--home" or word == self._request.place.home]


def write_guard_report(console: Console, path: str, document: dict[str, object]) -> None:
    """The command has run by now, so a report that cannot be written is said and no more."""
    write_report_file(path, document, lambda text: console.say(f"Guard: {text}"))
