"""`safekept push`: take copies off this host."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from safekept.actions.base.context import UserContext
from safekept.actions.offsite.place import NoSuchDestination, Reach, find_destination
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ...console import Console, count_text, path_text, size_text, time_text
from ...options import context_from, place_argument, start
from ...words.kit import kit_document, show_kit

if TYPE_CHECKING:
    from safekept.actions.offsite.push.result import PushRequest, PushResult
    from safekept.vault.mirror import Problem

_LISTED = 10


@click.command("push")
@click.argument("places", metavar="[DESTINATION|PLACE]...", nargs=-1)
@click.option(
    "--archive",
    "archives",
    metavar="FILE",
    multiple=True,
    help="Send this archive too; without it, the sealed ones in `backup.output` that are missing "
    "there. May be repeated.",
)
@click.option("--no-vault", is_flag=True, help="Only archives, not the vault.")
@click.option(
    "--unsealed", is_flag=True, help="Also send archives that the place could read; else they are refused."
)
@click.option(
    "--prune",
    is_flag=True,
    help="Delete there what the vault here has no more: snapshots, what only they needed, keys "
    "that were removed.",
)
@click.option(
    "--anew",
    is_flag=True,
    help="Start over in a place that was used before and is empty now, such as a second disk.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Another machine sends its copies there, too, and that is meant; needed once, on one that was "
    "rebuilt.",
)
@click.option(
    "--acknowledge-kit",
    is_flag=True,
    help="The kit of the vault is printed and kept elsewhere; needed once, unless a passphrase "
    "opens the vault.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before --prune deletes.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent and deleted; do neither.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    places: tuple[str, ...],
    archives: tuple[str, ...],
    no_vault: bool,
    unsealed: bool,
    prune: bool,
    anew: bool,
    shared: bool,
    acknowledge_kit: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Send to a destination what it has not yet: the vault, and archives. Without a name: to all of them.

    What git hides in projects goes only where `takes` of the destination names `hidden`. Only what is
    missing is sent, each file proven on its way; a push that was cut short goes on where it ended.
    Nothing is deleted there without --prune, and no locks are written, so a credential that can only add
    suffices. A disk that is not plugged in is noted and no failure, unless it was named. Exit code 0:
    everything is there; 3: something could not be sent and is listed; 1: failed.
    """
    settings, context, console = start(as_json)
    words = [place_argument(word) for word in places] or [one.name for one in context.choices.destinations]
    if not words:
        raise NoSuchDestination(
            "No destination is set up, and none was named",
            kept="Nothing was sent",
            next_steps=(
                NextStep("destinations add", ("PLACE",), before="Save one:"),
                NextStep("push", ("sftp://user@host/backups",), before="Or name a place:"),
            ),
        )
    # A connection takes its time: it is made while the rest of the program is still being loaded.
    one = find_destination(context, words[0]) if len(words) == 1 and not prune else None
    reach = Reach(context, one) if one is not None else None
    from safekept.actions.offsite.push.result import ABSENT, DONE, INCOMPLETE, PushRequest
    from safekept.actions.schedule.schedule import count_as_done
    from safekept.actions.vault.keys.keys import NoRecoveryAccess
    from safekept.actions.vault.keys.kit_files import refresh_kit
    from safekept.actions.vault.keys.kit_record import KitOutdated, KitStatus, NoKitYet
    from safekept.schedule.tasks import PUSH, Task
    from safekept.vault.errors import NoSuchVault

    of_vault = (NoRecoveryAccess, NoKitYet, KitOutdated, NoSuchVault)
    output = settings.text("backup.output")
    base = PushRequest(
        destination="",
        archives=tuple(os.path.abspath(path) for path in archives),
        archive_directory=os.path.abspath(os.path.expanduser(output)) if output and not archives else "",
        prune=prune,
        dry_run=dry_run,
        vault=not no_vault,
        unsealed=unsealed,
        anew=anew,
        shared=shared,
        acknowledge_kit=acknowledge_kit,
    )
    if not (dry_run or no_vault or acknowledge_kit) and console.can_ask():
        _ask_for_recovery_passphrase(console, context)
    if prune and not yes and not dry_run:
        _ask(console, context, base, words)
    results: list[PushResult] = []
    errors: list[tuple[str, SafekeptError]] = []
    for word in words:
        try:
            result = _push(console, context, replace(base, destination=word), reach, yes=yes)
        except SafekeptError as error:
            # Where the vault itself is the reason, it is the same for every place: said once.
            if len(words) == 1 or (not results and isinstance(error, of_vault)):
                raise
            errors.append((word, error))
            if not as_json:
                console.say(f"Not pushed to {path_text(word)}")
            console.error_beside(error)
            continue
        finally:
            console.finish()
            if reach is not None:
                reach.close()
        if result.absence is not None and places and len(words) == 1:
            raise result.absence  # who names one disk expects it to be there
        results.append(result)
        _show(console, result)
        if result.state == DONE and not (dry_run or no_vault):
            count_as_done(context, [Task(PUSH, word).name])
    kits = KitStatus() if dry_run or no_vault else refresh_kit(context_from(settings), console.notes())
    show_kit(console, kits)
    console.document(
        {
            "pushes": [result.as_dict() for result in results],
            "failed": [{"destination": word, "error": error.as_dict()} for word, error in errors],
            "kit": kit_document(kits),
        }
    )
    if errors:
        return errors[0][1].exit_code
    named_absent = bool(places) and any(result.state == ABSENT for result in results)
    return 3 if named_absent or any(result.state == INCOMPLETE for result in results) else 0


def _push(
    console: Console, context: UserContext, request: PushRequest, reach: Reach | None, *, yes: bool
) -> PushResult:
    """One push; where another machine sends there, too, a person is asked whether that is meant."""
    from safekept.actions.offsite.push.another_machine import DestinationShared
    from safekept.actions.offsite.push.push import push

    try:
        return push(context, request, console.listener(), reach)
    except DestinationShared as error:
        console.finish()
        if request.dry_run or yes or not console.can_ask():
            raise
        console.say(f"{error.what}.")
        if not console.ask("Send the copies of this machine there, too?"):
            raise
        return push(context, replace(request, shared=True), console.listener())


def _ask_for_recovery_passphrase(console: Console, context: UserContext) -> None:
    """At the first push, take a recovery passphrase right here; who wants the kit instead is told how."""
    from safekept.actions.vault.keys.keys import NoRecoveryAccess, add_passphrase, require_recovery_access
    from safekept.actions.vault.opening import open_vault, vault_exists

    from ..vault.options import new_passphrase

    if not vault_exists(context):
        return
    with open_vault(context, listener=console.notes()) as repository:
        try:
            require_recovery_access(context, repository)
        except NoRecoveryAccess as error:
            console.say(error.what)
            console.say("Type a new passphrase that opens the copies too; Ctrl-C ends this, nothing is sent.")
            console.say(
                f"To use the kit instead: `{console.command('vault', 'kit')}`, then "
                f"`{console.command('vault', 'kit', '--stored')}`"
            )
            secret = new_passphrase(console, "", "", None, "New recovery passphrase")
            add_passphrase(context, repository, secret, recovery=True, listener=console.listener())
            console.finish()


def _ask(console: Console, context: UserContext, base: PushRequest, words: list[str]) -> None:
    """Show what a prune would delete, and ask; where no person can be asked, refuse."""
    from safekept.actions.offsite.push.push import push
    from safekept.core.errors import ConsentNeeded

    going = 0
    for word in words:
        plan = push(context, replace(base, destination=word, dry_run=True), console.listener())
        console.finish()
        going += plan.deleting
        if not console.as_json:
            _show(console, plan)
    if not going:
        return
    if not console.can_ask():
        again = console.command("push", *words, "--prune")
        raise ConsentNeeded(
            "Deleting in a destination needs your consent",
            kept="Nothing was sent or deleted",
            next_steps=(f"See the plan: `{again} --dry-run`", f"Agree to it: `{again} --yes`"),
        )
    if not console.ask(f"Delete {count_text(going, 'file')} there?"):
        raise click.Abort


def _show(console: Console, result: PushResult) -> None:
    name = path_text(result.destination)
    if result.absence is not None:
        console.line(f"Not there now: {name}: {result.absence}", fg="yellow")
        console.next(result.absence.next_steps)
        return
    if result.dry_run:
        _show_plan(console, result)
        return
    mirrored, archives = result.mirrored, result.archives
    nothing = not (result.files or result.problems)
    if not result.complete:
        console.heading(f"Pushed to {name}, but not everything", good=False)
    else:
        console.heading(f"Everything is in {name} already" if nothing else f"Pushed to {name}")
    console.fact("Place", path_text(result.place))
    if mirrored is not None:
        sent = f"{count_text(mirrored.files, 'file')}, {size_text(mirrored.bytes)} sent"
        there = f", {mirrored.present:,} already there" if mirrored.present else ""
        console.fact("Vault", f"{count_text(mirrored.snapshots, 'new snapshot')}; {sent}{there}")
        _show_mirrored(console, result)
    if result.hidden is not None and result.hidden.mirrored is not None:
        hidden = result.hidden.mirrored
        sent = f"{count_text(hidden.files, 'file')}, {size_text(hidden.bytes)} sent"
        console.fact("Hidden", f"{count_text(hidden.snapshots, 'new snapshot')} of what git hides; {sent}")
        _show_problems(console, hidden.problems)
    for path in archives.sent:
        console.fact("Archive", path_text(os.path.basename(path)))
    for archive in archives.removed:
        console.fact("Removed", f"{path_text(archive)} (`keep`)")
    speed = f", {size_text(result.bytes / result.seconds)}/s" if result.bytes and result.seconds > 0.5 else ""
    console.fact("Time", time_text(result.seconds) + speed)
    for note in result.notes:
        console.line(f"Note: {note}")


def _show_mirrored(console: Console, result: PushResult) -> None:
    mirrored = result.mirrored
    assert mirrored is not None
    if mirrored.deleted:
        parts = ", ".join(f"{count:,} in `{kind}`" for kind, count in mirrored.deleted.items())
        console.fact("Deleted", parts)
    _show_staying(console, result)
    if mirrored.stray_keys:
        shown = ", ".join(key[:8] for key in mirrored.stray_keys[:_LISTED])
        again = console.command("push", result.destination, "--prune")
        keys = count_text(len(mirrored.stray_keys), "key that was", "keys that were")
        opens, them = ("opens", "it") if len(mirrored.stray_keys) == 1 else ("open", "them")
        console.line(
            f"Note: {keys} removed here still {opens} the copy there ({shown}); `{again}` deletes {them}"
        )
    if mirrored.other_keys:
        shown = ", ".join(key[:8] for key in mirrored.other_keys[:_LISTED])
        keys = count_text(len(mirrored.other_keys), "key there is", "keys there are")
        there = result.destination
        option = "--vault" if "/" in there or ":" in there else "--destination"
        see = console.command("vault", "key", "list", option, there)
        console.line(
            f"Note: {keys} not of the vault here and not removed here ({shown}): a machine that was rebuilt "
            f"from this copy has its own, so nothing is deleted. See: `{see}`"
        )
    _show_problems(console, mirrored.problems)
    if any(problem.here for problem in mirrored.problems):
        console.line(f"See what it touches: `{console.command('vault', 'check', '--read-data')}`")


def _show_problems(console: Console, problems: list[Problem]) -> None:
    for problem in problems[:_LISTED]:
        where = "here" if problem.here else "there"
        console.fact("Problem", f"{problem.file} {where}: {problem.reason}")
    if len(problems) > _LISTED:
        console.line(f"             … and {len(problems) - _LISTED:,} more (all of them: --json)")
    if any(not problem.here for problem in problems):
        console.line("Delete these files there with a credential that may, then push again")


def _show_staying(console: Console, result: PushResult) -> None:
    for text in result.staying[:_LISTED]:
        console.fact("Stays", f"snapshot {path_text(text)}, not here")
    if len(result.staying) > _LISTED:
        console.line(f"             … and {len(result.staying) - _LISTED:,} more (all of them: --json)")


def _show_plan(console: Console, result: PushResult) -> None:
    console.heading(f"Would push to {path_text(result.destination)}")
    console.fact("Place", path_text(result.place))
    plan = result.plan
    if plan is not None:
        snapshots = count_text(plan.snapshots, "snapshot")
        console.fact("Vault", f"{snapshots}; {count_text(plan.count, 'file')}, {size_text(plan.bytes)}")
        console.fact("There", f"{plan.present:,} files")
        if plan.wrong:
            console.fact("Wrong there", f"{count_text(len(plan.wrong), 'file')}, which would be replaced")
        only = {kind.value: len(names) for kind, names in plan.surplus.items() if names}
        extra = ", ".join(f"{count:,} in `{kind}`" for kind, count in only.items())
        if extra:
            console.fact("Only there", extra)
        for text in result.leaving[:_LISTED]:
            console.fact("Would go", f"snapshot {text}")
        if len(result.leaving) > _LISTED:
            console.line(f"             … and {len(result.leaving) - _LISTED:,} more (all of them: --json)")
        _show_staying(console, result)
    if result.hidden is not None and result.hidden.plan is not None:
        plan = result.hidden.plan
        files = f"{count_text(plan.count, 'file')}, {size_text(plan.bytes)}"
        console.fact("Hidden", f"{count_text(plan.snapshots, 'snapshot')} of what git hides; {files}")
    for path in result.archives.sent:
        console.fact("Archive", path_text(path))
    for note in result.notes:
        console.line(f"Note: {note}")
    console.line("Nothing was sent or deleted")
