"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from safekept.actions.base.context import UserContext
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, reworded
from safekept.settings import Settings, load_settings
from safekept.settings.context import context_of

from .console import Console
from .sealing import identities_from, passphrase_source, with_terminal

if TYPE_CHECKING:
    from safekept.vault.repo import Secret


# Numbers of an option that are numbers: `nan` is within every range, and equal to nothing.


class Amount(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        found = float(super().convert(value, parameter, context))
        if not math.isfinite(found):
            self.fail(f"{value} is no number.", parameter, context)
        return found


Command = TypeVar("Command", bound=Callable[..., Any])


def _options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order."""

    def added(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return added


#: Which home is meant.
home_options = _options(
    click.option(
        "--home",
        metavar="PATH",
        default="",
        help="The home to work on; default: the setting `home`, else the agent's own variable or place.",
    ),
    click.option(
        "--layout",
        metavar="NAME",
        default="",
        help="Which agent the home belongs to; default: what the home itself proves, else the setting "
        "`layout`.",
    ),
)
#: The same and `--json`: on every command that works on a home.
common_options = _options(
    home_options, click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
)
#: What of a home is taken.
selection_options = _options(
    click.option(
        "--include",
        metavar="PATH",
        multiple=True,
        help="Bring in what a rule leaves out; a pattern, may be repeated.",
    ),
    click.option(
        "--exclude",
        metavar="PATH",
        multiple=True,
        help="Leave out a path; a pattern, anchored at the home, may be repeated.",
    ),
    click.option("--profile", metavar="NAME", default="", help="Only this profile of the home."),
)
report_option = click.option(
    "--report", metavar="FILE", default="", help="Write what happened there, as JSON."
)


#: What root can do with another user's home: all its work there is done by a child that is the owner.
FOR_OTHERS = frozenset(
    [
        "backup create",
        "drill",
        "import",
        "log",
        "push",
        "restore",
        "snapshot",
        "snapshot create",
        "snapshot forget",
        "snapshot list",
        "snapshot pin",
        "snapshot prune",
        "snapshot restore",
        "snapshot show",
        "status",
        "undo",
        "vault prune",
    ]
)
#: Where the context of a command keeps the vault that `--vault` or `--destination` named.
_SOURCE = "safekept.source_vault"
#: Commands that read a vault, and can be given another one.
_READING = frozenset(
    {
        "history",
        "sessions list",
        "sessions restore",
        "sessions show",
        "snapshot diff",
        "snapshot list",
        "snapshot restore",
        "snapshot show",
        "vault check",
        "vault stats",
    }
)


def source_options(function: Command) -> Command:
    """`--vault` and `--destination`: on every command that reads a vault. `start` takes them from there."""
    for option in (
        click.option(
            "--destination",
            metavar="NAME",
            expose_value=False,
            callback=_take_source,
            help="Read the copy of your vault in this destination.",
        ),
        click.option(
            "--vault",
            metavar="PATH|URL",
            expose_value=False,
            callback=_take_source,
            help="Read this vault instead of your own.",
        ),
    ):
        function = option(function)

    # The library does not know which vault was named; a command that it prints must.
    @functools.wraps(function)
    def naming(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except SafekeptError as error:
            error.next_steps = reworded(error.next_steps, at_source(named_source()))
            raise

    return cast(Command, naming)


def named_source() -> list[str]:
    """The option that says which other vault is read from, for a command that is printed."""
    source = source_vault()
    if not source:
        return []
    return ["--vault" if "/" in source or ":" in source else "--destination", source]


def at_source(named: list[str]) -> Callable[[NextStep], NextStep]:
    """Has a command read the vault that was named, and not this machine's own."""

    def words(step: NextStep) -> NextStep:
        if step.verb not in _READING or {"--vault", "--destination"} & {*step.arguments}:
            return step
        return replace(step, arguments=(*step.arguments, *named))

    return words


def _take_source(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    from safekept.core.objects.address import is_address

    if not value:
        return
    if _SOURCE in ctx.meta:
        raise click.UsageError("Give --vault or --destination, not both.")
    named = parameter.name == "destination" or is_address(value)
    ctx.meta[_SOURCE] = value if named else os.path.abspath(os.path.expanduser(value))


def place_argument(word: str) -> str:
    """A destination as it was typed: a name or a URL as it is, `user@host:path` as scp takes it, a path from
    where we stand."""
    from safekept.core.objects.address import is_address, scp_address

    if not os.path.exists(word):
        word = scp_address(word) or word
    if is_address(word) or "/" not in word:
        return word
    return os.path.abspath(os.path.expanduser(word))


def only_destination(context: UserContext) -> str:
    """The destination that is meant where none is named: the only one."""
    names = [one.name for one in context.choices.destinations]
    if len(names) == 1:
        return names[0]
    raise click.UsageError(f"Which one? There are: {', '.join(names)}." if names else "No destinations yet.")


def place_or_file(word: str, destinations: tuple[str, ...]) -> str:
    """The same, where a file or directory here may be meant by its mere name; a destination comes first."""
    if word not in destinations and "/" not in word and os.path.exists(word):
        return os.path.abspath(word)
    return place_argument(word)


def source_vault() -> str:
    """The vault that this command was told to read from: a directory, a URL or a destination; or ""."""
    context = click.get_current_context(silent=True)
    return str(context.meta.get(_SOURCE, "")) if context is not None else ""


def context_from(settings: Settings, *, can_ask: bool = False, source: str = "") -> UserContext:
    """What the actions need to know of this user; with `can_ask`, a passphrase may be asked for."""
    own = context_of(settings, source=source)
    asking, given = passphrase_source(settings, can_ask)
    secret = own.caller.vault_secret
    tries = 1
    if secret is None and can_ask:
        from safekept.actions.vault.keys.passphrase import PASSPHRASE_TRIES

        secret = asking_for_vault_secret(source or own.places.vault, own.places.vault_key_file)
        tries = PASSPHRASE_TRIES
    return own.changed(
        environment=with_terminal(settings.environment) if can_ask else settings.environment,
        vault_secret=secret,
        secret_tries=tries,
        identities=identities_from(settings),
        ask_passphrase=asking,
        passphrase_is_given=given,
        keep_connected=_keep_connected,
    )


def _keep_connected(context: UserContext, home: str) -> Callable[[], tuple[str, ...]]:
    from safekept.integrations.connecting.keeping import holding

    return holding(context, home)


def asking_for_vault_secret(
    vault: str, key_file: str, *, bare: bool = False, why: str = "", resumed: bool = False
) -> Callable[[], Secret]:
    """Asks for the passphrase of a vault: the first time it says why, and what else could be done.

    `bare`: a rebuild, whose vault the key file of this machine has nothing to do with. `why`: its kit did
    not open it. `resumed`: it goes on, and was told the passphrase before.
    """
    explained = False

    def ask() -> Secret:
        nonlocal explained
        from safekept.actions.vault.keys.passphrase import secret_from_text

        from .questions import AT_WORK, prompt

        with Console.asking():
            if not explained:
                _explain_vault_secret(vault, key_file, bare, why, resumed)
            explained = True
            text = prompt("Key or passphrase of the vault", hidden=True, kept=AT_WORK)
        return secret_from_text(text, "What was typed")

    return ask


def _explain_vault_secret(vault: str, key_file: str, bare: bool, refused: str, resumed: bool) -> None:
    why = f"The key in `{key_file}` does not open the vault at `{vault}`"
    put = ""  # what is there may be the only key of another vault
    if not os.path.exists(key_file):
        put = f"  Or put the key from your kit into `{key_file}`, as one line, and run the command again"
        why = f"The vault at `{vault}` is there, but its key file `{key_file}` is not"
    lines = [
        why,
        "  Type the key from your kit, or the recovery passphrase; Ctrl-C ends this; nothing was changed",
        *([put] if put else []),
        "  Or let a command print it: set `SAFEKEPT_VAULT_PASSPHRASE_COMMAND`",
    ]
    if bare:
        lines = [
            f"To open `{vault}`, type your recovery passphrase, or the key from your kit.",
            "  With the kit as a file, name that file in its place, or add `--key-file KIT`. "
            "Ctrl-C ends this; nothing was changed.",
        ]
    if resumed:
        lines = [
            "The rebuild goes on where it was cut off. No passphrase is stored, so it is asked for again.",
            "  Type your recovery passphrase or the key from your kit. Ctrl-C ends this; what is done stays.",
        ]
    if refused:
        lines = [f"{refused}.", "  Type your recovery passphrase. Ctrl-C ends this; nothing was changed."]
    for line in lines:
        Console(as_json=False).say(line, 2)


def start(as_json: bool) -> tuple[Settings, UserContext, Console]:
    """What every command does first."""
    from .main import program

    settings = load_settings(os.environ)
    console = Console(as_json=as_json, program=program())
    context = context_from(settings, can_ask=console.can_ask(), source=source_vault())
    own = _words() not in FOR_OTHERS
    return settings, context.changed(only_own_homes=own, directory=_standing_in()), console


def _standing_in() -> str:
    """The directory that was current; nothing where that is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _words() -> str:
    """The command that was called, without the name of the program: `snapshot restore`.

    One that calls another stays the one that was called.
    """
    running, names = click.get_current_context(silent=True), list[str]()
    while running is not None and running.parent is not None:
        inner = isinstance(running.parent.command, click.Group)
        names = [running.info_name or "", *names] if inner else names
        running = running.parent
    return " ".join(names)
