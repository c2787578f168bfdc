"""What a snapshot would take: the same scan, unread."""

from __future__ import annotations

import contextlib

from safekept.core.entries import Kind, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, expecting, silent
from safekept.core.records import dataclass
from safekept.core.sqlite import CaptureOptions
from safekept.home.scan import scan
from safekept.vault.tags import check_label

from ..alarms.meant import meant_links, without_meant_links
from ..archives.output import OwnArchives
from ..base.context import HomeRef, UserContext
from ..base.record import expected_bytes
from ..base.recovery import recover_interrupted
from ..vault.opening import refuse_inside_home, vault_exists
from .create import SnapshotRequest


@dataclass(frozen=True, slots=True)
class SnapshotPreview:
    """What would be selected, without reading any content."""

    place: HomeRef
    vault: str
    vault_exists: bool
    files: int
    bytes: int
    remarks: list[Remark]


def with_estimate(context: UserContext, request: SnapshotRequest, listener: Listener) -> Listener:
    """The same listener, told how much the first snapshot of a home will take, by a look at it.

    When watched: of every later one the journal knows. What keeps the look from being made is told by
    the snapshot itself.
    """
    if not expected_bytes(context, "snapshot", request.place.home, request.partial):
        with contextlib.suppress(SafekeptError, OSError):
            return expecting(listener, "store", preview_snapshot(context, request).bytes)
    return listener


def preview_snapshot(
    context: UserContext, request: SnapshotRequest, listener: Listener = silent
) -> SnapshotPreview:
    """Select as a run would; the vault is neither made nor opened."""
    check_label(request.label)
    refuse_inside_home(context, (request.place.home,))
    recover_interrupted(context, request.place.home, listener)
    source = scan(
        request.place.home,
        request.place.layout,
        request.selection,
        capture=CaptureOptions(scratch="", deadline=request.deadline, isolated=False),
        avoid=(context.places.data_directory, context.places.vault),
        user_home=context.places.user_home,
        own_archive=OwnArchives(context),
        listener=listener,
    )
    files = total = 0
    for entry in source:
        if entry.kind is Kind.FILE:
            files += 1
            total += entry.size
    return SnapshotPreview(
        request.place,
        context.places.vault,
        vault_exists(context),
        files,
        total,
        without_meant_links(source.remarks, meant_links(context, request.place.home)),
    )
