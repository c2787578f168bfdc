"""Databases of live homes: is each sound, and if not, which verified generation brings it back?

Only a generation is named in which that very database was checked and found sound, or of which a drill
proved all, and whose pieces are all in the vault now. Where there is none, that is reported.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from safekept.core.entries import DatabaseFacts
from safekept.core.errors import SafekeptError
from safekept.core.finding import Finding
from safekept.core.next_step import Step
from safekept.core.sqlite.capture import CaptureOptions
from safekept.home.health import (
    Examination,
    HomeLoss,
    Recorded,
    Since,
    count_now,
    damage_text,
    judge,
    places_of,
    summarize_losses,
)
from safekept.home.layout import Layout, is_file
from safekept.vault.care import SOUND, states_in
from safekept.vault.format import BlobKind
from safekept.vault.repo import Repository, find_lost_packs
from safekept.vault.tags import proven_at

from ..alarms.alarms import losses_in_snapshots
from ..alarms.explained_losses import is_explained
from ..base.scratch import scratch
from ..drill.receipts import ARCHIVE, read_receipts
from ..snapshots.listing import Listed, list_home
from ..snapshots.soundness import advised_for
from ..snapshots.stored_home import open_stored
from ..status.findings.losses import STOP_FIRST, damaged_when_stored, database_damaged, lost_since
from ..status.home_now import DamagedDatabase, falls_of
from ..status.home_status import HomeStatus
from ..status.vault_status import OPEN
from ..vault.opening import open_vault
from .case import Case
from .permissions import files_where

_BLOB = 32


def look_at_databases(case: Case) -> Iterator[Finding]:
    for home in case.status.homes:
        layout = case.context.choices.layouts.get(home.layout)
        if layout is None or not home.exists:
            continue
        damaged, rows = {}, dict[str, dict[str, int | None]]()
        with _private_place(case) as place:
            for path in _paths(home.home, layout):
                found = _judged(case, home.home, layout, path, place)
                if isinstance(found, str):
                    damaged[path] = found
                elif found is not None:
                    _add(rows.setdefault(layout.profile_of(path), {}), found)
        yield from _advise(case, home, damaged)
        mended = [path for path in home.damaged if path and path not in damaged]
        if mended := [path for path in mended if os.path.isfile(os.path.join(home.home, path))]:
            yield damaged_when_stored(home.home, mended, home.named)
        yield from _lost(case, home, layout, rows)


def _add(counts: dict[str, int | None], found: DatabaseFacts) -> None:
    for name, count in found.counts.items():
        before = counts.get(name, 0)
        counts[name] = None if count is None or before is None else before + count


def _lost(
    case: Case, home: HomeStatus, layout: Layout, rows: dict[str, dict[str, int | None]]
) -> Iterator[Finding]:
    """What fell since the newest snapshot, as the next one would see it; the rest of it the status says."""
    if not home.now.census:
        return
    blank, since = list[str](), home.whole.time if home.whole is not None else 0.0
    settings = count_now(home.home, layout, home.now.census, blank=blank, since=since)
    after = {profile: {**settings[profile], **rows.get(profile, {})} for profile in settings}
    known = {(fall.profile, fall.name) for fall in home.now.lost.falls}
    falls = [one for one in falls_of(home.now.census, after) if (one.profile, one.name) not in known]
    # Whether a file that is empty held something, the status has asked the snapshot.
    falls = [one for one in falls if not (is_file(one.name) and set(places_of(layout, one)) & set(blank))]
    falls = [one for one in falls if not is_explained(case.context, home.home, layout, one, since)]
    if falls:
        lost = summarize_losses(falls, home.now.census, after)
        yield lost_since(home.home, lost, home.now.snapshot, lost.named_places(layout), home.named)


@contextlib.contextmanager
def _private_place(case: Case) -> Iterator[str]:
    """For a copy, where a database can be judged no other way. Looking makes no directory of ours."""
    if os.path.isdir(case.context.places.data_directory):
        with scratch(case.context) as place:
            yield place
    else:
        with tempfile.TemporaryDirectory(prefix="safekept-doctor-") as place:
            yield place


def _paths(home: str, layout: Layout) -> list[str]:
    """Where a sound home has databases, in itself and in each profile."""
    found = []
    for path in files_where(home, layout.database, layout.database_below):
        full = os.path.join(home, path)
        # One that nothing was ever written to has no bytes, and is sound.
        unused = not layout.tables_of(path) and os.path.lexists(full) and os.lstat(full).st_size == 0
        if not unused and not os.path.islink(full):
            found.append(path)
    return found


def _judged(case: Case, home: str, layout: Layout, path: str, place: str) -> str | DatabaseFacts | None:
    """What is wrong with a database, in words; else what is known of it; None where that is unknown."""
    examination = Examination(
        layout,
        Recorded({"": home}, lambda: iter(()), {}, {}),
        Since(),
        _Nothing(),
        CaptureOptions(scratch=place, deadline=case.request.deadline),
        case.listener,
    )
    found = judge(examination, path)
    if isinstance(found, str):
        case.remarks.append(found)
        return None
    if isinstance(found, HomeLoss):
        return found.text
    if found.state == "damaged":
        return damage_text(found.detail)
    if found.state == "unverified" and found.detail:
        case.remarks.append(f"{path} could not be checked: {found.detail}")
    return found


class _Nothing:
    """No snapshot is compared with."""

    def data(self, path: str) -> bytes | None:
        return None

    def owner(self, path: str) -> tuple[int, int] | None:
        return None


def _advise(case: Case, home: HomeStatus, damaged: dict[str, str]) -> Iterator[Finding]:
    if not damaged:
        return
    verified = _generations(case, home.home, list(damaged))
    for path, wrong in damaged.items():
        snapshot, proof = "", ""
        if path in verified:
            snapshot, proof = verified[path][0].short, verified[path][1]
        one = DamagedDatabase(path, wrong, snapshot, proof)
        found = database_damaged(home.home, one, home.named, ())
        if not snapshot:
            steps, known = _without_generation(case, home.home, path)
            found = replace(found, fix=steps, evidence=(wrong, known))
        yield found


def _without_generation(case: Case, home: str, path: str) -> tuple[tuple[Step, ...], str]:
    archive = _archive(case, home)
    if archive:
        restore = case.command("import", archive, "--only", path, home=home, before="Bring it back:")
        known = f"no snapshot has a verified state of it; a drill proved the archive {archive}"
        return (STOP_FIRST, restore), known
    known = "no verified generation of it is known"
    steps: list[Step] = ["Nothing is advised that was not verified; keep a copy of the damaged file"]
    if case.status.vault.state == OPEN:
        steps.append(case.command("drill", home=home, before="Have the newest snapshot proven:"))
        steps.append(case.command("history", path, home=home, before="See every version of it:"))
    return tuple(steps), known


def _generations(case: Case, home: str, paths: list[str]) -> dict[str, tuple[Listed, str]]:
    """For each path the best snapshot that has it verified and whole, and what verified it."""
    found: dict[str, tuple[Listed, str]] = {}
    if case.status.vault.state != OPEN:
        return found
    try:
        with open_vault(case.context) as repository:
            repository.index.doubt(find_lost_packs(repository.storage, repository.index))
            states = states_in(repository)
            shown, losses = list_home(repository, home).shown, losses_in_snapshots(case.context, home)
            for path in paths:
                for one in advised_for(shown, (path,), losses):
                    proof = "checked and sound" if states(one.snapshot).get(path) == SOUND else ""
                    if not proof and proven_at(one.snapshot) is not None:
                        proof = "proven by a drill"
                    if proof and _whole(case, repository, one, path):
                        found[path] = one, proof
                        break
    except (SafekeptError, OSError) as error:
        case.remarks.append(f"the vault could not be asked for verified generations: {error}")
    return found


def unverified_databases(case: Case, home: str, snapshot: str, paths: list[str]) -> list[str]:
    """Those of the paths that are databases and were not found sound in that snapshot."""
    shown = next((one for one in case.status.homes if one.home == home), None)
    layout = case.context.choices.layouts.get(shown.layout) if shown else None
    databases = [path for path in paths if layout is not None and layout.database(path)]
    if not databases or case.status.vault.state != OPEN:
        return databases
    try:
        with open_vault(case.context) as repository:
            known = [one for one in list_home(repository, home).of_home if one.id.startswith(snapshot)]
            if not known or proven_at(known[0].snapshot) is not None:
                return databases if not known else []
            states = states_in(repository)(known[0].snapshot)
            return [path for path in databases if states.get(path) != SOUND]
    except (SafekeptError, OSError):
        return databases


def _whole(case: Case, repository: Repository, one: Listed, path: str) -> bool:
    """Whether every piece of a file is in a pack that is there and has its size."""
    try:
        node = open_stored(case.context, repository, one).source.node(path)
    except SafekeptError:
        return False
    if node is None or node.type != "file" or node.content is None:
        return False
    content = node.content
    blobs = (content[at : at + _BLOB] for at in range(0, len(content), _BLOB))
    return all(repository.index.has(BlobKind.DATA, blob) for blob in blobs)


def _archive(case: Case, home: str) -> str:
    """The newest archive of this home that a drill proved, and that is still there."""
    for receipt in read_receipts(case.context):
        good = receipt.subject == ARCHIVE and receipt.ok and receipt.home == home
        if good and os.path.isfile(receipt.name):
            return receipt.name
    return ""
