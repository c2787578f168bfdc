"""Bring a home, or parts of it, back from a snapshot: a plan, consent, then the one landing.

What is replaced is kept twice: by the landing, so that `undo` takes the restore back, and as a
`pre-restore` snapshot, which stays in the vault. Damage in the vault stays local: what cannot be read
is listed, stays as it is in the home, and everything else lands.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, ClassVar

from safekept.core.entries import Outcome
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep, Step, reworded
from safekept.core.records import dataclass
from safekept.home.landing import TRY_OLDER, NothingMatches, Targets, plan_landing
from safekept.home.owner import users_home
from safekept.vault.errors import NoSuchSnapshot, NoSuchVault, VaultDamaged
from safekept.vault.read import HomeSource, snapshot_source
from safekept.vault.repo import Repository

from ..alarms.alarms import losses_in_snapshots
from ..base.context import HomeRef, UserContext
from ..base.operations.homes import RestoreFacts
from ..base.own_places import refuse_unsafe_target
from ..base.recovery import recover_interrupted
from ..base.scope import damaged_in, losses, removal_scope, targets_of, within, without_removal
from ..snapshots.choosing import MACHINE_GONE, choose, latest_to_restore, usual_ones
from ..snapshots.listing import UNDO_POINTS, Listed, Listing, list_home
from ..snapshots.soundness import Doubt, is_named, reasons_against, sound_ones
from ..snapshots.stored_home import (
    NotAHome,
    Stored,
    light_source,
    newest_with,
    newest_with_name,
    open_stored,
    other_home_with,
    path_in_home,
    reading,
)
from ..vault.opening import open_vault
from ..vault.place import known_vault
from .databases import RowsGoing, compare_databases
from .prepared import LandingResult, PreparedLanding
from .starting import profiles_of, program_gone, without_command


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What to bring back, and how."""

    word: str  # a number, `latest`, an id or the start of one, or a label
    paths: tuple[str, ...] = ()  # nothing: all of it
    home: str = ""
    layout: str = ""
    into: str = ""  # a directory to restore into instead of the home
    exact: bool = False
    allow_damaged: bool = False
    without_search: bool = False  # leave the search indexes empty that a lean backup left out
    search_behind: bool = False  # fill large ones when everything else is there, by a process of its own
    deadline: float = 30.0
    keep_days: int = 14
    directory: str = ""  # where relative paths are looked for after the home itself
    offers_sound: bool = False  # a person is there to agree: where `latest` is not sound, plan what is
    forgotten: bool = False  # the word may name one that was forgotten
    rebuild: str = ""  # the rebuild that brings the home back
    isolated: bool = False  # count rows in a helper process: where threads may be at the same databases


@dataclass(slots=True)
class PreparedRestore(PreparedLanding):
    """A chosen snapshot with its plan."""

    noun: ClassVar[str] = "snapshot"
    point: ClassVar[str] = "pre-restore"

    request: RestoreRequest
    source: HomeSource
    repository: Repository
    chosen: Listed
    manifest: Mapping[str, Any] | None
    left_outside: list[str] = field(default_factory=list)
    removal_scope: str = ""  # where that is less than the home: what an exact restore may remove
    newer: Listed | None = None  # a quick snapshot that is newer than what `latest` meant
    going: tuple[RowsGoing, ...] = ()  # rows of databases that are there now and not in the snapshot
    doubt: Doubt | None = None  # it is not sound, it was not named by its id, and there is one that is
    passed_over: Doubt | None = (
        None  # the newer one that `latest` meant; the sound one is planned in its place
    )

    @property
    def losses(self) -> list[tuple[str, str]]:
        """What is known to be missing among what was asked for: never stored, or damaged since."""
        only = self.plan.only
        found = losses(self.manifest)
        found += [(one.path, one.reason) for one in self.source.remarks if one.outcome is Outcome.UNREADABLE]
        found += self.plan.unseen
        return [
            (path, reason)
            for path, reason in found
            if not only or not path or any(within(path, one) or within(one, path) for one in only)
        ]

    @property
    def brings_commands(self) -> bool:
        """On the machine of the snapshot they are where they were, or never were: a restore touches none."""
        return not (self.request.into or self.plan.only or self.chosen.here)

    @property
    def questions(self) -> list[str]:
        """Why consent is needed; empty where a restore may just go on."""
        return self.consent_reasons(going_text(self.going))

    def again(self, snapshot: Listed, before: str, *more: str) -> NextStep:
        """The same restore of another snapshot, or of this one by its id."""
        words = (snapshot.short, *self.plan.only, *_as_asked(self.request, self.place.home))
        return NextStep("snapshot restore", (*words, *more), before=before)

    def refuse_doubt(self) -> None:
        """For faces that are told beforehand to go on: not with what is broken, unless it was named."""
        if self.doubt is not None and self.doubt.sound is not None:
            raise self.doubt.refusal(
                self.again(self.doubt.sound, "Restore the newest sound one:", "--yes"),
                self.again(self.chosen, "Or this one all the same, by its id:", "--yes"),
            )

    def carry_out(self, listener: Listener = silent) -> LandingResult:
        """Keep what is there, stage, prove, swap in; journalled either way."""
        plan = self.plan
        # A state that a restore stored by itself is on no list: one that brings less back says so.
        counts = None if self.chosen.kind in UNDO_POINTS else (self.manifest or {}).get("census")
        work = RestoreFacts(
            snapshot=self.chosen.id,
            exact=self.request.exact,
            rebuild=self.request.rebuild or None,
            counts=counts if isinstance(counts, Mapping) else None,
        )
        databases = any(self.place.layout.database(path) for path in (*plan.replace, *plan.remove))
        label = f"before restoring {self.chosen.short}"
        gone, profiles = not os.path.isdir(self.place.home), set(profiles_of(self.place))
        with self._worded():
            done = self.bring_back(
                work,
                label,
                listener,
                check=databases,
                leave_lost=True,
                search_behind=self.request.search_behind,
            )
        return replace(done, notes=[*done.notes, *self._not_in_it(gone, profiles)])

    def _not_in_it(self, gone: bool, profiles: set[str]) -> list[str]:
        """What no snapshot holds, and what is missing now because more than the home was deleted."""
        if self.request.into:
            return []
        if gone:
            return [one for one in (program_gone(self.place, self.context),) if one]
        back = sorted(set(profiles_of(self.place)) - profiles)
        return without_command(self.place, self.context, back)

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        """The landing knows archives only; what it says must fit what was asked for here."""
        try:
            yield
        except SafekeptError as error:
            error.next_steps = restore_steps(error.next_steps, self.chosen.short)
            raise


def _opened(context: UserContext, listener: Listener) -> Repository:
    """The vault; where none is, who wants something back may have lost the machine that had it."""
    try:
        return open_vault(context, listener=listener)
    except NoSuchVault as error:
        if not context.places.source_vault and not known_vault(context):
            error.next_steps = (MACHINE_GONE, *error.next_steps[1:])
        raise


@contextlib.contextmanager
def prepare_restore(
    context: UserContext, request: RestoreRequest, listener: Listener = silent
) -> Iterator[PreparedRestore]:
    """Find the snapshot and the target, and make the plan. Changes nothing."""
    with (
        _opened(context, listener) as repository,
        reading(repository, listener, context.caller.patience),
    ):
        listener(Event("read"))
        place = context.locate(request.into or request.home, request.layout, existing=False)
        refuse_unsafe_target(context, place.home, into=bool(request.into), exact=request.exact)
        # Numbers are those of the home that is meant, wherever it is restored to.
        home = context.locate(request.home, existing=False) if request.into else place
        listing = list_home(repository, home.home, named=home.named)
        chosen, newer = _choose(context, repository, listing, request)
        stored = open_stored(context, repository, chosen, request.layout)
        doubt, passed_over = _doubt(context, repository, listing, request, chosen, stored), None
        offers = request.offers_sound and request.word == "latest"
        if doubt is not None and (sound := doubt.passed_over(offers)) is not None:
            # A quick one since then was taken of the same broken home: it is no way on from the sound one.
            chosen, newer, doubt, passed_over = sound, None, None, doubt
            stored = open_stored(context, repository, chosen, request.layout)
        place = HomeRef(place.home, stored.layout)
        recover_interrupted(context, place.home, listener)
        source = stored.source
        left = source.without_external() if request.into else []
        homes = (stored.home, place.home)
        only = tuple(path_in_home(path, homes, request.directory, source) for path in request.paths)
        speaks = removal_scope(chosen.snapshot, stored)
        try:
            own = context.changed(user_home=users_home(place.home, context.places.user_home))
            external = targets_of(own, place.layout, source, request.into)
            plan = plan_landing(
                source,
                Targets(home=place.home, external=external),
                place.layout,
                exact=request.exact,
                only=only,
                spare=without_removal(chosen.snapshot, stored, place.layout),
                damaged=() if request.allow_damaged else damaged_in(stored.manifest),
            )
        except SafekeptError as error:
            options = _as_asked(request, place.home)
            error.next_steps = restore_steps(error.next_steps, chosen.short, options)
            if isinstance(error, NothingMatches):
                other = newest_with(context, repository, listing, place, only)
                if other is None and len(only) == 1 and "/" not in only[0]:
                    other, only = newest_with_name(context, repository, listing, place, only[0], source)
                if other is not None:
                    node = light_source(context, repository, other, place, only[0]).node(only[0])
                    directory = node is not None and node.type == "dir"
                    steps = _of_other(other, only, options, directory=directory)
                    error.next_steps = (*steps, *error.next_steps)
                elif there := other_home_with(context, repository, listing, only):
                    back = NextStep("restore", (*only, "--home", there), before=f"`{there}` had it:")
                    error.next_steps = (back, *error.next_steps)
                error.what += f" of `{home.home}`"
            raise
        going = compare_databases(
            context,
            repository,
            place,
            source,
            stored.manifest,
            plan,
            isolated=request.isolated,
            listener=listener,
        )
        yield PreparedRestore(
            context,
            request,
            source,
            place,
            plan,
            repository,
            chosen,
            stored.manifest,
            left,
            speaks,
            newer,
            going,
            doubt,
            passed_over,
        )


def _choose(
    context: UserContext, repository: Repository, listing: Listing, request: RestoreRequest
) -> tuple[Listed, Listed | None]:
    """What the word means for a restore, and the newer quick snapshot that is left for later."""
    if request.word != "latest":
        try:
            return choose(listing, request.word, forgotten=request.forgotten), None
        except NoSuchSnapshot as error:
            if meant := str(error.facts.get("meant", "")):
                words = (choose(listing, meant).short, *request.paths, *_as_asked(request, listing.home))
                before = f"Did you mean `{meant}`:"
                error.next_steps = (
                    NextStep("snapshot restore", words, before=before),
                    *error.next_steps[1:],
                )
            raise

    def holds(one: Listed) -> bool:
        return _holds(context, repository, listing, request, one)

    return latest_to_restore(listing, holds if request.paths else None)


def _holds(
    context: UserContext, repository: Repository, listing: Listing, request: RestoreRequest, one: Listed
) -> bool:
    """Whether a snapshot has all that is asked for."""
    try:
        stored = open_stored(context, repository, one, request.layout)
        names = _names(request, listing.home, stored)
        return "." not in names and all(stored.source.node(name) is not None for name in names)
    except (NotAHome, VaultDamaged):
        return False


def _names(request: RestoreRequest, home: str, stored: Stored) -> tuple[str, ...]:
    """What is asked for, as it is called in a stored home."""
    homes = (stored.home, home)
    return tuple(path_in_home(path, homes, request.directory, stored.source) for path in request.paths)


def _doubt(
    context: UserContext,
    repository: Repository,
    listing: Listing,
    request: RestoreRequest,
    chosen: Listed,
    stored: Stored,
) -> Doubt | None:
    """What is wrong with it among what was asked for, where it was not named and a better one is there."""
    if is_named(chosen, request.word):
        return None
    names = _names(request, listing.home, stored)
    only = () if "." in names else names
    alarms = losses_in_snapshots(context, listing.home)
    unreadable = [one.path for one in stored.source.remarks if one.outcome is Outcome.UNREADABLE]
    usual = usual_ones(listing)
    agreed = damaged_in(stored.manifest) if request.allow_damaged else ()
    reasons = reasons_against(chosen, usual, alarms, stored.manifest, unreadable, only, agreed)
    empty = [name for name in only if _is_empty(stored.source, name)]
    better = [one for one in sound_ones(usual, alarms) if one is not chosen] if reasons or empty else []
    if empty and (found := next((one for one in better if _have(repository, one, only)), None)) is not None:
        are = "is" if len(empty) == 1 else "are"
        return Doubt(chosen, reasons or (f"{' and '.join(empty)} {are} empty in it",), found)
    for one in better if reasons else ():
        if not only or _holds(context, repository, listing, request, one):
            return Doubt(chosen, reasons, one)
    return None


def _have(repository: Repository, one: Listed, paths: Iterable[str]) -> bool:
    """Whether a snapshot has all of these paths, and something in each that is a file."""
    source = snapshot_source(repository, one.snapshot)[0]
    return all(_is_empty(source, path) is False for path in paths)


def _is_empty(source: HomeSource, path: str) -> bool | None:
    """By its size: what is all zeros is found when it is stored, and no bytes are read for it here.

    None where there is no such path, or it cannot be read.
    """
    try:
        node = source.node(path)
    except SafekeptError:
        return None
    return None if node is None else node.type == "file" and not node.size


def going_text(going: Iterable[RowsGoing]) -> str:
    """`50 messages and 2 sessions`: of all databases together."""
    counts: dict[str, int] = {}
    for one in going:
        counts[one.name] = counts.get(one.name, 0) + one.count
    words = [f"{count:,} {name.removesuffix('s') if count == 1 else name}" for name, count in counts.items()]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _as_asked(request: RestoreRequest, home: str) -> tuple[str, ...]:
    """The options of the same restore."""
    words = ["--home", home] if request.home and not request.into else []
    words += ["--into", request.into] if request.into else []
    words += ["--exact"] if request.exact else []
    words += ["--allow-damaged"] if request.allow_damaged else []
    return tuple(words)


def _of_other(
    other: Listed, only: tuple[str, ...], options: tuple[str, ...], *, directory: bool
) -> list[NextStep]:
    """What brings it back out of the newest snapshot that has it."""
    before = f"Snapshot {other.short} has it:" if len(only) == 1 else f"Snapshot {other.short} has them all:"
    steps = [NextStep("snapshot restore", (other.short, *only, *options), before=before)]
    if len(only) == 1:
        home = options[:2] if options[:1] == ("--home",) else ()
        look = NextStep("history", (only[0],), before="See every version of it:")
        if directory:  # a history is that of one file
            look = NextStep("snapshot show", (other.short, only[0]), before="See what is in it:")
        steps.append(look.adding(*home))
    return steps


def restore_steps(steps: tuple[Step, ...], snapshot: str, options: tuple[str, ...] = ()) -> tuple[Step, ...]:
    """The landing's advice in the words of a restore; what was asked for stays asked for."""

    def words(step: NextStep) -> NextStep:
        if step.verb != "import":
            return step
        if step.arguments[1:] == ("--dry-run", "--json"):
            return NextStep("snapshot show", (snapshot,), before="See what this one holds:")
        arguments = tuple(word for word in step.arguments if word != "--only")
        given = () if {*options} & {*arguments} else options
        return replace(step, verb="snapshot restore", arguments=(*arguments, *given)).filled(FILE=snapshot)

    older = NextStep("snapshot list", before="Try an older one:")
    return tuple(older if step == TRY_OLDER else step for step in reworded(steps, words))
