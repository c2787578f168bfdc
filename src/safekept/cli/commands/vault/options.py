"""What the commands of the vault share: `--json`, and ways to give a passphrase off the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...console import Console, sentence
from ...questions import prompt

if TYPE_CHECKING:
    from safekept.vault.repo import Secret

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def passphrase_options(function: Command) -> Command:
    """Where a new passphrase comes from when no person is to be asked."""
    for option in (
        click.option(
            "--passphrase-command", metavar="COMMAND", default="", help="A command prints the passphrase."
        ),
        click.option(
            "--passphrase-file", metavar="PATH", default="", help="The passphrase is the line in this file."
        ),
        click.option(
            "--passphrase-fd", metavar="N", type=int, help="The passphrase comes on this open descriptor."
        ),
    ):
        function = option(function)
    return function


def new_passphrase(console: Console, command: str, file: str, descriptor: int | None, what: str) -> Secret:
    """The passphrase from the one place that was named, or asked for twice at a terminal."""
    from safekept.actions.vault.keys import key_file, passphrase

    named = [bool(command), bool(file), descriptor is not None]
    if sum(named) > 1:
        raise click.UsageError("Give the passphrase in one way only.")
    if command:
        secret = passphrase.secret_from_command(command)
    elif file:
        found = key_file.secret_from_file(os.path.abspath(file))
        if found is None:
            raise click.UsageError(f"There is no file {file}.")
        secret = found
    elif descriptor is not None:
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                text = stream.read(passphrase.LONGEST + 1).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise click.UsageError(f"Descriptor {descriptor} cannot be read: {error.strerror}.") from error
        secret = passphrase.secret_from_text(text, f"What came on descriptor {descriptor}")
    elif console.can_ask():
        return _typed(console, what)
    else:
        raise passphrase.NoPassphrase.given()
    passphrase.check_strength(secret)
    return secret


def _typed(console: Console, what: str) -> Secret:
    """A new one, typed twice; one that will not do is said to be so, and asked for again."""
    from safekept.actions.vault.keys import passphrase

    console.finish()
    for left in range(passphrase.PASSPHRASE_TRIES - 1, -1, -1):
        text = prompt(what, hidden=True, twice=True)
        try:
            secret = passphrase.secret_from_text(text, "What was typed")
            passphrase.check_strength(secret)
            return secret
        except (passphrase.PassphraseTooShort, passphrase.BadKey) as error:
            if not left:
                raise
            console.say(sentence(error.what))
    raise AssertionError("asked at least once")
