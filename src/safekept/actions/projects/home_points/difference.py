"""What changed in the paths of a home point since it was taken, as text."""

from __future__ import annotations

import os
from dataclasses import dataclass

from safekept.core.events import Listener, silent
from safekept.core.regular import read_start

from ...base.context import UserContext
from ...base.text_difference import patch
from ...snapshots.contents import LARGEST_TEXT, text_of
from .point import HomePoint
from .rollback import HomeRollbackRequest, OpenPoint, opened_point


@dataclass(frozen=True, slots=True)
class HomeDifference:
    """Files that differ, and their lines; from what they were to what they are."""

    point: HomePoint
    paths: tuple[str, ...]
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "home_point": self.point.as_dict(),
            "home": self.point.home,
            "files": list(self.paths),
            "diff": "\n".join(self.lines),
        }


def home_difference(
    context: UserContext, request: HomeRollbackRequest, listener: Listener = silent
) -> HomeDifference:
    """Compare; nothing is changed. The text of a secret is never shown."""
    with opened_point(context, request, listener) as found:
        paths = found.state.paths
        lines = [line for path in paths for line in _lines(found, path)]
        return HomeDifference(found.point, tuple(paths), tuple(lines))


def _lines(found: OpenPoint, path: str) -> list[str]:
    if found.layout.secret(path):
        return [f"{path}: (a secret: its text is not shown)"]
    node = found.source.node(path)
    before = "" if node is None or node.type != "file" else text_of(found.source, path, node)
    lines = patch(path, before, _live(os.path.join(found.point.home, path)))
    if lines and lines[0].startswith("---"):
        return lines
    return [f"{path}: {line}" for line in lines or ("other mode, kind or target",)]


def _live(path: str) -> str | None:
    """A file of the home as text; empty where there is none, None where it is no text."""
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    try:
        data = read_start(path, LARGEST_TEXT + 1)
        return None if len(data) > LARGEST_TEXT or b"\0" in data else data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
