"""What can be wrong with a `rebuild` without a place, each with what is in place all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safekept.actions.keeper.keeper_status import keeper_status
from safekept.actions.restoring.rebuild_request import NothingToRebuild
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.spelling import shell_word

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext


class NotWritten(SafekeptError):
    code = "own-files-not-written"


class RepositoryNotWhole(SafekeptError):
    code = "repository-not-whole"

    def __init__(self, project: str, point: str) -> None:
        super().__init__(
            f"The files of `{project}` are back, and not everything of its git repository is",
            kept="What was held of it is in place",
            next_steps=(
                NextStep("rollback", (point, "--git", "--dir", project), before="See what is missing:"),
                f"Where it has a remote, fetch the rest: `git -C {shell_word(project)} fetch --all`",
            ),
            project=project,
        )


class NotWhole(SafekeptError):
    code = "keeper-object-damaged"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"`{path}` did not come back: {why}",
            kept="What the keeper has whole is in place",
            next_steps=(NextStep("vault check", before="See what that costs:"),),
            path=path,
        )


def nothing_survived(context: UserContext) -> NothingToRebuild:
    status = keeper_status(context)
    keeper = "" if status is None else "; the keeper holds nothing of you"
    if status is not None and status.wrong:
        keeper = "; and the keeper does not answer"
    places = [
        NextStep("rebuild", (one.name,), before="From a copy elsewhere:")
        for one in context.choices.destinations
    ]
    return NothingToRebuild(
        f"Nothing of safekept survived on this machine: no vault, no checkpoints, no copies{keeper}",
        kept="Nothing was changed",
        next_steps=(
            *((NextStep("keeper status", before="See why:"),) if status and status.wrong else ()),
            *places,
            "With your kit: name it in place of FROM; it names the places that hold a copy",
            NextStep("rebuild", ("FROM",), before="From a destination, a vault or an archive:"),
        ),
    )
