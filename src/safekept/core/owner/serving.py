"""The child's life: load what may be needed, give every right away, answer until root's pipes are closed."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .child import become, exception_as_data, raised_from
from .pipe import Handler, OwnerPipe


def serve(
    load: Callable[[], None], handlers: Callable[[OwnerPipe], Mapping[str, Handler]], *user: int
) -> None:
    """`user`: its number, its group and its other groups. `handlers` are made once the rights are gone."""
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    load()
    become(user[0], user[1], user[2:])
    os.chdir("/")
    line = OwnerPipe(
        reading,
        writing,
        encode=lambda value: json.dumps(value).encode(),
        decode=lambda data: pickle.loads(data),  # noqa: S301 - from root, who needs no tricks to command us
        failure=exception_as_data,
        raised=_raised,
    )
    line.serve(handlers(line))


def load_packages(names: Sequence[str], also: Sequence[str], left_alone: tuple[str, ...]) -> None:
    """Everything in these packages, while it can still be read: they may lie where only root can look.

    `also`: what they import only when they need it. `left_alone`: beginnings of names that no child needs.
    """
    for name in names:
        package = import_module(name)
        for found in pkgutil.walk_packages(package.__path__, name + "."):
            if not found.name.startswith(left_alone):
                with contextlib.suppress(ImportError):
                    import_module(found.name)
    for name in also:
        with contextlib.suppress(ImportError):
            import_module(name)


def _raised(document: dict[str, Any]) -> BaseException:
    """What root's side said went wrong; an error that we have no class for is one of the system."""
    try:
        return raised_from(document)
    except KeyError:
        return OSError(str(document.get("unexpected") or document["error"]["what"]))
