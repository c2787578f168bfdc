"""What of a project is kept where, and what is left out, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....console import Console, count_text, path_text, size_text

if TYPE_CHECKING:
    from safekept.actions.projects.checkpoint import CheckpointTaken
    from safekept.actions.projects.hidden.coverage import LeftOut, ProjectCoverage

#: What the visible half leaves to the hidden half.
HIDDEN_REASONS = ("ignored", "secret", "excluded", "oversize")
_SHOWN = 20
_FEW = 5


def show_coverage(console: Console, found: ProjectCoverage) -> int:
    """The whole list. The exit code is 3 where something is not kept that cannot be made again."""
    console.document(found.as_dict())
    console.heading(f"What is kept of {path_text(found.project)}", good=not found.exposed)
    console.fact("Visible", _amount(found.visible_files, found.visible_bytes))
    console.fact("", f"in {path_text(found.store)}")
    if not found.hidden_store:
        console.fact("Hidden", "nothing: `checkpoints.hidden_budget` is 0")
        return 0
    what = "ignored files, secrets and large files, encrypted"
    console.fact("Hidden", f"{_amount(found.hidden_files, found.hidden_bytes)}: {what}")
    console.fact("", f"in {path_text(found.hidden_store)}")
    if not found.kept:
        console.fact("", found.trouble or "not kept yet as they are now: the next checkpoint keeps them")
    remakeable = tuple(one for one in found.left if one.remakeable)
    for label, some in (("Not kept", found.exposed), ("Left out", remakeable)):
        for one in some[:_SHOWN]:
            console.fact(label, _left(one))
        if len(some) > _SHOWN:
            console.fact("", f"… and {len(some) - _SHOWN:,} more; `--json` lists all")
    return 3 if found.exposed else 0


def hidden_document(result: CheckpointTaken) -> dict[str, object] | None:
    """The hidden half of a checkpoint, for programs; None where nothing hidden was looked at."""
    look = result.taken.hidden
    if look is None:
        return None
    from safekept.actions.projects.hidden.coverage import left_out

    kept, error = result.hidden, result.hidden_error
    return {
        "look": look.id,
        "snapshot": kept.snapshot if kept else None,
        "files": kept.files if kept else 0,
        "bytes": kept.bytes if kept else 0,
        "moved": list(kept.moved) if kept else [],
        "error": error.as_dict() if error else None,
        "left_out": [one.as_dict() for one in left_out(result.project, look, measure=False)],
    }


def show_hidden(console: Console, result: CheckpointTaken) -> None:
    look = result.taken.hidden
    if look is None:
        return
    from safekept.actions.projects.hidden.coverage import left_out

    if result.hidden_error is not None:
        console.fact("Hidden", f"NOT KEPT: {result.hidden_error.what}")
        for step in result.hidden_error.next_steps:
            console.fact("", step)
    elif result.hidden is not None and result.hidden.files:
        amount = _amount(result.hidden.files, result.hidden.bytes)
        console.fact("Hidden", f"{amount}: ignored files, secrets and large files, encrypted")
    left = left_out(result.project, look, measure=False)
    for one in [one for one in left if not one.remakeable][:_FEW]:
        console.fact("Not kept", _left(one))
    some = [one for one in left if one.remakeable]
    if some:
        names = ", ".join(path_text(one.path) for one in some[:_FEW]) + (" …" if len(some) > _FEW else "")
        console.fact("Left out", f"{names}: can be made again (`--show` says why)")


def _amount(files: int, size: int) -> str:
    return f"{count_text(files, 'file')}, {size_text(size)}"


def _left(one: LeftOut) -> str:
    many = f" ({'' if one.whole else 'at least '}{_amount(one.files, one.bytes)})" if one.files else ""
    return f"{path_text(one.path)}{many}: {one.reason}"
