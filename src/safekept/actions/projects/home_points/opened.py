"""A home point, found in the vault and held against the home as it is; and what changed since, as text."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence

from safekept.core.events import Listener, silent
from safekept.core.files.small import read_start
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.spelling import near_names
from safekept.home.layout import Layout
from safekept.vault.read import HomeSource, snapshot_source
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import layout_of

from ...base.context import UserContext
from ...base.own_places import refuse_unsafe_target, within
from ...base.recovery import recover_interrupted
from ...snapshots.contents import LARGEST_TEXT, patch, text_of
from ...snapshots.stored_home import reading
from ...vault.opening import open_vault
from ..difference import PointDifference
from .comparison import PointState, compare
from .point import HomePoint, NotInHomePoint
from .stored import no_such_point, pick_point, points_among


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """A point that was found, open for reading."""

    point: HomePoint
    source: HomeSource
    layout: Layout
    state: PointState
    sessions: tuple[str, ...] = ()  # those that changed this home, as far as its points tell


@contextlib.contextmanager
def opened_point(
    context: UserContext, word: str, files: Sequence[str], directory: str, listener: Listener = silent
) -> Iterator[OpenPoint]:
    """Find the point and compare it, or some files of it, with the home; a killed landing is ended first.

    Names of files are meant from `directory`, and else from the home.
    """
    with open_vault(context, listener=listener) as repository, reading(repository, listener):
        points = points_among(repository, list_snapshots(repository)[0])
        found = pick_point(points, word)
        if found is None:
            raise no_such_point(f"There is no home point `{word}`; it was forgotten, or never taken")
        point, snapshot = found
        source, manifest = snapshot_source(repository, snapshot)
        name = layout_of(snapshot)
        layout = context.layout(name if name in context.choices.layouts else "generic")
        home = os.path.realpath("/" + source.roots[0].place)
        refuse_unsafe_target(context, home, into=False, exact=False)
        recover_interrupted(context, home, listener)
        wanted = tuple(_wanted(point, home, name, directory) for name in files)
        state = compare(point, source, layout, home, wanted, manifest)
        yield OpenPoint(point, source, layout, state, sessions_among(points, point.home))


def home_difference(
    context: UserContext, word: str, files: Sequence[str], directory: str, listener: Listener = silent
) -> PointDifference:
    """Compare; nothing is changed. The text of a secret is never shown."""
    with opened_point(context, word, files, directory, listener) as found:
        paths = found.state.paths
        lines = [line for path in paths for line in _lines(found, path)]
        return PointDifference(found.point, tuple(paths), tuple(lines))


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


def _wanted(point: HomePoint, home: str, name: str, directory: str) -> str:
    """What a typed name is called in the home: as it stands, below where the person is, or below the home."""
    candidates = []
    for base in (directory, home) if not os.path.isabs(name) else ("",):
        full = os.path.normpath(os.path.join(base, name)) if base else os.path.normpath(name)
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        if within(full, home) and full != home:
            candidates.append(os.path.relpath(full, home))
    for path in candidates:
        if any(within(path, one) for one in point.paths):
            return path
    held = ", ".join(f"`{path}`" for path in point.paths[:5]) + (" …" if len(point.paths) > 5 else "")
    near = near_names(point.paths, name)
    raise NotInHomePoint(
        f"`{name}` is not among what home point {point.short} is about: {held}",
        kept="Nothing was changed",
        next_steps=(
            *(NextStep("rollback", (point.short, path), before="Did you mean:") for path in near),
            NextStep("rollback", (point.short, "--diff"), before="See what it would change:"),
        ),
        path=name,
        paths=list(point.paths),
    )


def sessions_among(points: Iterable[tuple[HomePoint, object]], home: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(point.session for point, _ in points if point.home == home))
