"""What is written down of the hidden half beside its snapshots; needs nothing of the vault."""

from __future__ import annotations

import contextlib
import os
import time

from safekept.checkpoints.project import project_id
from safekept.checkpoints.scan import HiddenFolders, HiddenLook, KeptHidden, KeptLook
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent

from ...base.context import UserContext
from ..project import checkpoint_directory


def project_records(context: UserContext, project: str) -> str:
    """The directory of the checkpoint store for one project."""
    return os.path.join(checkpoint_directory(context), "projects", project_id(project))


def hidden_directory(context: UserContext) -> str:
    """The repository of the hidden halves of all projects."""
    return os.path.join(checkpoint_directory(context), "hidden")


def hidden_exists(context: UserContext) -> bool:
    return os.path.exists(os.path.join(hidden_directory(context), "config"))


def kept_looks(context: UserContext, project: str) -> KeptHidden:
    return KeptHidden(project_records(context, project))


# A look that could not be kept in time is worth its rows: what looks just so in another snapshot is known.

_ROWS, _MOST_ROWS = "hidden-look-", 20
_MOST_LEFT = 50


def save_rows(context: UserContext, project: str, look: HiddenLook) -> None:
    """Remember what a look saw that is not kept yet; of the last few such looks."""
    records = project_records(context, project)
    look.folders.save(records, _ROWS + look.id)
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(records) if name.startswith(_ROWS)]
        names.sort(key=lambda name: os.stat(os.path.join(records, name)).st_mtime_ns)
        for name in names[:-_MOST_ROWS]:
            os.unlink(os.path.join(records, name))


def load_rows(context: UserContext, project: str, look: str) -> HiddenFolders | None:
    return HiddenFolders.load(project_records(context, project), _ROWS + look) if look else None


def _drop_rows(context: UserContext, project: str, look: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(project_records(context, project), _ROWS + look))


def named_left(look: HiddenLook) -> tuple[tuple[str, str], ...]:
    """What the line of a look says of what it did not keep: the largest, by name."""
    return tuple((one.path, one.reason) for one in look.exposed[:_MOST_LEFT])


def keep_nothing(context: UserContext, project: str, look: HiddenLook) -> KeptLook:
    """Write down that there was nothing hidden; that needs no repository."""
    left = named_left(look)
    one = KeptLook(look.id, "", time.time_ns(), look.since_ns, left=left, missing=look.unread)
    kept_looks(context, project).add(one)
    return one


def keep_look(
    context: UserContext,
    project: str,
    look: HiddenLook,
    *,
    deadline: float = 0.0,
    create: bool = True,
    listener: Listener = silent,
) -> KeptLook | SafekeptError:
    """Keep what a look found, whatever that takes; why not is given back, and written down. Never raises.

    Nothing of the vault is loaded where it is kept already, or nothing is hidden.
    """
    from .trouble import forget_trouble, note_trouble

    try:
        kept = kept_looks(context, project).looks.get(look.id)
        if kept is None and look.empty:
            kept = keep_nothing(context, project, look)
        if kept is None or (kept.missing and not deadline):
            from .keeping import keep_hidden

            kept = keep_hidden(
                context, project, look, deadline=deadline, create=create, isolated=True, listener=listener
            )
    except (SafekeptError, OSError, ValueError, ImportError) as error:
        if not isinstance(error, SafekeptError):
            from .repository import not_ready

            error = not_ready(str(getattr(error, "strerror", "") or error))
        note_trouble(project_records(context, project), error.what)
        save_rows(context, project, look)
        return error
    records = project_records(context, project)
    if kept.missing:
        note_trouble(records, missing_words(kept))
    else:
        forget_trouble(records)
    _drop_rows(context, project, look.id)
    return kept


def missing_words(kept: KeptLook) -> str:
    """What is not in a snapshot of the hidden half although it was there."""
    few = ", ".join(f"`{path}`" for path in kept.missing[:3])
    more = f" and {len(kept.missing) - 3:,} more" if len(kept.missing) > 3 else ""
    return f"Hidden files that cannot be read, or are locked, are not kept: {few}{more}"
