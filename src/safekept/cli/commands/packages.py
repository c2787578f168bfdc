"""Packages that only one command needs, and the command that installs them."""

from __future__ import annotations

import os
import sys

from safekept.core.spelling import shell_line


def installing(*packages: str) -> str:
    """The command that puts packages into the environment that safekept runs in, whichever tool made that."""
    place = f"{sys.prefix}/"
    if "/pipx/venvs/" in place:
        return shell_line(["pipx", "inject", os.path.basename(sys.prefix), *packages])
    if "/uv/tools/" in place:  # such an environment has no pip
        return shell_line(["uv", "pip", "install", "--python", sys.executable, *packages])
    return shell_line([sys.executable, "-m", "pip", "install", *packages])
