"""Doors of a folder: the names that others may import, each fetched from its module when it is first used.

A folder's `__init__` says twice what it shows: once for the type checker, which follows imports, and once
here, so that one name does not cost the modules of all others. A test holds both lists
against each other.
"""

from __future__ import annotations

import sys
from _thread import RLock
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def doors(package: str, table: Mapping[str, str]) -> Callable[[str], object]:
    """A `__getattr__` for `package`: `table` says which of its modules has which names."""
    places = {name: module for module, names in table.items() for name in names.split()}

    def fetch(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return fetch


_LOADING = RLock()


class Later(ModuleType):
    """A module whose code has not run yet; the first name that it lacks runs it."""

    def __getattr__(self, name: str) -> object:
        with _LOADING:  # another thread waits until all names are there
            if vars(self).pop("_to_be_loaded", False):
                spec = self.__spec__
                assert spec is not None and spec.loader is not None
                spec.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def put_off_inspect() -> None:
    """Stand in for `inspect` from now on, where nothing has loaded it."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = None if "inspect" in sys.modules else PathFinder.find_spec("inspect")
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    vars(module).update(cleandoc=cleandoc, _to_be_loaded=True)
    module.__class__ = Later
    sys.modules["inspect"] = module


def cleandoc(doc: str) -> str:
    """As `inspect.cleandoc`: a text without the indentation that its lines have in common."""
    first, *others = doc.expandtabs().split("\n")
    indents = [len(line) - len(line.lstrip()) for line in others if line.strip()]
    lines = [first.lstrip(), *(line[min(indents, default=0) :] for line in others)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines)
