"""Homes: carried away in one file, and brought back from one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from safekept.core.archive_names import FORMATS, format_of

from .apart import in_its_own_process
from .landing import missing_of, need_consent, plan_of, selection
from .user import PathLike, current_user, one_of, text, words
from .values import Archive, Restored


def backup(
    output: PathLike | None = None,
    *,
    home: PathLike | None = None,
    quick: bool = False,
    seal: Sequence[str] = (),
    format: str = "",
    secrets: bool = True,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    profile: str = "",
    keep: int | None = None,
    dry_run: bool = False,
    layout: str = "",
) -> Archive:
    """Carry a home away in one file, which is read back whole before it gets its name.

    `output` is a file, a directory, or nothing for the usual place. `seal` names recipients, as `--seal` of
    the command line does. `format` is `zip` or `tar.zst`. `keep` lets all but so many archives of this home
    go. With `dry_run` nothing is written.

    >>> archive = safekept.backup("home.zip")
    >>> archive.complete, archive.path.endswith("home.zip")
    (True, True)
    """
    from safekept.actions.archives.backup import BackupRequest, preview_backup
    from safekept.actions.archives.backup import backup as write

    user = current_user()
    settings, path = user.settings, text(output)
    form = format or format_of(path)
    one_of("format", form or FORMATS[0], FORMATS)
    request = BackupRequest(
        place=user.context.locate(text(home), layout),
        output=path if output is not None else settings.text("backup.output"),
        form=form or settings.text("backup.format"),
        selection=selection(user, include, exclude, secrets=secrets, profile=profile, quick=quick),
        keep=keep if keep is not None else settings.whole("backup.keep"),
        deadline=user.deadline,
        seal=words(seal) or settings.texts("backup.seal"),
        isolated=True,
    )
    if dry_run:
        seen = preview_backup(user.context, request)
        remarks = missing_of(seen.remarks)
        return Archive(seen.output, seen.place.home, seen.files, seen.bytes, False, missing=remarks)
    done = write(user.context, request)
    written = done.written
    return Archive(
        **done.facts.document("path", "home", "files", "bytes"),
        done=True,
        operation=done.operation,
        complete=written.complete,
        missing=missing_of(written.remarks),
        rotated=done.rotated,
    )


@in_its_own_process
def import_archive(
    file: PathLike,
    *,
    home: PathLike | None = None,
    into: PathLike | None = None,
    only: Iterable[str] = (),
    exact: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    allow_damaged: bool = False,
    layout: str = "",
) -> Restored:
    """Bring a home back from an archive: one of safekept's, or one that `hermes backup` made.

    With `dry_run` the answer is the plan and nothing is changed. Where something would be replaced, or what
    an agent can run comes from elsewhere, `yes=True` is needed; without it `consent-needed` is raised.
    What is replaced is kept: `safekept.undo()` brings it back.

    >>> archive = safekept.backup("home.zip")
    >>> safekept.import_archive(archive.path, into="elsewhere").created == archive.files
    True
    """
    from safekept.actions.restoring.import_ import ImportRequest, prepare_import

    user = current_user()
    request = ImportRequest(
        file=text(file),
        home=text(home),
        layout=layout,
        into=text(into),
        exact=exact,
        only=words(only),
        allow_damaged=allow_damaged,
        deadline=user.deadline,
        keep_days=user.settings.whole("import.keep_days"),
    )
    with prepare_import(user.context, request) as prepared:
        plan, source = plan_of(prepared), prepared.archive.path
        if dry_run:
            return Restored(source, plan)
        need_consent("import", plan, yes)
        done = prepared.carry_out()
    counts = done.facts.document("operation", "created", "replaced", "removed")
    notes = tuple(done.notes)
    return Restored(source, plan, True, **counts, complete=not plan.missing, lost=plan.missing, notes=notes)
