"""Bring a home back from a file: what it holds, a plan, consent, then the one landing.

The target that the plan names is the target that is written. Nothing is written before the plan
was agreed to, and what is replaced is kept, so that `undo` can take the import back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import ClassVar

from safekept.archive import HASH_NONE, NO_LIMITS, Archive, ReadLimits, leaves_target, open_archive
from safekept.core.entries import Kind, Source
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.landing import Targets, plan_landing
from safekept.home.layout import recognise
from safekept.home.owner import users_home

from ..archives.sealing import identity_of
from ..base.context import HomeRef, UserContext
from ..base.imported_code import code_files
from ..base.operations.homes import ImportFacts
from ..base.own_places import refuse_unsafe_target
from ..base.recovery import recover_interrupted
from ..base.scope import damaged_in, losses, spared
from .prepared import LandingResult, PreparedLanding, files_text
from .starting import starting_hints


class NotABackup(SafekeptError):
    code = "not-a-backup"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to bring back, and how."""

    file: str
    home: str = ""
    layout: str = ""
    into: str = ""  # a directory to restore into instead of the home
    exact: bool = False
    only: tuple[str, ...] = ()
    allow_damaged: bool = False
    without_search: bool = False  # leave the search indexes empty that a lean backup left out
    no_limits: bool = False
    deadline: float = 30.0
    keep_days: int = 14
    #: SHA-256 of files that safekept itself puts into homes, by the end of their path: none is asked about.
    own_files: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class PreparedImport(PreparedLanding):
    """An opened archive with its plan."""

    noun: ClassVar[str] = "archive"
    point: ClassVar[str] = "pre-import"

    request: ImportRequest
    archive: Archive
    doubt: str = ""  # why it may be no home at all, where only a name speaks for it

    @property
    def foreign(self) -> bool:
        """Made by another tool or another user: what is executable in it deserves a question.

        This is a courtesy, not a proof of origin: an archive can claim any name.
        """
        head = self.archive.head
        return head is None or head.get("user") != os.path.basename(self.context.places.user_home.rstrip("/"))

    @property
    def losses(self) -> list[tuple[str, str]]:
        """What the archive itself says it lacks, among what was asked for; and what will stay unseen."""
        only = self.plan.only
        lacking = [
            (path, reason)
            for path, reason in losses(self.archive.head)
            if not only or any(path == one or path.startswith(one + "/") for one in only)
        ]
        return [*lacking, *self.plan.unseen]

    @property
    def links_out(self) -> list[str]:
        """Links that lead out of the home: what the agent writes there lands somewhere else."""
        items = self.plan.items
        return sorted(
            entry.path
            for entry in self.source
            if entry.kind is Kind.SYMLINK and entry.path in items and leaves_target(entry.path, entry.target)
        )

    @property
    def questions(self) -> list[str]:
        """Why consent is needed; empty where an import may just go on."""
        plan = self.plan
        reasons = [*([self.doubt] if self.doubt else []), *self.consent_reasons()]
        if plan.executable and self.foreign:
            count = files_text(len(plan.executable), "file")
            reasons.append(f"{count} that the agent can run would come from an archive made elsewhere")
        if self.foreign and (links := self.links_out):
            count = files_text(len(links), "link")
            reasons.append(f"{count} out of the home would come from an archive made elsewhere")
        return reasons

    def carry_out(self, listener: Listener = silent) -> LandingResult:
        """Keep what is there, stage, prove, swap in; journalled either way."""
        work = ImportFacts(
            archive=os.path.abspath(self.request.file),
            exact=self.request.exact,
            code_files=code_files(self.plan),
        )
        done = self.bring_back(work, f"before importing {os.path.basename(self.request.file)}", listener)
        # What an archive does not hold, and the commands that bring it; safekept installs none of it.
        hints = [] if self.request.into else starting_hints(self.place, self.context)
        return replace(done, notes=[*hints, *done.notes])


@contextlib.contextmanager
def prepare_import(
    context: UserContext, request: ImportRequest, listener: Listener = silent
) -> Iterator[PreparedImport]:
    """Open and judge an archive, find the target, and make the plan. Changes nothing."""
    listener(Event("read"))
    limits = NO_LIMITS if request.no_limits else ReadLimits()
    identity = identity_of(context)
    # The landing hashes what it writes.
    with open_archive(request.file, limits, HASH_NONE, identity=identity) as archive:
        layout_name, prefix, doubt = _what_it_is(context, request, archive)
        place = _target(context, request, layout_name)
        refuse_unsafe_target(context, place.home, into=bool(request.into), exact=request.exact)
        recover_interrupted(context, place.home, listener)
        source = archive.under(prefix) if prefix else archive
        user_home = users_home(place.home, context.places.user_home)
        external = {} if request.into else place.layout.external_targets(user_home)
        plan = plan_landing(
            source,
            Targets(home=place.home, external=external),
            place.layout,
            exact=request.exact,
            only=request.only,
            spare=spared(archive.head, place.layout),
            damaged=() if request.allow_damaged else damaged_in(archive.head),
        )
        own = _own_files(source, request.own_files)
        plan.executable = [path for path in plan.executable if path not in own]
        yield PreparedImport(context, request, source, place, plan, archive, doubt)


def _own_files(source: Source, known: Mapping[str, str]) -> set[str]:
    """Files that are ours byte for byte; the landing proves the hash that the archive claims for each."""
    ends: dict[str, list[str]] = {}
    for end, digest in known.items():
        ends.setdefault(digest, []).append(end)
    return {
        entry.path
        for entry in source
        if entry.sha256 in ends and f"/{entry.path}".endswith(tuple(ends[entry.sha256]))
    }


#: Any one of these anywhere is enough for Hermes to take a zip for a backup of its own.
_HERMES_TAKES = frozenset({"config.yaml", ".env", "state.db"})


def _what_it_is(context: UserContext, request: ImportRequest, archive: Archive) -> tuple[str, str, str]:
    """Layout, wrapper directory, and a doubt: by our manifest, else as the user says, else by the markers,
    else by the names that are enough for Hermes."""
    if archive.head is not None:
        name = str(archive.head.get("layout", ""))
        return request.layout or (name if name in context.choices.layouts else "generic"), "", ""
    found = recognise((entry.path for entry in archive.entries), context.choices.layouts)
    if found is not None:
        return request.layout or found[0], found[1], ""
    if request.layout:
        return request.layout, "", ""
    paths = [entry.path for entry in archive.entries]
    if named := next((path for path in paths if path.rpartition("/")[2] in _HERMES_TAKES), ""):
        tops = {path.partition("/")[0] for path in paths}
        wrapper = tops.pop() if len(tops) == 1 and "/" in named else ""
        return "hermes", wrapper, f"only `{named}` says that this is a home of Hermes; look whether it is one"
    if not any(True for _ in archive.entries):
        raise NotABackup(
            f"`{request.file}` is an archive that holds nothing",
            kept="Nothing was changed",
            next_steps=(NextStep("backup", before="Look for another one, or make a new one:"),),
        )
    raise NotABackup(
        f"`{request.file}` is a readable archive, but not of an agent's home that safekept knows: "
        "it has no manifest, and none of the files that would prove one",
        kept="Nothing was changed",
        next_steps=(
            NextStep(
                "import",
                ("FILE", "--layout", "generic", "--into", "DIR"),
                before="If you know what it is, say so:",
            ),
        ),
    )


def _target(context: UserContext, request: ImportRequest, layout_name: str) -> HomeRef:
    return context.locate(request.into or request.home, layout_name, existing=False)
