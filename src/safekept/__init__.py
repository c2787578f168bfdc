"""safekept keeps what an AI agent knows, and undoes what it does.

Importing this costs nothing: each name is fetched when it is first used, so that a hook, which needs none
of them, starts at once.
"""

__version__ = "0.1.0"

TYPE_CHECKING = (
    False  # a type checker takes it for True; importing `typing` would cost more than all the rest
)
if TYPE_CHECKING:
    from safekept.actions.status.status import Status
    from safekept.api.archives import backup, import_archive
    from safekept.api.guarding import LossFound, guard
    from safekept.api.projects import Checkpoints
    from safekept.api.snapshots import history, restore, snapshot, snapshots
    from safekept.api.state import status, undo
    from safekept.api.turns import Turn
    from safekept.api.values import (
        Archive,
        Diff,
        Guarded,
        Missing,
        Point,
        Protected,
        Restored,
        RestorePlan,
        RolledBack,
        Snapshot,
        Step,
        Undone,
        Version,
    )
    from safekept.core.errors import SafekeptError

__all__ = [
    "Archive",
    "Checkpoints",
    "Diff",
    "Guarded",
    "LossFound",
    "Missing",
    "Point",
    "Protected",
    "RestorePlan",
    "Restored",
    "RolledBack",
    "SafekeptError",
    "Snapshot",
    "Status",
    "Step",
    "Turn",
    "Undone",
    "Version",
    "__version__",
    "backup",
    "guard",
    "history",
    "import_archive",
    "restore",
    "snapshot",
    "snapshots",
    "status",
    "undo",
]

_MODULES = {
    "safekept.actions.status.status": ("Status",),
    "safekept.api.archives": ("backup", "import_archive"),
    "safekept.api.guarding": ("LossFound", "guard"),
    "safekept.api.projects": ("Checkpoints",),
    "safekept.api.turns": ("Turn",),
    "safekept.api.snapshots": ("history", "restore", "snapshot", "snapshots"),
    "safekept.api.state": ("status", "undo"),
    "safekept.core.errors": ("SafekeptError",),
}


if not TYPE_CHECKING:  # a type checker shall say of a name that is not there that it is not

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'safekept' has no attribute {name!r}")
        from importlib import import_module

        place = next((module for module, names in _MODULES.items() if name in names), "safekept.api.values")
        found = globals()[name] = getattr(import_module(place), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
