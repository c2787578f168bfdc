"""`safekept rebuild FROM`: the machine is gone; bring the home back on a bare one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from safekept.core.next_step import NextStep, reworded

from ...console import Console, path_text
from ...options import place_or_file, start
from ...sealing import given_passphrase, identity_options, named_identities
from .rebuild_work import RebuildWork, words_of

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.offsite.choose_home import SeveralHomes
    from safekept.actions.restoring.rebuild_request import RebuildRequest
    from safekept.actions.vault.keys.kit_reading import ReadKit
    from safekept.settings import Settings
    from safekept.vault.errors import WrongKey
    from safekept.vault.repo import Secret


@click.command("rebuild")
@click.argument("place", metavar="[FROM]", default="")
@click.option(
    "--home", metavar="DIR", default="", help="Where the home is to go; default: the agent's own place."
)
@click.option("--layout", metavar="NAME", default="", help="Which agent's home is meant.")
@click.option(
    "--snapshot", metavar="ID", default="", help="This snapshot; default: the newest of the whole home."
)
@click.option("--host", metavar="NAME", default="", help="Whose home, where several hosts are there.")
@click.option(
    "--of",
    metavar="PATH",
    default="",
    help="Which home, by the path that it had, or the directory that several were in.",
)
@click.option(
    "--archive",
    metavar="NAME|latest",
    default="",
    help="An archive of the destination, or the latest one, not its vault.",
)
@click.option(
    "--key-file",
    metavar="FILE",
    default="",
    help="The vault's key: a file with one line, or a kit; default: this machine's key, then a passphrase.",
)
@identity_options
@click.option(
    "--allow-damaged", is_flag=True, help="Put it in place although checks failed; what is missing is listed."
)
@click.option(
    "--home-only", is_flag=True, help="Only the home: no vault, destinations, connections or schedule."
)
@click.option(
    "-f",
    "--yes",
    "--force",
    "yes",
    is_flag=True,
    help="Do not ask where a home is there already, or the copy is doubtful.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    place: str,
    home: str,
    layout: str,
    snapshot: str,
    host: str,
    of: str,
    archive: str,
    key_file: str,
    allow_damaged: bool,
    home_only: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Bring back what is gone: on a bare machine from a kit, a destination, a vault or an archive.

    Without FROM: something emptied this machine, as `rm -rf ~` does. Homes, projects, settings, key and
    journal come back from what survived here: behind the seat belt, or at the keeper; then connections and
    schedule. What is there is not replaced without a question.

    FROM is a kit that `safekept setup` or `safekept vault kit` wrote, a URL, the name of a destination, or
    the path of a vault or of an archive. The vault opens with the kit, with --key-file, or with a
    passphrase that is asked for or given; a sealed archive with --identity, and a vault with a kit in escrow
    beside it, too. On a bare machine it shows what it does and begins at once: nothing is there that could
    be lost. A home that is there is put aside after a question (--yes answers it), and never deleted. The
    new one is built beside it, proven by every check of a drill, and only then put in its place. A machine
    that had a home of each of several agents gets all of them; homes of other directories are a choice, and
    what did not come is named. Where it was set up, a bare one is then set
    up as it was: vault, destinations, connections and schedule. An interrupted rebuild is run again, and
    goes on. Exit code 3: in place, but something was missing and is listed.
    """
    from safekept.actions.restoring.rebuild_request import RebuildRequest
    from safekept.vault.errors import WrongKey

    if archive and snapshot:
        raise click.UsageError("--archive and --snapshot cannot both be given.")
    settings, context, console = start(as_json)
    if not place:
        if any((home, layout, snapshot, host, of, archive, key_file, allow_damaged, home_only)):
            raise click.UsageError("Missing argument 'FROM': only --yes, --dry-run and --json go without it.")
        from .rebuild_here import RebuildHere

        return RebuildHere(settings, context, console, yes=yes, dry_run=dry_run).run()
    typed: list[Secret] = []
    kit, given = _kit(place), place
    plain = context
    if kit is not None:
        given = os.path.abspath(os.path.expanduser(place))
        plain = context.changed(environment={**kit.variables, **context.caller.environment})
        context = plain
    page = kit or (_kit(key_file) if key_file else _escrowed(context, place, host))
    if page is not None and page.key and not key_file:
        context = _opened_by(plain, page)
    elif kit is None or not kit.key:
        context = _with_key(settings, context, console, key_file, place, typed)
    request = RebuildRequest(
        place=_named(context, place),
        home=home,
        layout=layout,
        snapshot=snapshot,
        host=host,
        of=of,
        archive=archive,
        allow_damaged=allow_damaged,
        deadline=settings.number("database.deadline"),
        vault_id=page.vault_id if page is not None else "",
        key_given=bool(page is not None and page.key) or given_passphrase(settings) is not None,
        kit_key=bool(page is not None and page.key),
        offers_sound=console.can_ask() and not yes,
        asks=page is None and not key_file and context.caller.secret_tries > 1,
    )
    again = words_of(replace(request, place=given if kit is not None else request.place))
    again += ["--key-file", os.path.abspath(os.path.expanduser(key_file))] if key_file else []
    again += ["--home-only"] if home_only else []
    work = RebuildWork(console, settings, context, typed, key_file, again, yes=yes, dry_run=dry_run)
    carry_out = partial(_carry_out, work, kit, given, key_file=key_file, home_only=home_only)
    try:
        try:
            return carry_out(request)
        except WrongKey as error:
            if not request.kit_key or work.begun:
                raise
            second = key_file if kit is not None else ""  # else it is that kit
            other = _after_kit(settings, plain, console, error, second, given, typed)
            if other is None:
                raise
            work.open_with(other)
            only = not second or _kit(second) is not None
            return carry_out(replace(request, kit_key=False, key_given=only))
    except KeyboardInterrupt as error:
        raise work.cut_off() from error
    except click.Abort as error:
        if work.begun:
            raise work.cut_off() from error
        raise


def _carry_out(
    work: RebuildWork,
    kit: ReadKit | None,
    given: str,
    request: RebuildRequest,
    *,
    key_file: str,
    home_only: bool,
) -> int:
    """Every home that is meant, then what protects them."""
    from safekept.actions.offsite.choose_home import SeveralHomes
    from safekept.actions.restoring.rebuild_request import NothingToRebuild
    from safekept.actions.restoring.rebuild_source import homes_of_one_machine

    asked = request
    if kit is not None:
        request = work.best_of(kit, given, request)
    named = ("--key-file", os.path.abspath(key_file)) if key_file else ()
    try:
        for one in work.left_of(request):
            work.one(one, home_only=home_only)
    except SeveralHomes as error:
        work.console.finish()
        requests = homes_of_one_machine(error, request)
        if not requests and request.offers_sound and error.choices:
            choice = _chosen(work.console, error)
            one = replace(
                asked,
                # With a kit every place is looked at again: another may have the newest of that home.
                place=asked.place if kit is not None else choice.get("place", asked.place),
                host=choice.get("host", asked.host),
                of=choice.get("of", asked.of),
                layout=choice.get("layout", asked.layout),
            )
            return _carry_out(work, kit, given, one, key_file=key_file, home_only=home_only)
        if not requests:
            error.next_steps = reworded(error.next_steps, _as_named(request.place, given, named))
            raise
        for one in requests:
            work.one(one, home_only=home_only)
    except NothingToRebuild as error:
        place = ("--home", request.home) if request.home else ()
        error.next_steps = reworded(error.next_steps, _as_named(request.place, given, (*named, *place)))
        raise
    return work.end(kit)


def _chosen(console: Console, error: SeveralHomes) -> Mapping[str, str]:
    """Which of several a person means: the newest, unless another number is typed. Where they are of
    different agents, a number has to be typed."""
    from ...questions import prompt

    console.say(error.what)
    while True:
        usual = str(error.usual or "")
        typed = prompt(f"Which one? [{usual}]" if usual else "Which one?", default=usual).strip()
        if typed.isdecimal() and 0 < int(typed) <= len(error.choices):
            return error.choices[int(typed) - 1]
        console.say(f"Please type a number from 1 to {len(error.choices)}")


def _after_kit(
    settings: Settings,
    context: UserContext,
    console: Console,
    error: WrongKey,
    key_file: str,
    place: str,
    typed: list[Secret],
) -> UserContext | None:
    """Who opens the vault with something else that was given, or is typed now; None where nothing is.

    The key of this machine is not among it: it was not named.
    """
    given = bool(key_file) or given_passphrase(settings) is not None
    if not given and not (error.facts.get("passphrase") and console.can_ask()):
        return None
    context = context.changed(vault_secret=None, secret_tries=1)
    other = _with_key(settings, context, console, key_file, place, typed, why=error.what)
    return other if key_file or other.caller.vault_secret is not None else None


def _as_named(place: str, given: str, key: tuple[str, ...]) -> Callable[[NextStep], NextStep]:
    """A printed command names what was named: the kit, and not the place that it led to; and the key."""

    def words(step: NextStep) -> NextStep:
        arguments = tuple(given if word == place else word for word in step.arguments)
        return replace(step, arguments=(*arguments, *key)) if step.verb == "rebuild" else step

    return words


def _named(context: UserContext, place: str) -> str:
    """What was named, as it means the same in any directory."""
    if _kit(place) is not None:
        return os.path.abspath(os.path.expanduser(place))
    return place_or_file(place, tuple(one.name for one in context.choices.destinations))


def _escrowed(context: UserContext, place: str, host: str) -> ReadKit | None:
    """The kit beside the vault in a place, where a private key was named that opens it."""
    if not named_identities() or os.path.isfile(os.path.expanduser(place)):
        return None
    from safekept.actions.restoring.rebuild_escrow import kit_in_escrow

    return kit_in_escrow(context, _named(context, place), host)


def _kit(place: str) -> ReadKit | None:
    """The kit that was named in the place of a destination; None where it is something else."""
    from safekept.actions.vault.keys.kit_reading import read_kit

    path = os.path.abspath(os.path.expanduser(place))
    return read_kit(path) if os.path.isfile(path) else None


def _opened_by(context: UserContext, kit: ReadKit) -> UserContext:
    from safekept.actions.vault.keys.passphrase import secret_from_text

    secret = secret_from_text(kit.key, "The key on the kit")
    return context.changed(vault_secret=lambda: secret, secret_tries=1)


def _with_key(
    settings: Settings,
    context: UserContext,
    console: Console,
    key_file: str,
    place: str,
    typed: list[Secret],
    *,
    why: str = "",
) -> UserContext:
    """The key that was named for this, and the passphrase that was given opens a vault as well.

    What a person types is put into `typed`: it is not asked for a second time. `why`: the kit did not.
    """
    from safekept.actions.base.unfinished import read_unfinished
    from safekept.actions.vault.keys.passphrase import PASSPHRASE_TRIES, secret_from_text

    from ...options import asking_for_vault_secret

    if key_file:
        path = os.path.abspath(os.path.expanduser(key_file))
        if not os.path.isfile(path):
            raise click.UsageError(f"There is no key file {path_text(key_file)}.")
        page = _kit(path)
        if page is not None and page.key:
            return _opened_by(context, page)
        if page is None:
            context = context.changed(vault_key_file=path)
    if given := given_passphrase(settings):
        secret = lambda: secret_from_text(given(), "The passphrase")  # noqa: E731
        return context.changed(vault_secret=secret, secret_tries=1)
    if console.can_ask() and not settings.text("vault.passphrase_command"):
        key = context.places.vault_key_file
        begun = read_unfinished(context)
        same = begun is not None and begun.arguments[:1] == (_named(context, place),)
        resumed = same and begun is not None and begun.verb == "rebuild" and bool(begun.homes)
        ask = asking_for_vault_secret(place, key, bare=True, why=why, resumed=resumed)

        def once() -> Secret:
            typed.append(ask())
            return typed[-1]

        return context.changed(vault_secret=once, secret_tries=PASSPHRASE_TRIES)
    return context
