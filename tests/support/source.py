"""Our modules as syntax trees, each parsed once in a process.

Trees are many small objects that stay. The collector would go through all of them again and again while
more are made, five times as long as parsing takes, so it rests meanwhile and never looks at them later.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import os
from collections.abc import Iterator


@functools.cache
def syntax(path: str) -> ast.Module:
    with open(path, encoding="utf-8") as file, _collector_at_rest():
        return ast.parse(file.read(), path)


@functools.cache
def modules(root: str) -> list[tuple[str, ast.Module]]:
    """Every module below the root: its path from there, and its tree."""
    found = []
    with _collector_at_rest():
        for directory, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(directory, name)
                    found.append((os.path.relpath(path, root), syntax(path)))
    return found


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    awake = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if awake:
            gc.freeze()
            gc.enable()
