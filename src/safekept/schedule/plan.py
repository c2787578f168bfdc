"""What is to be done how often: the settings `schedule.*` as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from .cadence import Cadence

RUN, LIGHT, WAIT = "run", "light", "wait"
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person would choose: every night, and a drill now and then."""

    cadence: Cadence = field(default_factory=Cadence)  # snapshot, archive and push
    homes: tuple[str, ...] = ()  # empty: the home that is meant when nothing else is said
    archives: str = ""  # the directory of sealed archives
    keep: int = 14  # how many of them stay
    #: 0: never, here and below. Rarely: a prune packs anew, and what is packed anew is pushed anew.
    prune_days: float = 30.0
    checkpoint_days: float = 7.0
    small_drill_days: float = 7.0
    drill_days: float = 91.0
    time_limit: float = 4 * 3600.0  # seconds for one run; 0: none
    overdue_hours: float = 48.0  # a home without a good snapshot for so long
    push_overdue_days: float = 7.0  # a destination that got nothing for so long
    battery: str = LIGHT  # on battery: everything, the snapshot only, or nothing
    metered: str = WAIT  # on a metered network: push all the same, or wait
