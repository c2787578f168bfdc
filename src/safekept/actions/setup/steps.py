"""Everything that protects a machine, one step after the other, each by the action that does it alone.

A step that fails does not take the others with it: what could be done is done, what could not is listed,
and the verdict at the end says what it means. The kit comes last, because it names the copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import partial

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass
from safekept.home.scan import Selection
from safekept.schedule.tasks import DRILL, PUSH, SMALL_DRILL, SNAPSHOT, Task
from safekept.vault.repo import Secret

from ..base.context import UserContext
from ..base.operations.care import SetupFacts
from ..base.record import record, recording
from ..base.unfinished import part_of
from ..offsite.destination import VAULT
from ..schedule.schedule import count_as_done
from .survey import AgentPlace, FoundHome

DONE, INCOMPLETE, FAILED, ALREADY, LEFT_OUT = "done", "incomplete", "failed", "already", "left out"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One thing that was done, or was not, and why."""

    name: str  # vault, passphrase, connect, updates, snapshot, push, proof, schedule, kit
    state: str
    text: str
    seconds: float = 0.0
    error: SafekeptError | None = None
    next_steps: tuple[Step, ...] = ()
    tasks: tuple[str, ...] = ()  # the regular work that this was: not due again before the next night
    subject: str = ""  # what it is of, where it comes several times: an agent, a home, a destination
    key: str = ""  # the key of the vault that was added

    @property
    def good(self) -> bool:
        return self.state in (DONE, ALREADY, LEFT_OUT)

    @property
    def part(self) -> str:
        """Its name in what is remembered of a setup that was cut off."""
        return part_of(self.name, self.subject)

    def as_dict(self) -> dict[str, object]:
        return {
            "step": self.name,
            "state": self.state,
            "text": self.text,
            "seconds": round(self.seconds, 3),
            "error": self.error.as_dict() if self.error else None,
        }


def left_out(name: str, why: SafekeptError) -> SetupStep:
    """A step that cannot be done here, and need not be."""
    return SetupStep(name, LEFT_OUT, why.what, error=why, next_steps=tuple(why.next_steps))


@dataclass(frozen=True, slots=True)
class SetupChoices:
    """What is to be done. What is there already is not asked for again."""

    passphrase: Secret | None = None
    replaces: str = ""  # the key of the one before it, which may not be written down anywhere
    homes: tuple[FoundHome, ...] = ()  # of which a snapshot is taken
    prove: tuple[FoundHome, ...] = ()
    push: tuple[str, ...] = ()  # names of destinations
    connect: tuple[AgentPlace, ...] = ()
    #: Has updates of agents run between a snapshot and a check; says how. None: not wanted, or not needed.
    guard_updates: Callable[[], str] | None = None
    #: Why that cannot be, where it is wanted: said, and no failure.
    not_guarded: SafekeptError | None = None
    #: Has the host wake us; says when and how. None: not wanted, or there already.
    install_schedule: Callable[[], str] | None = None
    when: str = ""  # what that will say, for a plan
    kit: str | None = None  # a directory or a name; "": the user's home directory; None: no kit
    selection: Selection = field(default_factory=Selection)  # what the settings leave out
    deadline: float = 30.0
    watched: bool = False  # a person sees the progress: a first snapshot is estimated by a look


Told = Callable[[SetupStep], None]


def set_up(
    context: UserContext, choices: SetupChoices, tell: Told = lambda step: None, listener: Listener = silent
) -> list[SetupStep]:
    """Do all of it. Raises only where no vault can be made or opened: without one nothing else helps."""
    found: list[SetupStep] = []
    for step in _steps(context, choices, listener):
        found.append(step)
        tell(step)
    count_as_done(context, [task for step in found if step.state == DONE for task in step.tasks])
    return found


def set_up_as_one(
    context: UserContext,
    choices: SetupChoices,
    homes: Iterable[str],
    tell: Told = lambda step: None,
    listener: Listener = silent,
) -> tuple[list[SetupStep], str]:
    """The same as one operation of the journal: the steps, and its id.

    Each step has the line of its own verb. This one says that they were one setup, and how it ended.
    """
    operation, began = new_id(), time.monotonic()
    work = SetupFacts(homes=tuple(homes), steps=())

    def tell_and_note(step: SetupStep) -> None:
        work.steps = (*(work.steps or ()), {"step": step.name, "state": step.state, "text": step.text})
        tell(step)

    record(context, work.line(operation, "begun"), listener)
    with recording(context, operation, work, listener):
        steps = set_up(context, choices, tell_and_note, listener)
    work.seconds = round(time.monotonic() - began, 3)
    state = DONE if all(step.good for step in steps) else INCOMPLETE
    record(context, work.line(operation, state), listener)
    return steps, operation


def _steps(context: UserContext, choices: SetupChoices, listener: Listener) -> Iterator[SetupStep]:
    yield from _vault(context, choices, listener)
    # Before the snapshot: a machine that is rebuilt from it knows that it was connected.
    for agent in choices.connect:
        yield _tried("connect", partial(_connected, agent), of=agent.name)
    if choices.guard_updates is not None:
        yield _tried("updates", choices.guard_updates)
    if choices.not_guarded is not None:
        yield left_out("updates", choices.not_guarded)
    if choices.install_schedule is not None:
        yield _tried("schedule", choices.install_schedule)
    for home in choices.homes:
        act = partial(_snapshot, context, home, choices, listener)
        yield _tried("snapshot", act, Task(SNAPSHOT, home.place.home), of=home.place.home)
    for name in choices.push:
        yield _tried("push", partial(_push, context, name, listener), Task(PUSH, name), of=name)
    for home in choices.prove:
        drills = (Task(kind, home.place.home) for kind in (DRILL, SMALL_DRILL))
        yield _tried("proof", partial(_prove, context, home, listener), *drills, of=home.place.home)
    if choices.kit is not None:
        yield _tried("kit", partial(_kit, context, choices.kit, listener))


class _Incomplete(Exception):
    """It was done, and something was missing."""

    def __init__(self, text: str, next_steps: Iterable[Step] = ()) -> None:
        super().__init__(text)
        self.next_steps = tuple(next_steps)


def _tried(name: str, act: Callable[[], str], *tasks: Task, of: str = "") -> SetupStep:
    began = time.monotonic()
    try:
        text = act()
        regular = tuple(task.name for task in tasks)
        step = SetupStep(name, DONE, text, tasks=regular)
    except _Incomplete as gap:
        step = SetupStep(name, INCOMPLETE, str(gap), next_steps=gap.next_steps)
    except SafekeptError as error:
        step = SetupStep(name, FAILED, error.what, error=error, next_steps=tuple(error.next_steps))
    return replace(step, seconds=time.monotonic() - began, subject=of)


def _vault(context: UserContext, choices: SetupChoices, listener: Listener) -> Iterator[SetupStep]:
    from ..vault.keys.keys import add_passphrase, listed_keys, remove_key
    from ..vault.opening import make_vault, open_vault, vault_exists

    there, began = vault_exists(context), time.monotonic()
    if not there:
        # One that was here and is gone is missed, and never replaced unasked.
        make_vault(context, homes=[one.place.home for one in choices.homes], anew=False).close()
        yield SetupStep("vault", DONE, f"made in {context.places.vault}", time.monotonic() - began)
    if choices.passphrase is not None:
        began = time.monotonic()
        with open_vault(context, listener=listener) as repository:
            added = add_passphrase(context, repository, choices.passphrase, recovery=True, listener=listener)
            if choices.replaces in [key.id for key in listed_keys(repository) if not key.current]:
                remove_key(context, repository, choices.replaces)
        text = "opens your copies when this machine is gone"
        yield SetupStep("passphrase", DONE, text, time.monotonic() - began, key=added)


def _connected(agent: AgentPlace) -> str:
    agent.connect()
    return agent.name


def _snapshot(context: UserContext, home: FoundHome, choices: SetupChoices, listener: Listener) -> str:
    from ..snapshots.create import SnapshotRequest, create_snapshot

    request = SnapshotRequest(home.place, selection=choices.selection, deadline=choices.deadline)
    if choices.watched:
        from ..snapshots.preview import with_estimate

        listener = with_estimate(context, request, listener)
    taken = create_snapshot(context, request, listener)
    text = f"{taken.id[:8]} of {home.place.home}, {taken.files:,} files"
    if not taken.complete:
        step = NextStep("snapshot show", (taken.id[:8],), before="See what is missing:")
        raise _Incomplete(f"{text}, not everything", (step,))
    return text


def _push(context: UserContext, name: str, listener: Listener) -> str:
    from ..offsite.push.push import push
    from ..offsite.push.result import DONE as PUSHED
    from ..offsite.push.result import PushRequest

    pushed = push(context, PushRequest(name), listener)
    if pushed.absence is not None:
        raise pushed.absence
    if pushed.state != PUSHED:
        raise _Incomplete(f"{name}, not everything", (NextStep("push", (name,), before="Try again:"),))
    return f"{name}, {pushed.place}"


def _prove(context: UserContext, home: FoundHome, listener: Listener) -> str:
    from ..drill.drill import DrillRequest, drill

    drilled = drill(context, DrillRequest(home=home.place.home, layout=home.place.layout.name), listener)
    receipt = drilled.receipt
    if not receipt.ok:
        raise _Incomplete(f"a restore of {home.place.home} did NOT pass: {receipt.why}", drilled.next_steps)
    return f"{receipt.files:,} files of {home.place.home} restored and checked"


def _kit(context: UserContext, output: str, listener: Listener) -> str:
    from ..vault.keys.kit_files import write_kit
    from ..vault.opening import open_vault

    with open_vault(context, listener=listener) as repository:
        text, _ = write_kit(context, repository, output)
    return text


def vault_destinations(context: UserContext) -> tuple[str, ...]:
    """The destinations that take the vault, by name."""
    return tuple(one.name for one in context.choices.destinations if VAULT in one.takes)
