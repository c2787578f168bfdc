"""What brings back what a home has lost: which snapshot, which places of it, and the printed command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.spelling import shell_word
from safekept.home.health import LossSummary, places_of

from ..base.context import HomeRef, UserContext

if TYPE_CHECKING:
    from safekept.core.entries import Remark
    from safekept.vault.format import Node, Snapshot
    from safekept.vault.repo import Repository


def restore_command(context: UserContext, home: str, snapshot: str, paths: Iterable[str]) -> str:
    """A command that runs as printed and brings these paths back; no paths: the whole home."""
    words = restore_words(context, home, snapshot, paths)
    return set_aside_first(home) + " ".join(["safekept", *map(shell_word, words)])


def set_aside_first(home: str) -> str:
    """What has to be done before that command where a plain file is in the place of the home."""
    if not os.path.isfile(home):
        return ""
    return f"mv {shell_word(home)} {shell_word(home + '.file')} && "


def restore_words(context: UserContext, home: str, snapshot: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The words of that command after the program."""
    try:
        # Without the variables of this shell: the command may be run in another.
        usual = context.changed(environment={}).locate(existing=False).home
    except SafekeptError:
        usual = ""
    named = [] if home == usual else ["--home", home]
    safe = [f"./{path}" if path.startswith("-") else path for path in paths]
    return ("snapshot", "restore", snapshot[:8], *safe, *named)


def places_kept(
    repository: Repository, place: HomeRef, lost: LossSummary, holders: Sequence[str], new: Snapshot
) -> list[tuple[str, str]]:
    """Snapshots, each with a place of what is lost that it holds; "" is the whole home.

    `holders`: for each count that fell, the snapshot that has its last known state.
    """
    found: list[tuple[str, str]] = []
    whole = _newest_whole(repository, place.home, new) if lost.whole or lost.profiles else ""
    if whole:
        found += [(whole, path) for path in ([""] if lost.whole else lost.profiles)]
    folded = lost.folded(place.layout)
    for fall, holder in zip(lost.falls, holders, strict=True):
        if lost.place_of(fall) is None or holder != whole:  # of a class the last known state counts
            found += [(holder, folded.get(path, path)) for path in places_of(place.layout, fall)]
    return found


def _newest_whole(repository: Repository, home: str, new: Snapshot) -> str:
    """The newest snapshot before this one that holds all of a home; "" where there is none."""
    from ..snapshots.listing import UNDO_POINTS, list_home

    for one in list_home(repository, home).shown:
        if not one.partial and one.kind not in UNDO_POINTS and one.snapshot.id != new.id:
            return one.id
    return ""


def restore_commands(
    context: UserContext, repository: Repository, place: HomeRef, wanted: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    """For each snapshot that holds some of it, the command that brings that back."""
    from safekept.vault.read import snapshot_source
    from safekept.vault.snapshots import list_snapshots, public_id

    snapshots = {public_id(one): one for one in list_snapshots(repository)[0]}
    paths: dict[str, list[str]] = {}
    for holder, path in wanted:
        if holder not in snapshots:
            continue
        source, _ = snapshot_source(repository, snapshots[holder])
        try:
            there = not path or source.node(path) is not None
        except SafekeptError:
            there = False
        named = paths.setdefault(holder, [])
        if there and not any(path == one or path.startswith(f"{one}/") for one in named):
            named.append(path)
    return tuple(
        restore_command(context, place.home, holder, () if "" in some else some)
        for holder, some in paths.items()
        if some
    )


def holds_again(repository: Repository, holder: str, new: Snapshot, paths: Sequence[str]) -> bool:
    """Whether a snapshot has all of these as the holder has them, byte for byte; more is no harm."""
    from safekept.vault.read import snapshot_source, tree_changes
    from safekept.vault.snapshots import list_snapshots, public_id

    old = next((one for one in list_snapshots(repository)[0] if holder and public_id(one) == holder), None)
    if old is None or not paths:
        return False
    before, after = snapshot_source(repository, old)[0], snapshot_source(repository, new)[0]
    unread: list[Remark] = []
    for path in paths:
        was, now = before.node(path), after.node(path)
        if was is None or not _is_same(was, now):
            return False
        below = tree_changes(repository, was.subtree, now.subtree if now else None, unread, path + "/")
        if not all(then is None or _is_same(then, there) for _, then, there in below):
            return False
    return not unread


def _is_same(was: Node, now: Node | None) -> bool:
    """Of a directory only that it is one: what lies in it is judged by itself."""
    from safekept.vault.read import same_content

    return now is not None and (was.type == now.type == "dir" or same_content(was, now))
