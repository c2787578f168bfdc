"""What an agent's `config.yaml` says about backups before updates, read as Hermes reads it.

`updates.pre_update_backup` is `quick`, `full` or `off`; booleans mean full and off. An unknown word
means quick, as in Hermes: a slip in a setting must not switch protection off.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from safekept.core.agents import compose, members
from safekept.core.small_files import read_regular

QUICK, FULL, OFF = "quick", "full", "off"
KEEP = 5

# The words that YAML 1.1, which Hermes reads, takes for booleans and for nothing when not quoted.
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NOTHING = frozenset({"", "~", "null"})

_LARGEST = 4 << 20  # a settings file of more bytes is not one


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """Which copy is made before an update, and how many zips stay."""

    mode: str = QUICK
    keep: int = KEEP


def read_updates(home: str) -> UpdateSettings:
    """The section `updates` of a home's `config.yaml`; what is missing or unreadable is the default."""
    try:
        data = read_regular(os.path.join(home, "config.yaml"), _LARGEST)
        if b"updates" not in data:  # most do not say: loading a parser would cost more than the answer
            return UpdateSettings()
        section = members((members(compose(_text(data))) or {}).get("updates")) or {}
    except (OSError, ValueError):
        return UpdateSettings()
    return UpdateSettings(_mode(section.get("pre_update_backup")), _keep(section.get("backup_keep")))


def mode_of(text: str, *, quoted: bool = True) -> str:
    """`quick`, `full` or `off` for a word that a person wrote."""
    word = text.strip().lower()
    if not quoted and word in _TRUE:
        return FULL
    if not quoted and (word in _FALSE or word in _NOTHING):
        return OFF
    if word in ("off", "false", "none", "disabled"):
        return OFF
    return FULL if word in ("full", "zip", "true") else QUICK


def _mode(node: Any) -> str:
    from ruamel.yaml.nodes import ScalarNode

    if not isinstance(node, ScalarNode):
        return QUICK
    return mode_of(str(node.value), quoted=node.style is not None)


def _keep(node: Any) -> int:
    try:
        return max(int(str(node.value)), 1)
    except (AttributeError, ValueError):
        return KEEP


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")
