"""Who has a database of the home open, and which files are databases at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.platform.filesystems import mounts
from safekept.core.sqlite import HEADER, Holder, is_database
from safekept.core.sqlite.holders import NOT_KNOWN, holders

from ..area import LandingNotPermitted
from ..tree import LandingTree

# Mount points among the targets: a file that something is mounted on can be neither replaced nor moved.
# Containers mount single files into a home (`config.yaml` out of a volume). The kernel refuses to rename
# anything over such a file, so this is reported beforehand, by name, and nothing is begun.


def mount_points() -> frozenset[str]:
    """Every place that something is mounted on; empty where the system does not say."""
    return frozenset(one.place for one in mounts())


def mounted_at(full: str, mounts: Iterable[str]) -> str:
    """The mount point at a path or below it; empty where there is none."""
    below = full + "/"
    return min((place for place in mounts if place == full or place.startswith(below)), default="")


def mount_sentence(place: str) -> str:
    return f"`{place}` is a mount point, and can be neither replaced nor moved away"


def refuse_mount(place: str) -> LandingNotPermitted:
    return LandingNotPermitted(
        mount_sentence(place),
        kept="The home is as it was",
        next_steps=(
            "Unmount it (in a container: mount its directory, not the file), then run the command again",
            NextStep("import", ("FILE", "--into", "DIR"), before="Or restore elsewhere and copy by hand:"),
        ),
        path=place,
    )


class HeldDatabase(SafekeptError):
    code, retry = "held-database", True


def is_database_file(tree: LandingTree, path: str, facts: os.stat_result) -> bool:
    """Whether a file of the home is a SQLite database.

    The size is looked at first: a database is a whole number of pages, which spares opening most
    of twenty thousand small files.
    """
    if not stat.S_ISREG(facts.st_mode) or facts.st_size < 512 or facts.st_size % 512:
        return False
    try:
        descriptor = tree.open(path)
    except OSError:
        return False
    try:
        return is_database(os.pread(descriptor, len(HEADER), 0))
    finally:
        os.close(descriptor)


def who_holds(path: str) -> list[Holder]:
    """The processes that have a database open, apart from this one."""
    return holders(path)


def describe(found: list[Holder]) -> str:
    """`hermes (process 412)`, with `and 2 more` where there are more."""
    if not found:
        return "another process"
    first = found[0]
    text = f"{first.command} (process {first.pid})" if first.pid else "another process"
    text += ", perhaps" if first.how == NOT_KNOWN else ""
    return text + (f" and {len(found) - 1} more" if len(found) > 1 else "")


def usage(found: list[Holder]) -> tuple[str, str]:
    """What is said of a database that is in use, or may be, and what to do about it."""
    if any(one.how == NOT_KNOWN for one in found):
        install = "Install `lsof`, by which safekept sees who has a file open, then run the command again"
        return "may be in use, and this system does not say by what", install
    return f"is in use by {describe(found)}", "Stop that program, then run the command again"


def why_not_in_place(now: os.stat_result) -> str:
    """Why a target that is open in a program, and is no database, is not restored under it."""
    if stat.S_ISLNK(now.st_mode):
        return "it is a link, and what that program has open lies behind it"
    what = "is not a database" if now.st_size else "is empty"
    return f"it {what}, and only a database can be restored while a program has it open"


def refuse_held(path: str, found: list[Holder], why: str) -> HeldDatabase:
    """The refusal that names who is in the way."""
    used, way_on = usage(found)
    return HeldDatabase(
        f"`{path}` {used}: {why}",
        kept="The home is as it was",
        next_steps=(way_on,),
        path=path,
        holders=[{"pid": one.pid, "command": one.command, "how": one.how} for one in found],
    )
