"""What of safekept is on this machine when nothing calls it any more, and its removal when a person wants it.

The copies in destinations are never touched: they are what is left when everything here is gone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.owner import by_root
from safekept.core.records import dataclass
from safekept.home.landing import existing_areas
from safekept.vault.storage import DIRECTORIES, RESERVE

from ..base.context import UserContext
from ..base.operations.facts import Facts
from ..base.operations.homes import ImportFacts, RebuildFacts, RestoreFacts, UndoFacts
from ..base.operations.stores import VaultKitFacts
from ..base.own_places import known_homes, within
from ..restoring.starting import made_before
from ..schedule.of_machine import run_of_machine
from ..vault.place import is_remote
from ..vault.seat_belt import belts

#: What puts old files aside beside a home.
_LANDING = frozenset(one.verb for one in (ImportFacts, RestoreFacts, UndoFacts, RebuildFacts))


class StoreNotRemoved(SafekeptError):
    code = "store-not-removed"


@dataclass(frozen=True, slots=True)
class Remaining:
    """One thing that is still there."""

    what: str
    path: str
    store: bool = True  # goes with `--stores`

    def as_dict(self) -> dict[str, object]:
        return {"what": self.what, "path": self.path, "store": self.store}


def what_remains(context: UserContext, config_directory: str, lingers: str = "") -> list[Remaining]:
    """Everything of ours that is there, the most valuable first. `lingers`: what says to systemd that this
    user's services run while they are logged out; others may count on it by now."""
    places, data = context.places, context.places.data_directory
    found = []
    if is_remote(context, places.vault):
        found.append(Remaining("the vault", places.vault, store=False))
    elif os.path.exists(places.vault):
        found.append(Remaining("the vault, with every snapshot", places.vault))
    if os.path.exists(places.vault_key_file):
        found.append(Remaining("its key", places.vault_key_file))
    if os.path.exists(os.path.join(data, "checkpoints")):
        found.append(Remaining("checkpoints of projects", os.path.join(data, "checkpoints")))
    for area in landing_areas(context):
        found.append(Remaining("what restores and imports replaced, not sealed", area))
    if os.path.exists(data):
        found.append(Remaining("the journal and what safekept remembers", data))
    if os.path.exists(config_directory):
        found.append(Remaining("your settings", config_directory))
    if places.cache_directory and os.path.exists(places.cache_directory):
        found.append(Remaining("a cache", places.cache_directory))
    for path, profile in made_before(context).items():
        found.append(
            Remaining(f"starts profile {profile} of your agent; it came with a restore", path, store=False)
        )
    found += [Remaining("a kit, with the key", path, store=False) for path in _kits(context)]
    if lingers:
        what = "your services run while you are logged out; `loginctl disable-linger` ends that"
        found.append(Remaining(what, lingers, store=False))
    if (run := run_of_machine()) is not None:
        ends = by_root(f"safekept keeper remove --user-name {run.user}")
        what = f"root lets safekept run for you every night; `{ends}` ends that"
        found.append(Remaining(what, next(iter(run.files)), store=False))
    found += [Remaining(f"copies in {one.name}", one.url, False) for one in context.choices.destinations]
    return found


def landing_areas(context: UserContext) -> list[str]:
    """Beside each home: the old files that a restore, an import or a rebuild put aside, as they were."""
    homes = dict.fromkeys([*known_homes(context), *_homes_in_journal(context)])
    return [area.path for home in homes for area in existing_areas(home)]


def _homes_in_journal(context: UserContext) -> Iterator[str]:
    """The homes in which something landed from here: one that was only looked at may be another user's."""
    with contextlib.suppress(OSError):
        for entry in context.journal.read():
            home = Facts.read(entry).home or ""
            if entry.verb in _LANDING and home.startswith("/"):
                yield home


def _kits(context: UserContext) -> list[str]:
    """The kits that were written here and still lie where they were written."""
    written: dict[str, None] = {}
    with contextlib.suppress(OSError):
        for entry in context.journal.read():
            if entry.verb == "vault-kit" and entry.state == "done":
                written |= dict.fromkeys(VaultKitFacts.read(entry).written or ())
    return [path for path in written if os.path.exists(path)]


def remove_stores(context: UserContext, config_directory: str) -> list[str]:
    """Delete every store on this machine, for good. What was deleted; StoreNotRemoved where one stays."""
    places = context.places
    wanted = [
        *(() if is_remote(context, places.vault) else (places.vault,)),
        places.vault_key_file,
        *landing_areas(context),
        places.data_directory,
        config_directory,
        places.cache_directory,
    ]
    paths = [path for path in dict.fromkeys(wanted) if path and os.path.lexists(path)]
    for path in paths:
        _refuse_what_is_not_ours(context, path)
    for _, belt in belts(context):
        belt.take_off()
    gone = []
    for path in paths:
        try:
            if os.path.isdir(path):
                shutil.rmtree(os.path.realpath(path))
            if os.path.lexists(path):
                os.unlink(path)
        except FileNotFoundError:
            continue  # it lay in one that is gone
        except OSError as error:
            raise StoreNotRemoved(
                f"`{path}` could not be removed: {error.strerror or error}",
                kept="What was removed before it is gone; the copies elsewhere are untouched",
                next_steps=("See who may write there, then run it again",),
                path=path,
            ) from error
        gone.append(path)
    _remove_empty((places.data_directory, config_directory, places.cache_directory), places.user_home)
    return gone


def _remove_empty(gone: tuple[str, ...], user_home: str) -> None:
    """The directories above what is gone that have nothing in them any more, such as `~/.local/share`."""
    for path in gone:
        above = os.path.dirname(path)
        while within(above, user_home) and above != user_home:
            try:
                os.rmdir(above)
            except OSError:
                break  # something else is in it
            above = os.path.dirname(above)


def _refuse_what_is_not_ours(context: UserContext, path: str) -> None:
    """A setting may name any directory. None is deleted that has an agent's home or a person's in it."""
    real = os.path.realpath(path)
    for home in (os.path.realpath(context.places.user_home), *known_homes(context)):
        if within(home, real):
            raise StoreNotRemoved(
                f"`{path}` is not deleted: `{home}` is or lies in it",
                kept="Nothing was deleted",
                next_steps=(NextStep("settings", before="See which setting names it:"),),
                path=path,
            )
    if path == context.places.vault and os.path.isdir(path):
        others = set(os.listdir(real)) - _OF_A_VAULT
        if others:
            raise StoreNotRemoved(
                f"`{path}` is not deleted: it holds something besides the vault (`{min(others)}`)",
                kept="Nothing was deleted",
                next_steps=("Move that away, or delete the vault by hand",),
                path=path,
            )


#: What lies in the directory of a vault; `safekept` is for records of ours beside what restic knows.
_OF_A_VAULT = frozenset({"config", "safekept", RESERVE, *(kind.value for kind in DIRECTORIES)})
