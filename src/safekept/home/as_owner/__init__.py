"""What root does in another user's home, done by that user: the doors of this room, answered by a child."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .worker import Worker

__getattr__ = doors(__name__, {"worker": "Worker"})
