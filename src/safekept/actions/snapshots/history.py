"""Every distinct version of one file, over all snapshots of a home.

Versions are distinguished by content: a snapshot that holds the same bytes adds no line. Only the
directories along the path are loaded, and each distinct one once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field

from safekept.core.entries import Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.landing import NothingMatches
from safekept.vault.errors import NoSuchSnapshot, VaultDamaged
from safekept.vault.format import Node
from safekept.vault.read import HomeSource, damaged_remark, has_bytes, snapshot_source
from safekept.vault.repo import Repository

from ..base.context import HomeRef, UserContext
from ..vault.opening import open_vault
from .choosing import latest
from .contents import patch, text_of
from .listing import Listed, Listing, is_of, list_home, newest_first
from .live_home import looks_like_database
from .stored_home import NotAHome, light_source, near_paths, other_home_with, path_in_home, reading


@dataclass(slots=True)
class Version:
    """One content that the file had."""

    node: Node
    source: HomeSource  # where it can be read: the newest snapshot that holds it
    first: Listed
    last: Listed
    snapshots: int = 1
    now: bool = False  # the live file is this one

    def as_dict(self) -> dict[str, object]:
        return {
            "size": self.node.size,
            "mtime_ns": self.node.mtime_ns,
            "mode": f"{self.node.mode:04o}",
            "snapshot": self.last.id,
            "first_seen": self.first.snapshot.time,
            "first_snapshot": self.first.id,
            "last_seen": self.last.snapshot.time,
            "snapshots": self.snapshots,
            "now": self.now,
        }


@dataclass(slots=True)
class History:
    """The versions of one file, newest first."""

    path: str
    place: HomeRef
    versions: list[Version] = field(default_factory=list)
    searched: int = 0  # snapshots that were looked at
    elsewhere: list[Listed] = field(default_factory=list)  # of other homes of this agent; not looked at
    remarks: list[Remark] = field(default_factory=list)  # where it could not be looked for
    #: "same", "changed", "missing", "directory", or "database" for one that is not compared.
    live: str = ""
    directory: Listed | None = None  # the newest snapshot in which the path is a directory
    patches: list[list[str]] = field(default_factory=list)  # from each version's predecessor to it
    texts: list[str | None] = field(default_factory=list)  # with the patches; None: a secret, or no text

    @property
    def elsewhere_text(self) -> str:
        """`4 snapshots of /home/ada/.hermes`."""
        homes = sorted({one.home for one in self.elsewhere})
        of = homes[0] if len(homes) == 1 else f"{len(homes)} other homes"
        count = len(self.elsewhere)
        return f"{count:,} snapshot{'s' if count > 1 else ''} of {of}"


def history(
    context: UserContext,
    place: HomeRef,
    path: str,
    *,
    directory: str = "",
    with_patches: bool = False,
    every: bool = False,
    listener: Listener = silent,
) -> History:
    """Look for one file in every snapshot of a home; `every`: in those of its agent's other homes, too."""
    with (
        open_vault(context, listener=listener) as repository,
        reading(repository, listener, context.caller.patience),
    ):
        listing = list_home(repository, place.home)
        alike = listing.alike(place.layout.name)
        snapshots = newest_first([*listing.of_home, *alike]) if every else listing.of_home
        found = History(_name(place, path, directory, repository, snapshots), place)
        found.elsewhere = [] if every else alike
        for one, source, node in _nodes(context, repository, snapshots, found, listener):
            _add(found, one, source, node)
        if not found.versions:
            near = [] if found.directory else _near(context, repository, snapshots, found)
            error = _never_seen(found, place, _newest(listing), near)
            there = other_home_with(context, repository, listing, (found.path,))
            if there and there not in {one.home for one in found.elsewhere}:
                look = NextStep("history", (found.path, "--home", there), before=f"`{there}` had it:")
                error.next_steps = (look, *error.next_steps)
            raise error
        found.versions.reverse()
        _compare_live(found, place)
        if with_patches:
            _patch_all(found, place)
        return found


def _name(place: HomeRef, path: str, directory: str, repository: Repository, snapshots: list[Listed]) -> str:
    """What the path is called in the home; the newest snapshots say which reading is meant."""
    for one in snapshots[:20]:
        source, _ = snapshot_source(repository, one.snapshot)
        name = path_in_home(path, (place.home, "/" + source.roots[0].place), directory, source)
        try:
            if source.node(name) is not None:
                return name
        except VaultDamaged:
            continue
    return path_in_home(path, (place.home,), directory)


def _nodes(
    context: UserContext,
    repository: Repository,
    snapshots: list[Listed],
    found: History,
    listener: Listener,
) -> Iterator[tuple[Listed, HomeSource, Node]]:
    """Where the file is, oldest first."""
    total = len(snapshots)
    for done, one in enumerate(reversed(snapshots)):
        listener(Event("look", done, total, "snapshots", one.short))
        found.searched += 1
        try:
            source = light_source(context, repository, one, found.place, found.path)
            node = source.node(found.path)
        except NotAHome:
            continue
        except VaultDamaged as error:
            found.remarks.append(damaged_remark(found.path, f"snapshot {one.short}", error))
            continue
        if node is not None and node.type in ("file", "symlink"):
            yield one, source, node
        elif node is not None and node.type == "dir":
            found.directory = one


def _add(found: History, one: Listed, source: HomeSource, node: Node) -> None:
    last = found.versions[-1] if found.versions else None
    if last is not None and (last.node.content, last.node.target) == (node.content, node.target):
        last.last, last.source, last.node = one, source, node
        last.snapshots += 1
    else:
        found.versions.append(Version(node, source, one, one))


def _compare_live(found: History, place: HomeRef) -> None:
    """Which of the versions the home has now; a live database is not opened for that."""
    full = os.path.join(place.home, found.path)
    newest = found.versions[0]
    if not os.path.lexists(full):
        found.live = "missing"
        return
    if os.path.isdir(full) and not os.path.islink(full):
        found.live = "directory"
        return
    if looks_like_database(newest.source, found.path, newest.node):
        found.live = "database"
        return
    found.live = "changed"
    for version in found.versions:
        if _is_now(version, full):
            version.now, found.live = True, "same"
            return


def _is_now(version: Version, full: str) -> bool:
    if version.node.type == "symlink":
        return os.path.islink(full) and os.readlink(full) == version.node.target
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(has_bytes(version.source.repository, version.node.content or b"", descriptor))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _patch_all(found: History, place: HomeRef) -> None:
    secret = place.layout.secret(found.path)
    texts = [None if secret else _text(found, version) for version in found.versions]
    found.texts = texts
    for number in range(len(texts)):
        if secret:
            found.patches.append(["(a secret: its text is not shown)"])
        elif number + 1 == len(found.versions):
            found.patches.append([])  # the first one that was stored has nothing before it
        else:
            found.patches.append(patch(found.path, texts[number + 1], texts[number]))


def _text(found: History, version: Version) -> str | None:
    if version.node.type == "symlink":
        return f"-> {version.node.target}\n"
    return text_of(version.source, found.path, version.node)


def _newest(listing: Listing) -> str:
    """By its id: what `latest` means may be another one by the time it is typed."""
    try:
        return latest(listing).short
    except NoSuchSnapshot:
        return next((one.short for one in listing.of_home), "latest")


#: How many of the newest snapshots are gone through for a name like the one that was typed.
_GONE_THROUGH = 5


def _near(
    context: UserContext, repository: Repository, snapshots: list[Listed], found: History
) -> list[NextStep]:
    """The histories of files that may have been meant; of a directory, what is in it."""
    home = _home_option(found.place)
    whole = [one for one in snapshots if not one.partial] or snapshots
    for one in whole[:_GONE_THROUGH]:
        try:
            source = light_source(context, repository, one, found.place, found.path)
            near = [(path, source.node(path)) for path in near_paths(source, found.path)]
        except (NotAHome, VaultDamaged):
            continue
        if files := [path for path, node in near if node is None or node.type != "dir"]:
            every = ("--all",) if not is_of(one.snapshot, found.place.home) else ()
            return [
                NextStep("history", (path,), before="Did you mean:").adding(*every, *home) for path in files
            ]
        if near:
            return [
                NextStep("snapshot show", (one.short, path), before="Did you mean this directory:").adding(
                    *home
                )
                for path, _ in near
            ]
    return []


def _home_option(place: HomeRef) -> tuple[str, ...]:
    return ("--home", place.home) if place.named else ()


def _never_seen(found: History, place: HomeRef, newest: str, near: list[NextStep]) -> SafekeptError:
    more: tuple[NextStep, ...] = tuple(near)
    home = _home_option(place)
    if found.elsewhere and not near:
        look = f"Look into {found.elsewhere_text} as well:"
        more = (NextStep("history", (found.path, "--all"), before=look).adding(*home),)
    if not found.searched:
        return NoSuchSnapshot(
            f"This vault holds no snapshots of `{place.home}` yet",
            kept="Nothing was changed",
            next_steps=(*more, NextStep("snapshot", before="Take one:")),
        )
    if found.directory is not None:
        short = found.directory.short
        return NothingMatches(
            f"`{found.path}` is a directory; a history is that of one file",
            kept="Nothing was changed",
            next_steps=(
                NextStep("snapshot show", (short, found.path), before="See what is in it:").adding(*home),
                NextStep("snapshot diff", (newest,), before="See what changed in it:").adding(*home),
            ),
            path=found.path,
        )
    one = found.searched == 1
    none = "The one snapshot" if one else f"None of the {found.searched:,} snapshots"
    return NothingMatches(
        f"{none} of `{place.home}` holds {'no' if one else 'a'} file called `{found.path}`",
        kept="Nothing was changed",
        next_steps=(
            *more,
            NextStep("snapshot show", (newest,), before=f"See what snapshot {newest} holds:").adding(*home),
        ),
        path=found.path,
    )
