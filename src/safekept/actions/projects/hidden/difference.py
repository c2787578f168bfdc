"""What changed in the hidden half since a point: names and sizes, never a text. Much of it is secret."""

from __future__ import annotations

from dataclasses import replace

from safekept.checkpoints.checkpoint import Checkpoint, FileState
from safekept.checkpoints.points import visible_state
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings, look_now
from safekept.core.errors import SafekeptError

from ...base.context import UserContext
from ..difference import PointDifference
from .record import kept_looks


def with_hidden(
    context: UserContext,
    store: Store,
    found: PointDifference,
    settings: TakeSettings,
) -> PointDifference:
    """The same, with the hidden files that differ. Nothing of the vault is loaded where none does."""
    point = found.point
    if not isinstance(point, Checkpoint) or settings.hidden is None:
        return found
    kept = kept_looks(context, point.project)
    then = kept.of(point)
    try:
        look = look_now(store, point.project, settings).hidden
    except (SafekeptError, OSError):
        return found
    if look is None or then is None or then.look == look.id:
        return found
    from .repository import open_hidden
    from .state import HiddenHistory, looks_like

    try:
        with open_hidden(context) as repository:
            before = HiddenHistory(repository, kept).of(then)
    except (SafekeptError, OSError) as error:
        line = f"Ignored files, secrets and large files: {getattr(error, 'what', error)}"
        return replace(found, lines=(*found.lines, line))
    now = looks_like(look.folders, before)
    known = set(found.files)
    paths = [
        path
        for path in sorted(before.keys() | now.keys())
        if path not in known
        and found.wanted(path)
        and visible_state(before.get(path)) != visible_state(now.get(path))
        and "directory" not in (_kind(before.get(path)), _kind(now.get(path)))
    ]
    lines = [
        f"{path}: {_amount(before.get(path))} then, {_amount(now.get(path))} now (hidden)" for path in paths
    ]
    return replace(found, files=(*found.files, *paths), lines=(*found.lines, *lines))


def _kind(state: FileState | None) -> str:
    return state.kind if state is not None else ""


def _amount(state: FileState | None) -> str:
    if state is None:
        return "not there"
    return f"{state.size:,} bytes" if state.kind == "file" else f"a {state.kind}"
