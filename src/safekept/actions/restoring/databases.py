"""What a restore does to databases: which of them are as they were stored, and which rows would go.

The bytes of a database tell little: it is stored without what can be rebuilt, and a live one keeps its
newest rows in a log. What the last snapshot remembers of it tells more: where neither the file nor its log
changed since then, and what was stored then is what is asked for, the database is the same. Else its rows
are counted, in the very state that a snapshot would take now.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Mapping
from typing import Any

from safekept.core.entries import EntryLost
from safekept.core.events import Listener
from safekept.core.records import dataclass
from safekept.core.sqlite import CaptureOptions, look
from safekept.home.landing import LandingPlan
from safekept.home.layout import Layout
from safekept.vault.read import HomeSource
from safekept.vault.repo import Repository
from safekept.vault.write import KnownDatabase, Memory, identity_at

from ..base.context import HomeRef, UserContext
from ..base.scratch import scratch, usable_cache
from ..snapshots.databases import questions
from ..vault.opening import cache_of

#: Seconds to wait for a database that is being written to: the plan can do without the counts.
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class RowsGoing:
    """Rows that the target has and the snapshot lacks."""

    path: str  # of the database
    name: str  # as the census calls them: messages, sessions
    count: int

    def as_dict(self) -> dict[str, object]:
        return {"path": self.path, "name": self.name, "count": self.count}


def compare_databases(
    context: UserContext,
    repository: Repository,
    place: HomeRef,
    source: HomeSource,
    manifest: Mapping[str, Any] | None,
    plan: LandingPlan,
    *,
    isolated: bool,
    listener: Listener,
) -> tuple[RowsGoing, ...]:
    """Take those that are the same off the plan's list; of the others, the rows that would go."""
    layout = place.layout
    chosen = [path for path in plan.replace if layout.database(path) and plan.items[path].root == 0]
    if not chosen or plan.owners is not None or not os.path.isdir(place.home):
        return ()
    cache = usable_cache(cache_of(context, repository), listener)
    memories = [
        Memory(repository, cache, place.home, "", questions(layout, lean)) for lean in (True, False) if cache
    ]
    census = manifest.get("census") if manifest else None
    found: list[RowsGoing] = []
    for path in chosen:
        full = os.path.join(place.home, path)
        now = identity_at(full)
        known = next((one for memory in memories if (one := memory.database(path)) is not None), None)
        current = known if known is not None and known.identity and known.identity == now else None
        if current is not None and _is_stored(source, path, current) and not _held(plan, path):
            plan.replace.remove(path)
            plan.compared = [one for one in plan.compared if one != path]
            bisect.insort(plan.same, path)
            plan.unchanged[path] = os.lstat(full)
        elif isinstance(census, Mapping):
            going = list(_going(context, layout, path, full, census, current, isolated))
            if going:
                plan.compared = [one for one in plan.compared if one != path]  # it differs for sure
            found += going
    return tuple(found)


def _is_stored(source: HomeSource, path: str, known: KnownDatabase) -> bool:
    node = source.node(path)
    return node is not None and node.content == known.ids


def _held(plan: LandingPlan, path: str) -> bool:
    """One that is open may change before it would land: then it is restored, whatever it is now."""
    return any(held == path for held, _ in plan.held)


def _going(
    context: UserContext,
    layout: Layout,
    path: str,
    full: str,
    census: Mapping[str, Any],
    current: KnownDatabase | None,
    isolated: bool,
) -> Iterator[RowsGoing]:
    queries = {
        count.name: count.query for count, places in layout.counted if count.query and places.covers(path)
    }
    recorded = census.get(layout.profile_of(path))
    if not queries or not isinstance(recorded, Mapping):
        return
    counts = current.facts.counts if current is not None else _counted(context, path, full, queries, isolated)
    for name in queries:
        live, stored = counts.get(name), recorded.get(name)
        if isinstance(live, int) and isinstance(stored, int) and live > stored:
            yield RowsGoing(path, name, live - stored)


def _counted(
    context: UserContext, path: str, full: str, queries: Mapping[str, str], isolated: bool
) -> Mapping[str, int | None]:
    """What it says now; nothing where it is damaged, locked or no database any more."""
    with scratch(context) as directory:
        options = CaptureOptions(directory, deadline=_PATIENCE, check=False, isolated=isolated)
        try:
            return look(full, path, options, queries).counts
        except (EntryLost, OSError):
            return {}
