"""Which snapshot a word means: `latest`, a number, an id, the start of one, a label, or a time.

A word never means more than a person can have meant: a short number is a number, and `latest` is
neither a state that was stored only to undo something, nor one whose time has not come yet, nor a part of
a home while there is a whole one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from safekept.core.ages import time_of
from safekept.core.next_step import NextStep
from safekept.core.spelling import near_names
from safekept.vault.errors import AmbiguousSnapshot, NoSuchSnapshot
from safekept.vault.snapshots import is_number, pick
from safekept.vault.tags import QUICK

from .listing import SHORT, UNDO_POINTS, Listed, Listing

#: Where nothing is kept, a person who wants something back may have lost the machine that had it.
MACHINE_GONE = NextStep("rebuild", ("KIT",), before="Old machine gone?")


def choose(listing: Listing, word: str, *, forgotten: bool = False) -> Listed:
    """The one that a word means."""
    if word == "latest":
        return latest(listing)
    every = listing.all
    numbered = [one.snapshot for one in listing.shown if one.number]
    if is_number(word):
        if not numbered:
            raise none_yet(listing)
        if not listing.named and listing.others:
            raise _several_homes(listing, word)
        found = pick(numbered, word, numbered=numbered)
        return next(one for one in listing.shown if one.snapshot is found)
    labelled = [one for one in listing.of_home if one.label and one.label == word]
    if labelled and not any(one.id.startswith(word) for one in every):
        return next((one for one in labelled if one.number), labelled[0])
    if word.isdecimal() and not listing.shown and not any(one.id.startswith(word) for one in every):
        raise none_yet(listing)
    if (before := time_of(word, time.time(), end_of_day=True)) is not None and not _named(every, word):
        return _at(listing, word, before)
    unreadable = [name for name in listing.damaged if name.startswith(word)]
    try:
        found = pick([one.snapshot for one in every], word, numbered=numbered, forgotten=forgotten)
    except NoSuchSnapshot as error:
        if not unreadable:
            _note_near(error, listing, word)
            raise
        raise NoSuchSnapshot(
            f"Snapshot {unreadable[0][:SHORT]} cannot be read: {listing.damaged[unreadable[0]]}",
            kept="Nothing was changed",
            next_steps=(
                NextStep("snapshot list", before="Take another one:"),
                NextStep("vault check", before="See how the vault is:"),
            ),
            snapshot=unreadable[0],
        ) from None
    return next(one for one in every if one.snapshot is found)


def _note_near(error: NoSuchSnapshot, listing: Listing, word: str) -> None:
    """Say which of the names that there are was meant by one that is misspelt."""
    labels = (one.label for one in listing.of_home if one.label and "/" not in one.label)
    if listing.shown and not is_number(word) and (near := near_names(("latest", *labels), word, 1)):
        error.facts["meant"] = near[0]
        error.next_steps = (f"Did you mean `{near[0]}`?", *error.next_steps)


def _several_homes(listing: Listing, word: str) -> AmbiguousSnapshot:
    """Numbers are per home: without one that is named, another home's number might be meant."""
    own = next(one for one in listing.shown if one.number)
    every = [own, *listing.others]

    def line(one: Listed) -> str:
        when = one.snapshot.time[:16].replace("T", " ")
        return f"Of `{one.home}` the newest is `{one.short}`, of {when}"

    return AmbiguousSnapshot(
        f"`{word}` is a number, and {len(every)} homes have snapshots with numbers",
        kept="Nothing was changed",
        next_steps=(
            *(line(one) for one in every[:5]),
            "Give the id instead, or name the home with `--home DIR`",
        ),
        candidates=[one.id for one in every],
    )


def _named(every: list[Listed], word: str) -> bool:
    return any(one.id.startswith(word) for one in every)


def _at(listing: Listing, word: str, before: float) -> Listed:
    """The newest whole one that was taken by then; a part of the home where there is no whole one."""
    usual = [one for one in usual_ones(listing) if one.snapshot.time_ns <= before * 1e9]
    found = next((one for one in usual if not one.partial), None) or next(iter(usual), None)
    if found is None:
        if not listing.shown:
            raise none_yet(listing)
        oldest = listing.shown[-1]
        taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(oldest.snapshot.time_ns / 1e9))
        raise NoSuchSnapshot(
            f"No snapshot of `{listing.home}` is as old as `{word}`; the oldest is of {taken}",
            kept="Nothing was changed",
            next_steps=(NextStep("snapshot list", before="See which there are, and of when:"),),
        )
    return found


def latest(listing: Listing) -> Listed:
    """The newest of the whole home; where there is none, the newest part of it. It passes over what was
    stored only to undo a restore or an import: after a restore that would be the broken state that was
    just left."""
    if not listing.shown:
        raise none_yet(listing)
    usual = usual_ones(listing)
    return next((one for one in usual if not one.partial), usual[0])


def latest_to_restore(
    listing: Listing, holds: Callable[[Listed], bool] | None = None
) -> tuple[Listed, Listed | None]:
    """The newest of the whole home, and a newer part that a person may rather want.

    Where paths are asked for, `holds` says whether a snapshot has them all; a newer part of the home is
    taken only where the whole one has them not.
    """
    chosen, usual = latest(listing), usual_ones(listing)
    parts = usual[: usual.index(chosen)]
    if holds is None:
        return chosen, next((one for one in parts if one.kind == QUICK), None)
    # A part that has what is asked for is worth naming, whatever narrowed it.
    newer = next((one for one in parts if holds(one)), None)
    return (newer, None) if newer is not None and not holds(chosen) else (chosen, newer)


def usual_ones(listing: Listing) -> list[Listed]:
    """Newest first, without undo points and times to come; with them where there is nothing else."""
    usual = [one for one in listing.shown if one.kind not in UNDO_POINTS]
    return [one for one in usual if not one.future] or usual or listing.shown


def none_yet(listing: Listing) -> NoSuchSnapshot:
    if listing.elsewhere:
        return NoSuchSnapshot(
            f"This vault holds no snapshots of `{listing.home}`, but {len(listing.elsewhere)} of other homes",
            kept="Nothing was changed",
            next_steps=(
                NextStep("snapshot list", ("--all",), before="See them:"),
                "One of another home can be restored here by its id",
            ),
        )
    return NoSuchSnapshot(
        f"This vault holds no snapshots of `{listing.home}` yet",
        kept="Nothing was changed",
        next_steps=(MACHINE_GONE, NextStep("snapshot", before="Take one:")),
    )
