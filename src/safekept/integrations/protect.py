"""What is done about a call: the same for every host and every way in.

It never raises and never prints. Whatever could not be protected is in the outcome and in the record of
the host, and the tool runs all the same: an agent is not stopped for our sake.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from .calls import Call, Outcome, Problem, Uncovered, problem
from .marks import all_ended, change_comes, changes_so_far, command_ended, marking, nothing_runs
from .places import Place

if TYPE_CHECKING:
    from safekept.checkpoints.checkpoints import Checkpoints
    from safekept.checkpoints.take import Protection

__all__ = ["Call", "Outcome", "Place", "Problem", "Uncovered", "protect"]
#: Names and sentences that a host gives are cut to this.
_LONGEST = 200
_MOST_PATHS = 10_000


def protect(call: Call, place: Place) -> Outcome:
    """Do what a call asks for."""
    try:
        call = _bounded(call)
        outcome = _protect(call, place)
    except Exception as error:  # whatever it is, it must not reach the host
        outcome = Outcome(failures=(problem(error),))
    troubles = tuple(Problem(error.what, error.code) for error in place.troubles)
    if troubles and not outcome.off and call.kind != "nothing":
        outcome = replace(outcome, failures=(*outcome.failures, *troubles))
    _remember(call, place, outcome)
    return outcome


def _protect(call: Call, place: Place) -> Outcome:
    if call.kind == "nothing":
        return Outcome()
    off = _switched_off(call, place)
    if off is not None:
        return off
    if call.kind == "turn":
        from safekept.actions.hosts.sessions import begin_turn
        from safekept.actions.projects.rollback_news import take_news

        from .hidden_half import begin_hidden_half

        _end_the_turn_before(call, place)
        call = _keep_words(call, place, begin_turn(place.data_directory, call.session, call.turn))
        _began(call, place)
        begin_hidden_half(call, place)
        return Outcome(context=take_news(place.data_directory, call.session))
    if call.kind == "session-start":
        return _begin_session(call, place)
    if call.kind == "before":
        return _before(_keep_words(call, place, call.turn) if call.words else call, place)
    if call.kind == "hidden":
        from .hidden_half import keep_now

        return keep_now(call, place) if place.apart else Outcome()
    if call.kind == "session-end":
        return _end_session(call, place)
    return _afterwards(call, place)


def _keep_words(call: Call, place: Place, turn: str) -> Call:
    """What the person said names the turn, where that is wanted; and it goes no further than here."""
    from safekept.actions.hosts.turn_words import forget_words, keep_words

    words = call.words
    if not place.settings.flag("hooks.prompts"):
        _later(place, lambda: forget_words(place.data_directory))
    elif words:
        _later(place, lambda: keep_words(place.data_directory, call.session, turn, words))
    return replace(call, words="")


def _switched_off(call: Call, place: Place) -> Outcome | None:
    """What to answer where checkpoints are switched off; told once in a session."""
    from safekept.actions.hosts.sessions import SWITCH, switch

    found = switch(place.data_directory, place.environment, call.session)
    if found.on and not found.strange:
        return None
    if found.on:
        text = f"{SWITCH} is `{found.strange[:20]}`, which is neither 0 nor 1: checkpoints are taken"
        return _told(call, place, Outcome(notices=(text,))) if call.kind == "session-start" else None
    by_session = found.by == "session"
    who = "/safekept off" if by_session else f"{SWITCH}=0"
    # Only where our slash commands are is there one to switch it on.
    on = "`/safekept on` switches it on"
    if not by_session and call.host != "hermes":
        on = "start the agent without that variable to have them"
    text = f"safekept takes no checkpoints in this session ({who}); {on}"
    return _told(call, place, Outcome(notices=(text,), off=True))


def _begin_session(call: Call, place: Place) -> Outcome:
    """Whether it can be relied on, as far as that can be known before anything is to be protected."""
    from safekept.actions.hosts.calls import read_host_calls

    from .hidden_half import begin_hidden_half

    _began(call, place)
    begin_hidden_half(call, place)
    for host in read_host_calls(place.context):
        if host.host == call.host and host.failing:
            # The same moment: something was wrong, and the files were kept all the same.
            kept = host.last_checkpoint == host.last_failure.get("time")
            how = f"not all was well with {host.host}" if kept else f"{host.host} was not protected"
            text = f"the last time, {how}: {host.last_failure.get('what')}"
            return _told(call, place, Outcome(notices=(text,)))
    return Outcome()


def _before(call: Call, place: Place) -> Outcome:
    if call.out_of_reach:
        return _out_of_reach(call, place)
    from .home_paths import keep_home_paths, snapshot_before, sorted_paths

    names, at_home, uncovered = sorted_paths(call, place)
    kept = keep_home_paths(call, place, at_home) if at_home else None
    if kept is not None:
        names += kept.unkept  # what the vault could not take is a named file like any other
    if kept is not None and kept.point:
        snapshot_before(call, place, at_home)
    outcome = Outcome(
        home_point=kept.point if kept else "",
        skipped=uncovered,
        failures=kept.failures if kept else (),
    )
    if not names and not call.shell:
        return _told(call, place, outcome)
    paths = [*names, call.directory or os.sep] if call.shell else names
    turn = _turn(call, place)
    change_comes(place.data_directory, call.session, turn, call.tool if call.shell else "")
    if not any(f"{os.path.realpath(call.directory)}/".startswith(f"{home}/") for home, _ in at_home):
        _remember_place(call, place)
    from .hidden_half import keep_hidden_half

    protection = _door(place).before(
        paths,
        _reason(call),
        call.session,
        turn,
        shell=call.shell,
        directory=call.directory,
        workplaces=_workplaces(call, place),
    )
    not_kept = keep_hidden_half(call, place, protection)
    joined = _joined(outcome, protection, kept is not None and bool(kept.point))
    return _told(call, place, replace(joined, not_kept=not_kept))


#: Its plugin says of a tool that names files where those lie, and not where Hermes works.
_SAYS_WHERE_FILES_LIE = "hermes"


def _workplaces(call: Call, place: Place) -> list[str]:
    """Directories that the agent works in: where its session began, and where this very command runs. In an
    agent's home, or among our own files, there are none."""
    found = [_began(call, place), call.directory if call.shell else ""]
    never = (*(f"{home}/" for home, _ in place.homes), f"{os.path.realpath(place.data_directory)}/")
    return [one for one in found if os.path.isabs(one) and not f"{os.path.realpath(one)}/".startswith(never)]


def _began(call: Call, place: Place) -> str:
    from safekept.actions.hosts.sessions import began_in

    if call.host == _SAYS_WHERE_FILES_LIE or not os.path.isabs(call.directory):
        return ""
    if not call.session:
        return call.directory
    return began_in(place.data_directory, call.session, call.directory, call.kind == "session-start")


def _joined(outcome: Outcome, protection: Protection, at_home: bool) -> Outcome:
    points = [taken.checkpoint or taken.latest for taken in protection.taken]
    skipped = [
        Uncovered(one.path, one.reason, one.detail)
        for one in protection.skipped
        # A home is not a project, and its point was taken.
        if not (at_home and one.reason in ("too-much", "unmarked"))
    ]
    return replace(
        outcome,
        checkpoints=tuple(dict.fromkeys(point.id for point in points if point)),
        skipped=(*outcome.skipped, *skipped),
        failures=(
            *outcome.failures,
            *(Problem(one.what, one.code, one.project) for one in protection.failures),
        ),
        notices=(*outcome.notices, *protection.notices),
    )


def _out_of_reach(call: Call, place: Place) -> Outcome:
    where = call.out_of_reach[:_LONGEST]
    text = f"`{call.tool or 'this tool'}` works in {where}, out of safekept's reach: nothing there is kept"
    names = call.paths or (call.directory,)
    skipped = tuple(Uncovered(name, "out-of-reach", f"is in {where}") for name in names[:20])
    return _told(call, place, Outcome(skipped=skipped, notices=(text,)))


def _afterwards(call: Call, place: Place) -> Outcome:
    """A tool or a turn ended: the mark is not waited for, where there is a process to make it later."""
    if call.kind == "after" and call.shell:
        from safekept.actions.projects.rollback_news import drop_own_news

        drop_own_news(place.data_directory, call.session, call.goes_back)
    if call.kind != "after":
        all_ended(place.data_directory, call.session)
    elif call.shell and not command_ended(place.data_directory, call.session, call.tool):
        return Outcome()  # another one still runs, and what it does is not the user's
    elif not call.shell and not nothing_runs(place.data_directory, call.session):
        return Outcome()
    # A session that ends says nothing of when the agent last did something: a mark after its last tool does.
    return _mark(call, place, _turn(call, place), only_open=call.kind == "session-end")


def _end_the_turn_before(call: Call, place: Place) -> None:
    """The user said something: a turn that was interrupted, of which no host tells, ended before that."""
    from safekept.actions.hosts.sessions import read_session

    all_ended(place.data_directory, call.session)
    turn = read_session(place.data_directory, call.session).turn if call.session else ""
    if turn and turn != call.turn:
        _mark(call, place, turn, only_open=True)


def _mark(call: Call, place: Place, turn: str, *, only_open: bool) -> Outcome:
    """Mark what a turn left behind. `only_open`: not where its last tool was marked when it ended."""
    from .hidden_half import MARK_WAIT, keep_hidden_half

    door = _door(place)
    changes = changes_so_far(place.data_directory, call.session)

    def mark() -> Outcome:
        with marking(place.data_directory, call.session, changes) as wanted:
            if not wanted:
                return Outcome()
            reason, over = _reason(call) or "after the turn", call.kind != "after"
            protection = door.after(call.session, turn, reason, wait=True, over=over, only_open=only_open)
        keep_hidden_half(call, place, protection, MARK_WAIT)
        if over and os.path.exists(place.context.choices.keeper_socket):
            from safekept.actions.keeper.transfer import begin_transfer

            begin_transfer(place.context)
        return _joined(Outcome(), protection, False)

    if place.later is None:
        return mark()

    def later() -> None:
        outcome = mark()
        if outcome.failures:
            _remember(call, place, outcome)

    place.later(("mark", place.data_directory, call.session, turn), later)
    return Outcome()


def _end_session(call: Call, place: Place) -> Outcome:
    """A session ended: its last mark, and a snapshot of the agent's home when one is due."""
    from .home_paths import snapshot_at_end, snapshot_wanted

    if place.apart:
        return Outcome(failures=snapshot_at_end(call, place))
    outcome = _afterwards(call, place)
    if snapshot_wanted(call, place):
        from .in_process import run_apart

        run_apart(call, place.environment)  # it may read gigabytes of databases
    return outcome


def _turn(call: Call, place: Place) -> str:
    """The turn's name: the host's own, else the one that it got when it began."""
    if call.turn or not call.session:
        return call.turn
    from safekept.actions.hosts.sessions import read_session

    return read_session(place.data_directory, call.session).turn


def _door(place: Place) -> Checkpoints:
    from safekept.actions.projects.project import checkpoint_directory
    from safekept.checkpoints.checkpoints import Checkpoints

    from .hidden_half import bounded

    return Checkpoints(
        checkpoint_directory(place.context),
        settings=bounded(place.policy.take),
        forbidden=place.forbidden,
        maintenance=place.policy.maintenance,
    )


def _reason(call: Call) -> str:
    before = f"before {call.tool}" if call.tool and call.kind == "before" else ""
    reason = call.reason or before
    if reason and reason == before and call.paths:
        reason += f" {_named(call)}"
    return f"{reason} (by {call.agent})" if call.agent and reason else reason


def _named(call: Call) -> str:
    """The first of the files that a tool names, as seen from where it works, and how many more."""
    first, below = call.paths[0], call.directory.rstrip("/") + "/"
    shown = first.removeprefix(below) if first.startswith(below) else os.path.basename(first) or first
    return shown if len(call.paths) == 1 else f"{shown} and {len(call.paths) - 1:,} more"


def _told(call: Call, place: Place, outcome: Outcome) -> Outcome:
    """The same, without what this session was shown before."""
    new = tuple(text for text in outcome.notices if place.first_time(call.session, text))
    return outcome if new == outcome.notices else replace(outcome, notices=new)


def _remember_place(call: Call, place: Place) -> None:
    """For a line of a chat that is about this session, after its process was started again."""
    from safekept.actions.hosts.sessions import worked_in

    if call.session and os.path.isabs(call.directory):
        _later(place, lambda: worked_in(place.data_directory, call.session, call.directory))


def _remember(call: Call, place: Place, outcome: Outcome) -> None:
    """For the question whether this host protects; off the caller's path where that can be."""
    from safekept.actions.hosts.calls import record_host_call

    if call.kind in ("nothing", "hidden") or not call.host:
        return
    kept = bool(outcome.checkpoints or outcome.home_point)
    failure = outcome.failures[0].what if outcome.failures else ""
    unkept = ""
    if call.kind == "before" and call.shell and not kept and not outcome.off:
        unkept = failure or next((f"{one.path}: {one.detail or one.reason}" for one in outcome.skipped), "")

    not_kept = outcome.not_kept if call.kind == "before" and call.shell else None
    now = time.time()

    def write() -> None:
        record_host_call(
            place.data_directory,
            call.host,
            kept=kept,
            failure=failure,
            unkept=unkept,
            not_kept=not_kept,
            when=now,
            # What is done behind a call may end long after it, when the host calls no more.
            called=not place.apart,
        )

    _later(place, write)


def _later(place: Place, work: Callable[[], None]) -> None:
    """Off the caller's path, where there is a process to do it."""
    if place.later is None:
        work()
    else:
        place.later(("remember", object()), work)


def _bounded(call: Call) -> Call:
    """What a host says is cut to a length that can be stored, and to characters that can be written."""
    return replace(
        call,
        paths=call.paths[:_MOST_PATHS],
        tool=_clean(call.tool),
        session=_clean(call.session),
        turn=_clean(call.turn),
        agent=_clean(call.agent),
        reason=_clean(call.reason),
    )


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text[:_LONGEST]
    text = text[:_LONGEST].encode("utf-8", "replace").decode("utf-8")
    return "".join(letter if letter.isprintable() else " " for letter in text)
