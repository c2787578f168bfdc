"""Who does what is to be done in a home: we, or a child that is its owner.

As root, what happens in another user's home happens as that user. So every door of this room that
looks into a home or writes into one (`scan`, `plan_landing`, `land`, `recover`, `undo` and their like) asks
here first, and none of its callers has to think of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safekept.core.owner import foreign_owner

if TYPE_CHECKING:
    from .as_owner import Worker


def worker_for(path: str) -> Worker | None:
    """The child that works there; None: we do. Costs everybody but root one comparison."""
    owner = foreign_owner(path)
    if owner is None:
        return None
    from .as_owner import Worker

    return Worker(owner)


def users_home(home: str, path: str) -> str:
    """The home directory that belongs to a home: what lies outside the home is looked for below it.

    `said` is that of the user who runs the command. Where a child works for another user, it is that user's.
    """
    owner = foreign_owner(home)
    return path if owner is None or foreign_owner(path) == owner else owner.home
