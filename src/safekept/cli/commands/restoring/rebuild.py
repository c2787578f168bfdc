"""`safekept rebuild FROM`: the machine is gone; bring the home back on a bare one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from safekept.actions.base.unfinished import Unfinished, finished, read_unfinished
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, reworded

from ...console import Console, path_text
from ...interrupted import Interrupted, interrupted
from ...options import place_or_file, start
from ...sealing import given_passphrase, identity_options, words_again
from ...words.landing_plan import ask_about_doubt, ask_consent, show_doubt
from ...words.rebuild import rebuild_document, rebuilt_document, show_rebuild_plan, show_rebuilt

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.restoring.kit_places import KitPlace
    from safekept.actions.restoring.rebuild import PreparedRebuild, Rebuilt
    from safekept.actions.restoring.rebuild_source import RebuildRequest
    from safekept.actions.setup.machine_record import MachineRecord
    from safekept.actions.snapshots.soundness import Doubt
    from safekept.actions.vault.keys.kit import ReadKit
    from safekept.settings import Settings
    from safekept.vault.repo import Secret


@click.command("rebuild")
@click.argument("place", metavar="FROM")
@click.option(
    "--home", metavar="DIR", default="", help="Where the home is to go; default: the agent's own place."
)
@click.option("--layout", metavar="NAME", default="", help="Which agent's home is meant.")
@click.option(
    "--snapshot", metavar="ID", default="", help="This snapshot; default: the newest of the whole home."
)
@click.option("--host", metavar="NAME", default="", help="Whose home, where several hosts are there.")
@click.option("--of", metavar="PATH", default="", help="Which home, by the path that it had.")
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
@click.option("-f", "--yes", "--force", "yes", is_flag=True, help="Do not ask; the plan is carried out.")
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
    """Bring a home back on a bare machine: from a kit, or from a destination, a vault or an archive.

    FROM is a kit that `safekept setup` or `safekept vault kit` wrote, a URL, the name of a destination, or
    the path of a vault or of an archive. The vault opens with the kit, with --key-file, or with a
    passphrase that is asked for or given; a sealed archive with --identity. A home that is there is put
    aside and never deleted. The new one is built beside it, proven by every check of a drill, and only
    then put in its place. A machine that had a home of each of several agents gets all of them. Where it
    was set up, a bare one is then set up as it was: vault, destinations, connections and schedule. An
    interrupted rebuild is run again, and goes on. Exit code 3: in place, but something was missing and is
    listed.
    """
    from safekept.actions.offsite.homes_in_vault import SeveralHomes
    from safekept.actions.restoring.rebuild_source import RebuildRequest, homes_of_one_machine

    if archive and snapshot:
        raise click.UsageError("--archive and --snapshot cannot both be given.")
    settings, context, console = start(as_json)
    typed: list[Secret] = []
    kit, given = _kit(place), place
    if kit is not None:
        given = os.path.abspath(os.path.expanduser(place))
        context = _from_kit(context, kit)
    if kit is None or not kit.key:
        context = _with_key(settings, context, console, key_file, place, typed)
    page = kit or (_kit(key_file) if key_file else None)
    request = RebuildRequest(
        place=place_or_file(place, tuple(one.name for one in context.choices.destinations)),
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
    )
    again = _words(replace(request, place=given if kit is not None else request.place))
    again += ["--key-file", os.path.abspath(os.path.expanduser(key_file))] if key_file else []
    again += ["--home-only"] if home_only else []
    work = _Work(console, settings, context, typed, key_file, again, yes=yes, dry_run=dry_run)
    try:
        if kit is not None:
            request = work.best_of(kit, given, request)
        try:
            for one in work.left_of(request):
                work.one(one, home_only=home_only)
        except SeveralHomes as error:
            console.finish()
            narrowed = home or layout or snapshot or host or of or archive
            requests = [] if narrowed else homes_of_one_machine(error, request)
            if not requests:
                named = ("--key-file", os.path.abspath(key_file)) if key_file else ()
                error.next_steps = reworded(error.next_steps, _as_named(request.place, given, named))
                raise
            for one in requests:
                work.one(one, home_only=home_only)
        return work.end(kit)
    except KeyboardInterrupt as error:
        raise work.cut_off() from error
    except click.Abort as error:
        if work.begun:
            raise work.cut_off() from error
        raise


class _Work:
    """One rebuild on its way: a home, or all homes of one machine; then what protects them."""

    def __init__(
        self,
        console: Console,
        settings: Settings,
        context: UserContext,
        typed: list[Secret],
        key_file: str,
        again: list[str],
        *,
        yes: bool,
        dry_run: bool,
    ) -> None:
        self.console, self.settings, self._context, self._typed = console, settings, context, typed
        self._key_file, self._yes, self._dry_run = key_file, yes, dry_run
        self._done: list[tuple[PreparedRebuild, dict[str, object], bool]] = []
        self._record: MachineRecord | None = None
        self._again = tuple(again)  # the words of the same command
        self._begun: Unfinished | None = None  # once something is to be changed
        self._building: PreparedRebuild | None = None
        self._places: list[KitPlace] = []  # those on a kit

    @property
    def _opening(self) -> UserContext:
        """Nobody types a passphrase twice."""
        typed = self._typed
        return (
            self._context.changed(vault_secret=lambda: typed[-1], secret_tries=1) if typed else self._context
        )

    def best_of(self, kit: ReadKit, path: str, request: RebuildRequest) -> RebuildRequest:
        """The same for the place on the kit that has the newest; all of them are shown with the plan.

        One that was cut off goes on from the place where it began.
        """
        from safekept.actions.restoring.kit_places import look_at_places, newest_of

        begun = read_unfinished(self._context)
        if begun is not None and begun.arguments == self._again and begun.place in kit.places:
            return replace(request, place=begun.place, named=path)
        self._places = look_at_places(lambda: self._opening, request, kit.places, self.console.listener())
        self.console.finish()
        chosen = newest_of(self._places, path, with_key=bool(kit.key))
        return replace(request, place=chosen.place, named=path)

    def left_of(self, request: RebuildRequest) -> list[RebuildRequest]:
        """What was asked for; where every home is in place and the rest was cut off, those very homes.

        By then the machine may have a copy of its own in that place, and the newest would be that one.
        """
        begun = read_unfinished(self._context)
        if begun is None or begun.arguments != self._again or not begun.homes or "history" in begun.left:
            return [request]
        return [replace(request, home=home, snapshot=name) for home, name in begun.homes.items()]

    def one(self, request: RebuildRequest, *, home_only: bool) -> None:
        """Bring one home back; in a dry run, show how."""
        from safekept.actions.restoring.rebuild import prepare_rebuild
        from safekept.actions.setup.machine_record import MachineRecord

        from .protect_again import then

        console = self.console
        earlier = read_unfinished(self._context)
        with prepare_rebuild(self._opening, request, console.listener(), earlier) as prepared:
            console.finish()
            if prepared.already:
                console.heading(f"{path_text(prepared.ground.home)} is in place already; the rest follows")
            else:
                if (doubt := prepared.origin.doubt) is not None and doubt.sound is not None:
                    show_doubt(console, doubt, _again(console, prepared, "--snapshot", doubt.sound.short))
                show_rebuild_plan(console, prepared, () if self._done else self._places)
            if self._record is None:
                self._record = MachineRecord() if home_only else then(console, prepared)
            if self._dry_run:
                self._done.append((prepared, rebuild_document(prepared), True))
                return
            key = ("--key-file", os.path.abspath(self._key_file)) if self._key_file else ()
            if prepared.origin.doubt is not None and not prepared.already:
                _settle_doubt(console, prepared, prepared.origin.doubt, key, self._yes)
            elif prepared.questions and not self._yes:
                ask_consent(
                    console,
                    "rebuild",
                    prepared.questions,
                    _again(console, prepared, *key, "--dry-run"),
                    _again(console, prepared, *key, "--yes"),
                )
            self._begin(prepared, earlier)
            if prepared.already:
                self._done.append((prepared, {**rebuild_document(prepared), "already": True}, True))
                return
            self._building = prepared
            rebuilt = self._carried_out(prepared)
            console.finish()
            show_rebuilt(console, prepared, rebuilt, last=not self._record)
            self._done.append((prepared, rebuilt_document(prepared, rebuilt), rebuilt.complete))

    def _begin(self, prepared: PreparedRebuild, earlier: Unfinished | None) -> None:
        """Remember that it is on its way, before anything is changed."""
        from .protect_again import parts_of

        if self._begun is None:
            place, record = prepared.origin.place, self._record
            same = earlier is not None and earlier.place == place
            self._begun = Unfinished("rebuild", self._again, place=place)
            if same and earlier is not None:
                self._begun.homes, self._begun.done = earlier.homes, list(earlier.homes)
            self._begun.add([prepared.ground.home, *(parts_of(record) if record else ())])
        self._begun.add([prepared.ground.home])
        self._begun.write(self._context)

    def _carried_out(self, prepared: PreparedRebuild) -> Rebuilt:
        assert self._begun is not None
        try:
            rebuilt = prepared.carry_out(self.console.listener())
        except SafekeptError:
            if not self._begun.done and not prepared.placed:
                finished(self._context)
            raise
        self._begun.mark(prepared.ground.home)
        self._begun.homes[prepared.ground.home] = prepared.subject.name
        self._begun.write(self._context)
        return rebuilt

    @property
    def begun(self) -> bool:
        return self._begun is not None

    def cut_off(self) -> Interrupted:
        """What to say after Ctrl-C; what is not finished is remembered, and what was not begun is not."""
        begun, building = self._begun, self._building
        if begun is None:
            return interrupted("rebuild")
        if building is not None and building.placed:
            begun.mark(building.ground.home)
            begun.write(self._context)
        if begun.done:
            return Interrupted.when(begun.stands, begun.again)
        finished(self._context)
        return Interrupted.when("Nothing was put in place: what was there is as it was", begun.again)

    def end(self, kit: ReadKit | None) -> int:
        """Protect the machine as the old one was, where that one was; the exit code of all of it."""
        from .protect_again import protect_again

        prepared, document, _ = self._done[0]
        more: dict[str, object] = {"also": [one for _, one, _ in self._done[1:]]} if self._done[1:] else {}
        more |= {"places": [one.as_dict() for one in self._places]} if self._places else {}
        if self._dry_run:
            then = self._record.as_dict() if self._record is not None else None
            self.console.document({"dry_run": True, **document, **more, "then": then})
            self.console.line("Nothing was changed")
            return 0
        ended = None
        if self._record:
            assert self._begun is not None
            ended = protect_again(
                *(self.console, self.settings, prepared, self._opening, self._record, self._begun),
                kit=kit,
            )
        else:
            finished(self._context)
        protection = ended.document if ended is not None else None
        self.console.document({**document, **more, "protection": protection})
        if not all(complete for _, _, complete in self._done):
            return 3
        return ended.code if ended is not None else 0


def _as_named(place: str, given: str, key: tuple[str, ...]) -> Callable[[NextStep], NextStep]:
    """A printed command names what was named: the kit, and not the place that it led to; and the key."""

    def words(step: NextStep) -> NextStep:
        arguments = tuple(given if word == place else word for word in step.arguments)
        return replace(step, arguments=(*arguments, *key)) if step.verb == "rebuild" else step

    return words


def _kit(place: str) -> ReadKit | None:
    """The kit that was named in the place of a destination; None where it is something else."""
    from safekept.actions.vault.keys.kit import read_kit

    path = os.path.abspath(os.path.expanduser(place))
    return read_kit(path) if os.path.isfile(path) else None


def _from_kit(context: UserContext, kit: ReadKit) -> UserContext:
    """Who opens the vault with the key on it; what it says of the way there counts."""
    context = context.changed(environment={**kit.variables, **context.caller.environment})
    return _opened_by(context, kit) if kit.key else context


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
) -> UserContext:
    """The key that was named for this, and the passphrase that was given opens a vault as well.

    What a person types is put into `typed`: nobody is asked for it a second time.
    """
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
        ask = asking_for_vault_secret(place, key, bare=True)

        def once() -> Secret:
            typed.append(ask())
            return typed[-1]

        return context.changed(vault_secret=once, secret_tries=PASSPHRASE_TRIES)
    return context


def _settle_doubt(
    console: Console, prepared: PreparedRebuild, doubt: Doubt, key: tuple[str, ...], yes: bool
) -> None:
    """One question for all of it, and nobody agrees to it beforehand."""
    assert doubt.sound is not None
    sound, this = (("--snapshot", one.short, *key, "--yes") for one in (doubt.sound, doubt.chosen))
    instead = f"Rebuild from the newest sound one: `{_again(console, prepared, *sound)}`"
    all_the_same = f"Or from this one all the same, by its id: `{_again(console, prepared, *this)}`"
    if yes:
        raise doubt.refusal(instead, all_the_same)
    ask_about_doubt(console, doubt, instead, all_the_same)


def _again(console: Console, prepared: PreparedRebuild, *more: str) -> str:
    """The same rebuild as it was asked for, with something added; runs from any directory."""
    return console.command("rebuild", *_words(prepared.request), *more)


def _words(request: RebuildRequest) -> list[str]:
    """What was asked for, in words that mean the same in any directory."""
    words = [request.named or request.place]
    for option, value in (
        ("--home", os.path.abspath(request.home) if request.home else ""),
        ("--layout", request.layout),
        ("--snapshot", request.snapshot),
        ("--host", request.host),
        ("--of", request.of),
        ("--archive", request.archive),
    ):
        words += [option, value] if value else []
    words += ["--allow-damaged"] if request.allow_damaged else []
    return [*words, *words_again()]
