"""Finding homes: on disk by variable and default, in an archive by what proves one.

What is found is the home that is used and the one that is printed. A variable that points at a
profile means the home around it. A home behind a link is used where it really is; the link or
mount point itself is never touched. Nothing is a home because of one common name somewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from safekept.core.agents import locate_home
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

if TYPE_CHECKING:
    from .layout import Layout

#: How deep inside an archive a home may be wrapped: `home/user/.hermes` is three.
_DEEPEST_WRAPPER = 12


class HomeNotFound(SafekeptError):
    code = "home-not-found"


class HomeNotDirectory(SafekeptError):
    code = "home-not-directory"


class HomeUnreadable(SafekeptError):
    code = "home-unreadable"


class HomeEmpty(SafekeptError):
    code = "home-empty"


def find_home(layout: Layout, environment: Mapping[str, str], user_home: str) -> str:
    """The home that a command works on. Raises a typed error if there is none to read."""
    home = locate_home(layout, environment, user_home)
    from_variable = bool(layout.variable and environment.get(layout.variable, "").strip())
    check_home(home, layout, layout.variable if from_variable else "")
    return home


def check_home(home: str, layout: Layout, variable: str = "") -> None:
    """Raise unless the home is a directory that can be read and holds something."""
    named_by = f" (`{variable}` says so)" if variable else ""
    thing = _thing(layout)
    nothing = "Nothing changed"
    try:
        with os.scandir(home) as listing:
            empty = next(listing, None) is None
    except FileNotFoundError:
        raise HomeNotFound(
            f"There is no {thing} at `{home}`{named_by}",
            kept=nothing,
            next_steps=(
                f"Correct `{variable}`, or name the home with `--home PATH`"
                if variable
                else "Name the home with `--home PATH` if it is elsewhere",
                NextStep("import", ("FILE",), before="To bring one back onto this machine:"),
            ),
            home=home,
        ) from None
    except NotADirectoryError:
        raise HomeNotDirectory(
            f"`{home}`{named_by} is not a directory"
            + ("" if thing == "directory" else f", so it cannot be a {thing}"),
            kept=nothing,
            next_steps=("Name the home with `--home PATH`",),
            home=home,
        ) from None
    except OSError as error:
        raise HomeUnreadable(
            f"The {thing} `{home}`{named_by} cannot be read: {error.strerror}",
            kept=nothing,
            next_steps=("Run safekept as the user who owns the home",),
            home=home,
        ) from error
    if empty:
        raise HomeEmpty(
            f"The {thing} `{home}`{named_by} is empty",
            kept=nothing,
            next_steps=(
                "Check that its disk is mounted, or name the home with `--home PATH`",
                NextStep("import", ("FILE",), before="To bring one back:"),
            ),
            home=home,
        )


def _thing(layout: Layout) -> str:
    """What to call the place: an agent's home, or just a directory."""
    return "directory" if layout.name == "generic" else f"{layout.title} home"


def recognise(paths: Iterable[str], layouts: Mapping[str, Layout] | None = None) -> tuple[str, str] | None:
    """Which agent's home a list of archive members is, and the wrapper around it.

    The wrapper is "" or a directory such as `.hermes` or `home/user/.hermes`, without a leading
    `./` (members written as `./x` count as `x`). One strong or two weak markers at that very
    place are needed. The outermost home wins, since profiles inside it look like homes too.
    """
    if layouts is None:
        from .layout import load_layouts

        layouts = load_layouts()
    first = _first_components(layouts)
    found: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for path in paths:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        directory = path.endswith("/")
        for depth, part in enumerate(parts[:_DEEPEST_WRAPPER]):
            for rest, kind, strong, name in first.get(part, ()):
                end = depth + 1 + len(rest)
                if tuple(parts[depth + 1 : end]) != rest:
                    continue
                if (kind == "directory") != (len(parts) > end or directory):
                    continue
                key = (name, "/".join(parts[:depth]))
                found.setdefault(key, (set(), set()))[0 if strong else 1].add("/".join(parts[depth:end]))
    return _best(found, layouts)


def _first_components(
    layouts: Mapping[str, Layout],
) -> dict[str, list[tuple[tuple[str, ...], str, bool, str]]]:
    """Markers by their first component: (the rest, file or directory, strong, layout)."""
    first: dict[str, list[tuple[tuple[str, ...], str, bool, str]]] = {}
    for layout in layouts.values():
        for strong, markers in ((True, layout.strong), (False, layout.weak)):
            for marker in markers:
                kind = "directory" if marker.endswith("/") else "file"
                head, *rest = marker.strip("/").split("/")
                first.setdefault(head, []).append((tuple(rest), kind, strong, layout.name))
    return first


def _best(
    found: Mapping[tuple[str, str], tuple[set[str], set[str]]], layouts: Mapping[str, Layout]
) -> tuple[str, str] | None:
    proven = []
    for (name, wrapper), (strong, weak) in found.items():
        if strong or len(weak) >= 2:
            parts = wrapper.split("/") if wrapper else []
            profiles = layouts[name].profiles
            # Members of one profile only: the home is still the directory around `profiles`.
            if profiles and len(parts) >= 2 and parts[-2] == profiles:
                parts = parts[:-2]
            proven.append((len(parts), -len(strong), -len(weak), name, "/".join(parts)))
    if not proven:
        return None
    *_, name, wrapper = min(proven)
    return name, wrapper
