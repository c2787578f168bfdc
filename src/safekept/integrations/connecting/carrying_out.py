"""Carry out a plan: copies first, then the record, then the files, each whole or not at all.

A process that is killed on the way leaves each file old or new. The record says what was wanted, so the
next `connect`, with or without `--remove`, finishes either way.
"""

from __future__ import annotations

import contextlib
import os
import time

from safekept.actions.base.context import UserContext
from safekept.actions.base.operations.care import ConnectFacts, DisconnectFacts
from safekept.actions.base.record import record, recording
from safekept.actions.hosts.connections import (
    ConnectedFile,
    Connection,
    connection_of,
    forget_connection,
    keep_copy,
    lock_path,
    remember_connection,
)
from safekept.core.events import Listener, silent
from safekept.core.files import sweep_temporaries
from safekept.core.journal import new_id
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep

from .plan import Edit, Plan
from .settings_file import SettingsNotWritten, check_unchanged, digest, remove_settings, write_settings

_PATIENCE = 10.0


def carry_out(context: UserContext, plan: Plan, listener: Listener = silent) -> list[str]:
    """Do what a plan says; where the copies of what was there lie is the answer."""
    kind = ConnectFacts if plan.connecting else DisconnectFacts
    operation, began = new_id(), time.monotonic()
    work = kind(
        agent=plan.host,
        scope=plan.scope or None,
        files_changed=tuple(edit.file.path for edit in plan.edits if edit.changes),
        command=tuple(plan.command),
    )
    if isinstance(work, DisconnectFacts):
        changed = [edit for edit in plan.edits if edit.changes]
        work.left = {one.file.path: "" if one.after is None else digest(one.after) for one in changed}
    verb = work.verb
    with recording(context, operation, work, listener):
        try:
            with process_lock(lock_path(context), verb, wait=_PATIENCE):
                copies = _do(context, plan)
        except OSError as error:
            raise SettingsNotWritten(
                f"The settings could not be written: {error.strerror or error}",
                kept="Each file is whole, as it was or as it was to be; none is half written",
                next_steps=(NextStep(verb, (plan.host,), "Make room or mend that, then run", " again"),),
                path=error.filename,
            ) from error
        work.seconds = round(time.monotonic() - began, 3)
        if plan.changes:
            record(context, work.line(operation, "done"), listener)
    return [copy for copy in copies if copy]


def _do(context: UserContext, plan: Plan) -> list[str]:
    for edit in plan.edits:
        check_unchanged(edit.file)
    copies = [_keep(context, edit) for edit in plan.edits if edit.changes and not edit.known]
    if plan.connecting:
        _remember(context, plan)
    for edit in plan.edits:
        _write(edit)
    if not plan.connecting:
        _clear(plan)
        forget_connection(context, plan.host, plan.scope, plan.place)
    return copies


def _clear(plan: Plan) -> None:
    """Directories that connecting made, where nothing else uses them."""
    for path in plan.leftovers:
        with contextlib.suppress(OSError):
            (os.rmdir if os.path.isdir(path) else os.unlink)(path)
    for directory in reversed(plan.directories):
        with contextlib.suppress(OSError):  # in use by others, or gone
            os.rmdir(directory)


def _keep(context: UserContext, edit: Edit) -> str:
    """Keep what is replaced; where it lies, if a person may want to know."""
    if edit.file.content is None:
        return ""
    path = keep_copy(context, digest(edit.file.content), edit.file.content)
    return path if edit.in_full else ""


def _remember(context: UserContext, plan: Plan) -> None:
    files = []
    for edit in plan.edits:
        copy = ""
        if edit.base is not None:
            copy = digest(edit.base)
            keep_copy(context, copy, edit.base)
        files.append(ConnectedFile(edit.file.path, copy, digest(edit.after or b"")))
    before = connection_of(context, plan.host, plan.scope, plan.place)
    same = (
        before is not None
        and before.files == tuple(files)
        and before.command == plan.command
        and not plan.changes
    )
    if not same:
        remember_connection(
            context,
            Connection(plan.host, time.time(), plan.command, tuple(files), plan.scope, plan.directories),
        )


def _write(edit: Edit) -> None:
    if not edit.changes:
        return
    sweep_temporaries(os.path.dirname(edit.file.target))
    if edit.after is None:
        remove_settings(edit.file)
    else:
        write_settings(edit.file, edit.after, edit.new_mode)
