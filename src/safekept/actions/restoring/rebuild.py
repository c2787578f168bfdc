"""Rebuild a home on a bare machine, with nothing but the place of a backup and its key.

What is there already is put aside and never deleted. Files belong to the owner of the place, whichever user
made the backup; secrets are closed to others; what is bound to the machine that is gone is left out. The home
takes its place only after every check of a drill was passed over the very files that go there.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from collections.abc import Iterator
from dataclasses import field, replace

from safekept import __version__
from safekept.core.agents import recognise_home
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import free_bytes
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.home.landing import Targets, UnsafeTarget, existing, land, plan_landing
from safekept.vault.read import HomeSource

from ..base.context import HomeRef, UserContext
from ..base.earlier_homes import remember_earlier
from ..base.operations.care import DrillFacts
from ..base.operations.homes import RebuildFacts
from ..base.own_places import within
from ..base.record import record, recording
from ..base.scope import losses, targets_of
from ..base.unfinished import Unfinished
from ..drill.checks.every_check import in_order
from ..drill.checks.restored import Findings
from ..drill.drill_report import record_drill
from ..drill.place import SPARE
from ..drill.receipts import ARCHIVE, FAILED, SNAPSHOT, Receipt
from ..drill.subject import Subject, needed_bytes
from .rebuild_build import Built, build, restore_times_after_checks
from .rebuild_request import RebuildRequest, kind_of_place
from .rebuild_source import Origin, open_origin
from .rebuild_target import RebuildTarget, building, inspect_target, no_room, put_in_place, refuse_held
from .starting import (
    Wrapper,
    make_wrappers,
    newly_made,
    planned_wrappers,
    profiles_in,
    starting_hints,
)


class AnotherLayout(SafekeptError):
    code = "another-layout"


class RebuildNotProven(SafekeptError):
    code = "rebuild-not-proven"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was done."""

    operation: str
    place: HomeRef
    ground: RebuildTarget
    receipt: Receipt
    facts: RebuildFacts  # what the journal says of it, and every document
    lost: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # bound to the machine that is gone
    wrappers: list[Wrapper] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.lost and self.receipt.ok


@dataclass(slots=True)
class PreparedRebuild:
    """What was found, and where it will go: look at it, ask, then carry it out."""

    context: UserContext  # of the user that the home will belong to
    own: UserContext  # of the user who rebuilds: the journal and the receipt go there
    request: RebuildRequest
    origin: Origin
    place: HomeRef
    ground: RebuildTarget
    needed: int
    free: int
    outside: dict[str, str]  # places outside the home that are written: prefix and path
    already: bool = False  # in place, by a rebuild from here that was cut off later
    placed: bool = False  # the new home took its place

    @property
    def subject(self) -> Subject:
        return self.origin.subject

    @property
    def in_usual_place(self) -> bool:
        """Whether the agent looks there when nothing says where its home is."""
        try:
            return self.own.locate("", self.place.layout.name, existing=False).home == self.ground.home
        except SafekeptError:
            return False

    @property
    def losses(self) -> list[tuple[str, str]]:
        """What it says itself that it never held."""
        return losses(self.subject.manifest)

    @property
    def left_out(self) -> list[str]:
        bound = self.place.layout.machine_bound
        return sorted(entry.path for entry in self.subject.entries if bound(entry.path))

    @property
    def questions(self) -> list[str]:
        """Why consent is needed; none on an empty machine."""
        if self.already:
            return []
        asked = []
        kind, layout = kind_of_place(self.own, self.request), self.place.layout
        if kind not in ("", layout.name) and not self.request.layout:
            belongs = f"by its name `{self.ground.home}` is for {self.own.layout(kind).title}"
            asked.append(f"{belongs}, and what comes is a home of {layout.title}")
        if self.ground.aside:
            asked.append(f"what is in `{self.ground.home}` now would be put aside")
        there = [path for path in self.outside.values() if os.path.lexists(path)]
        if there:
            asked.append(f"files outside the home would be replaced: {', '.join(there)}")
        if self.origin.kind == "archive" and self.subject.manifest is None:
            count = sum(layout.executable(entry.path, entry.mode) for entry in self.subject.entries)
            if count:
                asked.append(f"{count:,} files that the agent can run come from an archive of another tool")
        return asked

    @property
    def wrappers(self) -> list[Wrapper]:
        """The commands of profiles that will be made, are there, or are not made."""
        names = profiles_in(self.place, (entry.path for entry in self.subject.entries))
        return planned_wrappers(self.place, self.context, names)

    def carry_out(self, listener: Listener = silent) -> Rebuilt:
        """Build, prove, put in place; journalled either way."""
        operation, began, started = new_id(), time.monotonic(), time.time()
        ground = self.ground
        work = RebuildFacts(
            home=ground.home,
            layout=self.place.layout.name,
            from_=self.origin.place,
            host=self.origin.host,
            taken=self.subject.taken or None,
            aside=ground.aside,
        )
        work.add({self.origin.kind: self.subject.name})
        record(self.own, work.line(operation, "begun"), listener)
        with recording(self.own, operation, work, listener), building(ground):
            refuse_held(ground.home, self.place.layout)
            findings = Findings()
            built = build(self.context, self.subject, ground, operation, findings, listener)
            receipt = self._receipt(operation, started, built, findings)
            path = record_drill(
                self.own, replace(receipt, operation=new_id()), DrillFacts(rebuild=operation), listener
            )
            if not receipt.ok and not self.request.allow_damaged:
                raise self._not_proven(receipt)
            restore_times_after_checks(built, self.subject.root_mode)
            listener(Event("swap"))
            try:
                put_in_place(ground)
            finally:  # Ctrl-C may come right after it
                self.placed = not os.path.exists(ground.built)
        if self.origin.chosen is not None:
            remember_earlier(self.own, ground.home, self.origin.chosen.snapshot)
        work.receipt = path
        outside, lost = self._outside(work, listener)
        lost = [*self.losses, *sorted(built.restored.lost.items()), *lost]
        wrappers = self._wrappers()
        work.files, work.bytes = built.files, receipt.bytes
        work.seconds = round(time.monotonic() - began, 3)
        work.outside, work.ok, work.wrappers = outside, receipt.ok, tuple(newly_made(wrappers))
        state = "done" if receipt.ok and not lost else "incomplete"
        record(self.own, work.line(operation, state), listener)
        return Rebuilt(
            operation,
            self.place,
            ground,
            receipt,
            work,
            lost,
            self.left_out,
            wrappers,
            starting_hints(self.place, self.context),
        )

    def _receipt(self, operation: str, started: float, built: Built, findings: Findings) -> Receipt:
        rows = in_order(findings)
        subject = self.subject
        return Receipt(
            operation=operation,
            subject=ARCHIVE if self.origin.kind == "archive" else SNAPSHOT,
            name=subject.name,
            home=self.ground.home,
            started=started,
            seconds=time.time() - started,
            ok=all(row.state != FAILED for row in rows),
            rows=rows,
            complete=subject.complete,
            files=built.files,
            bytes=built.bytes,
            store=self.origin.place,
            taken=subject.taken,
            host=os.uname().nodename,
            tool=f"safekept {__version__}",
            facts={"problems": findings.facts()} if findings.problems else {},
        )

    def _not_proven(self, receipt: Receipt) -> RebuildNotProven:
        failed = "\n".join(f"  {row.check}: {row.text}" for row in receipt.failed)
        steps = []
        if self.subject.older:
            steps.append(f"Try the one before it: add `--snapshot {self.subject.older}`")
        steps.append("To take what can be had all the same, and see what is missing: add `--allow-damaged`")
        return RebuildNotProven(
            f"What was restored did not pass {len(receipt.failed)} of its checks, and was not put in place:\n"
            + failed,
            kept=f"`{self.ground.home}` is as it was; what was built has been removed",
            next_steps=tuple(steps),
            rows=[row.as_dict() for row in receipt.rows],
        )

    def _outside(self, work: RebuildFacts, listener: Listener) -> tuple[int, list[tuple[str, str]]]:
        """What lay outside the home goes to its places by a landing of its own, which `undo` takes back."""
        if not self.outside:
            return 0, []
        operation = new_id()
        try:
            plan = plan_landing(
                self.subject.source,
                Targets(home=self.ground.home, external=self.outside),
                self.place.layout,
                only=tuple(self.outside),
            )
            landed = land(
                self.subject.source,
                plan,
                operation=operation,
                deadline=self.request.deadline,
                leave_lost=True,
                listener=listener,
            )
        except SafekeptError as error:
            return 0, [(", ".join(self.outside.values()), error.what)]
        work.outside_operation = operation
        return landed.created + landed.replaced, []

    def _wrappers(self) -> list[Wrapper]:
        """Profile commands in the owner's own directory, and the owner's own."""
        directory = os.path.join(self.context.places.user_home, self.place.layout.wrapper_directory)
        missing, above = [], directory
        while not os.path.isdir(above):
            missing.append(above)
            above = os.path.dirname(above)
        made = make_wrappers(self.place, self.context)
        if os.geteuid() == 0:
            for path in [*missing, *(one.path for one in made if one.state == "made")]:
                with contextlib.suppress(OSError):
                    os.chown(path, *self.ground.owner, follow_symlinks=False)
        return made


@contextlib.contextmanager
def prepare_rebuild(
    context: UserContext,
    request: RebuildRequest,
    listener: Listener = silent,
    begun: Unfinished | None = None,
) -> Iterator[PreparedRebuild]:
    """Find what is meant and look at where it will go. Changes nothing there.

    `begun` is a rebuild that was cut off: a home that it put in place is not put aside for the same again.
    """
    with open_origin(context, request, listener) as origin:
        layout = origin.subject.layout
        home = context.locate(request.home, layout.name, existing=False).home
        _refuse_another(context, request, home, origin)
        _refuse_own_source(origin, home)
        ground = inspect_target(context, home, layout)
        already = begun is not None and _in_place(begun, request, origin, home)
        if ground.aside and not already:
            refuse_held(home, layout)
        needed, free = needed_bytes(origin.subject.entries, None) + SPARE, free_bytes(existing(home))
        if needed > free and not already:
            raise no_room(home, needed, free)
        owned = _of_owner(context, ground)
        yield PreparedRebuild(
            owned,
            context,
            request,
            origin,
            HomeRef(home, layout),
            ground,
            needed,
            free,
            _places_outside(owned, origin.subject),
            already,
        )


def _in_place(begun: Unfinished, request: RebuildRequest, origin: Origin, home: str) -> bool:
    """Whether that rebuild brought this very home back, and it is still there."""
    snapshot = begun.homes.get(home, "") if begun.place == origin.place else ""
    return bool(snapshot) and snapshot.startswith(request.snapshot) and os.path.isdir(home)


def _of_owner(context: UserContext, ground: RebuildTarget) -> UserContext:
    """Where root rebuilds a user's home, what lies outside of it becomes that user's, too."""
    if os.geteuid() != 0 or ground.owner[0] == os.stat(existing(context.places.user_home)).st_uid:
        return context
    try:
        person = pwd.getpwuid(ground.owner[0])
    except KeyError:
        return context
    if not within(ground.home, os.path.realpath(person.pw_dir)):
        return context
    return context.changed(user_home=person.pw_dir)


def _places_outside(context: UserContext, subject: Subject) -> dict[str, str]:
    """Where the places outside go that are really in it."""
    if isinstance(subject.source, HomeSource):
        targets = targets_of(context, subject.layout, subject.source)
    else:
        targets = subject.layout.external_targets(context.places.user_home)
    paths = [entry.path for entry in subject.entries if entry.path.startswith("_external/")]
    return {
        prefix: target
        for prefix, target in targets.items()
        if any(path == prefix or path.startswith(prefix + "/") for path in paths)
    }


def _refuse_another(context: UserContext, request: RebuildRequest, home: str, origin: Origin) -> None:
    """A home of another agent is not put aside for this one: that is a slip of the hand."""
    there = recognise_home(home, context.choices.layouts) if os.path.isdir(home) else ""
    layout = origin.subject.layout
    if not there or there == layout.name or request.layout:
        return
    raise AnotherLayout(
        f"`{home}` is a home of {context.layout(there).title}, and what was found is one of {layout.title}",
        kept="Nothing was changed",
        next_steps=(
            "Name the place where it belongs with `--home DIR`",
            f"If that is meant, say so: add `--layout {layout.name}`",
        ),
        home=home,
        there=there,
        found=layout.name,
    )


def _refuse_own_source(origin: Origin, home: str) -> None:
    if (
        os.path.isabs(origin.place)
        and origin.kind == "snapshot"
        and within(os.path.realpath(origin.place), home)
    ):
        raise UnsafeTarget(
            f"Nothing is rebuilt in `{home}`: the vault `{origin.place}` lies in it",
            kept="Nothing was changed",
            next_steps=("Move the vault out of the home first, then run the command again",),
            target=home,
        )
