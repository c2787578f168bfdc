"""What a face hands down to every action: where things are, what the user set, and who calls.

Actions read no environment and no settings file; a face does, and fills this in once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from safekept.core.errors import SafekeptError
from safekept.core.journal import Journal

if TYPE_CHECKING:
    from safekept.home.layout import Layout
    from safekept.schedule.plan import Plan
    from safekept.vault.repo import Secret

    from ..alarms.notify import NotifyTargets
    from ..offsite.destination import DestinationSetting


class UnknownLayout(SafekeptError):
    code, exit_code = "unknown-layout", 2


@dataclass(frozen=True, slots=True)
class HomeRef:
    """One home and the layout that describes it."""

    home: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are."""

    user_home: str
    data_directory: str
    cache_directory: str = ""  # for what can be rebuilt; empty: no cache
    vault: str = ""  # where the vault is, or will be made
    vault_key_file: str = ""  # one line: the key, or a passphrase
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
    default_layout: str = "hermes"
    default_home: str = ""
    databases: str = "lean"  # how snapshots hold them: `lean` (without what can be rebuilt) or `full`
    full_homes: tuple[str, ...] = ()  # homes whose databases are always held in full
    #: Whether a vault made on first use opens with a passphrase, and not with a generated key.
    vault_wants_passphrase: bool = False
    #: The places off this host, as the settings name them.
    destinations: tuple[DestinationSetting, ...] = ()
    #: Who is told when something is wrong; None: nobody.
    notify: NotifyTargets | None = None
    #: What is done how often when nobody is there; None: as the defaults say.
    schedule: Plan | None = None
    #: Files with private keys that open sealed archives.
    identities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what the face read or can ask for them."""

    #: Who acts, for the journal: "person", "schedule", "agent:hermes".
    actor: str = "person"
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Where a passphrase comes from when no key file opens the vault: a command, or a person.
    vault_secret: Callable[[], Secret] | None = None
    #: ask(question, new) -> a passphrase for a sealed archive or a key; None where nobody can be asked.
    ask_passphrase: Callable[[str, bool], str] | None = None
    #: Whether that answers without a person.
    passphrase_is_given: bool = False


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
                f"there is no layout called `{name}`",
                kept="Nothing was read or changed",
                next_steps=(f"Use one of: {', '.join(sorted(self.choices.layouts))}",),
            )
        return found

    def locate(self, home: str = "", layout: str = "", *, existing: bool = True) -> HomeRef:
        """The home that is meant, and its layout: as named, else by its markers, else the default.

        What this returns is what is printed and what is used; there is no second resolution. With
        `existing`, a home that is missing, unreadable or empty is a typed error.
        """
        from safekept.home.layout import check_home, find_home, locate_home, recognise_home

        home = home or self.choices.default_home
        if not home:
            chosen = self.layout(layout or self.choices.default_layout)
            find = find_home if existing else locate_home
            return HomeRef(find(chosen, self.caller.environment, self.places.user_home), chosen)
        if home == "~" or home.startswith("~/"):
            home = self.places.user_home + home[1:]
        # Links are resolved once, here: the home may be a link, and must stay one.
        home = os.path.realpath(home)
        name = layout or recognise_home(home, self.choices.layouts) or "generic"
        chosen = self.layout(name)
        if existing:
            check_home(home, chosen)
        return HomeRef(home, chosen)
