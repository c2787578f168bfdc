"""A damaged database and what a home has lost: one sentence and one way back, for status and doctor alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from safekept.core.finding import MEANT, PARTLY, Finding
from safekept.core.next_step import NextStep, Step
from safekept.home.health import LossSummary

from ...alarms.meant import loss_name, short_name
from ..home_now import DamagedDatabase

#: Findings that a later snapshot of the same home repeats.
OF_DATABASES = frozenset({"database-damaged", "damaged-when-stored", "lost-since"})
#: Between paths, where a finding is about several.
PATHS = ", "
STOP_FIRST = "Stop the agent first; what is there now is kept"


def database_damaged(
    home: str, one: DamagedDatabase, named: Sequence[str], otherwise: Sequence[Step]
) -> Finding:
    """One that is damaged now. `named`: words that mean the home; `otherwise`: where none has it sound."""
    known, steps = "no verified generation of it is known", tuple(otherwise)
    if one.snapshot:
        known = f"the newest verified state of it is in snapshot {one.snapshot} ({one.proof})"
        words = (one.snapshot, *((one.path,) if one.path else ()), *named)
        steps = (STOP_FIRST, NextStep("snapshot restore", words, before="Bring it back:"))
    text = f"{_called(one.path)} in {home} is damaged"
    evidence = (one.wrong, known) if one.wrong else (known,)
    return Finding("database-damaged", PARTLY, text, evidence, steps, home=home, alarm=True, path=one.path)


def damaged_when_stored(home: str, paths: Sequence[str], named: Sequence[str]) -> Finding:
    """The home is well again; only its newest copy is not."""
    is_ = "is" if len(paths) == 1 else "are"
    text = f"the newest snapshot of {home} has {PATHS.join(paths)} damaged; what the home has now {is_} not"
    fix = NextStep("snapshot", tuple(named), before="Store it:")
    return Finding("damaged-when-stored", PARTLY, text, (), (fix,), home=home, path=PATHS.join(paths))


def lost_since(
    home: str, lost: LossSummary, snapshot: str, paths: Iterable[str], named: Sequence[str]
) -> Finding:
    """Fewer than the newest snapshot counted, and no snapshot was taken of that yet."""
    text = f"lost in {home}: {lost.text}"
    places = tuple(dict.fromkeys(paths))
    words = (snapshot, *places, *named)
    fix: tuple[Step, ...] = (NextStep("snapshot restore", words, before="Bring it back:"),)
    name = loss_name(home, lost.falls, lost.profiles)
    return Finding(
        "lost-since",
        PARTLY,
        text,
        (f"snapshot {snapshot} has it",),
        (*fix, NextStep("status", ("--acknowledge", short_name(name)), before=MEANT)),
        home=home,
        alarm=True,
        declinable=name,
        path=PATHS.join(places),
    )


def _called(path: str) -> str:
    parts = path.split("/")
    if len(parts) > 2 and parts[0] == "profiles":
        return f"{path} (profile {parts[1]})"
    return path or "a database"
