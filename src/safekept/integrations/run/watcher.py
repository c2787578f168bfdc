"""The process that watches while an agent works: apart from it, out of its terminal, and in its shadow.

It is a process of its own so that what the terminal sends to the agent never cuts a checkpoint short, and
it ends when its parent is gone. One line of JSON comes in (the request), then `end`; lines of JSON
go out: `progress`, `ready` before the agent may start, `ended` after the last mark.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict

_NICE = 10
_END = b"end"
#: Seconds that a person waits for the hidden half of the first point before the agent starts.
_FIRST = 10.0


def main() -> None:
    """Entry point of the process; its streams are pipes to the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = json.loads(sys.stdin.buffer.readline())
    stop, ended = threading.Event(), threading.Event()

    def listen() -> None:
        if sys.stdin.buffer.readline().strip() == _END:
            ended.set()
        stop.set()

    threading.Thread(target=listen, name="safekept-run-end", daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        _watch(request, stop, ended)
    os._exit(0)  # the thread that reads may still wait for a line


def _watch(request: Mapping[str, object], stop: threading.Event, ended: threading.Event) -> None:
    from safekept.actions.projects.guarding import forbidden_roots
    from safekept.actions.projects.hidden.record import keep_look
    from safekept.actions.projects.project import checkpoint_directory
    from safekept.checkpoints.checkpoints import Checkpoints
    from safekept.checkpoints.store import Store
    from safekept.core.errors import SafekeptError
    from safekept.core.events import Event
    from safekept.settings import load_settings
    from safekept.settings.context import context_of
    from safekept.settings.policies import policy_from

    from .changes import Relevance
    from .watching import Watch

    def listener(event: Event) -> None:
        if not watching:
            facts = {"phase": event.phase, "done": event.done, "total": event.total, "unit": event.unit}
            _say("progress", facts)

    settings = load_settings(os.environ)
    context = context_of(settings, actor=f"agent:{request['agent']}")
    policy = policy_from(settings, context, str(request["home"]), str(request["layout"]))
    project, directory = str(request["project"]), checkpoint_directory(context)
    with contextlib.suppress(SafekeptError, OSError), Store.open(directory):
        pass  # git is asked from inside it; where it cannot be made, the first checkpoint says why
    watching = False
    checkpoints = Checkpoints(
        directory,
        settings=policy.take,
        forbidden=forbidden_roots(context),
        chosen=(project,),
        maintenance=policy.maintenance,
        hidden=lambda project, look: keep_look(
            context, project, look, deadline=0.0 if watching else time.monotonic() + _FIRST
        ),
        listener=listener,
    )
    relevance = Relevance(
        project,
        os.path.join(directory, "store"),
        policy.take.exclusions,
        (context.places.data_directory, context.places.cache_directory),
    )
    watch = Watch(
        checkpoints,
        relevance,
        session=str(request["session"]),
        agent=str(request["agent"]),
        quiet=float(str(request["quiet"])),
        stop=stop,
    )
    kept = watch.begin()
    watching = True
    with contextlib.suppress(OSError):
        os.nice(_NICE)  # only now: the first one is waited for
    _say("ready", {"kept": kept, **asdict(watch.account)})
    watch.follow()
    if ended.is_set():  # otherwise the agent may be running: what it does later is not the user's
        watching = False
        watch.end()
        _say("ended", asdict(watch.account))
    watch.close()


def _say(name: str, document: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps({name: document}) + "\n")
    sys.stdout.flush()
