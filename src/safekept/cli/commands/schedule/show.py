"""`safekept schedule show`: what is installed, when it last ran, how that ended, when it runs next."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from safekept.core.events import Event
from safekept.core.next_step import NextStep
from safekept.core.owner.nightly import PREFIX

from ...console import Console, count_text, path_text, time_text
from ...options import common_options
from ...words.grace import date_text
from ...words.lists import table
from .options import begin, machine_of, run_request, user_options

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.schedule.install import Installed
    from safekept.actions.schedule.schedule import Run
    from safekept.schedule.tasks import RunNote, Task, TaskHistory


# `safekept schedule run`: do what is due now; what timers call, and what a person may call too.


@click.command("run")
@click.option("--now", "everything", is_flag=True, help="All of it, also what is not due yet.")
@click.option("--quiet", is_flag=True, help="Say nothing unless something is wrong; what timers use.")
@click.option("--dry-run", is_flag=True, help="Show what is due; do nothing.")
@user_options
@common_options
def run_command(
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
    from safekept.schedule.machine import lower_priority

    settings, context, console = begin(as_json, system, user_name, home)
    context = context.changed(actor="schedule")
    request = run_request(settings, context, home=home, layout=layout, everything=everything)
    if dry_run:
        now = time.time()
        return _show_plan(console, plan_due(context, request, now), now, everything)
    lower_priority()
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
            console.line(f"Nothing to do: {error.clause}")
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
        {"task": task.name, "due": everything or due_at <= now, "at": None if due_at <= now else due_at}
        for task, due_at in due
    ]
    console.document({"dry_run": True, "tasks": rows})
    ready = [task for task, due_at in due if everything or due_at <= now]
    console.heading(f"Would do {len(ready)} of {len(due)} things now")
    for task, due_at in due:
        when = "now" if everything or due_at <= now else date_text(due_at)
        console.item(f"{when:<18} {_task(task.name)}")
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
        console.item(f"{_task(step.task)}: {step.state}" + (f": {step.text}" if step.text else ""))
    console.fact("Next run", date_text(run.next))


@click.command("show")
@user_options
@common_options
def show_command(system: bool, user_name: str, home: str, layout: str, as_json: bool) -> int:
    """What is installed, when it last ran and how that ended, and when each piece of work is due next."""
    from safekept.actions.schedule.host_start import other_times, why_host_will_not_start
    from safekept.actions.schedule.install import installed
    from safekept.actions.schedule.of_machine import run_of_machine
    from safekept.actions.schedule.schedule import last_run, plan_due, task_histories

    from ...status.work import clock_text

    settings, context, console = begin(as_json, system, user_name, home)
    request = run_request(settings, context, home=home, layout=layout)
    now = time.time()
    due, known = plan_due(context, request, now), task_histories(context)
    found, last = installed(context) or (None if system else run_of_machine()), last_run(context)
    trouble = why_host_will_not_start(context, found, machine_of(settings))[0] if found else ""
    other = "" if trouble else other_times(context, found, machine_of(settings))
    console.document(
        {
            "installed": _installed(found),
            "trouble": trouble or None,
            "other_times": other or None,
            "last": last.as_dict() if last else None,
            "next": min(due_at for _, due_at in due),
            "tasks": [_row(task, due_at, known.get(task.name)) for task, due_at in due],
        }
    )
    _show_installed(console, found, trouble)
    if other:
        console.line(NextStep("schedule install", before=f"But {other}:"))
    _show_last(console, last)
    runs = found is not None and not trouble
    console.heading("Regular work" if runs else "Regular work; none of it happens by itself now", runs)
    rows = [("LAST DONE", "NEXT", "WHAT")]
    for task, due_at in due:
        if _nobody_home(context, task):
            continue
        past = known.get(task.name)
        done = date_text(past.succeeded) if past and past.succeeded else "never"
        what = _task(task.name)
        if past and past.failures:
            what += f"; failed {count_text(past.failures, 'time')}: {past.text}"
        rows.append((done, clock_text(due_at, now) if runs else "", what))
    table(console, rows)
    if any(_nobody_home(context, task) for task, _ in due):
        console.line("No agent's home was found here, so nothing of one is kept")
        console.line(NextStep("setup", ("--home", "PATH"), before="If it is elsewhere, name it:"))
    return 0


def _nobody_home(context: UserContext, task: Task) -> bool:
    """Whether it is about a home that is not here and never was: where one would be, and it was not named."""
    place = context.locate(existing=False)
    never = not (place.named or os.path.lexists(place.home) or context.was_here(place.home))
    return never and task.subject == place.home


def _task(name: str) -> str:
    """`snapshot:/home/ada/.hermes` as a person says it: `snapshot of /home/ada/.hermes`."""
    kind, _, subject = name.partition(":")
    words = kind.replace("-", " ")
    return path_text(f"{words} {'to' if kind == 'push' else 'of'} {subject}" if subject else words)


def _installed(found: Installed | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"host": found.host, "user": found.user or None, "time": found.time, "files": found.states()}


def _row(task: Task, due_at: float, past: TaskHistory | None) -> dict[str, object]:
    return {
        "task": task.name,
        "next": due_at,
        "succeeded": past.succeeded if past else 0.0,
        "tried": past.tried if past else 0.0,
        "failures": past.failures if past else 0,
        "error": past.error if past else "",
        "text": past.text if past else "",
    }


def _show_installed(console: Console, found: Installed | None, trouble: str) -> None:
    if found is None:
        console.heading("Nothing is installed here", good=False)
        console.line(f"Install it with: `{console.command('schedule', 'install')}`")
        return
    states = found.states()
    good = not trouble and all(state == "as installed" for state in states.values())
    by_root = not found.table and any(os.path.basename(path).startswith(PREFIX) for path in found.files)
    console.heading(f"Installed with {found.host}{', by root' if by_root else ''}", good)
    if trouble:
        console.fact("Trouble", trouble)
    console.fact("Since", date_text(found.time))
    for path, state in states.items():
        console.fact("File", f"{path_text(path)} ({state})")
    if found.table:
        console.fact("Lines", "in your crontab: `crontab -l`")


def _show_last(console: Console, last: RunNote | None) -> None:
    if last is None:
        console.fact("Last run", "never")
        return
    words = {"done": "all done", "incomplete": "done in part", "begun": "at work now"}
    good = f"{words.get(last.state, last.state)} in {time_text(last.seconds)}"
    console.fact("Last run", f"{date_text(last.started)}, {good if last.seconds else last.state}")
    for step in last.steps:
        if step.state != "done":
            console.item(f"{path_text(step.task)}: {step.state}: {step.text}")
