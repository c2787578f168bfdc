"""Whether a tree proves to be one that can be rebuilt: the looks on disk behind a rule."""

from __future__ import annotations

import os

from ..layout.layout import Layout
from ..layout.patterns import Matcher
from ..layout.rules import Proven

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def holds(proven: Proven, layout: Layout, path: str, directory: int) -> bool:
    """Whether a directory that has the telling file is really what that file says."""
    if proven.beneath is not None:
        below = Matcher((place, True) for place in layout.everywhere(proven.beneath))
        if not below.covers(os.path.dirname(path), directory=True):
            return False
    return not proven.signature or _begins(directory, proven.contains, proven.signature)


def stands(full: str, proof: tuple[str, ...]) -> bool:
    """Whether one of the paths that a rule asks for exists below a directory."""
    return any(os.path.lexists(os.path.join(full, one)) for one in proof)


def _begins(directory: int, name: str, signature: bytes) -> bool:
    try:
        descriptor = os.open(name, _FLAGS, dir_fd=directory)
    except OSError:
        return False
    try:
        return os.read(descriptor, len(signature)) == signature
    except OSError:
        return False
    finally:
        os.close(descriptor)
