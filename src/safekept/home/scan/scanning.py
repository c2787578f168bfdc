"""A live home as a Source: what is selected as entries, everything else as remarks.

`scan` decides nothing while it reads: iterating again, or measuring, selects by the same rules, so
a dry run shows exactly what a run would take. Content is opened late, by its consumer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

from safekept.core.entries import Entry, Kind, Outcome, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent

from ..census import Census
from ..layout.layout import Layout
from ..layout.places import check_home
from ..owner import users_home, worker_for
from .databases import HeaderReader
from .opener import Opener
from .outside import Place, external_places
from .report import Setting
from .selection import Judge, Selection
from .walk import HomeWalk

if TYPE_CHECKING:
    from safekept.core.sqlite import CaptureOptions
    from safekept.core.sqlite.lean import LeanRequest

__all__ = ["Scan", "Selection", "scan"]


class NoSuchProfile(SafekeptError):
    code = "no-such-profile"


class NothingSelected(SafekeptError):
    code = "nothing-selected"


def never(path: str) -> bool:
    """The answer of callers who know no archives of their own."""
    return False


class Scan:
    """The Source of one home. May be iterated more than once; each pass looks again."""

    ordered = False

    def __init__(
        self,
        home: str,
        layout: Layout,
        selection: Selection,
        options: CaptureOptions,
        avoid: Collection[str],
        user_home: str,
        environment: Mapping[str, str],
        own_archive: Callable[[str], bool],
        check: Callable[[str], bool] | None,
        lean: Callable[[str], LeanRequest | None] | None,
        answers: Mapping[str, int | None],
        listener: Listener,
    ) -> None:
        self.home = home
        self.layout = layout
        self.selection = selection
        self.options = options
        self.user_home = user_home
        self.environment = environment
        self.own_archive = own_archive
        self.check, self.lean = check, lean
        self._answers = answers
        self.listener = listener
        self._avoid_paths = [
            path for path in map(_resolved, avoid) if path.startswith(home.rstrip("/") + "/")
        ]
        self._avoid = frozenset(_identities(avoid))
        self._remarks: list[Remark] = []
        self._census = Census(layout)
        Judge(home, layout, selection, self._avoid_paths)  # a bad pattern is reported before any work

    @property
    def remarks(self) -> list[Remark]:
        """What the last pass left out or noticed; final once its iteration ended."""
        return self._remarks

    def external(self) -> dict[str, str]:
        """The places outside the home that are taken now: what they are called, and where they are."""
        places, _ = external_places(
            self.home, self.layout, self.user_home, self.environment, self.selection.profile
        )
        return {place.prefix: place.path for place in places}

    def census(self) -> dict[str, dict[str, int | None]]:
        """The counts; final once all content of the last pass was read. Unknown is None, never 0."""
        return self._census.result()

    def blank(self) -> dict[str, tuple[str, ...]]:
        """Files of the last pass that hold nothing, each with the classes of the census that count it."""
        return self._census.blank

    def answers(self) -> dict[str, int | None]:
        """What the census found in documents, for the `answers` of a later scan."""
        return self._census.answers

    def __iter__(self) -> Iterator[Entry]:
        return _each(self.groups())

    def groups(self) -> Generator[list[Entry]]:
        """The same, all files of one directory at once; a directory that was left is left for good."""
        self._remarks, self._census = [], Census(self.layout, self._answers)
        return self._pass(self._remarks, self._census, self.listener)

    def measure(self) -> tuple[int, int]:
        """How many files and bytes a pass would give, without opening any of them."""
        files = size = 0
        for group in self._pass([], Census(self.layout), silent):
            for entry in group:
                if entry.kind is not Kind.DIRECTORY:
                    files += 1
                    size += entry.size
        return files, size

    def _pass(self, remarks: list[Remark], census: Census, listener: Listener) -> Generator[list[Entry]]:
        judge = Judge(self.home, self.layout, self.selection, self._avoid_paths)
        for count in self.layout.counts:
            if not judge.covers(self.layout, count):
                census.uncovered(count)
        if not self.selection.profile:
            census.profile("default")
        headers = HeaderReader(self.options.isolated and self.options.heads_isolated)
        places, unreadable = external_places(
            self.home, self.layout, self.user_home, self.environment, self.selection.profile
        )
        setting = Setting(
            self.layout,
            judge,
            census,
            headers,
            self._avoid,
            (self._root(), *(place.path for place in places)),
            self.own_archive,
            remarks,
            listener,
        )
        remarks.extend(unreadable)
        some = False
        sidecars = sidecar_bytes = 0
        try:
            for root, prefix, only in self._trees(places):
                opener = Opener(root, prefix, self.options, census, listener, self.check, self.lean)
                walk = HomeWalk(root, prefix, opener, setting, only)
                for group in walk.groups():
                    some = some or any(entry.kind is not Kind.DIRECTORY for entry in group)
                    yield group
                sidecars += walk.report.sidecars.files
                sidecar_bytes += walk.report.sidecars.bytes
        finally:
            headers.close()
        if sidecars:
            files = "1 file" if sidecars == 1 else f"{sidecars:,} files"
            reason = f"{files} beside databases (-wal, -shm, -journal): stored as part of their database"
            remarks.append(Remark("", Outcome.NOTED, reason, sidecars, sidecar_bytes))
        for option, text in judge.unused():
            remarks.append(Remark(text, Outcome.NOTED, _unused(option, text), 0))
        if not some and not any(remark.incomplete for remark in remarks):
            self._refuse_nothing()

    def _root(self) -> str:
        """The directory whose content this selection takes."""
        if self.selection.profile:
            return os.path.realpath(os.path.join(self.home, self.layout.profiles, self.selection.profile))
        return self.home

    def _refuse_nothing(self) -> None:
        """An archive of nothing is never what a selection meant."""
        selection = self.selection
        options = [f"`--exclude {text}`" for text in selection.exclude]
        options += ["`--no-secrets`"] if not selection.secrets else []
        options += ["`--quick`"] if selection.quick else []
        options += [f"`--profile {selection.profile}`"] if selection.profile else []
        if options:
            raise NothingSelected(
                f"Nothing of `{self.home}` is left by {', '.join(options)}",
                kept="Nothing was written or changed",
                next_steps=("Leave less out: `--exclude /name` is one place at the root of the home",),
                home=self.home,
                exclude=list(selection.exclude),
            )

    def _trees(self, places: list[Place]) -> Iterator[tuple[str, str, str]]:
        """The home, then the places outside it: (directory, prefix of its entries, only this file)."""
        yield self.home, "", ""
        for place in places:
            if os.path.isdir(place.path):
                yield place.path, place.prefix + "/", ""
            else:
                parent, prefix = os.path.dirname(place.path), os.path.dirname(place.prefix)
                yield parent, prefix + "/", os.path.basename(place.path)


def _each(groups: Generator[list[Entry]]) -> Iterator[Entry]:
    with contextlib.closing(groups):
        for group in groups:
            yield from group


def scan(
    home: str,
    layout: Layout,
    selection: Selection | None = None,
    *,
    capture: CaptureOptions,
    avoid: Collection[str] = (),
    user_home: str,
    environment: Mapping[str, str] | None = None,
    own_archive: Callable[[str], bool] = never,
    check: Callable[[str], bool] | None = None,
    lean: Callable[[str], LeanRequest | None] | None = None,
    answers: Mapping[str, int | None] | None = None,
    listener: Listener = silent,
) -> Scan:
    """Look at a home. `avoid` are absolute paths that must never be inside: output, stores, scratch.

    Raises a typed error where the home is missing, unreadable or empty, where a pattern is none, and
    where the profile does not exist. `environment` is only asked for variables that a layout names.
    `own_archive` is asked about files named like an archive; one of our own making is left out. `check`
    is asked about each database that is read whether it is to be checked; without it, `capture` says.
    `lean` is asked what of it need not be stored.
    `answers` are those of an earlier scan: documents that say the same are not parsed again.
    """
    selection = selection or Selection()
    if (worker := worker_for(home)) is not None:
        # Files called like an archive of ours would be opened to be recognised, and that by root; the
        # owner takes them for what they are: files.
        return worker.scan(
            home,
            layout,
            selection,
            capture,
            avoid=tuple(avoid),
            user_home=users_home(home, user_home),
            environment=dict(environment or {}),
            check=check,
            lean=lean,
            answers=dict(answers or {}),
            listener=listener,
        )
    home = os.path.realpath(home)
    check_home(home, layout)
    if selection.profile:
        _check_profile(home, layout, selection.profile)
    environment, answers = environment or {}, answers or {}
    return Scan(
        home,
        layout,
        selection,
        capture,
        avoid,
        user_home,
        environment,
        own_archive,
        check,
        lean,
        answers,
        listener,
    )


def _check_profile(home: str, layout: Layout, profile: str) -> None:
    directory = os.path.join(home, layout.profiles, profile)
    if layout.profiles and "/" not in profile and profile not in (".", "..") and os.path.isdir(directory):
        return
    try:
        names = sorted(os.listdir(os.path.join(home, layout.profiles))) if layout.profiles else []
    except OSError:
        names = []
    raise NoSuchProfile(
        f"There is no profile `{profile}` in `{home}`",
        kept="Nothing changed",
        next_steps=(
            f"Choose one of: {', '.join(names)}"
            if names
            else "This home has no profiles; leave `--profile` out",
        ),
        profile=profile,
        profiles=names,
    )


def _resolved(path: str) -> str:
    """Where a path is or will be: links above it resolved, itself taken as named."""
    path = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _identities(paths: Collection[str]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue  # not there yet: known by its path
        yield status.st_dev, status.st_ino


def _unused(option: str, text: str) -> str:
    name = text.strip("/")
    hint = (
        "" if "/" in name or text.startswith("**") else f"; `{name}` means at the root, `**/{name}` anywhere"
    )
    return f"`{option} {text}` matched nothing{hint}"
