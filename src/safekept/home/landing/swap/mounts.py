"""Mount points among the targets: a file that something is mounted on can be neither replaced nor moved.

Containers mount single files into a home (`config.yaml` out of a volume). The kernel refuses to
rename anything over such a file, so this is said beforehand, by name, and nothing is begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from safekept.core.next_step import NextStep

from ..area import LandingNotPermitted

_TABLE = "/proc/self/mountinfo"
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_points() -> frozenset[str]:
    """Every place that something is mounted on; empty where the system does not say."""
    try:
        with open(_TABLE, "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return frozenset()
    places = (line.split(b" ")[4] for line in lines if line.count(b" ") > 4)
    return frozenset(_ESCAPED.sub(_plain, place).decode("utf-8", "surrogateescape") for place in places)


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


def _plain(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 8) & 0xFF])
