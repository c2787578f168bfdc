"""What is wrong with the copy that belongs to another owner on this machine, where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator

from safekept.core.ages import seconds_text
from safekept.core.finding import NOTE, PARTLY, Finding
from safekept.core.next_step import NextStep

from ...keeper.keeper_status import KeeperStatus


def of_keeper(keeper: KeeperStatus | None, now: float) -> Iterator[Finding]:
    if keeper is None:
        return
    if keeper.wrong:
        text = "the keeper of this machine does not answer: nothing new goes there"
        fix = ("See that its service runs, as root: `systemctl status safekept-keeper.socket`",)
        yield Finding("keeper-silent", NOTE, text, (keeper.wrong,), fix)
        return
    if keeper.behind:
        text = "the keeper does not have your last snapshot"
        seen = (
            f"stored {_ago(keeper.behind, now)}; the keeper has what was there {_ago(keeper.confirmed, now)}"
        )
        why = (f"the last transfer failed: {keeper.failure}",) if keeper.failure else ()
        again = NextStep("snapshot", before="The next snapshot sends it again:")
        yield Finding("keeper-behind", NOTE, text, (seen, *why), (again,))
    if keeper.full:
        text = "the keeper is full: it takes nothing new, and deletes nothing"
        seen = f"since {_ago(keeper.full, now)}: {keeper.used:,} of {keeper.quota:,} bytes"
        more = NextStep("keeper install", ("--help",), before="Root gives each user more room, `--quota`:")
        yield Finding("keeper-full", PARTLY, text, (seen,), (more,), alarm=True)
    if keeper.pinned:
        text = (
            "the vault and the checkpoints shrank to less than half; the keeper holds what was there before"
        )
        fix_steps = (
            NextStep("rebuild", ("--dry-run",), before="See what is gone, and comes back:"),
            NextStep(
                "keeper acknowledge", (str(os.geteuid()),), before="If it is meant to be so, root says so:"
            ),
        )
        seen = f"{_ago(keeper.shrunk, now)}, in state {keeper.pinned}"
        yield Finding("keeper-shrunk", PARTLY, text, (seen,), fix_steps, alarm=True)


def _ago(moment: float, now: float) -> str:
    return f"{seconds_text(max(0.0, now - moment))} ago"
