"""Doors of a folder: the names that others may import, each fetched from its module when it is first used.

A folder's `__init__` says twice what it shows: once for the type checker, which follows imports, and once
here, so that one name does not cost the modules of all others. A test holds both lists
against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def doors(package: str, table: Mapping[str, str]) -> Callable[[str], object]:
    """A `__getattr__` for `package`: `table` says which of its modules has which names."""
    places = {name: module for module, names in table.items() for name in names.split()}

    def fetch(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return fetch
