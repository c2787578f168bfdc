"""`safekept rollback`: see the checkpoints of a project, and go back to one."""

from __future__ import annotations

import click

from safekept.settings.policies import take_settings_from

from ...as_owner import begin_as_owner
from ...options import common_options, start
from ...words.lists import at_directory, directory_of, show_where_to_stand


@click.command("rollback")
@click.argument("target", metavar="[N|ID]", required=False, default="")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option(
    "--diff",
    is_flag=True,
    help="Show what changed since then, as text; change nothing. Without N: since number 1.",
)
@click.option("--undo", is_flag=True, help="Take the last rollback back; doing it again undoes that.")
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    default="",
    help="The project, or an agent's home; default: where you are.",
)
@click.option(
    "--session", metavar="ID", default="", help="List only what belongs to this session of an agent."
)
@click.option(
    "--turn",
    metavar="[ID]",
    is_flag=False,
    flag_value="",
    default=None,
    help="Take back what one turn of an agent changed, in every project and in its home. Without ID: the "
    "newest turn that changed something here.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="List everything: marks, undo points, and points to which nothing changed.",
)
@click.option("--all-projects", is_flag=True, help="List the points of every project in one timeline.")
@click.option(
    "--git",
    is_flag=True,
    help="Also put the project's git repository back: branches, tags, HEAD, stashes, index; the whole of "
    "`.git` where it is gone. Without N: number what only moved there, too.",
)
@click.option(
    "--overwrite-mine", is_flag=True, help="Also take back what you changed after the agent's last turn."
)
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@common_options
def command(
    target: str,
    files: tuple[str, ...],
    diff: bool,
    undo: bool,
    directory: str,
    session: str,
    turn: str | None,
    every: bool,
    all_projects: bool,
    git: bool,
    overwrite_mine: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Without N, list the checkpoints of the project you are in; with N or an ID, go back to it.

    `rollback 1` undoes the last change. It shows what it does and does it, without asking: what it
    replaces is kept first, and the printed `undo ID` brings that back. Numbers count what an agent or you
    made, newest first; going back moves none of them. With FILE only those files. Files that you changed
    after the agent's last turn stay as they are, and are listed.

    Your `.git` is not touched, unless you say --git: then branches, tags, stashes and index go back as well,
    and with --git the printed `undo ID` brings back where they stood. What git shows as lost (a branch that
    was deleted, a stash that was dropped, a history that was rewritten) is back, too.

    Files of an agent's own home (skills, jobs, memories) that were kept before a change are in the same
    list, without a number: their ID brings them back. In the home itself they have numbers.

    A list shows the turns of an agent with their ids. `--turn ID` takes back what that turn changed, and only
    that: in every project where it worked and in the agent's home, with one `undo ID` for all of it. What
    you or a later turn changed again stays, and is listed. A place that cannot go back is named, and the
    others do.

    Exit code 3: something that the checkpoint holds could not be put back, and is listed; its number stays.
    """
    if undo and (files or diff):
        raise click.UsageError("--undo takes back a whole rollback; it goes with no FILE and no --diff.")
    if git and (files or diff or undo or all_projects):
        raise click.UsageError(
            "--git puts a whole repository back; it goes with no FILE, --diff, --undo or --all-projects."
        )
    if any(not name.strip() for name in files) or (files and not target.strip()):
        raise click.UsageError("An empty name means no file; without FILE everything goes back.")
    if turn is not None and (target or undo or diff or git or every or all_projects):
        raise click.UsageError(
            "--turn takes a whole turn back; it goes with no N, FILE, --diff, --undo, --git or list."
        )
    place = directory_of(directory)
    if not all_projects:
        begin_as_owner(place)
    settings, context, console = start(as_json)
    from safekept.actions.projects.points import CHECKPOINT, Points, Target, names_a_point

    from ...words.points import show_difference, show_every_point, show_timeline
    from ...words.rollback import show_rollback

    points = Points(
        context,
        place,
        settings=take_settings_from(settings, context, home, layout),
        session=session,
        deadline=settings.number("database.deadline"),
        keep_days=settings.number("import.keep_days"),
        listener=console.listener(),
    )
    with points:
        if all_projects:
            return show_every_point(console, points.everywhere(session=session, every=every), every)
        if diff:
            if target and not files and not names_a_point(target):
                target, files = "", (target,)
            compared = points.diff(points.resolve(target), files)
            console.finish()
            return show_difference(console, compared)
        if not target and not undo and turn is None:
            found = points.list(session=session, every=every, git=git, words=True)
            console.finish()
            return show_timeline(console, found, at_directory(directory), every, bool(session), git)
        if undo:
            meant = Target(CHECKPOINT, points.need_project(), target) if target else points.last_rollback()
            outcome = points.undo(meant, overwrite_mine=overwrite_mine, dry_run=dry_run)
        elif turn is not None:
            one = points.turn(turn, session)
            go = points.plan if dry_run else points.apply
            outcome = go(one, overwrite_mine=overwrite_mine)
        elif dry_run:
            outcome = points.plan(points.resolve(target), files, overwrite_mine=overwrite_mine, git=git)
        else:
            outcome = points.apply(points.resolve(target), files, overwrite_mine=overwrite_mine, git=git)
    console.finish()
    code = show_rollback(console, outcome)
    show_where_to_stand(console, place)
    return code
