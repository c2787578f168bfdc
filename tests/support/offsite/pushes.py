"""A throwaway machine with a vault, a kit that is kept elsewhere, and places to push to."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from safekept.actions.base.context import UserContext
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.status.destination_status import destination_statuses
from safekept.actions.status.findings.survival import SurvivedBy, survival
from safekept.actions.status.recent import recent
from safekept.actions.status.vault_status import vault_view
from safekept.actions.vault.opening import make_vault, open_vault
from safekept.vault.care.checking import check
from support.offsite.servers import Place
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


def pointed(here: UserContext, place: Place, name: str = "far", **changes: Any) -> UserContext:
    """The same machine with this place as its destination."""
    options = {
        key: value
        for key in ("endpoint", "region", "profile", "ssh_config", "ca_file", "rclone_config")
        if (value := getattr(place.options, key))
    }
    setting = DestinationSetting(name, place.url, options=options, timeout=30, **changes)
    return here.changed(destinations=(setting,), environment=place.environment)


def proven_copy(here: UserContext, place: str, *, whole: bool = True) -> int:
    """The copy opens with the key, checks clean to the byte and holds what is here; how many snapshots."""
    with open_vault(here.changed(source_vault=place)) as copy, open_vault(here) as own:
        report = check(copy, read_data=1.0)
        assert [finding.what for finding in report.damage] == []
        found, mine = read_all(copy), read_all(own)
        assert not whole or all(files in found for files in mine)
        return len(found)


def survived_by(here: UserContext) -> SurvivedBy | None:
    """What the first line of `status` goes by, after real pushes."""
    found = recent(here)
    with vault_view(here, found, time.time()) as view:
        return survival(here, view.status, destination_statuses(here, found), None, time.time())
