"""`safekept doctor`: what is wrong around your protection, how that is known, and the exact fix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from safekept.core.finding import MEANT, head_of
from safekept.core.next_step import NextStep

from ...console import Console, count_text, path_text
from ...options import common_options, start
from ...screen import Screen

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.doctor.case import DoctorRequest
    from safekept.actions.doctor.diagnosis import Diagnosis
    from safekept.actions.doctor.repairs import Repairs
    from safekept.core.finding import Finding


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what can be mended and undone; the rest is printed.")
@click.option("--dry-run", is_flag=True, help="With --fix: show what would be mended; change nothing.")
@click.option("--report", is_flag=True, help="Print what a report about this system needs; nothing private.")
@common_options
def command(fix: bool, dry_run: bool, report: bool, home: str, layout: str, as_json: bool) -> int:
    """Look for what threatens your protection: damage, locks, permissions, keys, clocks, the schedule.

    Also what other tools left behind. Each finding has its evidence and the command that mends it: `!`
    serious, `*` counts against your protection, `-` a note. `--fix` does only what can be undone: modes
    that are too wide, locks of processes that are gone, and what was cut off half way. Exit codes: 0
    nothing to do, 3 findings, 4 serious ones, exactly where `safekept status --check` has an alarm.
    `--report` prints what a helper from afar must know of this system, without a path, a name
    or a key of yours; its exit code is 0.
    """
    if report and fix:
        raise click.UsageError("--report goes alone: it changes nothing.")
    if dry_run and not fix:
        raise click.UsageError("--dry-run goes with --fix: without it nothing is ever changed.")
    from safekept.actions.doctor.case import DoctorRequest
    from safekept.actions.doctor.diagnosis import examine
    from safekept.integrations.connecting.overview import host_statuses

    settings, context, console = start(as_json)
    recipients = settings.values.get("backup.seal")
    request = DoctorRequest(
        home=home,
        layout=layout,
        config_directory=settings.config_directory,
        recipients=tuple(map(str, recipients)) if isinstance(recipients, list) else (),
        passphrase_command=settings.text("vault.passphrase_command"),
        stale_hours=settings.number("status.stale_hours"),
        deadline=settings.number("database.deadline"),
        hosts=host_statuses(context),
    )
    if report:
        _report(console, context, request)
        return 0
    found = examine(context, request, console.listener())
    console.finish()
    mended = None
    if fix and not dry_run and found.repairs:
        from safekept.actions.doctor.repairs import carry_out

        mended = carry_out(context, found.repairs, console.notes())
        found = examine(context, request, console.listener())
        console.finish()
    document = found.as_dict(console.program)
    console.document({"dry_run": dry_run, **document, "fixed": mended.as_dict() if mended else None})
    if mended is not None:
        _show_mended(console, mended)
    _show(Screen(console, settings.user_home), found, fixing=fix)
    if fix and dry_run:
        _show_plan(console, found)
    return found.exit_code


def _report(console: Console, context: UserContext, request: DoctorRequest) -> None:
    import tempfile

    from safekept.actions.doctor.diagnosis import examine
    from safekept.actions.doctor.system_report import system_report

    findings: tuple[Finding, ...] = ()
    failure = None
    try:
        findings = examine(context, request, console.listener()).findings
    except Exception as error:  # whatever it is, it is what the report is for
        failure = error
    console.finish()
    places = {"data": context.places.data_directory, "temporary": tempfile.gettempdir()}
    search = context.caller.environment.get("PATH", "")
    document = system_report(places, search, findings, failure)
    console.document(document)
    console.heading("What a report about this system needs")
    for name, value in document.items():
        console.fact(name.capitalize(), _flat(value))
    console.line()
    console.line("No path, name or key of yours is in this. Send it with what you did and what you expected.")


def _flat(value: object) -> str:
    """`git yes, gpg no`"""
    if isinstance(value, dict):
        inner = {
            name: f"({_flat(one)})" if isinstance(one, dict) else _flat(one) for name, one in value.items()
        }
        return ", ".join(f"{name} {one}" for name, one in inner.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_flat, value)) or "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _show(screen: Screen, found: Diagnosis, *, fixing: bool) -> None:
    serious = sum(one.alarm for one in found.findings)
    if not found.findings:
        screen.console.heading("Nothing to do")
    else:
        words = count_text(len(found.findings), "finding")
        screen.console.heading(f"{words}, {serious:,} serious" if serious else words, good=False)
    screen.console.line(head_of(found.findings), **({"fg": "red"} if serious else {}))
    for step in found.first:
        screen.fact("Next", replace(step, after=" does all of this"))
    for one in found.findings:
        _show_finding(screen, one)
    if any(home.exists and home.now.fewer() for home in found.status.homes):
        from ...status.homes import show_fewer

        screen.line()
        for home in found.status.homes:
            show_fewer(screen, home, alone=True)
    for remark in found.remarks:
        screen.console.line()
        screen.console.line(f"? {screen.text(path_text(remark))}")
    if found.repairs and not fixing:
        screen.console.line()
        how_many = f"{len(found.repairs):,} of these can be mended, and that can be undone"
        screen.console.line(NextStep("doctor", ("--fix",), before=f"{how_many}:"))


def _show_finding(screen: Screen, one: Finding) -> None:
    screen.console.line()
    style = {"fg": "red"} if one.alarm else {}
    mark = "!" if one.alarm else "*" if one.counts else "-"
    text = path_text(one.text)
    screen.headline(f"{mark} {text}", 2, **style)
    screen.facts("Seen", map(path_text, one.evidence))
    plain = Screen(screen.console)  # what is pasted into a shell keeps its whole paths
    plain.facts("Fix", [path_text(step) if isinstance(step, str) else step for step in one.fix])
    if one.declinable and one.counts:
        declined = ("--acknowledge", one.declinable)
        command = NextStep("status", declined, before=MEANT)
        if not any(isinstance(step, NextStep) and "--acknowledge" in step.arguments for step in one.fix):
            plain.fact("", command)


def _show_mended(console: Console, mended: Repairs) -> None:
    bad = [one for one in mended.done if one.failure]
    console.heading(f"Mended {count_text(len(mended.done) - len(bad), 'finding')}", not bad)
    for one in mended.done:
        outcome = f": FAILED: {one.failure}" if one.failure else ""
        console.item(path_text(one.repair.text) + outcome)
    if mended.undoable:
        console.line(NextStep("undo", (mended.operation,), before="Put the modes back:"))
    console.line()


def _show_plan(console: Console, found: Diagnosis) -> None:
    console.line()
    if not found.repairs:
        console.line("None of this can be mended by `--fix`: use the commands above")
        return
    console.heading("Would mend")
    for one in found.repairs:
        if one.repair is not None:
            console.item(path_text(one.repair.text))
    console.line("Nothing was changed")
