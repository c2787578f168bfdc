"""Sealed archives on the command line: `--seal`, `--identity`, and passphrases that never stand on it.

The options put what they were given into the context of the command, where `start` finds it, so a command
that opens sealed files needs the decorator and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import click

from safekept.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
#: ask(question, new) -> a passphrase.
Ask = Callable[[str, bool], str]

_IDENTITIES = "safekept.identities"
_GIVEN = "safekept.passphrase"


def identity_options(function: Command) -> Command:
    """`--identity` and the ways to give a passphrase: on every command that opens archives."""
    return passphrase_options(
        click.option(
            "--identity",
            metavar="FILE",
            multiple=True,
            expose_value=False,
            callback=_take_identities,
            help="A private key that opens a sealed file, of age or SSH; may be repeated; default: the "
            "setting `seal.identity`.",
        )(function)
    )


def passphrase_options(function: Command) -> Command:
    """Where the passphrase of a sealed file, or of a key, comes from when no person is to be asked."""
    for name, kind, metavar, text in (
        ("--passphrase-command", str, "COMMAND", "A command prints the passphrase."),
        ("--passphrase-file", str, "PATH", "The passphrase is the line in this file."),
        ("--passphrase-fd", int, "N", "The passphrase comes on this open descriptor."),
    ):
        function = click.option(
            name, type=kind, metavar=metavar, expose_value=False, callback=_take_passphrase, help=text
        )(function)
    return function


def _take_identities(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    if value:
        ctx.meta[_IDENTITIES] = tuple(os.path.abspath(os.path.expanduser(path)) for path in value)


def _take_passphrase(ctx: click.Context, parameter: click.Parameter, value: str | int | None) -> None:
    if value is None:
        return
    if _GIVEN in ctx.meta:
        raise click.UsageError("Give the passphrase in one way only.")
    ctx.meta[_GIVEN] = (parameter.name, value)


def _meta(name: str) -> Any:
    context = click.get_current_context(silent=True)
    return context.meta.get(name) if context is not None else None


def identities_from(settings: Settings) -> tuple[str, ...]:
    """The files with private keys: those named, else those of the settings."""
    named = _meta(_IDENTITIES)
    return named if named else settings.texts("seal.identity")


def passphrase_source(settings: Settings, can_ask: bool) -> tuple[Ask | None, bool]:
    """Who gives a passphrase, and whether that is done without a person."""
    named = _meta(_GIVEN)
    if named is not None:
        return _once(lambda: _given(*named)), True
    if command := settings.text("seal.passphrase_command"):
        return _once(lambda: _printed(command, "the setting `seal.passphrase_command`")), True
    return (_ask, False) if can_ask else (None, False)


def given_passphrase(settings: Settings) -> Callable[[], str] | None:
    """The passphrase that an option of this very command named; None where none did."""
    if _meta(_GIVEN) is None:
        return None
    ask, _ = passphrase_source(settings, False)
    return (lambda: ask("", False)) if ask is not None else None


def named_identities() -> tuple[str, ...]:
    """The files that an option of this very command named."""
    return _meta(_IDENTITIES) or ()


def words_again() -> list[str]:
    """The options of this command that name keys, for the same command from any directory."""
    words = [word for path in _meta(_IDENTITIES) or () for word in ("--identity", path)]
    how, value = _meta(_GIVEN) or ("", "")
    if how == "passphrase_file":
        return [*words, "--passphrase-file", os.path.abspath(os.path.expanduser(value))]
    return [*words, "--passphrase-command", value] if how == "passphrase_command" else words


def _once(have: Callable[[], str]) -> Ask:
    """The same answer for whatever is asked: a descriptor can be read only once."""
    held = lru_cache(maxsize=1)(have)
    return lambda question, new: held()


def _given(how: str, value: str | int) -> str:
    from safekept.actions.vault.keys.passphrase import LONGEST, passphrase_from

    if how == "passphrase_command":
        return _printed(str(value), "`--passphrase-command`")
    try:
        if isinstance(value, int):
            with os.fdopen(value, "rb", closefd=False) as stream:
                return passphrase_from(stream.read(LONGEST + 1), f"What came on descriptor {value}")
        path = os.path.abspath(os.path.expanduser(value))
        with open(path, "rb") as file:
            return passphrase_from(file.read(LONGEST + 1), f"What is in `{path}`")
    except OSError as error:
        what = f"Descriptor {value}" if isinstance(value, int) else f"The file {value}"
        raise click.UsageError(f"{what} cannot be read: {error.strerror}.") from error


def _printed(command: str, where: str) -> str:
    from safekept.actions.vault.keys.passphrase import passphrase_from, printed_by

    return passphrase_from(printed_by(command, where), "What the command printed")


def _ask(question: str, new: bool) -> str:
    """Ask at the terminal; nothing that is typed is shown, and a new one is typed twice."""
    from safekept.actions.vault.keys.passphrase import PASSPHRASE_TRIES, PassphraseMismatch

    from .console import path_text
    from .questions import AT_WORK, prompt

    for _ in range(PASSPHRASE_TRIES):
        text: str = prompt(path_text(question), hidden=True, kept=AT_WORK)
        if not new or prompt("The same again", hidden=True, kept=AT_WORK) == text:
            return text
        click.echo("These two are not the same", err=True)
    raise PassphraseMismatch.typed()


def with_terminal(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The same, with the terminal named for gpg: its agent asks there."""
    if "GPG_TTY" in environment:
        return environment
    try:
        return {**environment, "GPG_TTY": os.ttyname(0)}
    except OSError:
        return environment
