"""Snapshots in words: their age, their size, and the options that name a snapshot or a home."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from safekept.actions.snapshots.listing import Listed
from safekept.core.ages import seconds_text as seconds_text

from ..console import path_text, size_text
from ..options import named_source

if TYPE_CHECKING:
    from safekept.actions.status.home_summary import LastArchive, LastSnapshot

Command = TypeVar("Command", bound=Callable[..., Any])


def session_options(function: Command) -> Command:
    """`--from` and `--profile`: which older database is meant."""
    for option in (
        click.option("--profile", metavar="NAME", default="", help="The conversations of this profile."),
        click.option(
            "--from",
            "word",
            metavar="ID|N|latest",
            default="latest",
            help="The snapshot to take it from; default: the newest.",
        ),
    ):
        function = option(function)
    return function


def age_text(listed: Listed, now_ns: int | None = None, word: str = "") -> str:
    """`12 s`, `5 min`, `3 h`, `9 days`; `in the future` where a clock was wrong. `word`: `old`, `ago`."""
    if listed.future:
        return "in the future"
    now = time.time_ns() if now_ns is None else now_ns
    return f"{seconds_text(max(0, now - listed.snapshot.time_ns) / 1e9)} {word}".rstrip()


def incomplete_text(stored: Listed | LastSnapshot | LastArchive, before: str = "") -> str:
    """`INCOMPLETE: state.db is damaged`, after `before`; nothing where it is complete."""
    if stored.complete:
        return ""
    why = path_text(stored.why_incomplete)
    return f"{before}INCOMPLETE: {why}" if why else f"{before}INCOMPLETE"


def amount(count: int | None) -> str:
    return "–" if count is None else size_text(count)


def named_home(home: str, layout: str) -> list[str]:
    """The options that say which home and which vault were meant, for a command that is printed."""
    words = ["--home", os.path.abspath(os.path.expanduser(home))] if home else []
    words += ["--layout", layout] if layout else []
    return words + named_source()
