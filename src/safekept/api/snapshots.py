"""Homes: points in time of them in the vault, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .apart import in_its_own_process
from .landing import missing_of, need_consent, plan_of, selection
from .user import PathLike, current_user, one_of, standing, text, texts
from .values import Missing, Restored, Snapshot, Version

if TYPE_CHECKING:
    from safekept.actions.snapshots.listing import Listed


#: What a program may say a snapshot is for.
_KINDS = ("manual", "quick", "scheduled", "pre-update", "pre-migration")


def snapshot(
    home: PathLike | None = None,
    *,
    quick: bool = False,
    label: str = "",
    kind: str = "",
    secrets: bool = True,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    profile: str = "",
    layout: str = "",
) -> Snapshot:
    """Take a point in time of a home into the vault, even while the agent runs.

    `home` is the agent's own place where it is not given. `quick` takes the state files only: what the
    agent knows and is. `kind` is `manual` or `quick` unless said (`scheduled`, `pre-update`,
    `pre-migration`). The vault is made on first use. Look at `complete`: what was selected and could not
    be stored, or is damaged, is in `missing`.

    >>> taken = safekept.snapshot(label="before the experiment")
    >>> taken.complete, taken.kind, taken.label
    (True, 'manual', 'before the experiment')
    """
    from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot

    one_of("kind", kind or "manual", _KINDS)
    user = current_user()
    quick = quick or kind == "quick"
    request = SnapshotRequest(
        user.context.locate(text(home), layout),
        kind or ("quick" if quick else "manual"),
        label,
        selection(user, include, exclude, secrets=secrets, profile=profile, quick=quick),
        deadline=user.deadline,
        isolated=True,  # the program that calls may be the agent itself
    )
    done = create_snapshot(user.context, request)
    return Snapshot(
        **done.facts.document("id", "home", "kind", "label", "files", "bytes"),
        time=done.snapshot.time,
        complete=done.complete,
        missing=missing_of(done.remarks),
    )


def snapshots(home: PathLike | None = None, *, kind: str = "", layout: str = "") -> list[Snapshot]:
    """The snapshots of a home, newest first; only those of one `kind` where it is given.

    >>> _ = safekept.snapshot(quick=True)
    >>> [one.kind for one in safekept.snapshots(kind="quick")]
    ['quick']
    """
    from safekept.actions.snapshots.listing import list_home
    from safekept.actions.vault.opening import open_vault

    user = current_user()
    place = user.context.locate(text(home), layout, existing=False)
    with open_vault(user.context) as repository:
        found = list_home(repository, place.home).of_home
    return [_listed(one) for one in found if kind in ("", one.kind)]


@in_its_own_process
def history(
    path: PathLike, *, home: PathLike | None = None, diff: bool = False, layout: str = ""
) -> list[Version]:
    """Every version of one file of a home that the snapshots hold, newest first.

    Snapshots with the same content are one version. With `diff` each says how it differs from the one
    before it; the text of secrets is not shown.

    >>> _ = safekept.snapshot()
    >>> [version.now for version in safekept.history("SOUL.md")]
    [True]
    """
    from safekept.actions.snapshots.history import history as versions_of

    user = current_user()
    place = user.context.locate(text(home), layout, existing=False)
    found = versions_of(user.context, place, text(path), directory=standing(), with_patches=diff)
    return [
        Version(
            snapshot=one.last.id,
            size=one.node.size,
            mode=one.node.mode,
            mtime_ns=one.node.mtime_ns,
            first_seen=one.first.snapshot.time,
            last_seen=one.last.snapshot.time,
            now=one.now,
            diff="\n".join(found.patches[number]) if diff else "",
        )
        for number, one in enumerate(found.versions)
    ]


@in_its_own_process
def restore(
    snapshot: str = "latest",
    paths: Iterable[PathLike] = (),
    *,
    home: PathLike | None = None,
    into: PathLike | None = None,
    exact: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    allow_damaged: bool = False,
    layout: str = "",
) -> Restored:
    """Bring a home, or some paths of it, back from a snapshot.

    `snapshot` is an id or the start of one, a number of the list, a label, or `latest`. With `dry_run` the
    answer is the plan and nothing is changed. Where something would be replaced or removed, `yes=True` is
    needed, as on the command line; without it `consent-needed` is raised. `exact` also removes what the
    snapshot does not hold; `into` restores into another directory. What is replaced is kept:
    `safekept.undo()` brings it back.

    >>> _ = safekept.snapshot()
    >>> _ = (home / "SOUL.md").write_text("You are another.")
    >>> plan = safekept.restore("latest", ["SOUL.md"], dry_run=True).plan
    >>> plan.replace, plan.create
    (('SOUL.md',), ())
    >>> safekept.restore("latest", ["SOUL.md"], yes=True).replaced
    1
    """
    from safekept.actions.restoring.restore import RestoreRequest, prepare_restore

    user = current_user()
    request = RestoreRequest(
        word=snapshot,
        paths=texts(paths),
        home=text(home),
        layout=layout,
        into=text(into),
        exact=exact,
        allow_damaged=allow_damaged,
        deadline=user.deadline,
        keep_days=user.settings.whole("import.keep_days"),
        directory=standing(),
    )
    with prepare_restore(user.context, request) as prepared:
        plan = plan_of(prepared)
        if dry_run:
            return Restored(prepared.chosen.id, plan)
        need_consent("restore", plan, yes)
        prepared.refuse_doubt()
        done = prepared.carry_out()
    lost = tuple(Missing(path, reason) for path, reason in done.lost)
    counts = done.facts.document("operation", "created", "replaced", "removed")
    notes = tuple(done.notes)
    return Restored(prepared.chosen.id, plan, True, **counts, complete=done.complete, lost=lost, notes=notes)


def _listed(one: Listed) -> Snapshot:
    return Snapshot(
        id=one.id,
        home=one.home,
        kind=one.kind,
        label=one.label,
        time=one.snapshot.time,
        files=one.files,
        bytes=one.bytes,
        complete=one.complete,
        number=one.number or None,
        pinned=one.pinned,
    )
