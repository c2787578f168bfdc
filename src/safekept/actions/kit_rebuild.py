"""The commands of the kit that rebuild a bare machine with safekept: one for each copy of the vault."""

from __future__ import annotations

import shlex

from safekept.actions.destination import VAULT, DestinationSetting
from safekept.actions.surroundings import Surroundings

#: What the settings say of an S3-compatible server; a machine without settings is told by variables.
_VARIABLES = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION", "profile": "AWS_PROFILE"}


def rebuild_commands(surroundings: Surroundings, vault: str, key: str) -> tuple[str, ...]:
    """The copies off this host first: whoever reads the page has lost the machine, as a rule."""
    copies = [
        f"{_variables(one)}safekept rebuild {shlex.quote(_copy(one, vault))}{key}"
        for one in surroundings.destinations
        if VAULT in one.takes
    ]
    return (*copies, f"safekept rebuild {shlex.quote(surroundings.vault)}{key}")


def _variables(setting: DestinationSetting) -> str:
    if not setting.url.startswith("s3://"):
        return ""
    said = [(variable, setting.options.get(name, "")) for name, variable in _VARIABLES.items()]
    return "".join(f"{variable}={shlex.quote(value)} " for variable, value in said if value)


def _copy(setting: DestinationSetting, vault: str) -> str:
    """The copy itself: its directory in the destination."""
    return f"{setting.url.rstrip('/')}/{vault[:16]}"
