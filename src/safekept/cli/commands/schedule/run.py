"""`safekept schedule run`: do what is due now; what timers call, and what a person may call too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from safekept.core.events import Event

from ...console import Console, path_text, time_text
from ...options import common_options
from .options import begin, whose_options
from .settings import run_request

if TYPE_CHECKING:
    from safekept.actions.schedule.schedule import Run
    from safekept.schedule.tasks import Task


@click.command("run")
@click.option("--now", "everything", is_flag=True, help="All of it, also what is not due yet.")
@click.option("--quiet", is_flag=True, help="Say nothing unless something is wrong; what timers use.")
@click.option("--dry-run", is_flag=True, help="Show what is due; do nothing.")
@whose_options
@common_options
def command(
    everything: bool,
    quiet: bool,
    dry_run: bool,
    system: bool,
    user_name: str,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Do what is due now: snapshot, sealed archive, push, prune, care for checkpoints, drills.

    Every step is for itself: a dead destination never fails the snapshot. Only one run works at a time; a
    second one ends at once. Exit code 0: all went well, or nothing was due; 3: something beside the
    snapshot failed or is not complete; 1: a snapshot failed.
    """
    from safekept.actions.schedule.schedule import plan_due, run_due
    from safekept.core.locks import AlreadyRunning
    from safekept.schedule.machine import step_back

    settings, context, console = begin(as_json, system, user_name, home)
    context = context.changed(actor="schedule")
    request = run_request(settings, context, home=home, layout=layout, everything=everything)
    if dry_run:
        now = time.time()
        return _show_plan(console, plan_due(context, request, now), now, everything)
    step_back()
    remarks: list[str] = []
    listener = console.listener()

    def listen(event: Event) -> None:
        if event.text and quiet:
            remarks.append(console.step(event.text))
        else:
            listener(event)

    try:
        run = run_due(context, request, listener=listen)
    except AlreadyRunning as error:
        # The work is being done; a timer that looks in meanwhile has nothing to complain about.
        console.document({"state": "running", "what": error.what})
        if not quiet:
            console.line(f"Nothing to do: {error.what}")
        return 0
    console.finish()
    bad = run.state in ("incomplete", "failed")
    console.document(run.as_dict())
    if bad or not quiet:
        for remark in remarks:
            console.say(remark)
        _show(console, run)
    return {"incomplete": 3, "failed": 1}.get(run.state, 0)


def _show_plan(console: Console, due: list[tuple[Task, float]], now: float, everything: bool) -> int:
    rows = [
        {"task": task.name, "due": everything or moment <= now, "at": None if moment <= now else moment}
        for task, moment in due
    ]
    console.document({"dry_run": True, "tasks": rows})
    ready = [task for task, moment in due if everything or moment <= now]
    console.heading(f"Would do {len(ready)} of {len(due)} things now")
    for task, moment in due:
        when = "now" if everything or moment <= now else moment_text(moment)
        console.item(f"{when:<18} {path_text(task.name)}")
    console.line("Nothing was done")
    return 0


def _show(console: Console, run: Run) -> None:
    if run.state == "idle" and not run.steps:
        console.heading("Nothing is due")
    else:
        good = run.state in ("done", "idle")
        words = {"idle": "Nothing could be done now", "done": "All done", "incomplete": "Done in part"}
        console.heading(f"{words.get(run.state, 'Failed')}, {time_text(run.seconds)}", good)
    for step in run.steps:
        console.item(f"{path_text(step.task)}: {step.state}" + (f": {step.text}" if step.text else ""))
    console.fact("Next", moment_text(run.next))


def moment_text(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
