"""From answers to a protected machine: saves what was decided, has every step done, ends with the verdict.

`setup` and `rebuild` end in the same way, so that both leave a machine that `doctor` has nothing against.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from safekept.actions.alarms.declined import decline, take_back
from safekept.actions.base.context import UserContext
from safekept.actions.base.unfinished import Unfinished, finished, part_of
from safekept.actions.offsite.destination_changes import note_change
from safekept.actions.setup.plan import PLANNED, planned
from safekept.actions.setup.steps import (
    DONE,
    SetupChoices,
    SetupStep,
    set_up,
    set_up_as_one,
    vault_destinations,
)
from safekept.actions.setup.survey import (
    AgentPlace,
    FoundHome,
    Survey,
    find_homes,
    remembering,
    survey,
    to_remember,
)
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.records import dataclass
from safekept.home.scan import Selection
from safekept.integrations.connecting.agents import agents_here
from safekept.integrations.connecting.overview import host_statuses
from safekept.integrations.connecting.program import Program, this_program
from safekept.integrations.hermes.update_wrapper import guard_updates, look_at_wrapper, not_guarded
from safekept.settings import Settings, load_settings

from ...console import Console
from ...interrupted import together
from ...options import context_from
from ...screen import Screen
from ...words.setup import LOGGED_OUT, show_end, show_step, when_words
from ..schedule.install import schedule_call
from ..schedule.options import machine_of
from .answers import Answers, Needs

if TYPE_CHECKING:
    from safekept.actions.doctor.diagnosis import Diagnosis
    from safekept.actions.offsite.destination import DestinationSetting


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What this machine can do for us."""

    program: Program  # how safekept is called from anywhere
    host: str  # what can wake us: systemd, launchd or cron; "": nothing can
    no_host: SafekeptError | None  # why nothing can; None: something can
    updates: str  # the script that could guard updates of Hermes and does not yet; "": none
    not_guarded: SafekeptError | None  # why they cannot be, where there is a Hermes
    cron_stopped: bool = False  # the schedule would be in the crontab, and nothing looks there
    until_logout: bool = False  # what wakes us ends with the session, unless that is changed

    @property
    def can_schedule(self) -> bool:
        return self.no_host is None


def looked(
    settings: Settings, context: UserContext, homes: Sequence[str] = ()
) -> tuple[Survey, MachineFacts]:
    """What is on this machine, and what it can do. `homes`: only these, and they will be remembered."""
    from safekept.actions.schedule.host import NoHost, find_host
    from safekept.actions.schedule.host_start import cron_runs, until_logout
    from safekept.actions.schedule.install import CRON, SYSTEMD

    found = find_homes(context, homes)
    remember = to_remember(context, found)
    context = remembering(context, remember)  # their agents are found as they will be
    program = this_program(settings.environment)
    agents = agents_here(context, program)
    if homes:
        agents = tuple(one for one in agents if not one.scope or _in_one_of(one.scope, found))
    no_host: SafekeptError | None = None
    host, machine = "", machine_of(settings)
    try:
        host = find_host(machine, system=False)
    except NoHost as error:
        no_host = error
    wrapper = look_at_wrapper(context) if any(one.host == "hermes" for one in agents) else None
    updates = wrapper.path if wrapper is not None and not wrapper.installed and not wrapper.reason else ""
    why = not_guarded(wrapper) if wrapper is not None and wrapper.reason else None
    seen = survey(context, found, agents, host_statuses(context), remember)
    stopped, passing = host == CRON and not cron_runs(machine), host == SYSTEMD and until_logout(machine)
    return seen, MachineFacts(program, host, no_host, updates, why, stopped, passing)


def _in_one_of(scope: str, homes: Sequence[FoundHome]) -> bool:
    return any(scope == one.place.home or scope.startswith(one.place.home + "/") for one in homes)


@dataclass(frozen=True, slots=True)
class Ended:
    """What was done, for a document, and the exit code that says so."""

    document: dict[str, object]
    code: int


class Protecting:
    """One machine on its way."""

    def __init__(
        self,
        console: Console,
        settings: Settings,
        context: UserContext,
        found: Survey,
        machine: MachineFacts,
        begun: Unfinished,
    ) -> None:
        self.console, self.settings, self.context = console, settings, context
        self._begun = begun  # what is remembered of all this until it has ended
        self.found, self.machine = found, machine
        self._listener: Listener | None = None
        self._generated = ""  # a passphrase that we made: shown once it opens the vault
        self._connected: list[str] = []  # agents, until something else was done: one line for all of them

    # -- what was decided ------------------------------------------------------------------

    def save(self, answers: Answers, needs: Needs) -> None:
        """Into the settings goes what the next run must know too; a no is remembered as one."""
        from safekept.settings.file import add_destination, set_value

        directory = self.settings.config_directory
        self._begun.saved = list(dict.fromkeys([*self._begun.saved, *self.to_save(answers, needs)]))
        if answers.destination:
            note_change(self.context, add_destination(directory, answers.destination), self.listen)
        if answers.at and answers.at != self.settings.text("schedule.at"):
            set_value(directory, "schedule.at", answers.at)
        for name, value in self._to_remember(answers.at).items():
            set_value(directory, name, value)
        self._reload()
        self._say_remembered()
        if needs.schedule:
            (take_back if answers.at else decline)(self.context, ("no-schedule",))
        if needs.connect and not answers.connect:
            hosts = {one.host for one in self.found.unconnected}
            kinds = ("not-connected", "profile-not-connected")
            names = [f"{kind}:{host}" for host in sorted(hosts) for kind in kinds]
            updates = ["updates-not-guarded:hermes"] if self.machine.updates else []
            decline(self.context, [*names, *updates])

    def to_save(self, answers: Answers, needs: Needs) -> list[str]:
        """What `save` writes down, in words."""
        place, at = answers.destination.get("name"), answers.at
        homes = self._to_remember(at)
        new = (
            (place, f"the destination {place}"),
            (at and at != self.settings.text("schedule.at"), f"the time {at}"),
            ("home" in homes, f"the home {homes.get('home')}"),
            ("schedule.homes" in homes, "which homes are looked after every night"),
            (needs.schedule and not at, "that there is no schedule"),
            (needs.connect and not answers.connect, "that agents are not connected"),
        )
        return [text for wanted, text in new if wanted]

    def _to_remember(self, at: str) -> dict[str, object]:
        """The settings that say which homes there are."""
        homes = [one.place.home for one in self.found.homes]
        several = bool(at) and len(homes) > 1 and not self.settings.texts("schedule.homes")
        return {**({"schedule.homes": homes} if several else {}), **self.found.remember}

    def _say_remembered(self) -> None:
        """Which homes every command knows from now on."""
        screen, known = Screen(self.console, self.settings.user_home), self.found.remember
        if home := str(known.get("home", "")):
            text = "remembered: no command needs `--home` for it"
            screen.fact("Home", f"{screen.path(home)}, {text}")
        elif homes := cast("list[str]", known.get("schedule.homes", [])):
            new = [one.place.home for one in self.found.homes if one.place.home in homes]
            beside = ", ".join(screen.path(one) for one in homes if one not in new)
            text = f"remembered: looked after every night, beside {beside}"
            screen.fact("Home", f"{', '.join(map(screen.path, new))}, {text}")

    def add_destination(self, setting: DestinationSetting) -> None:
        """As if it stood in the settings, for a plan."""
        self.context = self.context.changed(destinations=(*self.context.choices.destinations, setting))

    def _reload(self) -> None:
        self.settings = load_settings(self.settings.environment)
        self.context = context_from(self.settings, can_ask=self.console.can_ask())

    # -- doing it --------------------------------------------------------------------------

    def carry_out(self, answers: Answers, kit: str = "") -> Ended:
        """Every step that is still missing, then the verdict."""
        choices, self._generated = self.choices(answers, kit), answers.generated
        plan = [step.part for step in planned(self.context, choices) if step.state == PLANNED]
        # What an earlier run did, and this one does again, is not done before it was.
        self._begun.done = [part for part in self._begun.done if part not in plan]
        self._begun.add(plan)
        self._begun.write(self.context)
        if self._begun.verb == "setup" and plan:
            homes = [one.place.home for one in self.found.homes]
            steps, operation = set_up_as_one(self.context, choices, homes, self.tell, self.listen)
        else:  # a part of a rebuild, which has a line of its own; or there is nothing to do
            steps, operation = set_up(self.context, choices, self.tell, self.listen), ""
        self.console.finish()
        finished(self.context)
        return self._ended(answers, steps, operation)

    def choices(self, answers: Answers, kit: str) -> SetupChoices:
        """What is still missing, of what was decided."""
        found, context = self.found, self.context
        # Entries that came with a home speak of another machine, even where they would work here.
        candidates = found.agents if answers.reconnect else found.unconnected
        connect = tuple(
            replace(one, connect=partial(self._connect, one)) for one in candidates if answers.connect_to(one)
        )
        changed = bool(connect or answers.passphrase or answers.destination or not found.has_vault)
        # What was connected belongs into the newest snapshot, and everything new into every copy.
        homes = found.homes if changed else found.unkept
        push = vault_destinations(context) if homes or changed else found.unpushed
        vault = found.status.vault
        fresh = not vault.kit or bool(answers.destination or vault.kits.outdated)
        hermes = [one for one in found.agents if one.host == "hermes"]
        wanted = any(map(answers.connect_to, hermes))
        return SetupChoices(
            passphrase=answers.passphrase,
            replaces=answers.replaces,
            homes=homes,
            prove=found.unproven,
            push=push,
            connect=connect,
            guard_updates=self._guard if wanted and self.machine.updates else None,
            not_guarded=self.machine.not_guarded if wanted or any(one.connected for one in hermes) else None,
            install_schedule=self._install if answers.at else None,
            when=when_words(answers.at, self.machine.host)
            + (f", {LOGGED_OUT}" if self.machine.until_logout else ""),
            kit=os.path.abspath(os.path.expanduser(kit)) if kit else ("" if fresh else None),
            selection=Selection(
                include=self.settings.texts("backup.include"), exclude=self.settings.texts("backup.exclude")
            ),
            deadline=self.settings.number("database.deadline"),
            watched=self.console.draws(),
        )

    def _connect(self, agent: AgentPlace) -> None:
        """One agent, whole: after Ctrl-C meanwhile it is connected, and the screen says so."""
        with together():
            agent.connect()
            self._begun.mark(part_of("connect", agent.name))
            self._begun.write(self.context)

    def _guard(self) -> str:
        return guard_updates(self.context, self.machine.program.words)

    def _install(self) -> str:
        """Have the host wake us. Where several homes are kept, the settings name them."""
        from safekept.actions.schedule.host import find_host, plan_installation
        from safekept.actions.schedule.host_commands import attempt
        from safekept.actions.schedule.install import install

        machine = machine_of(self.settings)
        named = [one.place.home for one in self.found.homes]
        plan_homes = self.settings.texts("schedule.homes")
        home = named[0] if len(named) == 1 and not plan_homes and not self._is_usual(named[0]) else ""
        call = schedule_call(self.settings, self.context, home=home)
        plan = plan_installation(machine, find_host(machine, system=False), call, os.getuid())
        install(self.context, plan, machine.run)
        when = when_words(self.settings.text("schedule.at"), plan.host)
        if not self.machine.until_logout:
            return when
        # Where it asks for a password, no person is there to type it: the verdict has the command.
        refused = attempt(machine.run, ("loginctl", "enable-linger", "--no-ask-password"))
        return f"{when}; while you are logged in only: {refused}" if refused else f"{when}, {LOGGED_OUT}"

    def _is_usual(self, home: str) -> bool:
        try:
            return self.context.locate(existing=False).home == home
        except SafekeptError:
            return False

    # -- words -----------------------------------------------------------------------------

    def listen(self, event: Event) -> None:
        """Progress is drawn; of what is said only remarks, since each step has a line of its own."""
        if event.text and not self.console.step(event.text).startswith("Note: "):
            return
        if self._listener is None:
            self._listener = self.console.listener()
        self._listener(event)

    def tell(self, step: SetupStep) -> None:
        self.console.finish()
        self._listener = None
        if step.name == "passphrase":
            self._begun.made = step.key if self._generated else ""
        if step.name == "passphrase" and self._generated:
            text = "opens the vault now. Write it down, and keep it away from this machine."
            step = replace(step, text=f"{self._generated} {text}")
        with together():  # a passphrase that was shown opens the vault, and one that counts as done was shown
            self._tell(step)
            if step.good:
                self._begun.mark(step.part)
                self._begun.write(self.context)

    def _tell(self, step: SetupStep) -> None:
        if step.name == "connect" and step.good:
            self._connected.append(step.text)
            return
        if self._connected:
            together = SetupStep("connect", DONE, ", ".join(self._connected))
            show_step(self.console, self.settings.user_home, together)
            self._connected = []
        show_step(self.console, self.settings.user_home, step)

    def _ended(self, answers: Answers, steps: Sequence[SetupStep], operation: str) -> Ended:
        from safekept.actions.status.status import look

        examined = self._examined()
        self.console.finish()
        status = look(
            self.context,
            stale_hours=self.settings.number("status.stale_hours"),
            hosts=host_statuses(self.context),
        )
        document: dict[str, object] = {
            "operation": operation or None,
            **self.found.as_dict(),
            "steps": [step.as_dict() for step in steps],
            "asked": answers.asked,
            "findings": [one.as_dict() for one in examined.findings],
            "verdict": status.verdict.as_dict(),
        }
        show_end(
            self.console,
            self.settings.user_home,
            status,
            steps,
            self.machine.no_host,
            answers.generated,
            connected=self._begun.is_done("connect"),
        )
        return Ended(document, 0 if all(step.good for step in steps) else 3)

    def _examined(self) -> Diagnosis:
        """What the doctor says; the verdict counts it."""
        from safekept.actions.doctor.case import DoctorRequest
        from safekept.actions.doctor.diagnosis import examine

        recipients = self.settings.values.get("backup.seal")
        request = DoctorRequest(
            config_directory=self.settings.config_directory,
            recipients=tuple(map(str, recipients)) if isinstance(recipients, list) else (),
            passphrase_command=self.settings.text("vault.passphrase_command"),
            stale_hours=self.settings.number("status.stale_hours"),
            deadline=self.settings.number("database.deadline"),
            hosts=host_statuses(self.context),
        )
        return examine(self.context, request, self.listen)
