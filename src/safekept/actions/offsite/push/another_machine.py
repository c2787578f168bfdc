"""A copy that this machine's vault came from, and that another machine goes on writing to.

A rebuilt machine sends to the places of the machine that it was made of, since that one is usually gone. It
may be alive: the rebuild was a rehearsal, or the laptop was found again. Both then have their snapshots in
one copy, and a later rebuild finds two lives of one home. Nothing is lost by that, but no machine goes on
with it unasked: where another one has sent something since, a push waits for a person's word.
"""

from __future__ import annotations

import contextlib
import os
import time

from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_document, write_document
from safekept.core.next_step import NextStep
from safekept.vault.mirror import MirrorPlan, snapshots_only_there
from safekept.vault.repo import Repository
from safekept.vault.snapshots import public_id
from safekept.vault.storage import Storage

from ...base.context import UserContext
from ...base.operations.stores import PullFacts
from ..destination import DestinationSetting


class DestinationShared(SafekeptError):
    code = "destination-shared"


def refuse_shared(
    context: UserContext,
    setting: DestinationSetting,
    repository: Repository,
    plan: MirrorPlan,
    target: Storage,
) -> None:
    """Raise DestinationShared where another machine has sent snapshots since the vault came here."""
    since = fetched_at(context)
    if not since or setting.url in _allowed(context):
        return
    from ...snapshots.forgetting import snapshots_once_here

    found = [one for one in snapshots_only_there(repository, plan, target) if one.time_ns > since * 1e9]
    if not found:
        return
    once_here = snapshots_once_here(context)
    theirs = [one for one in found if not {public_id(one), one.id} & once_here]
    if not theirs:
        return
    newest = theirs[-1]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest.time_ns / 1e9))
    home = f" (of `{newest.paths[0]}`)" if newest.paths else ""
    raise DestinationShared(
        f"The machine that this one was rebuilt from is alive, or another one was made of it: on {when} "
        f"`{newest.hostname}` took a snapshot{home} that is in `{setting.name}` and was never here",
        kept="Nothing was sent: its copies and those of this machine are not mixed unasked",
        next_steps=(
            NextStep(
                "destinations remove", (setting.name,), before="If that one goes on, send nothing there:"
            )
            if any(one.name == setting.name for one in context.choices.destinations)
            else "If that one goes on, name another place for this machine",
            NextStep(
                "push",
                (setting.name, "--shared"),
                before="If both are to send there, say so once; each keeps its own snapshots:",
            ),
        ),
        destination=setting.name,
        host=newest.hostname,
    )


def fetched_at(context: UserContext) -> float:
    """When the vault here was fetched from a copy, by a rebuild or a pull; 0 where it was made here."""
    vault = os.path.realpath(context.places.vault)
    with contextlib.suppress(OSError):
        for entry in context.journal.backwards(PullFacts.verb):
            work = PullFacts.read(entry)
            if entry.state == "done" and not work.mend and work.path and os.path.realpath(work.path) == vault:
                return entry.time
    return 0.0


def allow_shared(context: UserContext, setting: DestinationSetting) -> None:
    """A person says that both machines send there."""
    known = _allowed(context)
    if setting.url not in known:
        write_document(_file(context), {"version": 1, "places": [*known, setting.url]})


def _allowed(context: UserContext) -> list[str]:
    return read_document(_file(context), lambda found: list(map(str, found["places"])), [])


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "shared-places.json")
