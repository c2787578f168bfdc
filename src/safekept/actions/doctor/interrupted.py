"""What was cut off and left behind: locks of dead processes, landings and rollbacks half way."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from safekept.checkpoints.points import RollbackJournal
from safekept.checkpoints.store import STALE
from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.locks import lock_is_held
from safekept.vault.repo import read_locks

from ..projects.project import checkpoint_directory
from ..status.vault_status import OPEN
from ..undo.changes import rolled_back_projects
from ..vault.opening import open_vault
from .finding import ADVICE, SERIOUS, Case, Finding, Repair


def look_at_interrupted(case: Case) -> Iterator[Finding]:
    yield from _landings(case)
    yield from _rollbacks(case)
    yield from _vault_locks(case)
    yield from _git_locks(case)


def _landings(case: Case) -> Iterator[Finding]:
    for home in case.status.homes:
        for left in home.leftovers:
            name = home.home
            if left.half_way:
                text = f"a restore or import into {name} was cut off half way"
                fix = "Take it back, and change nothing else: " + case.command("doctor", "--fix", home=name)
            else:
                text = f"a restore or import into {name} was cut off before it changed anything"
                fix = "Remove what it left: " + case.command("doctor", "--fix", home=name)
            yield Finding(
                "interrupted-landing",
                SERIOUS if left.half_way else ADVICE,
                text,
                (f"its record is in {left.place}", "no process is at work there"),
                (fix,),
                Repair("landing", name, f"makes right what was cut off in {name}"),
                name,
            )


def _rollbacks(case: Case) -> Iterator[Finding]:
    if case.request.home:
        return
    for place, project in rolled_back_projects(case.context):
        if RollbackJournal(place).pending() and not lock_is_held(os.path.join(place, "rollback.lock")):
            yield Finding(
                "interrupted-rollback",
                SERIOUS,
                f"a rollback of {project} was cut off half way",
                (f"its record is in {place}", "no process is at work there"),
                (f"Finish it or take it back: {case.command('rollback', '--dir', project)}",),
                Repair("rollback", project, f"finishes the rollback of {project}, or takes it back"),
            )


def _vault_locks(case: Case) -> Iterator[Finding]:
    if case.status.vault.state != OPEN:
        return
    with contextlib.suppress(SafekeptError, OSError), open_vault(case.context) as repository:
        left = [one for one in read_locks(repository.storage, repository.key) if one.stale or one.reason]
        if not left:
            return
        dead = [one for one in left if one.abandoned]
        evidence = [
            f"{one.holder}: that process is gone"
            if one.abandoned
            else f"{one.holder}: not refreshed for half an hour"
            for one in left
        ]
        text = f"{len(left):,} lock{'s were' if len(left) > 1 else ' was'} left behind on the vault"
        yield Finding(
            "stale-lock",
            ADVICE,
            text,
            tuple(evidence),
            ("`safekept vault unlock`",),
            Repair("vault-locks", case.context.places.vault, f"removes {len(dead):,} locks of dead processes")
            if dead
            else None,
        )


def _git_locks(case: Case) -> Iterator[Finding]:
    """Git's own lock files in the checkpoint store: age is the only witness, as for git itself."""
    store = os.path.join(checkpoint_directory(case.context), "store")
    for name in ("packed-refs.lock", "config.lock", "HEAD.lock"):
        path = os.path.join(store, name)
        with contextlib.suppress(OSError):
            age = time.time() - os.lstat(path).st_mtime
            if age > STALE:
                yield Finding(
                    "stale-lock",
                    ADVICE,
                    f"a lock of git's was left behind in the checkpoint store: {path}",
                    (f"it is {seconds_text(age)} old; git holds one for moments",),
                    (f"`rm {path}`",),
                    Repair("git-lock", path, f"removes {path}"),
                )
