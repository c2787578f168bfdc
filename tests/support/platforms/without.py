"""Features of the system that are switched off in this run: they are off in every child as well."""

from __future__ import annotations

import functools
import os
import subprocess

from safekept.core.platform import system

#: The one variable of ours that a run of the tests keeps.
KEPT = system.VARIABLE


def for_children_too() -> None:
    """Most children get an environment of their own, in which nothing of this process is."""
    value = os.environ.get(KEPT)
    if not value:
        return
    begin = subprocess.Popen.__init__

    @functools.wraps(begin)
    def with_it(self: object, *words: object, **options: object) -> None:
        if isinstance(environment := options.get("env"), dict):
            key, text = (
                (KEPT, value)
                if all(isinstance(name, str) for name in environment)
                else (os.fsencode(KEPT), os.fsencode(value))
            )
            options["env"] = {key: text, **environment}
        begin(self, *words, **options)  # type: ignore[arg-type]

    subprocess.Popen.__init__ = with_it  # type: ignore[method-assign,assignment]
