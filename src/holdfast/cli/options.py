"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.actions.surroundings import Surroundings
from holdfast.cli.console import Console
from holdfast.home.layout import load_layouts
from holdfast.settings import Settings, load_settings

if TYPE_CHECKING:
    from holdfast.vault.keys import Secret

Command = TypeVar("Command", bound=Callable[..., Any])


def common_options(function: Command) -> Command:
    """`--home`, `--layout` and `--json`: on every command that works on a home."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
        click.option("--layout", metavar="NAME", default="", help="Which agent the home belongs to."),
        click.option("--home", metavar="PATH", default="", help="The home; default: the agent's own place."),
    ):
        function = option(function)
    return function


def surroundings_from(settings: Settings, *, can_ask: bool = False) -> Surroundings:
    """What the actions need to know of this user; with `can_ask`, a passphrase may be asked for."""
    own = os.path.join(settings.config_directory, "layouts")
    directories = (*settings.texts("layouts"), *((own,) if os.path.isdir(own) else ()))
    return Surroundings(
        user_home=settings.user_home,
        data_directory=settings.data_directory,
        layouts=load_layouts(directories),
        environment=settings.environment,
        default_layout=settings.text("layout"),
        default_home=settings.text("home"),
        vault=settings.path("vault.path", os.path.join(settings.data_directory, "vault")),
        vault_key_file=settings.path("vault.key_file", os.path.join(settings.config_directory, "vault.key")),
        cache_directory=settings.cache_directory,
        vault_secret=_vault_secret(settings, can_ask),
        vault_wants_passphrase=bool(settings.text("vault.passphrase_command")),
    )


def _vault_secret(settings: Settings, can_ask: bool) -> Callable[[], Secret] | None:
    """Where a passphrase comes from, if from anywhere: never from the command line itself."""
    command = settings.text("vault.passphrase_command")
    if command:

        def run() -> Secret:
            from holdfast.actions.passphrase import secret_from_command

            return secret_from_command(command)

        return run
    return ask_for_vault_secret if can_ask else None


def ask_for_vault_secret() -> Secret:
    """Ask at the terminal; nothing that is typed is shown."""
    from holdfast.actions.passphrase import secret_from_text

    Console.finish()
    text = click.prompt("Key or passphrase of the vault", hide_input=True, err=True)
    return secret_from_text(text, "What was typed")


def start(as_json: bool) -> tuple[Settings, Surroundings, Console]:
    """What every command does first."""
    from holdfast.cli.main import program

    settings = load_settings(os.environ)
    console = Console(as_json=as_json, program=program())
    return settings, surroundings_from(settings, can_ask=console.can_ask()), console
