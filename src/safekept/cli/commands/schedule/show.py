"""`safekept schedule show`: what is installed, when it last ran, how that ended, when it runs next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ...console import Console, path_text, time_text
from ...options import common_options
from .options import begin, whose_options
from .run import moment_text
from .settings import run_request

if TYPE_CHECKING:
    from safekept.actions.schedule.install import Installed
    from safekept.schedule.state import RunNote
    from safekept.schedule.tasks import Past, Task


@click.command("show")
@whose_options
@common_options
def command(system: bool, user_name: str, home: str, layout: str, as_json: bool) -> int:
    """What is installed, when it last ran and how that ended, and when each piece of work is due next."""
    from safekept.actions.schedule.install import installed
    from safekept.actions.schedule.schedule import last_run, pasts, plan_due

    settings, context, console = begin(as_json, system, user_name, home)
    request = run_request(settings, context, home=home, layout=layout)
    now = time.time()
    due, known = plan_due(context, request, now), pasts(context)
    found, last = installed(context), last_run(context)
    console.document(
        {
            "installed": _installed(found),
            "last": last.as_dict() if last else None,
            "next": min(moment for _, moment in due),
            "tasks": [_row(task, moment, known.get(task.name)) for task, moment in due],
        }
    )
    _show_installed(console, found)
    _show_last(console, last)
    console.heading("Regular work")
    for task, moment in due:
        past = known.get(task.name)
        when = "at the next look" if moment <= now else moment_text(moment)
        done = f"last done {moment_text(past.succeeded)}" if past and past.succeeded else "never done"
        trouble = f"; failed {past.failures} times: {past.text}" if past and past.failures else ""
        console.item(f"{path_text(task.name)}: {done}, next {when}{trouble}")
    return 0


def _installed(found: Installed | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"host": found.host, "user": found.user or None, "time": found.time, "files": found.states()}


def _row(task: Task, moment: float, past: Past | None) -> dict[str, object]:
    return {
        "task": task.name,
        "next": moment,
        "succeeded": past.succeeded if past else 0.0,
        "tried": past.tried if past else 0.0,
        "failures": past.failures if past else 0,
        "error": past.error if past else "",
        "text": past.text if past else "",
    }


def _show_installed(console: Console, found: Installed | None) -> None:
    if found is None:
        console.heading("Nothing is installed here", good=False)
        console.line(f"Install it with: `{console.command('schedule', 'install')}`")
        return
    states = found.states()
    console.heading(f"Installed with {found.host}", all(state == "as installed" for state in states.values()))
    console.fact("Since", moment_text(found.time))
    for path, state in states.items():
        console.fact("File", f"{path_text(path)} ({state})")
    if found.table:
        console.fact("Lines", "in your crontab; see `crontab -l`")


def _show_last(console: Console, last: RunNote | None) -> None:
    if last is None:
        console.fact("Last run", "never")
        return
    words = {"done": "all done", "incomplete": "done in part", "begun": "at work now"}
    good = f"{words.get(last.state, last.state)} in {time_text(last.seconds)}"
    console.fact("Last run", f"{moment_text(last.started)}, {good if last.seconds else last.state}")
    for step in last.steps:
        if step.state != "done":
            console.item(f"{path_text(step.task)}: {step.state}: {step.text}")
