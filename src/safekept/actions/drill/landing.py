"""The restore of a drill: the one landing, into scratch, with nothing of this machine in the way."""

from __future__ import annotations

import os
from dataclasses import replace

from safekept.core.entries import Kind
from safekept.core.events import Listener
from safekept.core.files import NoRoom, free_bytes
from safekept.home.landing import LandingPlan, Targets, database_of, land, plan_landing

from .checks.restored import RestoredHome
from .place import DrillPlace, no_room
from .source import LocalDamage
from .subject import Subject


def land_in_scratch(
    subject: Subject,
    place: DrillPlace,
    needed: int,
    chosen: set[str] | None,
    operation: str,
    listener: Listener,
) -> tuple[RestoredHome, int]:
    """Restore a subject, or the chosen paths of it; how many files and links landed is the second.

    What cannot be read is lost and listed; a damaged database lands as it is. Raises what the landing
    refuses, and NoRoom in the words of a drill where the disk filled up meanwhile.
    """
    # What is bound to a machine is left alone by a restore; here there is nobody to leave it to.
    layout = replace(subject.layout, machine_bound_patterns=())
    source = LocalDamage(subject.source, subject.entries, chosen)
    external = {
        prefix: os.path.join(place.path, f"external-{number}")
        for number, prefix in enumerate(subject.external)
    }
    home = os.path.join(place.path, "home")
    try:
        plan = plan_landing(source, Targets(home=home, external=external), layout)
        landed = land(
            source, plan, operation=operation, allow_damaged=True, leave_lost=True, listener=listener
        )
    except NoRoom as error:
        raise no_room(needed, [(os.path.dirname(place.path), free_bytes(place.path))]) from error
    passed_over = 0
    if chosen is not None:
        passed_over = sum(entry.kind is Kind.FILE and entry.path not in chosen for entry in subject.entries)
    restored = as_restored(
        plan,
        subject,
        source,
        root_mode=subject.root_mode,
        passed_over=passed_over,
        exact_times=place.exact_times,
    )
    return restored, landed.created


def as_restored(
    plan: LandingPlan,
    subject: Subject,
    source: LocalDamage,
    *,
    exact_times: bool,
    root_mode: int | None = None,
    passed_over: int = 0,
) -> RestoredHome:
    """What landed, beside what the store says it should be: the ground of every check, also in a rebuild."""
    folded = {database_of(path) for path, item in plan.items.items() if item.sidecar}
    # One whose search indexes were made anew is more than what was stored, too.
    folded |= {path for path, item in plan.items.items() if item.left_out}
    return RestoredHome(
        plan.home,
        subject.layout,
        {entry.path: entry for entry in subject.entries},
        plan.items,
        plan.roots,
        subject.manifest,
        source.lost,
        frozenset(folded - {""}),
        root_mode,
        subject.unreadable,
        passed_over,
        exact_times,
    )
