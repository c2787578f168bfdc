"""`safekept uninstall`: the mirror of `setup`; what calls safekept goes, what it keeps stays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from safekept.core.errors import ConsentNeeded, SafekeptError
from safekept.core.next_step import NextStep

from ...console import Console, path_text
from ...options import start
from ...questions import prompt
from ...screen import Screen

if TYPE_CHECKING:
    from safekept.actions.schedule.install import Installed
    from safekept.actions.schedule.other_installations import OtherInstallation
    from safekept.actions.setup.remaining import Remaining
    from safekept.actions.setup.survey import AgentPlace
    from safekept.integrations.hermes.update_wrapper import UpdateWrapper


class StillCalled(SafekeptError):
    code, exit_code = "still-called", 3


#: What a person types to have the stores deleted, too.
WORD = "delete"


#: What calls another installation of this user's, by the host that does.
_CALLS = {
    "cron": "The crontab (`crontab -l`)",
    "systemd": "A timer (`systemctl --user list-timers`)",
    "launchd": "An agent (`launchctl list`)",
}


@click.command("uninstall")
@click.option("--stores", is_flag=True, help="Also delete every store: vault, key, checkpoints, settings.")
@click.option("--word", metavar="WORD", default="", help=f"With --stores and no terminal: `{WORD}`.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; does not answer for --stores.")
@click.option("--dry-run", is_flag=True, help="Show what would go and what would stay; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(stores: bool, word: str, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Take back what `safekept setup` did: connections, schedule, the wrapper of updates.

    The settings of your agents come back byte for byte, or lose only our entries where others wrote to
    them since. Snapshots, checkpoints, key and settings stay where they are, and are listed; with
    --stores they are deleted for good, after a typed word. Copies in destinations are never touched.
    Exit code 3: something could not be taken back, and is listed.
    """
    from safekept.actions.base.own_places import rebuilt_homes
    from safekept.actions.schedule.host import find_leftovers, linger_file
    from safekept.actions.schedule.install import SYSTEMD, installed
    from safekept.actions.schedule.other_installations import other_installations
    from safekept.actions.schedule.whose import stores_of
    from safekept.actions.setup.remaining import remove_stores, what_remains
    from safekept.actions.setup.take_back import take_back_setup
    from safekept.integrations.connecting.agents import connected_here
    from safekept.integrations.connecting.program import this_program
    from safekept.integrations.hermes.update_wrapper import look_at_wrapper, remove_wrapper

    from ..schedule.options import machine_of

    settings, context, console = start(as_json)
    machine = machine_of(settings)
    program = this_program(settings.environment)
    homes = rebuilt_homes(context)

    def callers() -> tuple[tuple[AgentPlace, ...], Installed | None, UpdateWrapper | None]:
        """Whatever calls safekept on this machine."""
        wrapper = look_at_wrapper(context)
        return (
            connected_here(context, program, console.notes(), homes),
            installed(context) or find_leftovers(machine, "", os.getuid(), stores_of(context)),
            wrapper if wrapper is not None and (wrapper.installed or wrapper.left) else None,
        )

    agents, schedule, wrapper = callers()
    lingers = linger_file(machine) if schedule is not None and schedule.host == SYSTEMD else ""
    others = other_installations(machine, stores_of(context))
    staying = what_remains(context, settings.config_directory, lingers)
    going = [one for one in staying if stores and one.store]
    words = Words(Screen(console, settings.user_home))
    words.plan(agents, schedule, wrapper, going)
    if dry_run:
        left = [one for one in staying if one not in going]
        console.document({"dry_run": True, **_document(agents, schedule, wrapper, going, left, others)})
        words.remains(left, program.words, others)
        console.line("Dry run. Nothing was changed")
        return 0
    nothing = not (agents or schedule or wrapper or going)
    if not nothing:
        _consent(console, yes=yes, stores=bool(going), word=word)
    undo_wrapper = partial(remove_wrapper, context) if wrapper is not None else None
    done = take_back_setup(context, agents, schedule, machine.run, undo_wrapper, console.notes())
    _stop_helper()
    if not done.problems and not nothing:
        done.problems += _still_called(*callers())  # what was taken back is looked for, not assumed gone
    if going and done.problems:
        going = []  # what is still called must not lose what it writes to
    elif going:
        remove_stores(context, settings.config_directory)
    left = [one for one in staying if one not in going]
    console.document(
        {
            "dry_run": False,
            **_document(agents, schedule, wrapper, going, left, others),
            "problems": [error.as_dict() for error in done.problems],
            "remarks": done.remarks,
        }
    )
    for problem in done.problems:
        console.error_beside(problem)
    words.done(nothing=nothing, problems=bool(done.problems), agents=agents, deleted=bool(going))
    for remark in done.remarks:
        console.fact("Note", path_text(remark))
    words.remains(left, program.words, others)
    return 0 if done.whole else 3


def _document(
    agents: Sequence[AgentPlace],
    schedule: Installed | None,
    wrapper: UpdateWrapper | None,
    going: Sequence[Remaining],
    left: Sequence[Remaining],
    others: Sequence[OtherInstallation],
) -> dict[str, object]:
    return {
        "disconnected": [one.as_dict() for one in agents],
        "schedule": schedule.host if schedule else None,
        "wrapper": wrapper.path if wrapper else None,
        "deleted": [one.as_dict() for one in going],
        "remains": [one.as_dict() for one in left],
        "other_installations": [one.as_dict() for one in others],
    }


def _still_called(
    agents: Sequence[AgentPlace], schedule: Installed | None, wrapper: UpdateWrapper | None
) -> list[SafekeptError]:
    """What calls safekept although it was taken back without an error."""
    left = [f"{one.name} in {one.scope}" if one.scope else one.name for one in agents]
    left += [f"the schedule that was installed with {schedule.host}"] if schedule is not None else []
    left += [wrapper.left or wrapper.path] if wrapper is not None else []
    if not left:
        return []
    return [
        StillCalled(
            f"safekept is still called by {', '.join(left)}",
            kept="Everything else was taken back; every store is untouched",
            next_steps=(NextStep("uninstall", before="Run it again:"),),
            callers=left,
        )
    ]


def _consent(console: Console, *, yes: bool, stores: bool, word: str) -> None:
    """A yes for what comes back with one command; a typed word for what does not."""
    if stores:
        if word == WORD:
            return
        if not console.can_ask():
            raise ConsentNeeded(
                "Deleting every snapshot and checkpoint on this machine needs your consent",
                kept="Nothing was changed",
                next_steps=(
                    NextStep("uninstall", ("--stores", "--dry-run"), before="See what would go:"),
                    NextStep("uninstall", ("--stores", "--word", WORD), before="Agree to it:"),
                ),
            )
        console.finish()
        typed = prompt(f"This cannot be undone. Type `{WORD}` to delete them", default="")
        if typed.strip() != WORD:
            raise click.Abort
        return
    if yes:
        return
    if not console.can_ask():
        raise ConsentNeeded(
            "Taking safekept out of your agents' settings needs your consent",
            kept="Nothing was changed",
            next_steps=(
                NextStep("uninstall", ("--dry-run",), before="See what would go:"),
                NextStep("uninstall", ("--yes",), before="Agree to it:"),
            ),
        )
    if not console.ask("Take this back?"):
        raise click.Abort


def _stop_helper() -> None:
    """The process that answers hooks has nothing left to answer; what it has begun is finished first."""
    from safekept.integrations.helper import client

    directory = client.helper_directory(dict(os.environ))
    client.ask(directory, client.request("stop", {}), b"", 5.0)


class Words:
    """What goes, and what stays."""

    def __init__(self, screen: Screen) -> None:
        self.screen, self.console = screen, screen.console

    def plan(
        self,
        agents: Sequence[AgentPlace],
        schedule: Installed | None,
        wrapper: UpdateWrapper | None,
        going: Sequence[Remaining],
    ) -> None:
        if agents or schedule or wrapper:
            self.console.line("To be taken back", bold=True)
        if agents:
            self.screen.fact("Connected", ", ".join(self._names(agents)))
        if schedule is not None:
            where = "lines in your crontab" if schedule.table else ", ".join(schedule.files)
            self.screen.fact("Schedule", f"installed with {schedule.host}: {path_text(where)}")
        if wrapper is not None:
            was = f"; what was there comes back from {wrapper.aside}" if wrapper.aside else ""
            text = wrapper.left or f"{wrapper.path}{was}"
            self.screen.fact("Updates", path_text(text))
        if going:
            self.console.line("To be deleted, for good", bold=True, fg="red")
            for one in going:
                self.screen.fact("Delete", path_text(f"{one.path} ({one.what})"))

    def _names(self, agents: Sequence[AgentPlace]) -> list[str]:
        """Each once; of those with one name, each with its place."""
        names = [one.name for one in agents]
        return [
            path_text(one.name) + (f" in {self.screen.path(one.scope)}" if names.count(one.name) > 1 else "")
            for one in agents
        ]

    def done(
        self, *, nothing: bool, problems: bool, agents: Sequence[AgentPlace], deleted: bool = False
    ) -> None:
        if nothing:
            self.console.heading("Nothing in this home directory calls safekept; nothing was changed")
        elif deleted and not problems:
            self.console.heading(
                "Done: nothing in this home directory calls safekept, and its stores are deleted"
            )
        elif problems:
            self.console.heading("Not everything could be taken back", good=False)
        else:
            self.console.heading("Done: nothing in this home directory calls safekept any more")
        if agents and not problems:
            self.screen.fact("Your part", "Restart your agents: until then they still have the plugin loaded")

    def remains(
        self, left: Sequence[Remaining], program: Sequence[str], others: Sequence[OtherInstallation] = ()
    ) -> None:
        for number, one in enumerate(left):
            text = f"{self.screen.path(one.path)} ({one.what})"
            self.screen.fact("Stays" if number == 0 else "", text)
        if any(one.store for one in left):
            delete = NextStep("uninstall", ("--stores",), before="Delete what is on this machine:")
            self.screen.fact("", delete)
        where = self.screen.path(program[0])
        for other in others:
            whose = f"the home directory {other.home}" if other.home else f"the data in {other.data}"
            self.screen.fact("Other", path_text(f"{_CALLS[other.host]} still calls safekept for {whose}"))
        if others:
            self.screen.fact("Program", f"{where}; keep it: without it that installation stops")
            return
        how = "delete the checkout, or `pipx uninstall safekept`"
        self.screen.fact("Program", f"{where}; remove it as you installed it ({how})")
        for link in links_to(program[0], os.environ.get("PATH", "")):
            self.screen.fact("", f"{self.screen.path(link)} is a link to it; it goes with `rm`")


def links_to(program: str, search: str) -> list[str]:
    """The links on the PATH, and in `~/.local/bin`, that lead to this checkout, as the README makes one. What
    an installer made goes with the installer."""
    places = [*search.split(os.pathsep), os.path.expanduser("~/.local/bin")]
    found = [os.path.join(place, "safekept") for place in dict.fromkeys(places) if place]
    real = os.path.realpath(program)
    if not os.path.exists(os.path.join(os.path.dirname(real), "pyproject.toml")):
        return []
    return [path for path in found if os.path.islink(path) and os.path.realpath(path) == real]
