"""One bare git repository for all projects: objects, packs, refs, and what is known to be damaged."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .damage import Damage, current_damage
    from .git import find_git, run_git
    from .refs import STALE, Refs, sweep_stale_lock
    from .repositories.moves import STAYS
    from .repositories.planning import plan_repositories
    from .repositories.state import same_repositories
    from .repository import StoreUnusable, belt_of, repositories_belt
    from .store import Store
    from .tree_state import TreeState

__getattr__ = doors(
    __name__,
    {
        "damage": "Damage current_damage",
        "git": "find_git run_git",
        "refs": "Refs STALE sweep_stale_lock",
        "repositories.moves": "STAYS",
        "repositories.planning": "plan_repositories",
        "repositories.state": "same_repositories",
        "repository": "StoreUnusable belt_of repositories_belt",
        "store": "Store",
        "tree_state": "TreeState",
    },
)
