"""Which directories a client may speak of: the roots that it names, and never more.

Links and `..` are resolved before anything is compared, and so is the project around a directory: a root
inside a larger project gives no right to that project. What a person named with `--root` bounds what a
client names; it is also what holds where a client names nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes, urlsplit

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..calls import possible


class OutsideRoots(SafekeptError):
    code = "outside-roots"


@dataclass(frozen=True, slots=True)
class Roots:
    """Directories with their links resolved. `bounds` are those of `--root`; nothing: no bound."""

    places: tuple[str, ...]
    bounds: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether a resolved path lies in a root, and within the bounds."""
        return _within(path, self.places) and (not self.bounds or _within(path, self.bounds))

    @property
    def usable(self) -> tuple[str, ...]:
        """The roots that may be worked in: those within the bounds, and bounds that lie in a root."""
        return tuple(dict.fromkeys(place for place in (*self.places, *self.bounds) if self.holds(place)))

    def directory(self, word: str) -> str:
        """A directory that a client named, resolved; nothing: the first root. Raises OutsideRoots."""
        usable = self.usable
        if not usable or "\0" in word or (word and not possible(word)):
            raise self._refused(word[:200])
        place = os.path.realpath(os.path.join(usable[0], possible(word)))
        if not self.holds(place):
            raise self._refused(word)
        return place

    def need(self, path: str, what: str) -> None:
        """Refuse a project that is larger than the roots, or elsewhere."""
        if not self.holds(os.path.realpath(path)):
            raise OutsideRoots(
                f"{what} `{path}` lies outside the roots of this session",
                kept="Nothing was read or changed there",
                next_steps=(
                    NextStep(
                        "mcp",
                        ("--root", path),
                        before="Have the client name it as a root, or start the server with it:",
                    ),
                ),
                path=path,
                roots=self.places,
            )

    def unknown(self, project: str) -> OutsideRoots:
        """No project within the roots has this id."""
        return OutsideRoots(
            f"no project with checkpoints within the roots of this session has the id `{project}`",
            kept="Nothing was read or changed",
            next_steps=("List the resources again, or use the tool `list_checkpoints`",),
            roots=self.places,
        )

    def _refused(self, word: str) -> OutsideRoots:
        named = ", ".join(f"`{place}`" for place in self.usable[:5])
        return OutsideRoots(
            f"`{word}` lies outside the roots of this session" if word else "this session has no root",
            kept="Nothing was read or changed",
            next_steps=(
                *((f"Name a directory in one of its roots: {named}",) if named else ()),
                NextStep("mcp", ("--root", "DIR"), before="Or start the server with another root:"),
            ),
            directory=word,
            roots=self.places,
        )


def fallback_roots(given: Iterable[str], environment: Mapping[str, str], directory: str) -> Roots:
    """What holds where the client names no roots: `--root`, else what its host says, else where we are."""
    bounds = tuple(dict.fromkeys(os.path.realpath(place) for place in given))
    said = environment.get("CLAUDE_PROJECT_DIR", "")
    return Roots(bounds or (os.path.realpath(said or directory),), bounds)


def client_roots(uris: Iterable[str], fallback: Roots) -> Roots:
    """The roots that a client named, as `file://` addresses. Where it named none, only `--root` is left."""
    places = tuple(dict.fromkeys(place for uri in uris if (place := _path_of(uri))))
    return Roots(places or fallback.bounds, fallback.bounds)


def _path_of(uri: str) -> str:
    """The directory of a `file://` address on this machine; nothing for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return os.path.realpath(path) if path.startswith("/") and "\0" not in path else ""


def _within(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)
