"""`safekept restore [WHAT]`: what people type first; the same code as `safekept snapshot restore`."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from ...options import common_options, source_options, start
from ..snapshots.snapshot.restore import command as restore_snapshot
from ..snapshots.snapshot.restore import restore_options

_ID = re.compile(r"[0-9a-f]{6,64}")


@click.command("restore")
@click.argument("words", metavar="[WHAT] [PATH]...", nargs=-1)
@restore_options
@source_options
@common_options
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> Any:
    """Bring a home, or one path of it, back from a snapshot.

    WHAT is a snapshot: its number in `safekept snapshot list`, its id or the start of it, its label, a time
    such as `yesterday 18:00`, `3h` or `2026-11-01`, or `latest`. Or it is a PATH of the home, which then
    comes out of the newest snapshot that has it. Nothing at all means `latest`. A plan comes first; what is
    replaced is kept, and `safekept undo` brings it back.
    """
    _, context, _ = start(bool(options["as_json"]))
    home = context.locate(options["home"], options["layout"], existing=False).home
    snapshot, paths = split(words, home)
    return ctx.invoke(restore_snapshot, snapshot=snapshot, paths=paths, **options)


def split(words: tuple[str, ...], home: str) -> tuple[str, tuple[str, ...]]:
    """The snapshot and the paths that are meant by a row of words."""
    if not words:
        return "latest", ()
    first, rest = words[0], words[1:]
    return (first, rest) if _is_snapshot(first, home) else ("latest", words)


def _is_snapshot(word: str, home: str) -> bool:
    import time

    from safekept.core.ages import time_of

    if word == "latest" or word.isdecimal() or _ID.fullmatch(word) or time_of(word, time.time()) is not None:
        return True
    # A label may be anything; what looks like a path of the home, or is one, is meant as a path.
    return not ("/" in word or "." in word or os.path.lexists(os.path.join(home, word)))
