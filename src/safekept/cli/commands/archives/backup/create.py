"""`safekept backup [create]`: carry a home away in one file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from safekept.actions.archives.backup import BackupRequest, BackupResult, Preview, backup, preview_backup
from safekept.core.archive_names import FORMATS, format_of, unsealed_name
from safekept.home.scan import Selection

from ....console import Console, count_text, path_text, size_text, time_text
from ....options import common_options, selection_options, start
from ....sealing import passphrase_options, words_again
from ....words.grace import gone_text
from ....words.remarks import show_census, show_missing, show_remarks

if TYPE_CHECKING:
    from safekept.archive import Seal, Written


@click.command("create")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="A file, a directory, or a name without suffix; default: the setting `backup.output`, "
    "else your home directory.",
)
@click.option(
    "-q",
    "--quick",
    is_flag=True,
    help="Only the state files, as a snapshot in the vault; with -o as an archive.",
)
@click.option(
    "-l",
    "--label",
    metavar="TEXT",
    default="",
    help="With --quick and without -o: a few words to know the snapshot by.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="zip (the default) is read by Hermes too; tar.zst is smaller and faster, and keeps links as links.",
)
@click.option(
    "--seal",
    metavar="TO",
    multiple=True,
    callback=lambda _context, _option, given: _recipients(given),
    help="Only TO can open it: an age or SSH public key, a file of keys, gpg:KEY, passphrase, "
    "gpg-symmetric; may be repeated; default: the setting `backup.seal`.",
)
@click.option("--no-seal", is_flag=True, help="Leave it open, whatever the settings say.")
@passphrase_options
@click.option(
    "--no-secrets", is_flag=True, help="Leave out what the layout knows as keys and tokens; each is listed."
)
@selection_options
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=0),
    help="After a complete run keep the N newest complete archives of this home with the same "
    "choices there; 0 keeps all.",
)
@click.option(
    "--lean",
    is_flag=True,
    help="Leave out search indexes that an import can rebuild; Hermes's own import would not make them.",
)
@click.option("--dry-run", is_flag=True, help="Show exactly what would be taken and left out; write nothing.")
@common_options
def command(
    output: str | None,
    quick: bool,
    label: str,
    form: str | None,
    seal: tuple[str, ...],
    no_seal: bool,
    no_secrets: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    profile: str,
    keep: int | None,
    lean: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Carry a home away in one file, even while the agent runs.

    Live databases are taken as one committed state. The file appears under its name only after it
    was read back whole. With --quick and no -o, the state files go into the vault instead, as
    `safekept snapshot --quick` does. With --seal, only the holder of a key or passphrase can open
    the file, and nothing of it is ever on the disk in the clear. Exit code 0: complete; 3: written,
    but something is missing, torn or damaged, and everything is listed; 1: nothing was written.
    """
    _refuse_what_does_not_fit(output, quick, label, form, keep)
    if seal and (no_seal or (quick and output is None)):
        raise click.UsageError("--seal goes with an archive, and not with --no-seal; with --quick, name one.")
    if quick and output is None:
        return _quick_snapshot(label, no_secrets, include, exclude, profile, dry_run, home, layout, as_json)
    settings, context, console = start(as_json)
    recipients = () if no_seal else seal or settings.texts("backup.seal")
    form = _form(output or "", form, sealed=bool(recipients)) or settings.text("backup.format")
    request = BackupRequest(
        place=context.locate(home, layout),
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
        seal=recipients,
        lean=lean,
    )
    if dry_run:
        return _show_preview(console, preview_backup(context, request, console.listener()))
    result = backup(context, request, console.listener())
    console.finish()
    named = [*(("--home", result.place.home) if home else ()), *(("--layout", layout) if layout else ())]
    again = ["backup", *(("-o", os.path.abspath(output)) if output else ())]
    again += [word for one in seal for word in ("--seal", one)]
    again += [word for one in include for word in ("--include", one)]
    again += [word for one in exclude for word in ("--exclude", one)]
    again += ["--profile", profile] if profile else []
    flags = {"--quick": quick, "--no-seal": no_seal, "--no-secrets": no_secrets, "--lean": lean}
    again += [flag for flag, given in flags.items() if given]
    return _show_result(console, result, named, [*again, *words_again()])


def _recipients(given: tuple[str, ...]) -> tuple[str, ...]:
    """For whom it is sealed; an option that stands there means that none was named."""
    for one in given:
        if one.startswith("-"):
            raise click.UsageError(f"--seal needs to know for whom, and `{one}` is an option.")
    return given


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
    from ...snapshots.snapshot.create import take

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


def _form(output: str, form: str | None, *, sealed: bool) -> str | None:
    """The format that a file name already says; one that says another is a mistake."""
    if not sealed and unsealed_name(output) != output:
        raise click.UsageError("A file name that ends like a sealed one goes with --seal.")
    ending = format_of(output)
    if form and ending and form != ending:
        raise click.UsageError(f"--format {form} and a file name that ends in .{ending} do not go together.")
    return form or ending or None


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
            "sealed": preview.seal.as_dict() if preview.seal is not None else None,
        }
    )
    console.heading(f"Would back up {preview.place.home}")
    console.fact("Archive", preview.output)
    if preview.seal is not None:
        _show_seal(console, preview.seal, "")
    console.fact("Files", f"{preview.files:,}, {size_text(preview.bytes)}")
    for name, count in preview.largest:
        console.fact("", f"{size_text(count):>9}  {name}")
    for path in preview.rotation.remove:
        console.fact("Would go", path)
    show_remarks(console, preview.remarks, report="")
    console.line("Nothing was written")
    return 0


def _show_result(console: Console, result: BackupResult, named: list[str], again: list[str]) -> int:
    written = result.written
    identity, opens = _opening(written)
    restore = console.command("import", written.path, *named, *identity)
    console.document(
        {
            "operation": result.operation,
            **result.as_dict(),
            **result.facts.document(),
            "rotated_until": result.kept_until or None,
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
    if written.seal is not None:
        _show_seal(console, written.seal, opens)
    else:
        console.fact("Not sealed", "anyone with this file can read all of it, keys such as in `.env` too")
    console.fact("Time", time_text(written.seconds))
    show_census(console, result.facts.census)
    for path in result.rotated:
        console.fact("Removed", f"{path_text(path)} (--keep)")
    if result.rotated:
        console.fact("Kept", gone_text(result.kept_until))
    if result.kept_until:
        console.fact("", f"bring back what was removed: `{console.command('undo', result.operation)}`")
    show_remarks(console, written.remarks, result.report)
    if not written.complete:
        show_missing(console, written.remarks, None, named, again)
    words = "Restore with" if written.complete else "What else is in it can be restored with"
    console.line(f"{words}: `{restore}`")
    return 0 if written.complete else 3


def _show_seal(console: Console, seal: Seal, opens: str) -> None:
    secret = seal.to[0] in ("passphrase", "gpg-symmetric")
    to = "with a passphrase" if secret else f"to {', '.join(seal.to)}"
    console.fact("Sealed", f"{seal.kind}, {to}")
    if opens:
        console.fact("", opens)


def _opening(written: Written) -> tuple[tuple[str, ...], str]:
    """What a restore has to be told of a sealed archive, and who can do it, in words."""
    seal = written.seal
    if seal is None:
        return (), ""
    if seal.to[0] in ("passphrase", "gpg-symmetric"):
        return (), "it opens with that passphrase, which is kept nowhere"
    if seal.kind == "gpg":
        return (), "it opens where gpg has the private half of that key"
    return (
        "--identity",
        "KEYFILE",
    ), "it opens with the private half of that key (KEYFILE below)"
