"""Take back what was set up: nothing calls safekept any more, and every file is as it was before.

One thing that cannot be taken back does not keep the others: all are tried, and what is left is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.unfinished import finished
from ..schedule.host_commands import Runner
from ..schedule.install import Installed, remove
from .survey import AgentPlace


@dataclass(slots=True)
class TakenBack:
    """What did not go as it should."""

    problems: list[SafekeptError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not self.problems and not self.remarks


def take_back_setup(
    context: UserContext,
    agents: Sequence[AgentPlace],
    schedule: Installed | None,
    run: Runner,
    remove_wrapper: Callable[[], object] | None,
    listener: Listener = silent,
) -> TakenBack:
    """Connections, the schedule, the wrapper of updates."""
    result = TakenBack()

    def scheduled() -> None:
        if schedule is None:
            return
        removed = remove(context, schedule, run, listener)
        result.remarks += [f"{path} was changed since it was written, and stays" for path in removed.left]
        result.remarks += removed.remarks

    for undo in (*(one.disconnect for one in agents), scheduled, remove_wrapper):
        if undo is None:
            continue
        try:
            undo()
        except SafekeptError as error:
            result.problems.append(error)
    finished(context)  # what was begun and not finished is taken back, too
    return result
