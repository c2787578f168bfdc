"""What an archive is called, and that it never takes the place of something else."""

from __future__ import annotations

import os
import time

from safekept.actions.own_archives import OwnArchives
from safekept.actions.surroundings import Place, Surroundings
from safekept.archive.seal import Seal, unsealed_name
from safekept.core.errors import SafekeptError

SUFFIXES = {"zip": ".zip", "tar.zst": ".tar.zst"}


class OutputTaken(SafekeptError):
    code = "output-taken"


def output_path(
    surroundings: Surroundings,
    place: Place,
    named: str,
    form: str,
    seal: Seal | None,
    known: OwnArchives,
    now: float = 0.0,
) -> str:
    """Where the archive goes. Never over a file that is not an archive of ours. `now` 0: by the clock."""
    suffix = SUFFIXES[form] + (seal.suffix if seal is not None else "")
    stamp = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(now or None))
    name = f"{place.layout.archive_prefix}-{stamp}{suffix}"
    output = os.path.expanduser(named) if named else surroundings.user_home
    if not names_a_file(output):
        return os.path.join(os.path.abspath(output), name)
    output = os.path.abspath(output)
    if not output.endswith(suffix):
        output = unsealed_name(output).removesuffix(SUFFIXES[form]) + suffix
    if os.path.lexists(output) and not (os.path.isfile(output) and known(output)):
        raise OutputTaken(
            f"`{output}` exists and is not an archive that safekept made",
            kept="It was left as it is; nothing was written",
            next_steps=("Name another file with `safekept backup -o PATH`",),
        )
    return output


def names_a_file(output: str) -> bool:
    """Whether this is the name of an archive, and not of a directory for it."""
    return bool(output) and not output.endswith("/") and not os.path.isdir(output)


def beside(path: str, addition: str) -> str:
    """`a.tar.zst.age` -> `a-incomplete.tar.zst.age`."""
    inner = unsealed_name(path)
    for suffix in SUFFIXES.values():
        if inner.endswith(suffix):
            return inner.removesuffix(suffix) + addition + suffix + path.removeprefix(inner)
    return path + addition
