"""What a snapshot would take: the same scan, unread."""

from __future__ import annotations

from dataclasses import dataclass

from safekept.core.entries import Kind, Remark
from safekept.core.events import Listener, silent
from safekept.core.sqlite import CaptureOptions
from safekept.home.scan import scan

from ..archives.output import OwnArchives
from ..base.context import Place, Surroundings
from ..base.labels import check_label
from ..base.recovery import make_right
from ..vault.opening import refuse_inside_home, vault_exists
from .create import SnapshotRequest


@dataclass(frozen=True, slots=True)
class SnapshotPreview:
    """What would be selected, without reading any content."""

    place: Place
    vault: str
    vault_exists: bool
    files: int
    bytes: int
    remarks: list[Remark]


def preview_snapshot(
    surroundings: Surroundings, request: SnapshotRequest, listener: Listener = silent
) -> SnapshotPreview:
    """Select as a run would; the vault is neither made nor opened."""
    check_label(request.label)
    refuse_inside_home(surroundings, (request.place.home,))
    make_right(surroundings, request.place.home, listener)
    source = scan(
        request.place.home,
        request.place.layout,
        request.selection,
        capture=CaptureOptions(scratch="", deadline=request.deadline, isolated=False),
        avoid=(surroundings.data_directory, surroundings.vault),
        user_home=surroundings.user_home,
        own_archive=OwnArchives(surroundings),
        listener=listener,
    )
    files = total = 0
    for entry in source:
        if entry.kind is Kind.FILE:
            files += 1
            total += entry.size
    return SnapshotPreview(
        request.place,
        surroundings.vault,
        vault_exists(surroundings),
        files,
        total,
        list(source.remarks),
    )
