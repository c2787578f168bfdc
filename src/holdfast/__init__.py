"""holdfast keeps what an AI agent knows, and undoes what it does.

Importing this costs nothing: each name is fetched when it is first used, so that a hook, which needs none
of them, starts at once.
"""

__version__ = "0.1.0"

TYPE_CHECKING = (
    False  # a type checker takes it for True; importing `typing` would cost more than all the rest
)
if TYPE_CHECKING:
    from holdfast.actions.status import Status
    from holdfast.api.archives import backup, import_archive
    from holdfast.api.guarding import LossFound, guard
    from holdfast.api.projects import Checkpoints, Turn
    from holdfast.api.snapshots import history, restore, snapshot, snapshots
    from holdfast.api.state import status, undo
    from holdfast.api.values import (
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
    from holdfast.core.errors import HoldfastError

__all__ = [
    "Archive",
    "Checkpoints",
    "Diff",
    "Guarded",
    "HoldfastError",
    "LossFound",
    "Missing",
    "Point",
    "Protected",
    "RestorePlan",
    "Restored",
    "RolledBack",
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
    "holdfast.actions.status": ("Status",),
    "holdfast.api.archives": ("backup", "import_archive"),
    "holdfast.api.guarding": ("LossFound", "guard"),
    "holdfast.api.projects": ("Checkpoints", "Turn"),
    "holdfast.api.snapshots": ("history", "restore", "snapshot", "snapshots"),
    "holdfast.api.state": ("status", "undo"),
    "holdfast.core.errors": ("HoldfastError",),
}


if not TYPE_CHECKING:  # a type checker shall say of a name that is not there that it is not

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        from importlib import import_module

        place = next((module for module, names in _MODULES.items() if name in names), "holdfast.api.values")
        found = globals()[name] = getattr(import_module(place), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
