"""Keep files of an agent's home before the agent changes them: a home point, in the vault.

It runs before a tool call, so it costs what the named files cost and no more: no database is read, nothing
is counted, older points are thinned elsewhere, and where nothing changed since the last point of the same
paths, that one is the answer. What is not there yet is written down as absent: going back removes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from safekept import __version__
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.objects.errors import PlaceUnreachable
from safekept.core.sqlite.capture import CaptureOptions
from safekept.home.layout import Layout
from safekept.home.scan import Selection, scan
from safekept.vault.errors import VaultUnreachable
from safekept.vault.repo import Repository
from safekept.vault.tags import INCOMPLETE, PRE_CHANGE, kind_tag, label_tag, tidy_label
from safekept.vault.write import Description, Memory, SnapshotAccount, StoredSnapshot, write_snapshot

from ...archives.output import OwnArchives
from ...base.context import HomeRef, UserContext
from ...base.operations.homes import SnapshotFacts
from ...base.own_places import own_places
from ...base.record import record, recording
from ...base.recovery import recover_interrupted
from ...base.scope import scope_of
from ...base.scratch import copies_directory, usable_cache
from ...snapshots.session_end import snapshot_if_due, snapshot_is_due
from ...vault.opening import cache_of, open_vault
from .last_points import LastPoints, signature
from .paths import PointSource, escaped, missing_above, names_in, refuse_too_large
from .point import HomePoint
from .stored import FACTS, facts_of

__all__ = ["HomePoint", "before_home_change", "snapshot_if_due", "snapshot_is_due"]

#: Seconds to wait for a process that has the vault locked: an agent's tool call stands still meanwhile.
WAIT = 3.0
#: Where no regular snapshot is ever taken, points are thinned after so many of them.
_THIN_EVERY = 50


def before_home_change(
    context: UserContext,
    home: str,
    layout: Layout | str,
    paths: Sequence[str] = (),
    *,
    reason: str = "",
    session: str = "",
    turn: str = "",
    host: str = "",
    undo: bool = False,
    isolated: bool = False,
    listener: Listener = silent,
) -> HomePoint:
    """Keep these paths, absolute or below the home, as they are now.

    A directory means everything in it; no path, or the home itself, means whatever a person would miss.
    Raises typed errors; nothing of the home is touched either way. `isolated` is for a process that may
    have databases of the home open itself.
    """
    home = os.path.realpath(home)
    layout = context.layout(layout) if isinstance(layout, str) else layout
    named = names_in(home, tuple(paths), layout)
    refuse_too_large(home, named)
    absent = tuple(path for path in named if not os.path.lexists(os.path.join(home, path)))
    last = LastPoints(context, home)
    began = time.time_ns()
    seen = signature(home, named, began)
    known = last.same(named, seen)
    if known is not None and not undo:
        return known
    if not undo and (why := last.unreachable()):
        raise VaultUnreachable(
            f"The vault could not be reached a moment ago, and is not tried before every change: {why}",
            kept="Nothing was stored or changed",
            next_steps=(NextStep("snapshot list", before="See whether it answers:"),),
            place=context.places.vault,
        )
    operation = new_id()
    missing = missing_above(home, absent)
    point = HomePoint("", "", home, named, began, reason, session, turn, host, absent, missing, undo)
    work = SnapshotFacts(home=home, kind=PRE_CHANGE, layout=layout.name)
    work.add(facts_of(point))
    with recording(context, operation, work, listener):
        try:
            stored = _store(context, HomeRef(home, layout), point, isolated, listener)
        except (PlaceUnreachable, VaultUnreachable) as error:
            last.remember_unreachable(error.what)
            raise
    name = stored.snapshot.id
    point = replace(point, id=name, snapshot=name, time_ns=stored.snapshot.time_ns)
    account = stored.account
    work.snapshot, work.label = name, tidy_label(reason)
    work.files, work.bytes = account.files, account.bytes
    work.added, work.stored_bytes = stored.added, stored.stored
    work.seconds = round((time.time_ns() - began) / 1e9, 3)
    record(context, work.line(operation, "done" if account.complete else "incomplete"), listener)
    last.remember(point, seen)
    return point


def _store(
    context: UserContext, place: HomeRef, point: HomePoint, isolated: bool, listener: Listener
) -> StoredSnapshot:
    recover_interrupted(context, place.home, listener)
    with open_vault(context, create=True, homes=(place.home,), listener=listener) as repository:
        with repository.lock(wait=WAIT) as lock:
            cache = usable_cache(cache_of(context, repository), listener)
            memory = Memory(repository, cache, place.home, "home points")
            present = [path for path in point.paths if path not in point.absent]
            selection = Selection(include=tuple(map(escaped, present)), quick=True)
            # Nothing is counted, and what lies outside the home is not looked for.
            narrow = replace(place.layout, external=(), counts=())
            source = PointSource(
                scan(
                    place.home,
                    narrow,
                    selection,
                    capture=CaptureOptions(
                        scratch=copies_directory(context, cache), deadline=WAIT, isolated=isolated
                    ),
                    avoid=own_places(context),
                    user_home=context.places.user_home,
                    own_archive=OwnArchives(context),
                    check=lambda path: False,
                    listener=listener,
                ),
                point.paths,
            )
            stored = write_snapshot(
                repository,
                source,
                lock=lock,
                roots={"": place.home},
                describe=lambda account: _described(context, place, point, selection, account),
                memory=memory,
                listener=listener,
            )
        if LastPoints(context, place.home).count() % _THIN_EVERY == _THIN_EVERY - 1:
            _thin(repository, place.home, listener)
    return stored


def _described(
    context: UserContext, place: HomeRef, point: HomePoint, selection: Selection, account: SnapshotAccount
) -> Description:
    manifest = {
        "format": "safekept-snapshot",
        "version": 1,
        "kind": PRE_CHANGE,
        "label": tidy_label(point.reason),
        "layout": place.layout.name,
        "home": place.home,
        "external": {},
        "host": os.uname().nodename,
        "user": os.path.basename(context.places.user_home.rstrip("/")),
        "tool": f"safekept {__version__}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "scope": {**scope_of(selection), "quick": True},
        "census": {},
        "complete": account.complete,
        "databases": {path: one.as_dict() for path, one in sorted(account.databases.items())},
        "remarks": [remark.as_dict() for remark in account.remarks],
        FACTS: facts_of(point),
    }
    tags = [kind_tag(PRE_CHANGE), f"layout:{place.layout.name}"]
    if point.reason:
        tags.append(label_tag(tidy_label(point.reason)))
    if not account.complete:
        tags.append(INCOMPLETE)
    return Description(manifest, tuple(tags), extra={FACTS: facts_of(point)})


def _thin(repository: Repository, home: str, listener: Listener) -> None:
    from safekept.vault.care import DEFAULT_POLICIES, forget_by_policy

    try:
        forget_by_policy(
            repository,
            {PRE_CHANGE: DEFAULT_POLICIES[PRE_CHANGE]},
            now_ns=time.time_ns(),
            chosen=lambda snapshot: snapshot.paths == (home,),
            listener=listener,
        )
    except SafekeptError as error:
        # The point is stored; that an older one stays too is worth a line and no more.
        listener(Event("forget", text=f"Note: older home points were not looked at: {error.clause}"))
