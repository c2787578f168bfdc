"""Take a point in time of a home into the vault, while the agent runs.

Cost follows change: what did not change since the last snapshot is neither read nor stored again.
Exit and journal tell apart *complete*, *incomplete* (something selected is missing, torn or damaged;
all of it listed) and *failed*. Only a complete snapshot lets older ones go.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from safekept import __version__
from safekept.core.entries import Outcome, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, expecting, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.sqlite.capture import CaptureOptions
from safekept.home.scan import Scan, Selection, scan
from safekept.vault.format import Snapshot
from safekept.vault.tags import INCOMPLETE, PARTIAL, PARTS, check_label, kind_tag, label_tag, state_tag
from safekept.vault.write import Description, Memory, SnapshotAccount, StoredSnapshot, write_snapshot

from ..alarms.alarms import OVERDUE, Alarm, end_alarms, raise_alarm
from ..alarms.meant import meant_links, without_meant_links
from ..archives.output import OwnArchives
from ..base.context import HomeRef, UserContext
from ..base.earlier_homes import earlier_tags
from ..base.operations.homes import SnapshotFacts
from ..base.own_places import own_places
from ..base.record import expected_bytes, record, recording
from ..base.recovery import recover_interrupted
from ..base.scope import scope_of
from ..base.scratch import copies_directory, usable_cache
from ..base.search_behind import finish
from ..setup.machine_record import KEY, machine_record
from ..vault.opening import cache_of, open_vault
from .databases import DatabaseChecks, LeanChoice, doubted_databases, questions, stored_lean
from .file_stats import FileStats

if TYPE_CHECKING:
    from safekept.vault.repo import Lock, Repository

#: So many of the files that could not be stored as they should be are named in the journal.
_GAPS = 20


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """What to take a snapshot of, and why."""

    place: HomeRef
    kind: str = "manual"  # quick, manual, scheduled, pre-update, pre-migration, pre-import, pre-restore
    label: str = ""
    selection: Selection = field(default_factory=Selection)  # Selection(quick=True) for the small set
    #: quick_check of databases: "auto", "always", "never", or "recent": always, but a check of the very
    #: same bytes counts for some hours.
    check: str = "auto"
    deadline: float = 30.0  # seconds without progress before a locked database is given up
    wait: float = 60.0  # seconds to wait for a process that has the vault locked
    retention: bool = True  # let older snapshots go afterwards, as the policies say
    isolated: bool = False  # capture in a helper process: inside an agent, never needed by a command
    now_ns: int = 0  # the time it is taken at, as a schedule's clock says; 0: what the clock says
    full: bool = False  # every byte of every database, whatever the settings say
    tags: tuple[str, ...] = ()  # beside those that say its kind, label and state
    narrowed: bool = False  # this run leaves out more than the settings do

    @property
    def partial(self) -> bool:
        """Whether it holds less than the settings select; incomplete is something else."""
        chosen = self.selection
        return self.narrowed or chosen.quick or bool(chosen.profile) or not chosen.secrets


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """What was stored, what was not and why."""

    operation: str
    snapshot: Snapshot
    id: str  # the public id
    facts: SnapshotFacts  # what the journal says of it, and every document
    place: HomeRef
    kind: str
    label: str
    files: int
    bytes: int
    added: int  # plain bytes that were new to the vault
    stored: int  # what they take there: compressed and sealed
    reused: int  # files whose content was known and not read
    seconds: float
    census: Mapping[str, Mapping[str, int | None]]
    databases: Mapping[str, Mapping[str, object]]  # path: state, method, detail, page_size, counts, checked
    remarks: list[Remark]
    complete: bool
    forgotten: tuple[str, ...] = ()  # public ids of snapshots that retention hid
    alarm: Alarm | None = None  # what fell since the snapshot before, beyond the ordinary
    open_losses: tuple[Alarm, ...] = ()  # what earlier snapshots found lost, and this one lacks, too
    sound: Mapping[str, str] = field(default_factory=dict)  # damaged database: the snapshot that has it sound
    seen: FileStats = field(
        default_factory=FileStats, repr=False
    )  # every file, for a later look at the same home


def create_snapshot(
    context: UserContext, request: SnapshotRequest, listener: Listener = silent
) -> SnapshotResult:
    """Store one snapshot of a home and account for everything."""
    check_label(request.label)
    operation = new_id()
    home = request.place.home
    with recording(context, operation, SnapshotFacts(home=home, kind=request.kind), listener):
        size = expected_bytes(context, "snapshot", home, request.partial) if listener is not silent else 0
        result = _create(context, request, operation, expecting(listener, "store", size))
    record(context, result.facts.line(operation, "done" if result.complete else "incomplete"), listener)
    if result.alarm is not None:
        raise_alarm(context, result.alarm, listener)
    if result.complete and not request.partial:
        end_alarms(context, OVERDUE, home, f"snapshot:{home}", reason="it was taken", listener=listener)
    return result


def _create(
    context: UserContext, request: SnapshotRequest, operation: str, listener: Listener
) -> SnapshotResult:
    began = time.monotonic()
    work = SnapshotFacts(
        home=request.place.home,
        layout=request.place.layout.name,
        kind=request.kind,
        label=request.label,
        profile=request.selection.profile,
        partial=request.partial,
    )
    recover_interrupted(context, request.place.home, listener)
    if not _lean(context, request):
        finish(request.place.home, listener)
    with open_vault(context, create=True, homes=(request.place.home,), listener=listener) as repository:
        with repository.lock(wait=request.wait) as lock:
            stored, source = _store(context, request, work, repository, lock, listener)
        account = stored.account
        if stored.lost_packs:
            listener(Event("store", text=lost_packs_step(stored.lost_packs)))
        census = source.census()
        # Before retention: it might let the generation go that still has what is lost.
        alarm, open_losses = _compared(context, request, repository, stored.snapshot, source, listener)
        forgotten: tuple[str, ...] = ()
        kept = alarm is None or bool(alarm.pinned)
        if account.complete and request.retention and kept:
            forgotten = _let_go(request, repository, listener)
        sound = _sound(context, repository, request.place, account.remarks)
    seconds = time.monotonic() - began
    databases = {path: one.as_dict() for path, one in account.databases.items()}
    work.snapshot = stored.snapshot.id  # a new one: no rewriting has given it another
    work.files, work.bytes = account.files, account.bytes
    work.added, work.stored_bytes, work.lost_packs = stored.added, stored.stored, stored.lost_packs
    work.seconds, work.census, work.forgotten = round(seconds, 3), census, forgotten
    work.databases = {path: facts["state"] for path, facts in databases.items()}
    work.database_bytes = {path: one.lay for path, one in account.databases.items() if one.lay}
    work.gaps = tuple(one.as_dict() for one in account.remarks if one.incomplete)[:_GAPS]
    return SnapshotResult(
        operation,
        stored.snapshot,
        stored.snapshot.id,
        work,
        request.place,
        request.kind,
        request.label,
        account.files,
        account.bytes,
        stored.added,
        stored.stored,
        account.reused,
        seconds,
        census,
        databases,
        account.remarks,
        account.complete,
        forgotten,
        alarm,
        open_losses,
        sound,
        FileStats(stored.records, {"": request.place.home, **source.external()}),
    )


def _compared(
    context: UserContext,
    request: SnapshotRequest,
    repository: Repository,
    snapshot: Snapshot,
    source: Scan,
    listener: Listener,
) -> tuple[Alarm | None, tuple[Alarm, ...]]:
    """Whether the home holds less than before, and what it lacks since earlier ones. The snapshot is stored:
    nothing here may fail it."""
    from ..alarms.loss_alarm import end_what_is_back, find_loss

    home, kind, census = request.place.home, request.kind, source.census()
    still: tuple[Alarm, ...] = ()
    try:
        still = end_what_is_back(context, repository, home, kind, census, snapshot, listener)
        found = find_loss(
            context,
            repository,
            request.place,
            kind,
            snapshot,
            census,
            listener,
            profile=request.selection.profile,
            blank=source.blank(),
        )
        return found, still
    except (SafekeptError, OSError) as error:
        listener(Event("alarm", text=f"Note: the counts were not compared with those before: {error}"))
        return None, still


def lost_packs_step(count: int) -> NextStep:
    """What is reported where the vault itself lost something."""
    packs = "1 pack of the vault is" if count == 1 else f"{count:,} packs of the vault are"
    return NextStep(
        "vault repair", before=f"Note: {packs} missing or cut; what the home has was stored again; then:"
    )


def _lean(context: UserContext, request: SnapshotRequest) -> bool:
    return not request.full and stored_lean(context, request.place.home)


def _store(
    context: UserContext,
    request: SnapshotRequest,
    work: SnapshotFacts,
    repository: Repository,
    lock: Lock,
    listener: Listener,
) -> tuple[StoredSnapshot, Scan]:
    place, cache = request.place, usable_cache(cache_of(context, repository), listener)
    scope = scope_of(request.selection)
    lean = _lean(context, request)
    memory = Memory(
        repository,
        cache,
        place.home,
        repr((place.layout.name, request.selection, *(("lean",) if lean else ()))),
        questions(place.layout, lean),
    )
    doubted = doubted_databases(context, place.home)
    policy = DatabaseChecks(request.check, request.kind, memory, place.home, doubted)
    source = scan(
        place.home,
        place.layout,
        request.selection,
        capture=CaptureOptions(
            scratch=copies_directory(context, cache),
            deadline=request.deadline,
            isolated=request.isolated,
        ),
        avoid=own_places(context),
        user_home=context.places.user_home,
        environment=context.caller.environment,
        own_archive=OwnArchives(context),
        check=policy.due,
        lean=LeanChoice(place, lean, memory).request,
        answers=memory.notes.get("answers"),
        listener=listener,
    )
    external = source.external()
    machine = machine_record(context).as_dict()

    meant = meant_links(context, place.home)

    def describe(account: SnapshotAccount) -> Description:
        account.remarks = without_meant_links(account.remarks, meant)
        databases = {path: one.as_dict() for path, one in sorted(account.databases.items())}
        manifest = {
            "format": "safekept-snapshot",
            "version": 1,
            **work.document("kind", "label", "layout", "home"),
            "external": external,
            "host": os.uname().nodename,
            "user": os.path.basename(context.places.user_home.rstrip("/")),
            "tool": f"safekept {__version__}",
            "created": time.strftime(
                "%Y-%m-%dT%H:%M:%SZ", time.gmtime((request.now_ns or time.time_ns()) // 1_000_000_000)
            ),
            "scope": {**scope, "quick": request.selection.quick},
            "census": source.census(),
            "empty": sorted(source.blank()),
            "complete": account.complete,
            "databases": databases,
            "remarks": [remark.as_dict() for remark in account.remarks],
            KEY: machine,
        }
        tags = (*_tags(request, account), *earlier_tags(context, place.home))
        return Description(manifest, tags, notes={"answers": source.answers()})

    stored = write_snapshot(
        repository,
        source,
        lock=lock,
        roots={"": place.home, **external},
        describe=describe,
        memory=memory,
        reread=policy.reread,
        time_ns=request.now_ns,
        listener=listener,
    )
    return stored, source


def _sound(
    context: UserContext, repository: Repository, place: HomeRef, remarks: list[Remark]
) -> dict[str, str]:
    """Who has each database sound that is damaged now; nothing is looked for where none is."""
    damaged = [one.path for one in remarks if one.outcome is Outcome.DAMAGED]
    if not damaged:
        return {}
    from ..alarms.alarms import losses_in_snapshots
    from .listing import list_home
    from .soundness import sound_database

    with contextlib.suppress(SafekeptError, OSError):  # the snapshot is stored; advice must not cost it
        shown = list_home(repository, place.home, named=place.named).shown
        losses = losses_in_snapshots(context, place.home)
        return {path: sound_database(shown, path, losses) for path in damaged}
    return {}


def _tags(request: SnapshotRequest, account: SnapshotAccount) -> tuple[str, ...]:
    tags = [kind_tag(request.kind), f"layout:{request.place.layout.name}"]
    if request.label:
        tags.append(label_tag(request.label))
    if found := {one.facts.state for one in account.databases.values()}:
        worst = next(state for state in ("damaged", "unverified", "sound") if state in found)
        tags.append(state_tag(worst))
    if not account.complete:
        tags.append(INCOMPLETE)
    if request.partial and request.kind not in PARTS:
        tags.append(PARTIAL)
    return (*tags, *request.tags)


def _let_go(request: SnapshotRequest, repository: Repository, listener: Listener) -> tuple[str, ...]:
    """Hide older snapshots as the policies say; skipped, and done next time, where others are at work."""
    if request.kind == "manual":
        return ()  # these never go by themselves, so a new one pushes nothing out
    from safekept.vault.care import forget_by_policy
    from safekept.vault.snapshots import public_id

    home = request.place.home
    try:
        plan = forget_by_policy(
            repository,
            now_ns=request.now_ns or time.time_ns(),
            chosen=lambda snapshot: snapshot.paths == (home,),
            listener=listener,
        )
    except SafekeptError as error:
        # The snapshot is stored; that an older one stays too is worth a line and no more.
        listener(Event("forget", text=f"Note: older snapshots were not looked at: {error.clause}"))
        return ()
    return tuple(public_id(item.snapshot) for item in plan.forget) if plan is not None else ()
