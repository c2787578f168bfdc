"""The kit in escrow beside the vault that a machine is rebuilt from: for a fleet of them.

One private key opens the kits of all. Which machine is meant is clear where only one kit opens, or by its
name; no machine is rebuilt from another one's vault by accident.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.next_step import NextStep

from ..base.context import UserContext
from ..offsite.place import find_destination, open_destination
from ..vault.keys.escrow import opened_by_escrow
from ..vault.keys.kit_reading import ReadKit
from ..vault.place import SeveralVaults, is_remote
from .rebuild_source import vaults_at


def kit_in_escrow(context: UserContext, place: str, host: str = "") -> ReadKit | None:
    """The kit that the identities of this user open there; None where there is none. `host`: whose.

    SeveralVaults where it is not clear which machine is meant.
    """
    if not is_remote(context, place) and not os.path.isdir(place):
        return None
    setting = find_destination(context, place)
    found: dict[str, ReadKit] = {}
    with contextlib.closing(open_destination(context, setting)) as objects:
        base = place if os.path.isabs(place) else setting.url
        for vault in vaults_at(objects, base):
            directory = vault.removeprefix(base.rstrip("/")).strip("/")
            opened = opened_by_escrow(context, objects, directory, vault)
            if opened is not None:
                opened[0].close()
                if host in ("", opened[1].machine):
                    found[vault] = opened[1]
    if len(found) > 1:
        raise _several(place, found)
    return next(iter(found.values()), None)


def _several(place: str, found: dict[str, ReadKit]) -> SeveralVaults:
    lines = [f"  {kit.machine}: {vault}" for vault, kit in sorted(found.items())]
    vault, kit = sorted(found.items())[0]
    return SeveralVaults(
        "\n".join(
            [f"Kits of {len(found)} vaults lie in escrow at `{place}`, and your key opens them:", *lines]
        ),
        kept="Nothing was read or changed",
        next_steps=(
            NextStep(
                "rebuild",
                (place, "--identity", "FILE", "--host", kit.machine),
                before="Say which machine is meant:",
            ),
            NextStep("rebuild", (vault, "--identity", "FILE"), before="Or name its vault:"),
        ),
        vaults=sorted(found),
    )
