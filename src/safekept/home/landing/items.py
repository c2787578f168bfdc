"""What a source offers for landing: chosen, judged safe, and given its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from safekept.core.entries import Entry, Kind, Source
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.spelling import near_names
from safekept.core.sqlite import SIDECARS

from ..layout.layout import Layout
from .area import is_area
from .targets import Places, refuse_outside

_SIDECARS = tuple(SIDECARS)
_KIND_BITS = {Kind.FILE: stat.S_IFREG, Kind.DIRECTORY: stat.S_IFDIR, Kind.SYMLINK: stat.S_IFLNK}

#: In bytes, of one name in a directory: no filesystem that a home can be on takes more.
_LONGEST_NAME = 255


class NothingMatches(SafekeptError):
    code = "nothing-matches"


class EmptyPath(SafekeptError):
    code, exit_code = "empty-path", 2


class UnsafeEntry(SafekeptError):
    code = "unsafe-entry"


@dataclass(slots=True)
class Item:
    """One entry with its place and with the mode that it will have. To be read, not changed: it is not
    frozen only because that triples the price of making one."""

    path: str
    root: int
    place: str  # below the root's base
    kind: Kind
    mode: int
    mtime_ns: int
    size: int
    target: str = ""
    sha256: str = ""
    leading: bool = False  # a directory above what was asked for: made if missing, else left alone
    sidecar: bool = False  # by its name: staged, and judged once its database is known
    equals: Callable[[int], bool | None] | None = None  # compares with an open file, where the source can
    left_out: int = 0  # bytes of a database that are rebuilt before it lands
    holes: int = 0  # bytes that take no room
    closed: bool = False  # others could read it where it was stored; where it lands they cannot

    @property
    def comparable(self) -> bool:
        """Whether it can be known without staging it that the target has the same bytes."""
        return bool(self.sha256) or self.equals is not None

    def looks_like(self, now: os.stat_result) -> bool:
        """Whether the target agrees in everything but the bytes, which are compared later."""
        if self.kind is Kind.SYMLINK:
            return self.was_kept(now) and now.st_size == len(os.fsencode(self.target))
        return self.was_kept(now) and now.st_size == self.size

    def was_kept(self, now: os.stat_result) -> bool:
        """Whether kind, time and mode of the target are those of the entry; nothing is known of its bytes."""
        if stat.S_IFMT(now.st_mode) != _KIND_BITS[self.kind] or now.st_mtime_ns != self.mtime_ns:
            return False
        return self.kind is Kind.SYMLINK or stat.S_IMODE(now.st_mode) == self.mode

    @staticmethod
    def crosses_link(now: os.stat_result) -> bool:
        return stat.S_ISLNK(now.st_mode)


@dataclass(slots=True)
class Chosen:
    """The items of one landing."""

    items: dict[str, Item] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    only: tuple[str, ...] = ()
    directories_listed: bool = False  # the source knows directories; a Hermes zip does not


def collect(source: Source, places: Places, layout: Layout, only: Sequence[str]) -> Chosen:
    """Go through a source once and choose. Raises the typed errors of a source that may not land."""
    refuse_empty(*only)
    chosen = Chosen(only=tuple(_normal(path, places.home) for path in only))
    undeclared: list[str] = []
    matched: set[str] = set()
    names: list[str] = []
    files: set[str] = set()
    for entry in source:
        _check_name(entry.path, entry.path in chosen.items)
        if is_area(entry.path) or places.only_leads_to(entry.path, entry.kind):
            continue
        if chosen.only:
            names.append(entry.path)
        how = _selected(entry, chosen.only, matched)
        if not how:
            continue
        found = places.find(entry.path)
        if found is None:
            undeclared.append(entry.path)
        elif found[0] == 0 and layout.machine_bound(entry.path):
            chosen.kept.append(entry.path)
        else:
            chosen.items[entry.path] = _item(entry, found, layout, leading=how == "leading")
            if entry.kind is Kind.DIRECTORY:
                chosen.directories_listed = True
            else:
                files.add(entry.path)
    if undeclared:
        raise refuse_outside(undeclared)
    _check_parents(files)
    _check_matches(chosen.only, matched, names)
    return chosen


def refuse_empty(*paths: str) -> None:
    """An empty path is a mistake, often of a variable in a script; it must never mean everything."""
    if not all(paths):
        raise EmptyPath(
            "A path that was given is empty",
            kept="Nothing was changed",
            next_steps=("Name a file or directory; for everything, name none",),
        )


def database_of(path: str) -> str:
    """The database that a sidecar's name belongs to; empty where it is no such name."""
    if path.endswith(_SIDECARS):
        return path.rpartition("-")[0]
    return ""


def _item(entry: Entry, found: tuple[int, str], layout: Layout, leading: bool) -> Item:
    mode = entry.mode & 0o777  # never setuid, setgid or sticky
    private = entry.kind is Kind.FILE and layout.private(entry.path)
    if private:
        mode = 0o600
    return Item(
        path=entry.path,
        root=found[0],
        place=found[1],
        kind=entry.kind,
        mode=mode,
        mtime_ns=entry.mtime_ns,
        size=entry.size if entry.kind is Kind.FILE else 0,
        target=entry.target,
        sha256=entry.sha256,
        leading=leading,
        sidecar=entry.kind is Kind.FILE and database_of(entry.path) != "",
        equals=entry.equals,
        left_out=entry.left_out,
        holes=entry.holes,
        closed=private and bool(entry.mode & 0o077),
    )


def _normal(path: str, home: str) -> str:
    if path.startswith(home.rstrip("/") + "/"):
        path = path[len(home.rstrip("/")) + 1 :]
    return os.path.normpath(path).strip("/") if path.strip("/") else ""


def _selected(entry: Entry, only: tuple[str, ...], matched: set[str]) -> str:
    """`whole`, `leading` for a directory above something asked for, or nothing."""
    if not only:
        return "whole"
    how = ""
    for wanted in only:
        if entry.path == wanted or entry.path.startswith(wanted + "/") or wanted == ".":
            matched.add(wanted)
            how = "whole"
        elif entry.kind is Kind.FILE and any(entry.path == wanted + suffix for suffix in SIDECARS):
            how = "whole"  # a database comes with its sidecars
        elif not how and entry.kind is Kind.DIRECTORY and wanted.startswith(entry.path + "/"):
            how = "leading"
    return how


def _check_matches(only: tuple[str, ...], matched: set[str], names: list[str]) -> None:
    missing = [path for path in only if path not in matched]
    if not missing:
        return
    near = {path: near_names(names, path) for path in missing}
    steps = [NextStep("import", ("FILE", "--dry-run", "--json"), before="List what it holds:")]
    if all(near[path] for path in missing):
        # One that is missing: each that may be meant. Several: the best of each, in one command.
        for best in range(len(near[missing[0]]) if len(missing) == 1 else 1, 0, -1):
            meant = [near[path][best - 1] if path in missing else path for path in only]
            # `profile coder` means that one profile, and not all of them beside it.
            above = {path for path in meant if any(one.startswith(f"{path}/") for one in meant)}
            first, *rest = [
                one for path, one in zip(only, meant, strict=True) if path == one or one not in above
            ]
            step = NextStep("import", ("FILE", "--only", first), before="Did you mean:")
            more = [word for path in rest for word in ("--only", path)]
            steps.insert(0, replace(step, arguments=(*step.arguments, *more)))
    raise NothingMatches(
        f"There is nothing called {', '.join(f'`{path}`' for path in missing)} in what is to be restored",
        kept="Nothing was changed",
        next_steps=tuple(steps),
        paths=missing,
    )


def _check_name(path: str, seen: bool) -> None:
    if seen:
        raise _unsafe(path, "appears twice")
    framed = f"/{path}/"
    if "//" in framed or "/./" in framed or "/../" in framed or "\0" in path:
        raise _unsafe(path, "is not a plain path below the home")
    if len(path) * 4 <= _LONGEST_NAME:
        return
    if (longest := max(map(_bytes_of, path.split("/")))) > _LONGEST_NAME:
        raise UnsafeEntry(
            f"`{path}` has a name of {longest} bytes; {_LONGEST_NAME} is the most that can be written",
            kept="Nothing was changed",
            next_steps=(
                NextStep(
                    "import",
                    ("FILE", "--only", "PATH"),
                    before="Restore what else is in it, a directory at a time:",
                ),
            ),
            path=path,
        )


def _bytes_of(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass"))


def _check_parents(files: set[str]) -> None:
    """Nothing may lie below a file or a link of the same source."""
    sound: set[str] = set()  # directories that lie below no file: looked at once, not once per file
    for path in files:
        above = path.rpartition("/")[0]
        while above and above not in sound:
            if above in files:
                raise _unsafe(path, f"lies below `{above}`, which is not a directory")
            sound.add(above)
            above = above.rpartition("/")[0]


def _unsafe(path: str, why: str) -> UnsafeEntry:
    return UnsafeEntry(
        f"`{path}` {why}",
        kept="Nothing was changed",
        next_steps=("Do not trust this archive; it was not made by safekept or Hermes as it is",),
        path=path,
    )
