"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.actions.surroundings import Surroundings
from holdfast.cli.console import Console, path_text
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
    vault = settings.path("vault.path", os.path.join(settings.data_directory, "vault"))
    key_file = settings.path("vault.key_file", os.path.join(settings.config_directory, "vault.key"))
    directories = (*settings.texts("layouts"), *((own,) if os.path.isdir(own) else ()))
    return Surroundings(
        user_home=settings.user_home,
        data_directory=settings.data_directory,
        layouts=load_layouts(directories),
        environment=settings.environment,
        default_layout=settings.text("layout"),
        default_home=settings.text("home"),
        vault=vault,
        vault_key_file=key_file,
        cache_directory=settings.cache_directory,
        vault_secret=_vault_secret(settings, vault, key_file, can_ask),
        vault_wants_passphrase=bool(settings.text("vault.passphrase_command")),
    )


def _vault_secret(
    settings: Settings, vault: str, key_file: str, can_ask: bool
) -> Callable[[], Secret] | None:
    """Where a passphrase comes from, if from anywhere: never from the command line itself."""
    command = settings.text("vault.passphrase_command")
    if command:

        def run() -> Secret:
            from holdfast.actions.passphrase import secret_from_command

            return secret_from_command(command)

        return run
    return partial(ask_for_vault_secret, vault, key_file) if can_ask else None


def ask_for_vault_secret(vault: str, key_file: str) -> Secret:
    """Say why it is asked, and what else could be done, then ask; nothing that is typed is shown."""
    from holdfast.actions.passphrase import secret_from_text

    Console.finish()
    why = f"The key in `{key_file}` does not open the vault at `{vault}`"
    if not os.path.exists(key_file):
        why = f"The vault at `{vault}` is there, but its key file `{key_file}` is not"
    for line in (
        why,
        "  Type the key from your kit, or the recovery passphrase; Ctrl-C ends this; nothing was changed",
        f"  Or put the key from your kit into `{key_file}`, as one line, and run the command again",
        "  Or let a command print it: set `HOLDFAST_VAULT_PASSPHRASE_COMMAND`",
    ):
        click.echo(path_text(line), err=True)
    text = click.prompt("Key or passphrase of the vault", hide_input=True, err=True)
    return secret_from_text(text, "What was typed")


def start(as_json: bool) -> tuple[Settings, Surroundings, Console]:
    """What every command does first."""
    from holdfast.cli.main import program

    settings = load_settings(os.environ)
    console = Console(as_json=as_json, program=program())
    return settings, surroundings_from(settings, can_ask=console.can_ask()), console
