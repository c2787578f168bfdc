"""What a face hands down to every action: where things are, what the user set, and who calls.

Actions read no environment and no settings file; a face does, and fills this in once.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any

from safekept.core.agents import HomeLocation, HomePlace, locate_home, named_home, recognise_home
from safekept.core.errors import SafekeptError
from safekept.core.journal import Journal
from safekept.core.next_step import NextStep
from safekept.core.owner import foreign_owner
from safekept.core.records import dataclass

if TYPE_CHECKING:
    from safekept.core.owner import Owner
    from safekept.home.layout import Layout
    from safekept.schedule.tasks import Plan
    from safekept.vault.repo import Secret

    from ..alarms.notify import NotifyTargets
    from ..offsite.destination import DestinationSetting


class UnknownLayout(SafekeptError):
    code, exit_code = "unknown-layout", 2


class HomeLeadsElsewhere(SafekeptError):
    code = "home-leads-elsewhere"


class HomeOfAnother(SafekeptError):
    code = "home-of-another"


def home_of_another(home: str, owner: Owner) -> HomeOfAnother:
    """The refusal of a command that root cannot leave to the owner of a home."""
    return HomeOfAnother(
        f"The home `{home}` belongs to `{owner.name}`, and this command runs as root",
        kept="Nothing there was read or changed",
        next_steps=(
            f"Run it as that user: put `{owner.in_front}` in front of it",
            "What root can do with such a home: backup, snapshot, import, undo, drill, status and schedule",
        ),
        home=home,
        owner=owner.name,
    )


@dataclass(frozen=True, slots=True)
class HomeRef:
    """One home and the layout that describes it."""

    home: str
    layout: Layout
    named: bool = True  # the user named it; else it is where such a home usually is


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are."""

    user_home: str
    data_directory: str
    cache_directory: str = ""  # for what can be rebuilt; empty: no cache
    vault: str = ""  # where the vault is, or will be made
    vault_key_file: str = ""  # one line: the key, or a passphrase
    settings_file: str = ""  # what the user set, for the copy behind the seat belt; empty: nowhere
    #: Another vault to read from, a directory or a URL; what is written goes to `vault` all the same.
    source_vault: str = ""

    @property
    def reads_from(self) -> str:
        """The vault that snapshots are read from, as a person would name it."""
        return self.source_vault or self.vault


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user set."""

    layouts: Mapping[str, Layout]
    #: Where the home of each layout is; empty: as the layouts say, which costs more to read.
    home_places: Mapping[str, HomePlace] = field(default_factory=dict)
    default_layout: str = "hermes"
    default_home: str = ""
    databases: str = "lean"  # how snapshots hold them: `lean` (without what can be rebuilt) or `full`
    full_homes: tuple[str, ...] = ()  # homes whose databases are always held in full
    #: Whether a vault made on first use opens with a passphrase, and not with a generated key.
    vault_wants_passphrase: bool = False
    #: Whether the stores are closed between commands (`core/files/belt.py`); None: as each store has it, also
    #: when the settings that put it there are gone.
    seat_belt: bool | None = None
    #: Where the keeper of this machine listens; empty: nothing is sent to one.
    keeper_socket: str = ""
    #: The places off this host, as the settings name them.
    destinations: tuple[DestinationSetting, ...] = ()
    #: Who is notified when something is wrong; None: no one is.
    notify: NotifyTargets | None = None
    #: What is done how often when no person is there; None: as the defaults say.
    schedule: Plan | None = None
    #: Files with private keys that open sealed archives.
    identities: tuple[str, ...] = ()
    #: Whose keys open the kit that goes beside every copy of the vault.
    escrow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what the face read or can ask for them."""

    #: Who acts, for the journal: "person", "schedule", "agent:hermes".
    actor: str = "person"
    #: What the programs get that are started for them (ssh, gpg, rclone, their own), and what names homes
    #: and credentials. It is handed on; what an action itself needs of it has a name below.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The directory that they stand in; empty: nowhere, as the schedule does.
    directory: str = ""
    #: Where a passphrase comes from when no key file opens the vault: a command, or a person.
    vault_secret: Callable[[], Secret] | None = None
    #: How often it is asked for before it is given up: a person mistypes, a command does not.
    secret_tries: int = 1
    #: ask(question, new) -> a passphrase for a sealed archive or a key; None where no person can be asked.
    ask_passphrase: Callable[[str, bool], str] | None = None
    #: Whether that answers without a person.
    passphrase_is_given: bool = False
    #: Root's work in another user's home is done by a child that is its owner. This is about commands
    #: that cannot be done that way: they refuse such a home.
    only_own_homes: bool = True
    #: Seconds to wait for a program that has the vault to itself, where it is only read; None: the usual.
    patience: float | None = None
    #: keep_connected(context, home) before a landing; what it gives is called afterwards, puts the agents'
    #: connections right again and says so. None: this face cannot connect.
    keep_connected: Callable[[UserContext, str], Callable[[], tuple[str, ...]]] | None = None

    @property
    def search_path(self) -> str:
        """Where programs are looked for; "" where nothing says it."""
        return self.environment.get("PATH", "")

    @property
    def temporary_directory(self) -> str:
        return self.environment.get("TMPDIR", "")


@dataclass(frozen=True, slots=True)
class UserContext:
    """The user's side of every action."""

    places: Places
    choices: Choices
    caller: Caller = field(default_factory=Caller)

    def changed(self, **changes: Any) -> UserContext:
        """The same with other values; each is named as in its part, where no two share a name."""
        parts = {}
        for name in ("places", "choices", "caller"):
            part = getattr(self, name)
            own = {each.name: changes.pop(each.name) for each in fields(part) if each.name in changes}
            parts[name] = replace(part, **own)
        if changes:
            raise TypeError(f"no part of a context has {', '.join(sorted(changes))}")
        return UserContext(**parts)

    @property
    def journal(self) -> Journal:
        return Journal(os.path.join(self.places.data_directory, "journal.jsonl"))

    def layout(self, name: str) -> Layout:
        found = self.choices.layouts.get(name)
        if found is None:
            raise UnknownLayout(
                f"There is no layout called `{name}`",
                kept="Nothing changed",
                next_steps=(f"Use one of: {', '.join(sorted(self.choices.layouts))}",),
            )
        return found

    def locate(self, home: str = "", layout: str = "", *, existing: bool = True) -> HomeRef:
        """The home that is meant, and its layout: as named, else by its markers, else the default.

        What this returns is what is printed and what is used; there is no second resolution. With
        `existing`, a home that is missing, unreadable or empty is a typed error.
        """
        from safekept.home.layout import HomeNotFound, check_home, find_home

        home = home or self._home_set_for(layout)
        if os.geteuid() == 0:
            in_place = self._as_owner(home, layout, existing)
            if in_place is not None:
                return in_place
        found, name = self.home_and_layout_name(home, layout)
        chosen = self.layout(name)
        if existing and home:
            check_home(found, chosen)
        named = bool(home or layout or self.caller.environment.get(chosen.variable))
        if existing and not home:
            try:
                find_home(chosen, self.caller.environment, self.places.user_home)
            except HomeNotFound as error:
                raise (error if named or self.was_here(found) else self._none_meant(HomeNotFound)) from None
        return HomeRef(found, chosen, named)

    def _home_set_for(self, layout: str) -> str:
        """The setting `home`; "" where another agent is named, which has a place of its own."""
        home, place = self.choices.default_home, self.home_places.get(layout) if layout else None
        if home and place is not None and place.default:
            there = recognise_home(os.path.realpath(os.path.expanduser(home)), self.home_places)
            return home if there in ("", layout) else ""
        return home

    def was_here(self, home: str) -> bool:
        """Whether a home was ever kept: then the caller knows which one it is about."""
        with contextlib.suppress(OSError):
            return any(True for _ in self.journal.lines_backwards(json.dumps(home).encode()))
        return False

    def _none_meant(self, error: type[SafekeptError]) -> SafekeptError:
        """No home was named, and where one would be is none: other agents' are named, and no agent is
        named that the user does not have."""
        places = [locate_home(one, self.caller.environment, self.places.user_home) for one in self._usual]
        here = sorted({path for path in places if os.path.isdir(path)})
        steps = (f"Name the one you mean with `--home PATH`: {', '.join(f'`{one}`' for one in here)}",)
        if not here:
            steps = ("Name the home with `--home PATH` if it is elsewhere",)
        several = "There are homes of agents here, and none was named"
        return error(
            several if here else "No agent's home was found here",
            kept="Nothing changed",
            next_steps=(*steps, NextStep("import", ("FILE",), before="To bring one back onto this machine:")),
            homes=here,
        )

    @property
    def _usual(self) -> list[HomeLocation]:
        return [one for one in self.home_places.values() if one.default]

    def home_and_layout_name(self, home: str = "", layout: str = "") -> tuple[str, str]:
        """The home that is meant and the name of its layout, without reading the layout; it may be missing.

        As root, another user's home is refused: nothing in it is looked at here.
        """
        home = home or self._home_set_for(layout)
        if home == "~" or home.startswith("~/"):
            home = self.places.user_home + home[1:]
        name = layout or self.choices.default_layout
        usual = None if home else self.home_places.get(name) or self.layout(name)
        environment, user_home = self.caller.environment, self.places.user_home
        named = named_home(usual, environment, user_home) if usual is not None else home
        if named and (owner := foreign_owner(named)) is not None:
            raise home_of_another(named, owner)
        if usual is not None:
            return locate_home(usual, environment, user_home), name
        # Links are resolved once, here: the home may be a link, and must stay one.
        home = os.path.realpath(home)
        return home, layout or recognise_home(home, self.home_places) or "generic"

    @property
    def home_places(self) -> Mapping[str, HomeLocation]:
        """Where the home of each layout is."""
        return self.choices.home_places or self.choices.layouts

    def _as_owner(self, home: str, layout: str, existing: bool) -> HomeRef | None:
        """As root: the same, found by the user whose place it is; None where it is root's own."""
        from safekept.home.owner import worker_for

        user_home = self.places.user_home
        if home == "~" or home.startswith("~/"):
            home = user_home + home[1:]
        name = layout or self.choices.default_layout
        usual = None if home else self.home_places.get(name) or self.layout(name)
        variables = {one.variable for one in self.home_places.values()}
        environment = {name: value for name, value in self.caller.environment.items() if name in variables}
        named = home or (named_home(usual, environment, user_home) if usual is not None else "")
        worker = worker_for(named) if named else None
        if worker is None:
            return None
        if self.caller.only_own_homes:
            raise home_of_another(named, worker.owner)
        chosen = self.layout(name) if usual is not None or layout else None
        layouts = dict(self.choices.layouts)
        found, name = worker.do("locate", home, chosen, layouts, environment, user_home, existing)
        resolved = worker_for(str(found))
        if resolved is None or resolved.owner != worker.owner:
            raise HomeLeadsElsewhere(
                f"`{named}` belongs to `{worker.owner.name}` and leads to `{found}`, which does not",
                kept="Nothing there was read or changed",
                next_steps=("Name the home itself with `--home PATH`",),
                home=named,
            )
        return HomeRef(str(found), self.layout(str(name)))
