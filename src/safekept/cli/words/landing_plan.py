"""How a plan of a landing is shown and agreed to: the same words for an import and for a restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from safekept.actions.drill.receipts import FAILED, Row
from safekept.core.errors import ConsentNeeded

from ..console import Console, count_text, path_text, size_text
from .snapshots import age_text

if TYPE_CHECKING:
    from safekept.actions.restoring.starting import Wrapper
    from safekept.actions.snapshots.listing import Listed
    from safekept.actions.snapshots.soundness import Doubt
    from safekept.home.landing import LandingPlan


#: So many paths of a kind are shown; all of them are in the JSON.
SHOWN = 12


def show_changes(console: Console, plan: LandingPlan) -> None:
    """What comes, what it replaces, and what stays."""
    new, other = len(plan.create), len(plan.replaced_for_sure)
    brought = [count_text(new, "new file")] if new or not other else []
    brought += [f"{other:,} in the place of others"] if other else []
    console.fact("Brings", f"{size_text(plan.bytes)}, {', '.join(brought)}")
    sizes = {path: (size_text(now), size_text(plan.items[path].size)) for path, now in plan.shorter.items()}
    shorter = {path: f" ({now} now, then {then})" for path, (now, then) in sizes.items() if now != then}
    show_paths(console, "Replaces", plan.replaced_for_sure, fold=True, notes=shorter)
    show_paths(console, "Compares", plan.compared, "databases; one that differs is replaced")
    if plan.closed:
        files = count_text(len(plan.closed), "file")
        console.fact("Closes", f"{files} to others: secrets and conversations come back as 0600")
    show_paths(console, "Removes", plan.remove, fold=True)
    show_paths(console, "Outside", plan.outside)
    show_paths(console, "Stays", plan.damaged, "damaged in what would be restored; --allow-damaged takes it")
    show_paths(console, "Not taken", plan.kept, "bound to a machine; this one keeps its own")


def show_obstacles(console: Console, plan: LandingPlan) -> None:
    """Databases that are open, and what stands in the way."""
    for path, holder in plan.held:
        console.fact("In use", f"{path_text(path)} is open in {holder}; it is restored through SQLite")
    for sentence in plan.obstacles:
        console.fact("In the way", sentence)


def show_wrappers(console: Console, wrappers: Iterable[Wrapper]) -> None:
    """The commands of profiles, which lie outside the home: all of them in a plan, and after the deed those
    that could not be made."""
    for one in wrappers:
        note = f" ({one.note})" if one.note else ""
        if one.state == "new":
            once = f" once `{one.needs}` is installed here" if one.needs else ""
            console.fact("Command", f"{path_text(one.path)} will start profile {one.profile}{once}{note}")
        elif one.state == "skipped":
            console.fact("Command", f"none for profile {path_text(one.profile)}: {one.note}")


def not_made(wrappers: Iterable[Wrapper]) -> list[Wrapper]:
    """Those that the plan named and that could not be written: everything else was said by the plan."""
    return [one for one in wrappers if one.failed]


def show_losses(console: Console, lost: Sequence[tuple[str, str]], damaged: Collection[str]) -> None:
    """What is missing in what is brought back, and what is damaged in it: path and reason."""
    for path, reason in lost[:SHOWN]:
        what = "Damaged" if path in damaged else "Missing"
        console.fact(what, f"{path_text(path)}: {reason}" if path else reason)
    if len(lost) > SHOWN:
        console.line(f"               … and {len(lost) - SHOWN:,} more (all of them: --json)")


def show_stayed(console: Console, plan: LandingPlan) -> None:
    """After the deed: what of the home is as it was, because what would have come is damaged."""
    show_paths(console, "Stayed", plan.damaged, "yours; what was stored of it is damaged")


def show_paths(
    console: Console,
    label: str,
    paths: list[str],
    note: str = "",
    *,
    fold: bool = False,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """How many, and the first of them. `fold`: the files of our own plugin have a line for all of them.
    `notes`: what stands behind a path."""
    if not paths:
        return
    console.fact(label, count_text(len(paths), "file") + (f" ({note})" if note else ""))
    own = Counter(path.partition(_OWN)[0] + _OWN for path in paths if _is_own(path)) if fold else Counter()
    others = [path for path in paths if not (own and _is_own(path))]
    for path in others[:SHOWN]:
        console.line(f"               {path_text(path)}{notes.get(path, '')}")
    if len(others) > SHOWN:
        console.line(f"               … and {len(others) - SHOWN:,} more (all of them: --dry-run --json)")
    for place, count in own.items():
        console.line(
            f"               {path_text(place)} (safekept's own plugin, {count_text(count, 'file')})"
        )


#: Where our own plugin lies in a home, and in each profile of it.
_OWN = "plugins/safekept/"


def _is_own(path: str) -> bool:
    return f"/{_OWN}" in f"/{path}"


def ask_consent(console: Console, what: str, questions: list[str], see: str, agree: str) -> None:
    """Ask at a terminal; elsewhere refuse, with the command that shows the plan and the one that agrees."""
    if not console.can_ask():
        raise ConsentNeeded(
            f"This {what} needs your consent: " + "; ".join(questions),
            kept="Nothing was changed",
            next_steps=(f"See the plan: `{see}`", f"Agree to it: `{agree}`"),
            reasons=questions,
        )
    if not console.ask("Continue?"):
        raise click.Abort


def show_doubt(console: Console, doubt: Doubt | None, instead: str) -> None:
    """The first lines of a plan: what is wrong with what was not named, and the command that is meant."""
    if doubt is None or doubt.sound is None:
        return
    console.heading(doubt.text, good=False)
    console.line(
        f"The newest sound one is {doubt.sound.short}, {age_text(doubt.sound, word='old')}: `{instead}`"
    )


def settle(
    console: Console,
    verb: str,
    questions: list[str],
    again: Callable[..., str],
    *,
    chosen: Listed | None,
    doubt: Doubt | None,
    passed_over: Doubt | None,
    yes: bool,
) -> None:
    """One question for all of it, whatever makes it necessary; `--yes` does not agree to what is not sound.

    `verb`: `Restore` or `Rebuild from`; `again(snapshot or None, words…)`: the same command as was asked for.
    """
    what, _, preposition = verb.partition(" ")
    if doubt is not None and doubt.sound is not None:
        instead = f"{verb} the newest sound one: `{again(doubt.sound, '--yes')}`"
        words = " ".join(filter(None, ("Or", preposition, "this one all the same, by its id:")))
        all_the_same = f"{words} `{again(doubt.chosen, '--yes')}`"
        if yes or not console.can_ask():
            raise doubt.refusal(instead, all_the_same)
        if not console.ask(f"Restore {doubt.chosen.short} all the same, and not {doubt.sound.short}?"):
            raise click.Abort
    elif passed_over is not None and chosen is not None:
        # `latest` meant another one: whatever the plan does, this one comes after a yes that names it.
        if not console.ask(f"{verb} {chosen.short}, the newest sound one?"):
            raise click.Abort
    elif questions and not yes:
        ask_consent(console, what.lower(), questions, again(None, "--dry-run"), again(None, "--yes"))


def show_passed_over(console: Console, passed_over: Doubt | None) -> None:
    """The first line of a plan of the newest sound one: why the newer one is not what is offered."""
    if passed_over is not None:
        newer, wrong = passed_over.chosen.short, "; ".join(passed_over.reasons)
        console.heading(f"The newer snapshot {newer} is not offered, it is not sound: {wrong}", good=False)


# The rows of a receipt on the screen: the same for a drill and for a rebuild.

_CHECK, _STATE, _COUNT = 12, 8, 7


def show_rows(console: Console, rows: Iterable[Row]) -> None:
    """One line for each check: its name, how it ended, how many things it looked at, and what it says."""
    for row in rows:
        count = f"{row.count:,}" if row.count else ""
        state = "FAILED" if row.state == FAILED else row.state
        start = f"  {row.check:<{_CHECK}} {state:<{_STATE}} {count:>{_COUNT}}  "
        style = {"fg": "yellow"} if row.state == FAILED else {}
        console.line(start + row.text, len(start), **style)
