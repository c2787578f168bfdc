"""A drill of checkpoints: git judges the store, and the newest point of each project is written out.

Nothing of any project is read or touched: a rollback's content goes into scratch, is held against the
names that git gave it, and is removed again.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time

from safekept import __version__
from safekept.checkpoints.checkpoint import Checkpoint, CheckpointDamaged
from safekept.checkpoints.rollback import size_of, unpack
from safekept.checkpoints.store import Store, current_damage, find_git, run_git
from safekept.checkpoints.upkeep import Soundness
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step

from ..base.context import UserContext
from ..base.operations.care import DrillFacts
from ..base.record import recording
from ..projects.project import NoCheckpointsHere, checkpoint_directory, need_project
from ..projects.rollback import checkpoint_store
from .checks.restored import Findings, Problems, plural
from .drill_report import Drilled, record_drill, tell
from .place import bases, drill_place, no_room, sweep
from .receipts import CHECKPOINTS, FAILED, UNKNOWN, Receipt

STORE, FSCK, POINTS, ROLLBACK = "store", "git fsck", "checkpoints", "rollback"
#: Seconds for looking whether every checkpoint is whole; what is left then was not looked at.
_SECONDS = 600.0


def drill_checkpoints(
    context: UserContext, project: str = "", scratch: str = "", listener: Listener = silent
) -> Drilled:
    """Drill the checkpoints of all projects, or of the one around the directory `project`."""
    operation, started, began = new_id(), time.time(), time.monotonic()
    work = DrillFacts(subject=CHECKPOINTS)
    findings = Findings()
    with recording(context, operation, work, listener):
        swept = sweep([*bases(context), *([scratch] if scratch else [])])
        with checkpoint_store(context, listener) as store:
            projects = [need_project(store, project, context)] if project else store.projects()
            work.projects = tuple(projects)
            if not any(store.checkpoints(one) for one in projects):
                raise NoCheckpointsHere(
                    "There are no checkpoints yet, so there is nothing to prove",
                    kept="Nothing was changed",
                    next_steps=(NextStep("checkpoint", before="Take one, in a project:"),),
                )
            _store(store, findings)
            _fsck(store, findings, listener)
            points = _points(store, projects, findings)
            files, size = _roll_back(context, store, points, scratch, findings, listener)
        receipt = Receipt(
            operation=operation,
            subject=CHECKPOINTS,
            name=projects[0] if project else checkpoint_directory(context),
            home="",
            started=started,
            seconds=time.monotonic() - began,
            ok=all(row.state != FAILED for row in findings.rows),
            rows=tuple(findings.rows),
            files=files,
            bytes=size,
            store=checkpoint_directory(context),
            host=os.uname().nodename,
            tool=f"safekept {__version__}",
            facts={"projects": projects, "problems": findings.facts()},
        )
        path = record_drill(context, receipt, work, listener)
        steps = _advice(receipt)
        tell(context, receipt, steps, listener)
        return Drilled(receipt, path, steps, tuple(swept))


def _store(store: Store, findings: Findings) -> None:
    damage = current_damage(store.directory)
    problems: Problems = [(name, "is known to be damaged") for name in sorted(damage.packs)]
    findings.judge(STORE, len(store.objects.pack_names()), problems, "no damage is known of", "pack")


def _fsck(store: Store, findings: Findings, listener: Listener) -> None:
    """What plain git says of the repository."""
    git = find_git()
    if git is None:
        findings.add(FSCK, UNKNOWN, 0, "git is not on this machine")
        return
    listener(Event("fsck"))
    words = ("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
    try:
        done = run_git(git, store.repository, *words)
    except subprocess.TimeoutExpired:
        findings.add(FSCK, UNKNOWN, 0, "git took longer than an hour")
        return
    lines = [
        line
        for line in (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").splitlines()
        if line.strip() and not line.startswith("notice:")
    ]
    problems: Problems = [("", line) for line in lines] if done.returncode or lines else []
    if done.returncode and not problems:
        problems = [("", f"git ended with status {done.returncode}")]
    packs = len(store.objects.pack_names())
    if problems:
        findings.judge(FSCK, len(problems), problems, "", "complaint")
    else:
        findings.judge(FSCK, packs, [], "plain git finds nothing wrong", "pack")


def _points(store: Store, projects: list[str], findings: Findings) -> list[Checkpoint]:
    """Every checkpoint is whole; the newest one of each project is returned."""
    soundness = Soundness(store, _SECONDS)
    problems: Problems = []
    count = 0
    newest: list[Checkpoint] = []
    for project in projects:
        points = store.checkpoints(project)
        count += len(points)
        damaged = soundness.damaged(points)
        problems += [(f"{point.id} of {project}", "is not whole any more") for point in damaged]
        chosen = [point for point in points if point.numbered] or points
        newest += chosen[:1]
    text = f"{plural(count, 'checkpoint')} of {plural(len(projects), 'project')}, each one whole"
    findings.judge(POINTS, count, problems, text, "checkpoint")
    return newest


def _roll_back(
    context: UserContext,
    store: Store,
    points: list[Checkpoint],
    scratch: str,
    findings: Findings,
    listener: Listener,
) -> tuple[int, int]:
    """Write the newest point of each project out, one after the other; how many files and bytes."""
    problems: Problems = []
    files = size = 0
    for number, point in enumerate(points):
        listener(Event("rollback", number, len(points), "projects", path=point.project))
        try:
            needed = size_of(store, point)
            with drill_place(context, needed, scratch, (point.project,)) as place:
                target = os.path.join(place.path, "project")
                os.mkdir(target, 0o700)
                unpacked = unpack(store, point, target)
        except CheckpointDamaged as error:
            problems.append((point.project, error.what))
            continue
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise no_room(needed, []) from error
        files, size = files + unpacked.files, size + unpacked.bytes
        problems += [(os.path.join(point.project, path), why) for path, why in unpacked.wrong]
    text = f"the newest point of {plural(len(points), 'project')}: {plural(files, 'file')}, {size:,} bytes"
    findings.judge(ROLLBACK, files, problems, text)
    return files, size


def _advice(receipt: Receipt) -> tuple[Step, ...]:
    if receipt.ok:
        return ()
    return (
        NextStep("checkpoint status", before="See which checkpoints are touched:"),
        NextStep("checkpoint", ("DIR",), before="Take a new one of each project that matters:"),
    )
