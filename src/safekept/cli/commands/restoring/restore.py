"""`safekept restore [WHAT]`: what people type first; the same code as `safekept snapshot restore`."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from safekept.home.landing import NothingMatches
from safekept.vault.errors import NoSuchSnapshot

from ...options import common_options, source_options, start
from ...words.lists import standing_in
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
    replaced is kept, and `safekept undo` brings it back. A PATH with `/` or `~` in front means the home that
    it lies in; any other one is of the home that you stand in, if you do.
    """
    from safekept.actions.base.own_places import home_holding

    _, context, _ = start(bool(options["as_json"]))
    words, here = tuple(map(without_tilde, words)), ""
    if not options["home"] and not options["layout"]:
        if absolute := list(filter(os.path.isabs, words)):
            options["home"] = home_holding(context, absolute)
        else:
            here = home_holding(context, [standing_in()])
    home = context.locate(options["home"] or here, options["layout"], existing=False).home
    snapshot, paths = split(words, home)
    if paths and snapshot == "latest":  # a number or an id is that of a snapshot, wherever it is typed
        options["home"] = options["home"] or here
    try:
        return ctx.invoke(restore_snapshot, snapshot=snapshot, paths=paths, **options)
    except NoSuchSnapshot as error:
        if snapshot == "latest" or _names_snapshot(snapshot):
            raise
        # No label either: then it is a path that the home has lost.
        try:
            options["home"] = options["home"] or here
            return ctx.invoke(restore_snapshot, snapshot="latest", paths=words, **options)
        except NothingMatches as nothing:
            nothing.what = f"{error.what}, and {nothing.clause}"
            if error.facts.get("meant"):
                nothing.next_steps = (error.next_steps[0], *nothing.next_steps)
            raise nothing from error


def without_tilde(word: str) -> str:
    """A path as a shell would have given it, where quotes kept the shell from it."""
    return os.path.expanduser(word) if word.startswith("~/") else word


def split(words: tuple[str, ...], home: str) -> tuple[str, tuple[str, ...]]:
    """The snapshot and the paths that are meant by a row of words."""
    if not words:
        return "latest", ()
    for count in (2, 3):  # `yesterday 18:00`, `3 days ago`: a time without its quotes
        time, last = " ".join(words[:count]), words[count - 1 : count]
        # `1 h` may be a number and a path.
        plain = last == ("ago",) or not words[0].isdecimal()
        if last and plain and _is_time(time) and not os.path.lexists(os.path.join(home, *last)):
            return time, words[count:]
    first, rest = words[0], words[1:]
    return (first, rest) if _is_snapshot(first, home) else ("latest", words)


def _is_snapshot(word: str, home: str) -> bool:
    # A label may be anything; what looks like a path of the home, or is one, is meant as a path.
    path = "/" in word or "." in word or os.path.lexists(os.path.join(home, word))
    return _names_snapshot(word) or not path


def _names_snapshot(word: str) -> bool:
    return word == "latest" or word.isdecimal() or bool(_ID.fullmatch(word)) or _is_time(word)


def _is_time(words: str) -> bool:
    import time

    from safekept.core.ages import time_of

    return time_of(words, time.time()) is not None
