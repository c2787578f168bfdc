"""Hook programs: what a host tells on standard input, and the answer that its contract asks for.

One file per host turns its JSON into a `Call` and what came of it into an `Answer`. Whatever comes in,
the answer lets the host go on: exit code 0 (1 where a host takes only that for no answer), no permission
granted or denied, nothing on standard output that would reach the model. What is not protected is said to
the person once in a session, in the way the host has for that, and kept for `status`.
"""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .handling import handle

__getattr__ = doors(__name__, {"handling": "handle"})
__all__ = ["handle"]
