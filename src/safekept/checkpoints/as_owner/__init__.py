"""Root works in no other user's project: its owner does, in a child, or it is refused."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .other_users import OtherUsersProjects, by_owner

__getattr__ = doors(__name__, {"other_users": "OtherUsersProjects by_owner"})
