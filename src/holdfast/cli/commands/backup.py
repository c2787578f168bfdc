"""`holdfast backup`: carry a home away in one file."""

from __future__ import annotations

import click

from holdfast.actions.backup import BackupRequest, BackupResult, Preview, backup, preview_backup
from holdfast.cli.console import Console, count_text, path_text, size_text, time_text
from holdfast.cli.options import common_options, start
from holdfast.cli.remarks import census_lines, show_remarks
from holdfast.home.scan import Selection


@click.command("backup")
@click.option("-o", "--output", metavar="PATH", help="A file, a directory, or a name without suffix.")
@click.option(
    "-q",
    "--quick",
    is_flag=True,
    help="Only the state files, as a snapshot in the vault; with -o as an archive.",
)
@click.option("-l", "--label", metavar="TEXT", default="", help="With --quick: a few words to know it by.")
@click.option("--format", "form", type=click.Choice(["zip", "tar.zst"]), help="zip is read by Hermes too.")
@click.option("--no-secrets", is_flag=True, help="Leave keys and tokens out.")
@click.option("--include", metavar="PATH", multiple=True, help="Bring in what a rule leaves out.")
@click.option("--exclude", metavar="PATH", multiple=True, help="Leave out a path, anchored at the home.")
@click.option("--profile", metavar="NAME", default="", help="Only this profile of the home.")
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=0), help="Keep N complete archives; 0 keeps all."
)
@click.option("--dry-run", is_flag=True, help="Show what would be taken; write nothing.")
@common_options
def command(
    output: str | None,
    quick: bool,
    label: str,
    form: str | None,
    no_secrets: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    profile: str,
    keep: int | None,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Carry a home away in one file, even while the agent runs.

    Live databases are taken as one committed state. The file appears under its name only after it
    was read back whole. With --quick and no -o, the state files go into the vault instead, as
    `holdfast snapshot --quick` does. Exit code 0: complete; 3: written, but something is missing,
    torn or damaged, and everything is listed; 1: nothing was written.
    """
    _refuse_what_does_not_fit(output, quick, label, form, keep)
    if quick and output is None:
        return _quick_snapshot(label, no_secrets, include, exclude, profile, dry_run, home, layout, as_json)
    settings, surroundings, console = start(as_json)
    form = _form(output or "", form) or settings.text("backup.format")
    request = BackupRequest(
        place=surroundings.locate(home, layout),
        output=output if output is not None else settings.text("backup.output"),
        form=form,
        selection=Selection(
            include=include or settings.texts("backup.include"),
            exclude=exclude or settings.texts("backup.exclude"),
            secrets=not no_secrets,
            profile=profile,
            quick=quick,
        ),
        keep=keep if keep is not None else settings.whole("backup.keep"),
        deadline=settings.number("database.deadline"),
        measure=console.draws(),
    )
    if dry_run:
        return _show_preview(console, preview_backup(surroundings, request, console.listener()))
    result = backup(surroundings, request, console.listener())
    console.finish()
    named = [*(("--home", result.place.home) if home else ()), *(("--layout", layout) if layout else ())]
    return _show_result(console, result, named)


def _refuse_what_does_not_fit(
    output: str | None, quick: bool, label: str, form: str | None, keep: int | None
) -> None:
    if label and (not quick or output is not None):
        raise click.UsageError("--label goes with --quick and without -o: only snapshots have labels.")
    if quick and output is None and (form or keep is not None):
        raise click.UsageError("--format and --keep go with an archive: name it with -o.")


def _quick_snapshot(
    label: str,
    no_secrets: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    profile: str,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    from holdfast.cli.commands.snapshot.create import take

    return take(
        "quick",
        label=label,
        quick=True,
        no_secrets=no_secrets,
        include=include,
        exclude=exclude,
        profile=profile,
        dry_run=dry_run,
        home=home,
        layout=layout,
        as_json=as_json,
    )


def _form(output: str, form: str | None) -> str | None:
    """The format that a file name already says; one that says another is a mistake."""
    said = next((known for known in ("tar.zst", "zip") if output.endswith(f".{known}")), None)
    if form and said and form != said:
        raise click.UsageError(f"--format {form} and a file name that ends in .{said} do not go together.")
    return form or said


def _show_preview(console: Console, preview: Preview) -> int:
    console.finish()
    console.document(
        {
            "dry_run": True,
            "home": preview.place.home,
            "layout": preview.place.layout.name,
            "archive": preview.output,
            "files": preview.files,
            "bytes": preview.bytes,
            "paths": preview.paths,
            "remarks": [remark.as_dict() for remark in preview.remarks],
            "would_remove": preview.rotation.remove,
        }
    )
    console.heading(f"Would back up {preview.place.home}")
    console.fact("Archive", preview.output)
    console.fact("Files", f"{preview.files:,}, {size_text(preview.bytes)}")
    for name, count in preview.largest:
        console.fact("", f"{size_text(count):>9}  {name}")
    for path in preview.rotation.remove:
        console.fact("Would go", path)
    show_remarks(console, preview.remarks, report="")
    console.line("Nothing was written")
    return 0


def _show_result(console: Console, result: BackupResult, named: list[str]) -> int:
    written = result.written
    restore = console.command("import", written.path, *named)
    console.document(
        {
            "operation": result.operation,
            "home": result.place.home,
            "layout": result.place.layout.name,
            **written.as_dict(),
            "census": result.census,
            "rotated": result.rotated,
            "report": result.report,
            "restore": restore,
        }
    )
    console.heading(
        f"Backup {'complete' if written.complete else 'incomplete'}: {path_text(written.path)}",
        written.complete,
    )
    console.fact("Home", f"{path_text(result.place.home)} ({result.place.layout.name})")
    links = f", {count_text(written.links, 'link')}" if written.links else ""
    console.fact("Files", f"{written.files:,}{links}, {size_text(written.bytes)}")
    console.fact("Archive", f"{size_text(written.stored_bytes)}, read back and proven")
    console.fact("Time", time_text(written.seconds))
    for line in census_lines(result.census):
        console.fact("Holds", line)
    for path in result.rotated:
        console.fact("Removed", f"{path_text(path)} (--keep)")
    show_remarks(console, written.remarks, result.report)
    if written.complete:
        console.line(f"Restore with: `{restore}`")
    else:
        console.line(f"What is in it can be restored with: `{restore}`")
    return 0 if written.complete else 3
