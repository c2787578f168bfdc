"""What of a project is kept where, and what is left out and why, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text, size_text

if TYPE_CHECKING:
    from safekept.actions.projects.hidden.coverage import LeftOut, ProjectCoverage

_SHOWN = 20


def show_kept(console: Console, found: ProjectCoverage) -> None:
    """The whole list."""
    console.heading(f"What is kept of {path_text(found.project)}", good=not found.exposed)
    console.fact("Visible", amount_text(found.visible_files, found.visible_bytes))
    console.fact("", f"in {path_text(found.store)}")
    if found.history_store:
        console.fact("History", "of its git repository, 0700 and not encrypted, as `.git` itself")
        console.fact("", f"in {path_text(found.history_store)}")
    if not found.hidden_store:
        console.fact("Hidden", "nothing: `checkpoints.hidden_budget` is 0")
        return
    what = "ignored files, secrets and large files, encrypted"
    console.fact("Hidden", f"{amount_text(found.hidden_files, found.hidden_bytes)}: {what}")
    console.fact("", f"in {path_text(found.hidden_store)}")
    if not found.kept:
        console.fact("", found.trouble or "not kept yet as they are now: the next checkpoint keeps them")
    remakeable = tuple(one for one in found.left if one.remakeable)
    for label, some in (("Not kept", found.exposed), ("Left out", remakeable)):
        for one in some[:_SHOWN]:
            console.fact(label, left_text(one))
        if len(some) > _SHOWN:
            console.fact("", f"… and {len(some) - _SHOWN:,} more; `--json` lists all")


def amount_text(files: int, size: int) -> str:
    return f"{count_text(files, 'file')}, {size_text(size)}"


def left_text(one: LeftOut) -> str:
    many = f" ({'' if one.whole else 'at least '}{amount_text(one.files, one.bytes)})" if one.files else ""
    return f"{path_text(one.path)}{many}: {one.reason}"
