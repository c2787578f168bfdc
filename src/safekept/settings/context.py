"""What the actions need to know of this user, for a face that asks no questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from safekept.actions.base.context import Caller, Choices, Places, UserContext
from safekept.core.agents import HomePlace, read_home_places, shipped_place
from safekept.core.versions import refuse_newer_state

from .loading import Settings
from .policies import notify_targets, schedule_plan

if TYPE_CHECKING:
    from safekept.home.layout import Layout
    from safekept.vault.repo import Secret


# The layouts of this user, read when one is needed: many commands never need one.

Value = TypeVar("Value")


class OnDemand(Mapping[str, Value]):
    """As if all of it were read at the start; a bad file is an error at the first use.

    `one`: reads a single one, the same as is in all, for one that asks for no more; None where it cannot say.
    """

    def __init__(
        self, load: Callable[[], Mapping[str, Value]], one: Callable[[str], Value | None] | None = None
    ) -> None:
        self._load, self._one = load, one

    @cached_property
    def _loaded(self) -> Mapping[str, Value]:
        return self._load()

    def __getitem__(self, name: str) -> Value:
        alone = self._one is not None and "_loaded" not in vars(self)
        found = self._one(name) if alone and self._one is not None else None
        return self._loaded[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    def __bool__(self) -> bool:
        return True  # some come with safekept, and to say so needs no reading


def layouts_on_demand(directories: tuple[str, ...]) -> Mapping[str, Layout]:
    """Those that come with safekept, and those in these directories."""

    def load() -> Mapping[str, Layout]:
        from safekept.home.layout import load_layouts

        return load_layouts(directories)

    def one(name: str) -> Layout | None:
        from safekept.home.layout import shipped_layout

        return shipped_layout(name)

    return OnDemand(load, None if directories else one)  # one of the user's may have any name


def home_places_on_demand(directories: tuple[str, ...]) -> Mapping[str, HomePlace]:
    """Where the homes of the same layouts are, and nothing else of them."""
    one = None if directories else shipped_place
    return OnDemand(lambda: read_home_places(directories), one)


_LONGEST_ACTOR = 60


def context_of(settings: Settings, *, source: str = "", actor: str = "") -> UserContext:
    """The user's side of every action. `source`: another vault to read from. `actor`: who acts, where
    the environment does not say it; a person if nothing does."""
    refuse_newer_state(settings.data_directory)
    own = os.path.join(settings.config_directory, "layouts")
    key_file = settings.path("vault.key_file", os.path.join(settings.config_directory, "vault.key"))
    directories = (*settings.texts("layouts"), *((own,) if os.path.isdir(own) else ()))
    places = Places(
        user_home=settings.user_home,
        data_directory=settings.data_directory,
        cache_directory=settings.cache_directory,
        vault=vault_of(settings),
        vault_key_file=key_file,
        settings_file=os.path.join(settings.config_directory, "config.toml"),
        source_vault=source,
    )
    choices = Choices(
        layouts=layouts_on_demand(directories),
        home_places=home_places_on_demand(directories),
        default_layout=settings.text("layout"),
        default_home=settings.text("home"),
        databases=settings.text("databases"),
        full_homes=tuple(os.path.expanduser(home) for home in settings.texts("databases_full")),
        vault_wants_passphrase=bool(settings.text("vault.passphrase_command")),
        seat_belt=settings.flag("seat_belt"),
        keeper_socket=settings.text("keeper.socket"),
        destinations=settings.destinations,
        notify=notify_targets(settings),
        schedule=schedule_plan(settings),
        identities=settings.texts("seal.identity"),
        escrow=settings.texts("escrow"),
    )
    caller = Caller(
        actor=_actor(settings) or actor or "person",
        environment=settings.environment,
        vault_secret=_vault_secret(settings),
    )
    return UserContext(places, choices, caller)


def vault_of(settings: Settings) -> str:
    """Where this user's own vault is: a directory, or a URL as it stands in the settings."""
    from safekept.core.objects.address import is_address, without_secret

    path = settings.text("vault.path")
    if is_address(path):
        if without_secret(path) != path:
            from .table import bad

            raise bad(
                f"`vault.path` (`{without_secret(path)}`) holds a password, which would stand in every list",
                "Take it out: passwords come from the environment, a profile, `~/.ssh/config` or `~/.netrc`",
            )
        return path
    return settings.path("vault.path", os.path.join(settings.data_directory, "vault"))


def _actor(settings: Settings) -> str:
    """Who calls, where the environment says so."""
    from safekept.core.spelling import shown

    return shown(settings.environment.get("SAFEKEPT_ACTOR", "").strip())[:_LONGEST_ACTOR]


def _vault_secret(settings: Settings) -> Callable[[], Secret] | None:
    """Where a passphrase comes from without a person: never from the command line itself."""
    command = settings.text("vault.passphrase_command")
    if not command:
        return None

    def run() -> Secret:
        from safekept.actions.vault.keys.passphrase import secret_from_command

        return secret_from_command(command)

    return run
