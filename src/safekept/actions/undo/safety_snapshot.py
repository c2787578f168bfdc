"""A snapshot of what is about to be replaced: the second net, beside the files that a landing keeps.

It never stands in the way: where it cannot be taken, that is reported, and the landing, which keeps what
it replaces by itself, goes on.
"""

from __future__ import annotations

import os

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.objects.address import is_address

from ..base.context import HomeRef, UserContext


def take_undo_point(
    context: UserContext,
    place: HomeRef,
    kind: str,
    label: str,
    *,
    quick: bool = False,
    check: bool = True,
    deadline: float = 30.0,
    listener: Listener = silent,
) -> str:
    """Take a snapshot of a home before it is changed; its id. Nothing where no home or vault is yet."""
    # Looked at by name: where there is no vault, nothing of it is loaded either.
    if not os.path.isdir(place.home) or not _vault_there(context.places.vault):
        return ""
    from safekept.home.scan import Selection
    from safekept.vault.tags import tidy_label

    from ..snapshots.create import SnapshotRequest, create_snapshot

    request = SnapshotRequest(
        place=place,
        kind=kind,
        label=tidy_label(label),
        selection=Selection(quick=quick),
        check="always" if check else "never",
        deadline=deadline,
    )
    try:
        return create_snapshot(context, request, listener).id
    except SafekeptError as error:
        text = (
            f"Note: no {kind} snapshot was taken ({error.clause}); what is replaced is kept beside the home"
        )
        listener(Event("undo-point", text=text))
        return ""


def _vault_there(vault: str) -> bool:
    """Of a vault behind a URL nothing is known without asking it: the snapshot itself will find out."""
    return bool(vault) and (is_address(vault) or os.path.exists(os.path.join(vault, "config")))
