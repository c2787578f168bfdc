"""Bring a home back from a file: what it holds, a plan, consent, then the one landing.

The target that the plan names is the target that is written. Nothing is written before the plan
was agreed to, and what is replaced is kept, so that `undo` can take the import back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from safekept.archive import HASH_NONE, NO_LIMITS, Archive, Limits, leaves_target, open_archive
from safekept.core.entries import Kind, Source
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.home.landing import Landed, LandingPlan, Targets, expire, land, plan_landing
from safekept.home.layout import recognise
from safekept.home.owner import users_home

from ..archives.sealing import identity_of
from ..base.context import HomeRef, UserContext
from ..base.imported_code import code_files
from ..base.operations.homes import ImportFacts
from ..base.own_places import refuse_unsafe_target
from ..base.record import record, recording
from ..base.recovery import recover_interrupted
from ..base.scope import damaged_in, losses, spared
from ..hosts.connections_after_restore import staying_connected
from ..undo.safety_snapshot import take_undo_point
from .starting import Wrapper, make_wrappers, newly_made, starting_hints


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


@dataclass(frozen=True, slots=True)
class Imported:
    """What was done."""

    operation: str
    place: HomeRef
    landed: Landed
    facts: ImportFacts  # what the journal says of it, and every document
    wrappers: list[Wrapper] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    @property
    def undo_point(self) -> str:
        """The snapshot that was taken first; empty where there is none."""
        return self.facts.undo_point or ""


@dataclass(slots=True)
class PreparedImport:
    """An opened archive with its plan: look at it, ask, then carry it out."""

    context: UserContext
    request: ImportRequest
    archive: Archive
    source: Source
    place: HomeRef
    plan: LandingPlan
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
        reasons = [self.doubt] if self.doubt else []
        if plan.replace:
            reasons.append(f"{_files(len(plan.replace), 'existing file')} would be replaced")
        if plan.remove:
            reasons.append(f"{_files(len(plan.remove), 'file')} that the archive lacks would be removed")
        if plan.outside:
            reasons.append(f"{_files(len(plan.outside), 'file')} outside the home would be written")
        if plan.executable and self.foreign:
            count = _files(len(plan.executable), "file")
            reasons.append(f"{count} that the agent can run would come from an archive made elsewhere")
        if self.foreign and (links := self.links_out):
            count = _files(len(links), "link")
            reasons.append(f"{count} out of the home would come from an archive made elsewhere")
        return reasons

    def carry_out(self, listener: Listener = silent) -> Imported:
        """Stage, prove, swap in; journalled either way."""
        operation = new_id()
        work = ImportFacts(
            home=self.place.home,
            layout=self.place.layout.name,
            archive=os.path.abspath(self.request.file),
            exact=self.request.exact,
            only=tuple(self.request.only),
            code_files=code_files(self.plan),
            directory=self.context.caller.directory or None,
        )
        record(self.context, work.line(operation, "begun"), listener)
        with (
            staying_connected(self.context, self.place.home) as notes,
            recording(self.context, operation, work, listener),
        ):
            work.undo_point = self._undo_point(listener)
            landed = land(
                self.source,
                self.plan,
                operation=operation,
                deadline=self.request.deadline,
                allow_damaged=self.request.allow_damaged,
                without_search=self.request.without_search,
                listener=listener,
            )
        state = "incomplete" if self.losses else "done"
        wrappers: list[Wrapper] = []
        if not self.request.into and not self.request.only:
            wrappers = make_wrappers(self.place, self.context)
        work.add({**landed.as_dict(), "wrappers": newly_made(wrappers)})
        record(self.context, work.line(operation, state), listener)
        if not self.request.into:
            expire(self.place.home, self.request.keep_days)
        return Imported(operation, self.place, landed, work, wrappers, [*self._hints(), *notes])

    def _undo_point(self, listener: Listener) -> str:
        """A snapshot of what would be replaced, where there is a vault; the landing keeps it, too."""
        if self.request.into or not (self.plan.replace or self.plan.remove):
            return ""
        label = f"before importing {os.path.basename(self.request.file)}"
        deadline = self.request.deadline
        return take_undo_point(
            self.context, self.place, "pre-import", label, deadline=deadline, listener=listener
        )

    def _hints(self) -> list[str]:
        """What an archive does not hold, and the commands that bring it; safekept installs none of it."""
        return [] if self.request.into else starting_hints(self.place, self.context)


@contextlib.contextmanager
def prepare_import(
    context: UserContext, request: ImportRequest, listener: Listener = silent
) -> Iterator[PreparedImport]:
    """Open and judge an archive, find the target, and make the plan. Changes nothing."""
    listener(Event("read"))
    limits = NO_LIMITS if request.no_limits else Limits()
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
        yield PreparedImport(context, request, archive, source, place, plan, doubt)


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


def _files(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
