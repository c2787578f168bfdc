"""What a machine is rebuilt from: a destination, a vault or an archive, opened with the key that was given.

Nothing that this machine knows is needed: the place and the key are enough. A place that holds several vaults
is no obstacle where the key opens one of them; a place that holds archives only gives the newest of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.files import NoRoom
from safekept.core.next_step import NextStep
from safekept.core.objects.base import ObjectStore
from safekept.core.objects.errors import PlaceMissing
from safekept.vault.errors import NoSuchVault, WrongKey
from safekept.vault.repo import Repository, Secret
from safekept.vault.snapshots import pick

from ..base.context import UserContext
from ..drill.place import drill_place
from ..drill.subject import Subject, open_archived, refuse_unreadable, subject_of
from ..offsite.archives_there import StoredArchive, choose, fetch, list_archives
from ..offsite.destination import DestinationSetting
from ..offsite.homes_in_vault import HomeInVault, SeveralHomes, choose_home, homes_in_vault
from ..offsite.place import NoSuchDestination, find_destination, open_destination
from ..snapshots.listing import Listed, Listing
from ..snapshots.soundness import Doubt, reasons_against, sound_ones
from ..snapshots.stored_home import reading
from ..vault.keys.key_file import KeyMissing
from ..vault.opening import open_vault, try_again
from ..vault.place import is_remote, vaults_in

# What a person asks of a rebuild.


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """From where, to where, and which of several."""

    place: str  # a destination by its name or URL, a vault by its path or URL, or the path of an archive
    home: str = ""  # where it is to go; empty: the agent's own place
    layout: str = ""
    snapshot: str = ""  # an id or the start of one; empty: the newest of the whole home
    host: str = ""  # whose, where several hosts are there
    of: str = ""  # which home of that host, by the path that it had
    archive: str = ""  # a name or `latest`: an archive of the destination, and not its vault
    allow_damaged: bool = False  # put it in place although a check failed
    deadline: float = 30.0
    named: str = ""  # what a person named to get there: a kit
    vault_id: str = ""  # of the vault that a kit is for: no other is meant
    key_given: bool = False  # a key or passphrase was named for this: it comes before the key of this machine


_UNCHANGED = "Nothing was changed"


class NothingToRebuild(SafekeptError):
    code, exit_code = "nothing-to-rebuild", 10


class AnotherVault(SafekeptError):
    """Only vaults lie there that are not the kit's."""

    code, exit_code = "vault-not-of-kit", 10


@dataclass(slots=True)
class Origin:
    """What was found there, open for reading."""

    subject: Subject
    kind: str  # "snapshot" or "archive"
    place: str  # the vault or the archive, as a person would name it
    host: str
    home: str  # where the home was
    chosen: Listed | None = None
    newer: Listed | None = None  # a quick snapshot that is newer than the chosen one
    sealed: str = ""
    doubt: Doubt | None = None  # the chosen one is not sound, and another is

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "place": self.place,
            "host": self.host,
            "home": self.home,
            "layout": self.subject.layout.name,
            "taken": self.subject.taken or None,
            "snapshot": self.chosen.as_dict() if self.chosen else None,
            "newer_quick": self.newer.id if self.newer else None,
            "doubt": self.doubt.as_dict() if self.doubt else None,
        }


@contextlib.contextmanager
def open_origin(context: UserContext, request: RebuildRequest, listener: Listener) -> Iterator[Origin]:
    """Find and open what is meant; an archive of a destination is fetched into scratch first."""
    word = request.place
    if not is_remote(context, word):
        if os.path.isfile(word):
            with _archive(context, request, word, listener) as origin:
                yield origin
            return
        if os.path.isabs(word) and not os.path.isdir(word):
            raise _nothing(word, f"There is nothing at `{word}`")
    with _at_place(context, request, listener) as origin:
        yield origin


@contextlib.contextmanager
def _at_place(context: UserContext, request: RebuildRequest, listener: Listener) -> Iterator[Origin]:
    listener(Event("read"))
    setting = _setting(context, request.place)
    with contextlib.closing(open_destination(context, setting)) as objects:
        base = request.place if os.path.isabs(request.place) else setting.url
        vaults = vaults_at(objects, base)
        if vaults and not request.archive:
            with _snapshot(context, request, vaults, listener) as origin:
                yield origin
            return
        try:
            archives = list_archives(objects, request.host)
        except PlaceMissing as error:
            raise _nothing(objects.location, error.what) from error
        if not archives and not request.archive:
            whose = f" of `{request.host}`" if request.host else ""
            raise _nothing(objects.location, f"`{objects.location}` holds no vault and no archives{whose}")
        chosen = choose(archives, request.archive or "latest", request.host)
        with (
            _scratch(context, chosen) as scratch,
            _archive(context, request, fetch(objects, chosen, scratch, listener), listener) as origin,
        ):
            origin.place, origin.host = f"{objects.location}/{chosen.place}", chosen.host
            yield origin


def homes_of_one_machine(error: SeveralHomes, request: RebuildRequest) -> list[RebuildRequest]:
    """A request for each home, where all are of one machine and each is another agent's; else none.

    Each then goes to its agent's own place, and none is in the way of another.
    """
    found = error.facts.get("homes")
    homes = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    layouts = [str(one.get("layout") or "") for one in homes]
    if len({one.get("host") for one in homes}) != 1 or len(set(layouts)) != len(layouts):
        return []
    if {"", "generic"} & set(layouts):
        return []
    return [
        replace(request, layout=layout, of=str(one["home"]))
        for layout, one in zip(layouts, homes, strict=True)
    ]


def _setting(context: UserContext, place: str) -> DestinationSetting:
    try:
        return find_destination(context, place)
    except NoSuchDestination as error:
        if not context.choices.destinations:
            error.next_steps = (
                "Name the place itself: `file:/path`, `sftp://user@host/path`, `s3://bucket/prefix`, "
                "`rclone:REMOTE:PATH`; your kit has it",
                "Or name a directory or an archive by its path",
            )
        raise


def vaults_at(objects: ObjectStore, base: str) -> list[str]:
    """How each vault in a place is named; the place may be one itself."""
    try:
        if objects.exists("config"):
            return [base]
        return [f"{base.rstrip('/')}/{name}" for name in vaults_in(objects)]
    except PlaceMissing:
        return []


@contextlib.contextmanager
def _scratch(context: UserContext, archive: StoredArchive) -> Iterator[str]:
    """A directory with room for the archive itself, gone afterwards."""
    with contextlib.ExitStack() as held:
        try:
            place = held.enter_context(drill_place(context, archive.size))
        except NoRoom as error:
            raise NoRoom(
                f"There is no room to fetch `{archive.name}`, which has {archive.size:,} bytes",
                kept=_UNCHANGED,
                next_steps=(
                    "Make room in `/var/tmp` or `/tmp`, or name a disk with room: set `TMPDIR`",
                    NextStep("rebuild", ("FILE",), before="Or fetch it yourself and rebuild from the file:"),
                ),
                **error.facts,
            ) from error
        yield place.path


@contextlib.contextmanager
def _archive(
    context: UserContext, request: RebuildRequest, path: str, listener: Listener
) -> Iterator[Origin]:
    with open_archived(context, path, request.layout, (), listener) as subject:
        if not any(True for _ in subject.entries):
            raise _nothing(path, f"`{path}` is an archive that holds nothing")
        head = subject.manifest or {}
        yield Origin(subject, "archive", path, str(head.get("host", "")), subject.home)


@contextlib.contextmanager
def _snapshot(
    context: UserContext, request: RebuildRequest, vaults: list[str], listener: Listener
) -> Iterator[Origin]:
    blind = context.changed(cache_directory="")
    with contextlib.ExitStack() as held:
        opened = opened_vaults(blind, request, vaults, held, listener)
        homes: list[HomeInVault] = []
        damaged: dict[str, dict[str, str]] = {}
        for vault, repository in opened.items():
            found, damaged[vault] = homes_in_vault(repository, vault, forgotten=True)
            homes += found
        if not homes:
            vault = next(iter(opened))
            refuse_unreadable(Listing("", damaged=damaged[vault]), "latest")
            raise _nothing(request.place, f"The vault at `{vault}` holds no snapshots")
        kept, chosen = _choose(context, request, homes)
        repository = opened[kept.vault]
        listing = Listing(kept.home, shown=kept.snapshots, damaged=damaged[kept.vault])
        held.enter_context(reading(repository, listener))
        source = blind.changed(source_vault=kept.vault)
        subject = subject_of(
            source, repository, listing, chosen, request.snapshot or "latest", request.layout
        )
        newer = next(
            (
                one
                for one in kept.usual
                if one.kind == "quick" and one.snapshot.time_ns > chosen.snapshot.time_ns
            ),
            None,
        )
        origin = Origin(subject, "snapshot", kept.vault, kept.host, subject.home, chosen)
        if not request.snapshot:
            origin.newer = newer
            origin.doubt = None if request.allow_damaged else _doubt(kept, chosen, subject)
        yield origin


def _doubt(kept: HomeInVault, chosen: Listed, subject: Subject) -> Doubt | None:
    """What is wrong with the newest one, where a sound one is there; nobody named it."""
    lost = [path for path, _ in subject.damage if path in subject.unreadable]
    reasons = reasons_against(chosen, kept.usual, (), subject.manifest, lost)
    sound = next(sound_ones(kept.usual), None) if reasons else None
    return Doubt(chosen, reasons, sound) if sound is not None else None


def _choose(
    context: UserContext, request: RebuildRequest, homes: list[HomeInVault]
) -> tuple[HomeInVault, Listed]:
    if request.snapshot:
        every = [(one, listed) for one in homes for listed in one.snapshots]
        found = pick([listed.snapshot for _, listed in every], request.snapshot)
        return next((one, listed) for one, listed in every if listed.snapshot is found)
    target = ""
    with contextlib.suppress(SafekeptError):
        target = context.locate(request.home, request.layout, existing=False).home
    kept = choose_home(
        homes, request.place, host=request.host, layout=request.layout, of=request.of, target=target
    )
    return kept, kept.newest_whole


def opened_vaults(
    context: UserContext,
    request: RebuildRequest,
    vaults: list[str],
    held: contextlib.ExitStack,
    listener: Listener,
) -> dict[str, Repository]:
    """The same with a passphrase that a person may mistype: each try is for every vault."""
    for left in range(context.caller.secret_tries - 1, -1, -1):
        once = context.changed(vault_secret=_asked_once(context), secret_tries=1)
        try:
            return _opened(once, request, vaults, held, listener)
        except WrongKey:
            if not left:
                raise
            listener(try_again(left))
    raise AssertionError("asked at least once")


def _asked_once(context: UserContext) -> Callable[[], Secret] | None:
    """A person is asked once, however many vaults are tried."""
    return lru_cache(maxsize=1)(context.caller.vault_secret) if context.caller.vault_secret else None


def _opened(
    context: UserContext,
    request: RebuildRequest,
    vaults: list[str],
    held: contextlib.ExitStack,
    listener: Listener,
) -> dict[str, Repository]:
    """The vaults that the key opens; WrongKey or KeyMissing, in the words of a rebuild, if none."""
    found: dict[str, Repository] = {}
    refused: WrongKey | KeyMissing | None = None
    others: list[str] = []
    for one in _ways(context, request):
        for vault in vaults:
            try:
                repository = open_vault(one.changed(source_vault=vault), listener=listener)
            except (WrongKey, KeyMissing) as error:
                if refused is None or not one.places.vault_key_file:  # what was typed or named
                    refused = error
            except NoSuchVault:
                continue  # a push that has not come to its `config` yet
            else:
                if request.vault_id in ("", repository.id):
                    found[vault] = held.enter_context(repository)
                else:
                    repository.close()
                    others.append(vault)
        if found:
            return found
    if others and len(set(others)) == len(vaults):
        raise AnotherVault(
            f"`{request.place}` holds another vault than the one of the kit; it was left alone",
            kept=_UNCHANGED,
            next_steps=("Name the place where a copy of the vault lies that the kit is for",),
            place=request.place,
        )
    if refused is None:
        raise _nothing(request.place, f"`{request.place}` holds no whole vault")
    if len(vaults) > 1:
        refused.args = (
            f"`{request.place}` holds {len(vaults)} vaults, and no key that was given opens one of them",
        )
        refused.what = refused.args[0]
    refused.kept = _UNCHANGED
    refused.next_steps = (
        NextStep(
            "rebuild",
            (request.place, "--key-file", "FILE"),
            before="Name your kit, or a new file with the key from it as one line:",
        ),
        "Or use the recovery passphrase: run the command at a terminal and it will ask for it, or name a "
        "file with `--passphrase-file PATH`",
    )
    raise refused


def _ways(context: UserContext, request: RebuildRequest) -> list[UserContext]:
    """The keys, in the order in which they count; what one of them opens is meant, and no other vault is.

    The key of this machine opens its own vault, too, which may lie in the same place.
    """
    if context.caller.vault_secret is None:
        return [context]
    here, given = context.changed(vault_secret=None), context.changed(vault_key_file="")
    return [given, here] if request.key_given else [here, given]


def _nothing(place: str, what: str) -> NothingToRebuild:
    return NothingToRebuild(
        what,
        kept=_UNCHANGED,
        next_steps=(
            "See that the place is the right one, and that the disk behind it is mounted",
            "It is what you once set up as a destination; your kit names it, too",
        ),
        place=place,
    )
