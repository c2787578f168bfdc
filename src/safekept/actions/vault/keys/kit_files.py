"""The kit as files: text and HTML beside each other, written again where they are out of date."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import durable_write
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.owner import held_output
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ...base.operations.stores import VaultKitFacts
from ...base.record import record
from ..opening import open_vault, vault_exists
from .kit_reading import is_kit
from .kit_record import (
    KitRecord,
    KitStatus,
    key_ids,
    kit_status,
    note_written,
    places_now,
    usual_stem,
    written_kit,
)


class KitTaken(SafekeptError):
    code = "kit-place-taken"


def write_kit(context: UserContext, repository: Repository, output: str = "") -> tuple[str, str]:
    """Write the page as text and as HTML to print; their paths. Only a kit of before is replaced.

    `output` is a directory, or a name without suffix; empty: the user's home directory. In a directory a kit
    that this machine did not write is kept, and the new one goes beside it.
    """
    from .kit import make_kit  # every push looks whether a kit is current, and hardly any writes one
    from .kit_page import as_html, as_text

    kit = make_kit(context, repository)
    output = output or context.places.user_home
    if os.path.isdir(output):
        output = usual_stem(context, output, repository.id, is_kit)
    stem = output.removesuffix(".txt").removesuffix(".html")
    pages = {f"{stem}.txt": as_text(kit), f"{stem}.html": as_html(kit)}
    new, made = set[str](), list[str]()
    try:
        for path in pages:
            with held_output(path) as held:
                if not os.path.lexists(held):
                    new.add(path)
                elif not is_kit(held):
                    raise KitTaken(
                        f"`{path}` exists and is not a kit",
                        kept="It was not touched; nothing was written",
                        next_steps=(NextStep("vault kit", ("-o", "PATH"), before="Name another place:"),),
                    )
        for path, page in pages.items():
            with held_output(path) as held:
                if path in new:
                    made.append(path)
                durable_write(held, page.encode("utf-8", "surrogateescape"))
        places = tuple(places_now(context))
        note_written(context, repository.id, KitRecord(time.time(), tuple(pages), places, kit.key_id))
    except BaseException as error:
        # Half a kit holds the whole key, and its owner would not know that it lies there.
        for half in made:
            with contextlib.suppress(OSError), held_output(half) as held:
                os.unlink(held)
        if not isinstance(error, OSError):
            raise
        raise KitTaken(
            f"`{path}` cannot be written: {error.strerror}",
            kept="The vault was not touched",
            next_steps=(NextStep("vault kit", ("-o", "PATH"), before="Name another place:"),),
        ) from error
    work = VaultKitFacts(vault=context.places.vault, written=tuple(pages))
    record(context, work.line(new_id(), "done"), silent)
    text, html = pages
    return text, html


def refresh_kit(context: UserContext, listener: Listener = silent) -> KitStatus:
    """Write the kit again where it lies, if it was overtaken. How it stands then; never raises.

    One that was moved away is left alone: a key is not put back where a person took it from.
    """
    try:
        if not vault_exists(context):
            return KitStatus()
        with open_vault(context, listener=listener) as repository:
            keys = key_ids(repository)
            written = written_kit(context, repository.id)
            before = kit_status(context, repository.id, keys, written)
            if written is None or not (before.outdated or before.beyond) or before.here_current:
                return before
            if not all(map(is_kit, written.files)) or not written.files:
                return before
            write_kit(context, repository, written.files[0])
            after = kit_status(context, repository.id, keys, written_kit(context, repository.id))
            return replace(after, rewritten=True)
    except (SafekeptError, OSError):
        return KitStatus()  # the verdict says it, and what to do
