"""Locks that dead processes left behind, on the vault and in the checkpoint store."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from safekept.checkpoints.store import STALE
from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.finding import NOTE, Finding, Repair
from safekept.core.next_step import NextStep
from safekept.vault.repo import read_locks

from ..projects.project import checkpoint_directory
from ..status.vault_status import OPEN
from ..vault.opening import open_vault
from .case import Case


def look_at_interrupted(case: Case) -> Iterator[Finding]:
    yield from _vault_locks(case)
    yield from _git_locks(case)


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
            NOTE,
            text,
            tuple(evidence),
            (NextStep("vault unlock"),),
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
                    NOTE,
                    f"a lock of git's was left behind in the checkpoint store: {path}",
                    (f"it is {seconds_text(age)} old; git holds one for moments",),
                    (f"`rm {path}`",),
                    Repair("git-lock", path, f"removes {path}"),
                )
