"""What `setup` asks: at most four things, each with a good default, and none that is answered already."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import field

from safekept.actions.alarms.declined import declined
from safekept.actions.base.context import UserContext
from safekept.actions.base.unfinished import Unfinished
from safekept.actions.offsite.destination import parse_destination
from safekept.actions.offsite.destinations import Examined, examine_destination
from safekept.actions.setup.survey import AgentPlace, Survey
from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import Step
from safekept.core.records import dataclass
from safekept.vault.repo import Secret

from ...console import Console, path_text, sentence, size_text
from ...options import place_argument
from ...questions import confirm, prompt
from ...screen import Screen
from ...words.connecting import WRITTEN, written_lines
from ..offsite.destinations import name_for

#: What may be typed after a place, as they are options of the command.
_SAME_DISK, _ELSEWHERE = " --same-disk", " --elsewhere"
_INDENT = 8
#: A person who leaves at a question: answers are saved and acted on once all of them are there.
_KEPT = "nothing was changed, and no answer was kept"
NOWHERE, NO = "nowhere yet", "no"


class PlaceNotUsable(SafekeptError):
    code = "place-not-usable"


@dataclass(slots=True)
class Answers:
    """What a person answered, or options gave."""

    passphrase: Secret | None = None
    generated: str = ""  # the one that we made, to be shown once
    replaces: str = ""  # the key of one that was made before, and is lost
    destination: Mapping[str, object] = field(default_factory=dict)  # as in the settings; empty: nowhere yet
    connect: bool = False
    reconnect: bool = False  # only those that have something of ours in their settings already
    at: str = ""  # "": no schedule
    asked: int = 0
    flags: Mapping[str, bool] = field(default_factory=dict)  # what options say of the place

    def connect_to(self, agent: AgentPlace) -> bool:
        return self.connect or (self.reconnect and agent.entries)


@dataclass(frozen=True, slots=True)
class Needs:
    """Which questions are left."""

    passphrase: bool
    destination: bool
    connect: bool
    schedule: bool

    @property
    def count(self) -> int:
        return sum((self.passphrase, self.destination, self.connect, self.schedule))


def needs_of(found: Survey, *, can_schedule: bool, updates: bool) -> Needs:
    """What is missing of what a person has to decide. `updates`: those of an agent could be guarded."""
    return Needs(
        not found.recovery_access,
        not found.status.destinations,
        bool(found.unconnected) or updates,
        can_schedule and not found.scheduled,
    )


def from_options(
    console: Console,
    context: UserContext,
    needs: Needs,
    secret: Secret | None,
    destination: str,
    *,
    flags: Mapping[str, bool],
    connect: bool | None,
    at: str,
    dry_run: bool = False,
    asks: bool = False,
) -> tuple[Answers, Needs]:
    """What options answer, and the questions that they leave. `asks`: a place that does not work is one."""
    answers = Answers(passphrase=secret, flags=flags)
    if destination and not _is_saved(context, destination):
        try:
            answers.destination = tried_place(console, context, destination, flags, dry_run=dry_run)[0]
        except SafekeptError as error:
            if not (asks and needs.destination):
                raise
            _say_unusable(console, error, destination)
            destination = ""
    if connect is not None:
        answers.connect = connect
    if at and at.lower() != NO:
        answers.at = checked_time(at)
    left = Needs(
        needs.passphrase and secret is None,
        needs.destination and not destination,
        needs.connect and connect is None,
        needs.schedule and not at,
    )
    return answers, left


def take_defaults(answers: Answers, left: Needs, usual_time: str) -> None:
    """What Enter would have answered. A passphrase and a place have no such answer."""
    answers.connect = answers.connect or left.connect
    answers.at = answers.at or (usual_time if left.schedule else "")


class Questions:
    """Asks at a terminal; the caller has made sure that there is one."""

    def __init__(
        self,
        console: Console,
        context: UserContext,
        needs: Needs,
        answers: Answers,
        before: Unfinished | None = None,
    ) -> None:
        self.console, self.context, self.needs, self.answers = console, context, needs, answers
        self.before = before  # a setup that was cut off

    def ask(self, found: Survey, usual_time: str, *, updates: str, host: Sequence[str] = ()) -> None:
        """`updates`: the script that would guard those of Hermes, if any. `host`: what is to be known of what
        wakes us, before the time is chosen."""
        if self.needs.passphrase and self.before is not None and self.before.made:
            self._passphrase_again(self.before)
        elif self.needs.passphrase:
            self._passphrase()
        if self.needs.destination:
            self._destination()
        if self.needs.connect:
            self._connect(found, updates)
        if self.needs.schedule:
            self._schedule(usual_time, host)
        self.console.line()

    def _title(self, text: str, *lines: str) -> None:
        self.answers.asked += 1
        self.console.line()
        self.console.line(f"{self.answers.asked} of {self.needs.count}  {text}", bold=True)
        for line in lines:
            self.console.line(" " * _INDENT + line, _INDENT)

    def _prompt(self, text: str, default: str = "", *, hidden: bool = False) -> str:
        shown = f" [{default}]" if default and not hidden else ""
        asked = f"{' ' * _INDENT}{text}{shown}"
        return prompt(asked, default=default, hidden=hidden, kept=_KEPT).strip()

    def _passphrase(self) -> None:
        from safekept.actions.vault.keys.passphrase import check_strength, secret_from_text

        self._title(
            "Recovery passphrase",
            "It opens the vault, the encrypted store of your copies, when this machine is gone. It cannot be "
            "reset.",
            "Type one of your own, or press Enter: one is then made, and shown as soon as it "
            "opens the vault.",
        )
        while True:
            typed = self._prompt("Passphrase (not shown)", hidden=True)
            if not typed:
                self._made("One will be made.")
                return
            try:
                secret = secret_from_text(typed, "What was typed")
                check_strength(secret)
            except SafekeptError as error:
                self._said(f"{sentence(error.what)}. Once more:")
                continue
            if self._prompt("The same again", hidden=True) == typed:
                self.answers.passphrase = secret
                return
            self._said("That was not the same. Once more:")

    def _passphrase_again(self, before: Unfinished) -> None:
        """One was made and shown, and the window may have been closed before writing it down."""
        from safekept.actions.vault.keys.keys import opened_by
        from safekept.actions.vault.opening import open_vault

        ago = seconds_text(max(0.0, time.time() - before.since))
        self._title(
            "Recovery passphrase",
            f"One was made and shown {ago} ago, before setup was cut off.",
            "Type it, and it is tried out. If you do not have it, press Enter: a new one takes its place.",
        )
        while typed := self._prompt("Passphrase (not shown)", hidden=True):
            with open_vault(self.context) as repository:
                if opened_by(repository, Secret(typed)):
                    self._said("It opens the vault. Keep it away from this machine.")
                    before.made = ""
                    return
            self._said("That does not open the vault. Once more, or press Enter for a new one:")
        self._made("A new one will be made; the one before it will open nothing.")

    def _made(self, text: str) -> None:
        from safekept.actions.vault.keys.passphrase import easy_passphrase, secret_from_text

        self.answers.generated = easy_passphrase()
        self.answers.passphrase = secret_from_text(self.answers.generated, "The passphrase")
        self._said(f"{text} Have pen and paper ready.")

    def _destination(self) -> None:
        self._title(
            "Where does the second copy go?",
            "A disk         /media/usb/safekept",
            "A server       user@host:backups, or rest:https://user@host/path/",
            "A bucket       s3://bucket/path, or rclone:remote:path",
        )
        while True:
            typed = self._prompt("Place", NOWHERE)
            if typed in (NOWHERE, NO, "none", "nowhere"):
                break
            place = typed.removesuffix(_SAME_DISK).removesuffix(_ELSEWHERE).rstrip()
            try:
                said = {"same_disk": typed.endswith(_SAME_DISK), "elsewhere": typed.endswith(_ELSEWHERE)}
                flags = {**self.answers.flags, **{name: True for name, given in said.items() if given}}
                fields, tried = tried_place(self.console, self.context, place, flags)
            except SafekeptError as error:
                _say_unusable(self.console, error, place)
                self._said("Name a place, or press Enter for none yet:")
                continue
            self.answers.destination = fields
            self._said(place_words(tried))
            return
        self._said("No second copy yet: what is kept here would be lost with this machine.")

    def _connect(self, found: Survey, updates: str) -> None:
        agents = found.unconnected
        names = ", ".join(one.name for one in agents)
        hosts = {f"not-connected:{one.host}" for one in found.unconnected}
        left_alone = bool(hosts) and hosts <= declined(self.context).keys()
        screen = Screen(self.console, self.context.places.user_home)
        more = f"`hermes update` will take a snapshot first: {screen.path(updates)}" if updates else ""
        self._title(
            "Connect the agents, so that you can undo what they change?",
            *((f"{names}. {WRITTEN}",) if names else ()),
            *written_lines(screen, agents),
            *((more,) if more else ()),
            *(("Your answer before was no.",) if left_alone else ()),
        )
        self.answers.connect = confirm(f"{' ' * _INDENT}Connect", default=not left_alone, kept=_KEPT)

    def _schedule(self, usual: str, host: Sequence[str]) -> None:
        self._title(
            "Every night: a snapshot, the second copy, and checks. At what time?",
            *host,
            f"`{NO}` for never.",
        )
        before = NO if "no-schedule" in declined(self.context) else usual
        while True:
            typed = self._prompt("Time", before)
            if typed.lower() in (NO, "never", "n"):
                return
            try:
                self.answers.at = checked_time(typed)
                return
            except SafekeptError as error:
                self._said(f"{sentence(error.what)}. Once more:")

    def _said(self, text: str) -> None:
        _indented(self.console, text)


def _indented(console: Console, text: Step) -> None:
    console.line(" " * _INDENT + console.step(text), _INDENT)


def _say_unusable(console: Console, error: SafekeptError, place: str) -> None:
    _indented(console, f"{path_text(place)} does not work: {error.clause}")
    for step in _typed_there(error, place):
        _indented(console, step)


#: What errors of every command say, where here something is typed.
_AGAIN = re.compile(r"run (?:the command|it) again")


def _typed_there(error: SafekeptError, place: str) -> tuple[Step, ...]:
    """What to do about it, in words that can be typed at the question."""
    if not error.facts.get("same_disk"):
        again = "type the place again"
        return tuple(_AGAIN.sub(again, one) if isinstance(one, str) else one for one in error.next_steps)
    if error.facts.get("in_memory"):
        return (
            "Name a place on a disk or on another machine",
            f"To try safekept out there all the same, type `{path_text(place)}{_SAME_DISK}`",
        )
    return (
        "Plug the disk in or mount it, and type the place again",
        f"If that disk is meant, type `{path_text(place)}{_SAME_DISK}`; a copy there does not count as one "
        "elsewhere",
    )


def tried_place(
    console: Console, context: UserContext, word: str, flags: Mapping[str, bool], *, dry_run: bool = False
) -> tuple[dict[str, object], Examined]:
    """A place as it was typed, tried out: what goes into the settings. Raises where it cannot be used.

    A dry run only looks at it.
    """
    place = place_argument(word)
    fields: dict[str, object] = {"name": name_for(place), "url": place}
    fields |= {name: True for name, given in flags.items() if given}
    try:
        setting = parse_destination(fields)
    except ValueError as error:
        raise _unusable(str(error)) from error
    tried = context.changed(destinations=(*context.choices.destinations, setting))
    examined = examine_destination(tried, setting.name, console.listener(), dry_run=dry_run, make=True)
    console.finish()
    if examined.error is not None:
        raise examined.error
    if examined.state == "failed":
        raise _unusable(examined.reason)
    return fields, examined


def _is_saved(context: UserContext, word: str) -> bool:
    """Whether that place, or a destination of that name, is in the settings already."""
    place = place_argument(word)
    saved = {url for one in context.choices.destinations for url in (one.name, one.url)}
    return bool({word, place, f"file:{place}"} & saved)


def _unusable(why: str) -> PlaceNotUsable:
    return PlaceNotUsable(
        why,
        kept="Nothing was written there, or into the settings",
        next_steps=("Name another place: a directory, `sftp://`, `s3://`, `rest:` or `rclone:`",),
    )


def place_words(tried: Examined) -> str:
    """How a place did, in one sentence."""
    speed = f", {size_text(tried.write_speed)}/s" if tried.write_speed else ""
    if tried.state == "absent":
        return f"{path_text(tried.place)} answers; the first copy makes the directory."
    return f"{path_text(tried.place)} works{speed}."


def checked_time(text: str) -> str:
    """A time as the schedule takes it; an error that says what it should be."""
    from safekept.schedule.tasks import Cadence
    from safekept.settings.table import bad

    step = "Write it as `03:30`, as `03:30, 15:30` or as `hourly`"
    try:
        Cadence.parse(text)
    except ValueError as error:
        raise bad(f"`{text}` is no time for the schedule. {step}", step) from error
    return text
