"""What is wrong with a snapshot, and which is the newest with which nothing is: the one place that says so.

A snapshot that was taken after a loss holds that loss. `latest`, said in a fright, means what a person had
before. So one that holds a damaged database, lacks something, or was taken between a loss and its mending,
is brought back only where it is named by its id, or after a yes to that very question. One that was taken
after a loss was mended holds everything again, whatever an old alarm said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.next_step import Step
from safekept.core.records import dataclass
from safekept.vault.snapshots import is_number

from ..alarms.alarms import LOSS, Alarm
from .listing import UNDO_POINTS, Listed

DAMAGED, UNVERIFIED = "damaged", "unverified"


class SnapshotNotSound(SafekeptError):
    code = "snapshot-not-sound"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a snapshot is not what a person means, and the newest one that is."""

    chosen: Listed
    reasons: tuple[str, ...]
    sound: Listed | None = None

    @property
    def text(self) -> str:
        return f"Snapshot {self.chosen.short} is not sound: {'; '.join(self.reasons)}"

    def passed_over(self, offers_sound: bool) -> Listed | None:
        """The sound one, to be planned in its place where a person is there to agree."""
        return self.sound if offers_sound else None

    def refusal(self, instead: Step, all_the_same: Step) -> SnapshotNotSound:
        """For a caller who agreed beforehand: that covers nothing they have not seen."""
        return SnapshotNotSound(
            self.text,
            kept="Nothing was changed",
            next_steps=(instead, all_the_same),
            snapshot=self.chosen.id,
            sound=self.sound.id if self.sound else None,
            reasons=list(self.reasons),
        )

    def as_dict(self) -> dict[str, object]:
        return {"reasons": list(self.reasons), "sound": self.sound.id if self.sound else None}


def is_named(chosen: Listed, word: str) -> bool:
    """Whether a word can mean this snapshot alone: its id, the start of it, or its label."""
    return not is_number(word) and (chosen.id.startswith(word) or chosen.label == word)


def sound_ones(every: Sequence[Listed], alarms: Iterable[Alarm] = ()) -> Iterator[Listed]:
    """Those of the whole home with which nothing is wrong, newest first; not yet checked ones come last."""
    after = _Losses(every, alarms)
    good = [
        one
        for one in every
        if one.kind not in UNDO_POINTS
        and not (one.partial or one.future)
        and one.complete
        and one.state != DAMAGED
        and not any(after.of(one))
    ]
    unchecked = [one for one in good if one.state == UNVERIFIED and one.proven_ns is None]
    yield from (one for one in good if one not in unchecked)
    yield from unchecked


def advised_for(every: Sequence[Listed], paths: Sequence[str], alarms: Iterable[Alarm] = ()) -> list[Listed]:
    """Those from which these paths may be advised, best first: the newest, and behind them the ones that
    were taken after a loss in one of them, or that come from the future.

    What a restore, an import or an undo stored by itself is none of them: it holds what was just left.
    """
    losses = _Losses(every, alarms)

    def has_lost(one: Listed) -> bool:
        known = [alarm for alarm, _ in losses.of(one)]
        return any(not alarm.paths or any(_touches(path, alarm.paths) for path in paths) for alarm in known)

    usual = [one for one in every if one.kind not in UNDO_POINTS]
    return sorted(usual, key=lambda one: (has_lost(one), one.future))


def sound_database(every: Sequence[Listed], path: str, alarms: Iterable[Alarm] = ()) -> str:
    """The id of the best snapshot that has this database checked and sound; "" where none has."""
    from safekept.vault.care import SOUND, states_in_file

    advised = advised_for(every, (path,), alarms)
    return next((one.id for one in advised if states_in_file(one.snapshot).get(path) == SOUND), "")


def reasons_against(
    chosen: Listed,
    every: Sequence[Listed],
    alarms: Iterable[Alarm] = (),
    manifest: Mapping[str, object] | None = None,
    unreadable: Iterable[str] = (),
    only: Sequence[str] = (),
    agreed: Collection[str] = (),
) -> tuple[str, ...]:
    """What is wrong with it, a few words each.

    `unreadable` is what the vault lost; `only`: nothing else is asked for; `agreed`: known, and wanted so.
    """
    from ..base.scope import damaged_in, missing_in  # loads much, and a list needs none of it

    def asked(paths: Iterable[str]) -> list[str]:
        return [path for path in paths if path not in agreed and (not only or _touches(path, only))]

    damaged, missing = asked(damaged_in(manifest)), asked([*missing_in(manifest), *unreadable])
    reasons = [f"{_some(damaged)} in it {_is(damaged)} damaged"] if damaged else []
    reasons += [f"{_some(missing)} {_is(missing)} not whole in it"] if missing else []
    if manifest is None and not only:  # no account of its own: what its tags say
        reasons += ["a database in it is damaged"] if chosen.state == DAMAGED and not damaged else []
        lacking = [chosen.why_incomplete or "it is incomplete"]
        reasons += lacking if not chosen.complete and not reasons else []
    reasons += [
        f"{alarm.text} since {holder.short}"
        for alarm, holder in _Losses(every, alarms).of(chosen)
        if not alarm.paths or asked(alarm.paths)
    ]
    return tuple(reasons)


def open_losses_of(chosen: Listed, every: Sequence[Listed], alarms: Iterable[Alarm]) -> tuple[Alarm, ...]:
    """What a snapshot lacks because it was lost before, and that is still lost."""
    found = (alarm for alarm, _ in _Losses(every, alarms).of(chosen))
    return tuple(alarm for alarm in found if not (alarm.back_since or alarm.back_in))


class _Losses:
    """Alarms about a loss, each with the snapshot that still has what is lost."""

    def __init__(self, every: Sequence[Listed], alarms: Iterable[Alarm]) -> None:
        by_id = {one.id: one for one in every}
        #: With the time at which it was back, where it is: what was taken since then holds it again.
        self._found: list[tuple[Alarm, Listed, float]] = []
        for alarm in alarms:
            holder, again = by_id.get(alarm.pinned), by_id.get(alarm.back_in)
            if alarm.kind != LOSS or holder is None or alarm.home not in ("", holder.home):
                continue
            if alarm.back_in and again is None:
                continue  # that one went, and which of them came before it is unknown
            times = [alarm.back_since * 1e9] if alarm.back_since else []
            times += [again.snapshot.time_ns] if again is not None else []
            self._found.append((alarm, holder, min(times, default=math.inf)))

    def of(self, one: Listed) -> Iterator[tuple[Alarm, Listed]]:
        """Those that a snapshot came after, while they were not mended."""
        for alarm, holder, back in self._found:
            if holder.snapshot.time_ns < one.snapshot.time_ns < back:
                yield alarm, holder


def _touches(path: str, only: Sequence[str]) -> bool:
    from ..base.scope import within

    return not path or any(within(path, one) or within(one, path) for one in only)


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - 1
    return f"{paths[0] or 'a part'} and {more:,} more" if more else paths[0] or "a part"


def _is(paths: Sequence[str]) -> str:
    return "are" if len(paths) > 1 else "is"
