"""A throwaway machine with a vault, a kit that is kept elsewhere, and places to push to."""

from __future__ import annotations

import json
import os

from safekept.actions.base.context import UserContext
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.vault.opening import make_vault, open_vault
from safekept.vault.care.checking import check
from support.users.contexts import throwaway
from support.vault.vaults import read_all, save_files, some_files

NOW = 1_794_000_000 * 10**9


def machine(directory: object, snapshots: int = 2, **changes: object) -> UserContext:
    """A user whose vault holds so many snapshots, and who said that the kit is kept elsewhere."""
    here = throwaway(directory, **changes)
    with make_vault(here) as repository:
        for number in range(snapshots):
            save_files(repository, some_files(number), time_ns=NOW + number)
        acknowledged = {"version": 1, "vaults": {repository.id: {"acknowledged": 1.0}}}
    with open(os.path.join(here.places.data_directory, "kits.json"), "w") as file:
        json.dump(acknowledged, file)
    return here


def one_more(here: UserContext, seed: int) -> None:
    with open_vault(here) as repository:
        save_files(repository, some_files(seed), time_ns=NOW + seed)


def with_disk(here: UserContext, path: object, **options: object) -> UserContext:
    """The same user with another disk as the destination `disk`; it lies on the disk of the tests."""
    settings: dict[str, object] = {"name": "disk", "url": f"file:{path}", "same_disk": True, **options}
    return here.changed(destinations=(DestinationSetting(**settings),))  # type: ignore[arg-type]


def proven_copy(here: UserContext, place: str, *, whole: bool = True) -> int:
    """The copy opens with the key, checks clean to the byte and holds what is here; how many snapshots."""
    with open_vault(here.changed(source_vault=place)) as copy, open_vault(here) as own:
        report = check(copy, read_data=1.0)
        assert [finding.what for finding in report.damage] == []
        found, mine = read_all(copy), read_all(own)
        assert not whole or all(files in found for files in mine)
        return len(found)
