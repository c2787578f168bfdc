"""Root works in nobody's project: whoever owns it does, in a child, or it is refused."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .others import Others, by_owner

__getattr__ = doors(__name__, {"others": "Others by_owner"})
